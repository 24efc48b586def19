"""Streams: batches made on the device, moved, warped and laid over each other."""
