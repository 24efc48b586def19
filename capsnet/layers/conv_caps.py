"""ConvCaps: a map of capsules votes, window by window, for a map of capsules above it.

upper = ConvCaps((14, 14), 8, 16, EmRouting(16), kernel=3, stride=2)(lower)
"""

from math import isqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from capsnet.errors import UserError
from capsnet.layers.capsules import Capsules
from capsnet.layers.routings import Routing
from capsnet.ops.trace import RoutingTrace
from capsnet.ops.windows import Share, Windows, over_parents


class ConvCaps(nn.Module):
    """Capsules on a map, pose [N, H, W, B, D] -> on a map, [N, OH, OW, C, E], by any routing.

    Each place above sees a window of kernel × kernel places below, with its own transformation for
    each child and type of parent in it: W is the same in all windows. kernel=None is a layer of
    classes, [N, C, E], that sees the whole map, with one W for all places.

    Args:
        size: rows and columns of the map below.
        num_lower: B, types of capsules below.
        num_upper: C, types of capsules above.
        routing: what makes parents of votes.
        kernel: side of a window; None for the whole map.
        stride: places from one window to the next.
        lower_dim: D, numbers in a pose below.
        dim: E, numbers in a pose above.
        matrix: poses are square matrices, V_ij = M_i W_ij with W [K * K * B, C, d, d]; otherwise
            vectors, V_ij = W_ij u_i with W [K * K * B, C, E, D].
        coordinates: add the place of the child, in 0 … 1, to two numbers of its vote: the last of
            the first two rows of a matrix, the first two of a vector. For the whole map alone.
        std: of W at the start; by default 1 / sqrt of what is summed for one number of a vote.
        identity: W starts near the identity matrix, `std` away from it: children that agree in
            their poses agree in their votes from the first step on. For matrices alone.

    Example:
        >>> lower = Capsules(torch.rand(2, 4, 4, 8, 16), torch.rand(2, 4, 4, 8))
        >>> ConvCaps((4, 4), 8, 5, EmRouting(5), kernel=None, coordinates=True)(lower).a.shape
        torch.Size([2, 5])
    """

    def __init__(
        self,
        size: tuple[int, int],
        num_lower: int,
        num_upper: int,
        routing: Routing,
        *,
        kernel: int | None = 3,
        stride: int = 1,
        lower_dim: int = 16,
        dim: int = 16,
        matrix: bool = True,
        coordinates: bool = False,
        std: float | None = None,
        identity: bool = False,
    ) -> None:
        super().__init__()
        self.size, self.matrix, self.num_lower, self.lower_dim = size, matrix, num_lower, lower_dim
        self.windows = None if kernel is None else Windows(size, kernel, stride)
        num_children = num_lower * (1 if kernel is None else kernel * kernel)
        shape = (dim, lower_dim)
        if matrix:
            side = matrix_side(lower_dim)
            if dim != lower_dim:
                raise UserError(
                    f"Matrices of {lower_dim} numbers vote for others of {lower_dim}, not of "
                    f"{dim}; give both the same size, or matrix=False."
                )
            shape = (side, side)
        std = shape[1] ** -0.5 if std is None else std
        W = std * torch.randn(num_children, num_upper, *shape)
        if identity and not matrix:
            raise UserError("Only matrices start near the identity; use matrix=True with it.")
        self.W = nn.Parameter(W + torch.eye(shape[0]) if identity else W)
        self.routing = routing
        self.register_buffer("coordinates", None, persistent=False)
        if coordinates:
            if kernel is not None:
                raise UserError(
                    "Coordinates are for a layer that sees the whole map; use kernel=None."
                )
            at = (shape[1] - 1, 2 * shape[1] - 1) if matrix else (0, 1)
            if max(at) >= dim:
                raise UserError(f"Poses of {dim} numbers have no room for coordinates.")
            self.coordinates = coordinates_of(size, num_lower, dim, at)

    @property
    def places(self) -> tuple[int, int]:
        """The rows and columns of the map above."""
        return (1, 1) if self.windows is None else self.windows.places

    def forward(self, lower: Capsules) -> Capsules:
        """Return the capsules above, on a map [N, OH, OW, C, E], or of classes [N, C, E]."""
        seen, share = self.seen(lower)
        upper = self.routing(self.votes(seen.pose), seen, share)
        if self.windows is None:
            return Capsules(upper.pose.squeeze(1), upper.a.squeeze(1))
        return Capsules(*(x.unflatten(1, self.places) for x in upper))

    def trace(self, lower: Capsules) -> RoutingTrace:
        """Return every iteration of the routing; each place above counts as a sample."""
        seen, share = self.seen(lower)
        return self.routing.trace(self.votes(seen.pose), seen, share)

    def seen(self, lower: Capsules) -> tuple[Capsules, Share]:
        """Return the children that each place sees, [N, P, I, …], and how parents share them."""
        expected = (*self.size, self.num_lower, self.lower_dim)
        if tuple(lower.pose.shape[1:]) != expected or lower.a.shape != lower.pose.shape[:-1]:
            raise UserError(
                f"Capsules of shape {list(lower.pose.shape)} with activations "
                f"{list(lower.a.shape)} do not fit; give poses {['N', *expected]} and "
                "activations of the same shape without the last.".replace("'", "")
            )
        if self.windows is None:
            return Capsules(*(x.flatten(1, 3).unsqueeze(1) for x in lower)), over_parents
        return Capsules(*(self.windows.gather(x) for x in lower)), self.windows.share

    def votes(self, pose: Tensor) -> Tensor:
        """Return the votes u_hat [N, P, I, C, E] of children with poses [N, P, I, D].

        Where all places share one W, I is a multiple of the children that W is for. In memory the
        children of a parent lie side by side, since sums are over them.
        """
        pose = pose.to(self.W.dtype)  # a routing gives poses of half precision back in fp32
        pose = pose.unflatten(2, (-1, self.W.shape[0]))  # N, P, places that share W, children, D
        if self.matrix:
            M = pose.unflatten(-1, self.W.shape[2:])
            u_hat = torch.einsum("npgixk,icky->npcgixy", M, self.W).flatten(-2)
        else:
            u_hat = torch.einsum("npgid,iced->npcgie", pose, self.W)
        u_hat = u_hat.flatten(3, 4).transpose(2, 3)
        if isinstance(self.coordinates, Tensor):
            u_hat = u_hat + self.coordinates.to(u_hat.dtype)
        return u_hat

    def extra_repr(self) -> str:
        """Say the sizes and how it sees."""
        seen = "the whole map" if self.windows is None else repr(self.windows)
        words = [f"{self.num_lower} types of {self.lower_dim} -> {self.W.shape[1]}, {seen}"]
        return ", ".join([*words, *(["coordinates"] if self.coordinates is not None else [])])

    if TYPE_CHECKING:

        def __call__(self, lower: Capsules) -> Capsules:  # noqa: D102
            ...


def matrix_side(dim: int) -> int:
    """Return the side of a square matrix of `dim` numbers; a UserError if there is none."""
    side = isqrt(dim)
    if side * side != dim or dim < 1:
        raise UserError(
            f"A pose of {dim} numbers is no square matrix; give a square such as 9 or 16, or "
            "capsules that are vectors (matrix=False)."
        )
    return side


def coordinates_of(size: tuple[int, int], num_types: int, dim: int, at: tuple[int, int]) -> Tensor:
    """Return [H * W * B, 1, dim]: the row and column of each child, in 0 … 1, at two elements."""
    rows, columns = ((torch.arange(side) + 0.5) / side for side in size)
    table = torch.zeros(*size, num_types, 1, dim)
    table[..., at[0]] = rows[:, None, None, None]
    table[..., at[1]] = columns[None, :, None, None]
    return table.flatten(0, 2)
