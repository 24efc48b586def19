"""Losses: margin (Eq. 4), spread (matrix capsules) and reconstruction.

loss = margin_loss(lengths, labels) + 0.0005 * reconstruction_loss(pixels, images)
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.errors import UserError


def margin_loss(
    lengths: Tensor,
    targets: Tensor,
    m_pos: float = 0.9,
    m_neg: float = 0.1,
    lam: float = 0.5,
    *,
    average_classes: bool = False,
) -> Tensor:
    """Return the margin loss, summed over classes and averaged over the batch.

    L_k = T_k max(0, m_pos - |v_k|)^2 + lam (1 - T_k) max(0, |v_k| - m_neg)^2

    lengths [N, J] are the capsule lengths themselves (no softmax); targets are labels [N], or
    a table T [N, J] of zeros and ones when several classes can be present.
    average_classes divides by 2 J, as the authors' code does.
    """
    T = class_table(targets, lengths)
    present = F.relu(m_pos - lengths).square()
    absent = F.relu(lengths - m_neg).square()
    loss = (T * present + lam * (1 - T) * absent).sum(dim=1).mean()
    return loss / (2 * lengths.shape[1]) if average_classes else loss


def spread_loss(activations: Tensor, labels: Tensor, margin: float = 0.9) -> Tensor:
    """Return sum_{j != t} max(0, margin - (a_t - a_j))^2 over activations [N, J], batch mean."""
    T = class_table(labels, activations)
    a_t = (activations * T).sum(dim=1, keepdim=True)
    return ((1 - T) * F.relu(margin - (a_t - activations)).square()).sum(dim=1).mean()


def reconstruction_loss(pixels: Tensor, images: Tensor) -> Tensor:
    """Return the sum over pixels of squared differences, averaged over the first dimension."""
    if pixels.shape != images.shape:
        raise UserError(
            f"Pictures of shape {tuple(pixels.shape)} cannot be compared with images of "
            f"{tuple(images.shape)}; give both the same shape."
        )
    return F.mse_loss(pixels, images, reduction="none").flatten(1).sum(dim=1).mean()


def class_table(targets: Tensor, like: Tensor) -> Tensor:
    """Return T [N, J] in the type of `like` [N, J] from labels [N], or from a table [N, J]."""
    if targets.dim() == 1:
        check_classes(targets, like.shape[1])
        targets = F.one_hot(targets.long(), like.shape[1])
    if targets.shape != like.shape:
        raise UserError(
            f"Targets of shape {tuple(targets.shape)} do not fit {tuple(like.shape)}; "
            "give labels [N] or a table of zeros and ones [N, J]."
        )
    return targets.to(like.dtype)


def check_classes(labels: Tensor, num_classes: int) -> None:
    """Raise a UserError if labels are no classes; those on a GPU are not waited for."""
    if labels.is_floating_point() or labels.is_complex():
        raise UserError(f"Labels of type {labels.dtype} are no classes; give whole numbers.")
    if torch.compiler.is_compiling() or labels.device.type != "cpu" or labels.numel() == 0:
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        wrong = low if low < 0 else high
        raise UserError(f"There is no class {wrong}; choose 0 to {num_classes - 1}.")
