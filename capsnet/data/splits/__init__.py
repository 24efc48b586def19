"""Splits: images with labels, parted and checked."""
