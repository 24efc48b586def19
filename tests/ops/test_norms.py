import pytest
import torch

from capsnet.ops.norms import norm_capsules, norm_layer

NORMS = pytest.mark.parametrize("norm", [norm_layer, norm_capsules], ids=lambda f: f.__name__)


def some(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@NORMS
def test_gradients(norm):
    u = some(2, 5, 3)
    if norm is norm_layer:
        u[:, 1] = 0
    assert torch.autograd.gradcheck(norm, u.requires_grad_())


def test_layer_has_one_scale_for_each_sample():
    u = some(3, 5, 4)
    v = norm_layer(u)
    ratio = v / u
    torch.testing.assert_close(ratio, ratio[:, :1, :1].expand_as(ratio))
    torch.testing.assert_close(v.square().sum(-1).mean(-1), torch.ones_like(v[:, 0, 0]))
    by_hand = norm_layer(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]))
    torch.testing.assert_close(by_hand * 12.5**0.5, torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]))


def test_capsules_all_have_length_one_and_no_mean():
    v = norm_capsules(some(3, 5, 4) * torch.tensor([1e-3, 1.0, 1e3, 5.0, 9.0])[:, None])
    torch.testing.assert_close(v.norm(dim=-1), torch.ones_like(v[..., 0]), rtol=1e-5, atol=0)
    torch.testing.assert_close(v.sum(-1), torch.zeros_like(v[..., 0]))


@NORMS
def test_scale_order_and_batch_mates_do_not_matter(norm):
    u = some(3, 5, 4)
    torch.testing.assert_close(norm(0.01 * u), norm(u), rtol=1e-6, atol=1e-6)
    order = torch.tensor([4, 2, 0, 1, 3])
    torch.testing.assert_close(norm(u[:, order]), norm(u)[:, order])
    torch.testing.assert_close(norm(u[1:2]), norm(u)[1:2])


@NORMS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-7, 1.0, 6.0])
def test_always_numbers(norm, dtype, size):
    u = torch.full((2, 3, 4), size, dtype=dtype, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        v = norm(u)
    (du,) = torch.autograd.grad(v.float().sum(), u)
    assert v.dtype == dtype and v.isfinite().all() and du.isfinite().all()
    assert v.norm(dim=-1).max() < 1.01
