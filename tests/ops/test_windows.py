import pytest
import torch

from capsnet.errors import UserError
from capsnet.ops import Windows, over_parents

# Odd sizes, strides that leave rows over, kernels smaller than the stride, one window for all.
SHAPES = [
    ((14, 14), 3, 2),
    ((6, 5), 3, 1),
    ((7, 8), 3, 2),
    ((9, 7), 2, 3),
    ((5, 5), 5, 1),
    ((8, 9), 4, 3),
    ((1, 1), 1, 1),
]


def cut(x, windows):
    """Every window by hand, [N, P, K, K, B, …]."""
    (rows, columns), K, S = windows.places, windows.kernel, windows.stride
    at = [(o * S, p * S) for o in range(rows) for p in range(columns)]
    return torch.stack([x[:, h : h + K, w : w + K] for h, w in at], dim=1)


@pytest.mark.parametrize(("size", "kernel", "stride"), SHAPES)
def test_gather_is_cutting_out_by_hand(size, kernel, stride):
    windows = Windows(size, kernel, stride)
    x = torch.randn(2, *size, 3, 4)
    assert torch.equal(windows.gather(x), cut(x, windows).flatten(2, 4))
    a = torch.randn(2, *size, 3)
    assert torch.equal(windows.gather(a), cut(a, windows).flatten(2, 4))


@pytest.mark.parametrize(("size", "kernel", "stride"), SHAPES)
def test_parts_of_a_child_sum_to_one_over_all_places_and_types(size, kernel, stride):
    windows, B, J = Windows(size, kernel, stride), 3, 5
    P = windows.places[0] * windows.places[1]
    logits = 3 * torch.randn(2, P, kernel * kernel * B, J, dtype=torch.float64)
    c = windows.share(logits)
    # Sums over the parents of each child, laid on the map by hand.
    number = cut(torch.arange(size[0] * size[1] * B).view(1, *size, B), windows).flatten(1)[0]
    sums = torch.zeros(2, size[0] * size[1] * B, dtype=torch.float64)
    raw = sums.clone()
    sums.index_add_(1, number, c.sum(-1).flatten(1))
    raw.index_add_(1, number, logits.exp().sum(-1).flatten(1))
    seen = sums[:, number.unique()]
    torch.testing.assert_close(seen, torch.ones_like(seen))
    torch.testing.assert_close(c, logits.exp() / raw[:, number].view(2, P, -1, 1))


def test_one_window_shares_over_types_alone():
    logits = torch.randn(2, 1, 18, 4)
    torch.testing.assert_close(Windows((3, 3), 3).share(logits), over_parents(logits))


@pytest.mark.parametrize("scale", [1e4, 1e30])
def test_huge_logits_are_shared_without_nan(scale):
    logits = (scale * torch.randn(2, 9, 18, 4)).requires_grad_()
    c = Windows((7, 8), 3, 2).share(logits)
    assert c.isfinite().all() and (c <= 1.001).all()
    (grad,) = torch.autograd.grad(c.square().sum(), logits)
    assert grad.isfinite().all()


def test_gradients_are_exact():
    windows = Windows((5, 4), 3, 2)
    x = torch.randn(1, 5, 4, 2, dtype=torch.float64, requires_grad=True)
    logits = torch.randn(1, 2, 18, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(windows.gather, x)
    assert torch.autograd.gradcheck(windows.share, logits)
    assert torch.autograd.gradgradcheck(windows.share, logits)


def test_mistakes_are_sentences():
    with pytest.raises(UserError, match="3×3 does not fit a map of 2×9"):
        Windows((2, 9), 3)
    for kernel, stride in ((3, 0), (0, 1)):
        with pytest.raises(UserError, match="at least 1"):
            Windows((5, 5), kernel, stride)
    assert Windows((5, 4), 1).places == (5, 4)
    with pytest.raises(UserError, match=r"\[N, 5, 5, B, …\]"):
        Windows((5, 5), 3).gather(torch.zeros(2, 6, 5, 3))
