"""Where capsules are, as two numbers more of each, so that votes can be made alike everywhere.

u = with_places(u, grid=(10, 10, 16))  # [N, 100, 16, D + 2]

A part of an object votes for where the object is by its own place and how it lies in it; the
matrix of the votes need not know the place, as a convolution does not.
"""

import torch
from torch import Tensor

NUMBERS = 2  # that a place has
Grid = tuple[int, int, int]  # rows, columns, types


def with_places(u: Tensor, grid: Grid) -> Tensor:
    """Return capsules u [N, I, D], in the order of the grid, with their places: [N, P, T, D + 2].

    A capsule gets its column and row, from -1 to 1, times its length: one that is not there says
    nothing. P: places, row by row; T: types at each.
    """
    rows, columns, types = grid
    y, x = torch.meshgrid(
        torch.linspace(-1, 1, rows, device=u.device, dtype=u.dtype),
        torch.linspace(-1, 1, columns, device=u.device, dtype=u.dtype),
        indexing="ij",
    )
    places = torch.stack([x, y], dim=-1).flatten(0, 1)[:, None]  # [P, 1, 2]
    u = u.unflatten(1, (rows * columns, types))
    lengths = torch.linalg.vector_norm(u, dim=-1, keepdim=True).to(u.dtype)
    return torch.cat([u, lengths * places], dim=-1)
