"""What must not be parted: the pictures of a group, and pictures that are alike.

together = group_rows(listing, alike)  # [M], a number for each picture
"""

import numpy as np

from capsnet.pictures.alike import Alike
from capsnet.pictures.layout import Listing


def group_rows(listing: Listing, alike: Alike | None) -> np.ndarray:
    """Return the number of the group of each picture [M]; alike pictures join their groups."""
    parent = np.arange(len(listing))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    first: dict[str, int] = {}
    for row, name in enumerate(listing.groups):
        parent[root(row)] = root(first.setdefault(name, row))
    if alike is not None:
        for one, other in np.concatenate([alike.same, alike.near]).tolist():
            parent[root(other)] = root(one)
    return np.array([root(row) for row in range(len(listing))])
