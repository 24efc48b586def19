"""Benchmarks: correctness first, then time and memory, ours beside the reference and a peer."""
