"""Files fetched from wherever they can be had, and known by their digests."""
