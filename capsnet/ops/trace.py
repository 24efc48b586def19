"""What happens inside a routing, step by step, whichever routing it is.

trace = routing_trace(u, W, num_iters=3); trace.c[-1]
"""

from typing import NamedTuple

from torch import Tensor

DYNAMIC = "dynamic"


class RoutingTrace(NamedTuple):
    """The votes, and b, c, s, v, a stacked over the R iterations, and which routing.

    Example:
        >>> trace = routing_trace(torch.rand(2, 5, 8), torch.rand(5, 3, 16, 8), num_iters=3)
        >>> trace.c.shape, trace.leaky
        (torch.Size([3, 2, 5, 3]), False)
    """

    u_hat: Tensor  # [N, I, J, E]
    b: Tensor  # [R, N, I, J], the logits each iteration started from
    c: Tensor  # [R, N, I, J], the part of each lower capsule that goes to each upper one
    s: Tensor  # [R, N, J, E], the sums or means of the votes
    v: Tensor  # [R, N, J, E], the upper capsules
    a: Tensor  # [R, N, J], how sure they are to be there
    leaky: bool = False  # each lower capsule had one more parent, which c does not hold
    biased: bool = False  # a bias was added to s
    routing: str = DYNAMIC  # the name of the routing
