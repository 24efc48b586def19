"""Measures: what a run's answers are worth, with intervals, beside baselines."""
