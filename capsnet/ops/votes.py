"""What every routing asks of votes before it begins.

check_votes(u_hat, a, num_iters)
"""

from torch import Tensor

from capsnet.errors import UserError


def check_votes(u_hat: Tensor, a: Tensor, num_iters: int = 1) -> None:
    """Raise a UserError unless these are votes [N, P, I, J, E], activations [N, P, I], a count."""
    if num_iters < 1:
        raise UserError(f"num_iters must be at least 1, not {num_iters}.")
    if u_hat.dim() != 5:
        raise UserError(f"u_hat of shape {tuple(u_hat.shape)} must be [N, P, I, J, E].")
    if not u_hat.is_floating_point():
        raise UserError(f"u_hat of type {u_hat.dtype} cannot be routed; give floating-point votes.")
    if a.shape != u_hat.shape[:3]:
        raise UserError(
            f"Activations of shape {tuple(a.shape)} do not fit votes of {tuple(u_hat.shape)}; "
            f"give {list(u_hat.shape[:3])}."
        )
