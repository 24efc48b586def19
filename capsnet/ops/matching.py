"""Which slot answers for which object: the assignment that costs least.

slots = least_cost(costs); losses = costs.gather(1, slots[:, None]).squeeze(1)
"""

from math import perm

import torch
from torch import Tensor

from capsnet.errors import UserError

MOST_SLOTS = 6  # 720 orders are looked at


def least_cost(costs: Tensor) -> Tensor:
    """Return for each object the slot that it goes to, each slot once, at the least cost in all.

    All orders of the slots are compared at once, on the device: for so few this is quicker than
    asking the host for an assignment, and a step stays one that can be captured.

    Args:
        costs: [N, K, L], of slot k for object l; L at most K, and K at most 6.

    Returns:
        Slots [N, L], int64.

    Example:
        >>> least_cost(torch.tensor([[[1.0, 2.0], [3.0, 9.0]]]))  # 3 + 2 is less than 1 + 9
        tensor([[1, 0]])
    """
    if costs.dim() != 3 or not costs.shape[2] <= costs.shape[1] <= MOST_SLOTS:
        raise UserError(
            f"Costs of shape {list(costs.shape)} cannot be matched; give [N, K, L] with at most "
            f"{MOST_SLOTS} slots K and no more objects L."
        )
    K, L = costs.shape[1:]
    orders = all_orders(K, L, costs.device)
    sums = costs[:, orders, torch.arange(L, device=costs.device)].sum(dim=-1)  # [N, P]
    return orders[sums.argmin(dim=1)]


def all_orders(K: int, L: int, device: torch.device) -> Tensor:
    """Return all ways to choose L of K one after the other, [P, L].

    They are counted out on the device: a step that is captured may copy nothing from the host.
    """
    number = torch.arange(perm(K, L), device=device)
    left = torch.arange(K, device=device).expand(len(number), K)
    chosen = []
    for many in range(K, K - L, -1):
        place = (number % many)[:, None]
        chosen.append(left.gather(1, place))
        left = left.scatter(1, place, left[:, many - 1 : many])  # the last takes its place
        number = number // many
    return torch.cat(chosen, dim=1)
