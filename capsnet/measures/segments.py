"""How well pixels are grouped by object: the adjusted Rand index of the foreground (FG-ARI).

scores = foreground_ari(owner, said, owner >= 0)
"""

import numpy as np


def foreground_ari(owner: np.ndarray, said: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return the index of each image [M]: 1 the same groups, 0 as good as chance, NaN no pixel.

    Args:
        owner: which object owns each pixel [M, H, W].
        said: which group each pixel was put into [M, H, W]; names do not matter.
        counted: which pixels are looked at [M, H, W].

    Example:
        >>> owner = np.array([[[0, 0, 1, 1]]])
        >>> foreground_ari(owner, np.array([[[5, 5, 2, 2]]]), owner >= 0)
        array([1.])
    """
    rows = zip(owner, said, counted, strict=True)
    return np.array([_ari(one[seen], two[seen]) for one, two, seen in rows])


def _ari(one: np.ndarray, two: np.ndarray) -> float:
    """Return (pairs together in both - by chance) / (the most there could be - by chance)."""
    if not len(one):
        return np.nan
    _, a = np.unique(one, return_inverse=True)
    _, b = np.unique(two, return_inverse=True)
    table = np.bincount(a * (b.max() + 1) + b, minlength=(a.max() + 1) * (b.max() + 1))
    table = table.reshape(a.max() + 1, b.max() + 1)
    both, of_a, of_b = (_pairs(x) for x in (table, table.sum(1), table.sum(0)))
    chance = of_a * of_b / max(_pairs(np.array([len(one)])), 1)
    most = (of_a + of_b) / 2
    return 1.0 if most == chance else float((both - chance) / (most - chance))


def _pairs(counts: np.ndarray) -> float:
    return float((counts * (counts - 1) / 2).sum())
