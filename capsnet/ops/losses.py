"""Losses: margin (Eq. 4), spread (matrix capsules) and reconstruction.

loss = margin_loss(lengths, labels) + 0.0005 * reconstruction_loss(pixels, images)

A loss of half precision is fp32: from 256 on, squares leave fp16.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops.plain import needs_plain
from capsnet.ops.squash import widened


def margin_loss(
    lengths: Tensor,
    targets: Tensor,
    m_pos: float = 0.9,
    m_neg: float = 0.1,
    lam: float = 0.5,
    *,
    average_classes: bool = False,
    weights: Tensor | None = None,
) -> Tensor:
    """Return the margin loss, summed over classes and averaged over the batch.

    L_k = T_k max(0, m_pos - |v_k|)^2 + lam (1 - T_k) max(0, |v_k| - m_neg)^2

    Args:
        lengths: capsule lengths |v_k| [N, J] themselves (no softmax).
        targets: labels [N], or a table T [N, J] of zeros and ones when several classes can be
            present.
        m_pos: the length that the capsule of a present class should have.
        m_neg: the length that the others should not exceed.
        lam: the weight of the others.
        average_classes: divide by 2 J, as the authors' code does.
        weights: what each sample counts [N]; all the same if left out.

    Returns:
        The loss, a scalar.

    Example:
        >>> margin_loss(torch.tensor([[0.8, 0.3]]), torch.tensor([0]))  # 0.1^2 + 0.5 * 0.2^2
        tensor(0.0300)
    """
    lengths = widened(lengths)
    T = class_table(targets, lengths)
    present = F.relu(m_pos - lengths).square()
    absent = F.relu(lengths - m_neg).square()
    loss = weighted_mean((T * present + lam * (1 - T) * absent).sum(dim=1), weights)
    return loss / (2 * lengths.shape[1]) if average_classes else loss


def spread_loss(
    activations: Tensor,
    labels: Tensor,
    margin: float | Tensor = 0.9,
    weights: Tensor | None = None,
) -> Tensor:
    """Return the spread loss of matrix capsules, averaged over the batch.

    L = sum_{j != t} max(0, margin - (a_t - a_j))^2, summed over all t that are there.

    Args:
        activations: a [N, J].
        labels: the class t of each sample [N], or a table T [N, J] of zeros and ones when several
            classes are there.
        margin: by how much a_t should exceed every other.
        weights: what each sample counts [N]; all the same if left out.

    Returns:
        The loss, a scalar.

    Example:
        >>> spread_loss(torch.tensor([[0.9, 0.2]]), torch.tensor([0]))  # (0.9 - 0.7)^2
        tensor(0.0400)
    """
    activations = widened(activations)
    T = class_table(labels, activations)
    if labels.dim() == 1:
        a_t = (activations * T).sum(dim=1, keepdim=True)
        spread = ((1 - T) * F.relu(margin - (a_t - activations)).square()).sum(dim=1)
    else:
        lead = activations.unsqueeze(2) - activations.unsqueeze(1)  # [N, t, j]
        spread = torch.einsum("nt,nj,ntj->n", T, 1 - T, F.relu(margin - lead).square())
    return weighted_mean(spread, weights)


def reconstruction_loss(pixels: Tensor, images: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the sum over pixels of squared differences, averaged over the batch.

    Args:
        pixels: the decoder's pictures [N, ...].
        images: what they should be, of the same shape.
        weights: what each sample counts [N]; all the same if left out.

    Returns:
        The loss, a scalar.

    Example:
        >>> reconstruction_loss(torch.zeros(2, 1, 3, 3), torch.ones(2, 1, 3, 3))
        tensor(9.)
    """
    if pixels.shape != images.shape:
        raise UserError(
            f"Pictures of shape {tuple(pixels.shape)} cannot be compared with images of "
            f"{tuple(images.shape)}; give both the same shape."
        )
    squares = F.mse_loss(widened(pixels), widened(images), reduction="none")
    return weighted_mean(squares.flatten(1).sum(1), weights)


def weighted_mean(losses: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the mean of losses [N], each times what its sample counts [N]: sum_n w_n L_n / N.

    Of no sample at all it is 0, with gradient 0.
    """
    if weights is not None and weights.shape != losses.shape:
        raise UserError(
            f"Weights of shape {tuple(weights.shape)} do not fit {len(losses)} samples; give "
            f"[{len(losses)}]."
        )
    counted = losses if weights is None else losses * weights.to(losses.dtype)
    return counted.mean() if len(counted) else counted.sum()


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
    """Raise a UserError if labels are no classes; on a GPU or in a trace they are not looked at."""
    if labels.is_floating_point() or labels.is_complex():
        raise UserError(f"Labels of type {labels.dtype} are no classes; give whole numbers.")
    if torch.compiler.is_compiling() or needs_plain():
        return
    if labels.device.type != "cpu" or labels.numel() == 0:
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= num_classes:
        wrong = low if low < 0 else high
        raise UserError(f"There is no class {wrong}; choose 0 to {num_classes - 1}.")
