"""Pictures on a disk: found, read, and looked at before training does. Nothing here needs torch."""
