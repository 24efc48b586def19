import pytest
import torch

from capsnet.ops import squash


@pytest.mark.parametrize("dim", [-1, 1])
def test_gradient_is_exact(dim):
    s = torch.randn(3, 5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: squash(x, dim), s)


def test_length_is_below_one_and_direction_kept():
    s = torch.randn(50, 8, dtype=torch.float64) * torch.logspace(-6, 3, 50)[:, None]
    v = squash(s)
    length, before = v.norm(dim=1), s.norm(dim=1)
    assert (length < 1).all()
    torch.testing.assert_close(length, before**2 / (1 + before**2))
    torch.testing.assert_close(v / length[:, None], s / before[:, None])


def test_longer_stays_longer():
    lengths = squash(torch.linspace(0, 50, 101)[:, None]).flatten()
    assert (lengths.diff() > 0).all()


def test_by_hand():
    # |(3, 4)| = 5, so the length becomes 25/26 along (3/5, 4/5).
    v = squash(torch.tensor([3.0, 4.0]))
    torch.testing.assert_close(v, torch.tensor([15 / 26, 20 / 26]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_zero_has_value_and_gradient_zero(dtype):
    s = torch.zeros(2, 3, dtype=dtype)
    s[1] = 1.0
    s.requires_grad_()
    v = squash(s)
    v.sum().backward()
    assert v.dtype == s.grad.dtype == dtype
    assert (v[0] == 0).all() and (s.grad[0] == 0).all()
    assert (v[1] != 0).all() and s.grad.isfinite().all()


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float16, 6e4), (torch.bfloat16, 1e18), (torch.float32, 1e18), (torch.float64, 1e100)],
)
def test_huge_vectors_become_unit_vectors(dtype, size):
    s = torch.tensor([[size, 0.0], [-size, size]], dtype=dtype, requires_grad=True)
    v = squash(s)
    expected = torch.tensor([[1.0, 0.0], [-(0.5**0.5), 0.5**0.5]], dtype=dtype)
    torch.testing.assert_close(v, expected)
    v.sum().backward()
    assert s.grad.isfinite().all()


def test_dim_is_the_one_that_is_squashed():
    s = torch.randn(2, 3, 4)
    torch.testing.assert_close(squash(s, 1), squash(s.movedim(1, -1)).movedim(-1, 1))
