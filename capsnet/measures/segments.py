"""How well pixels are grouped by object: the adjusted Rand index of the foreground (FG-ARI).

scores = foreground_ari(owner, said)
"""

import numpy as np
from sklearn.metrics import adjusted_rand_score


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
    scores = [
        adjusted_rand_score(one[seen], two[seen]) if seen.any() else np.nan
        for one, two, seen in zip(owner, said, counted, strict=True)
    ]
    return np.array(scores)
