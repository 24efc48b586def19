"""Which parents share a child, where a routing leaves it open.

share = shared("place", windows.share)
"""

from typing import Literal

from capsnet.ops.windows import Share, over_parents

Compete = Literal["place", "map"]


def shared(compete: Compete, share: Share) -> Share:
    """Return who shares a child: the parents of one place, or all that `share` knows."""
    return over_parents if compete == "place" else share
