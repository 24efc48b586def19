"""Training: one frozen config, one loop, checkpoints that resume to the same result."""
