import torch
from torch.autograd import forward_ad

from capsnet.ops.plain import needs_plain, needs_plain_backward, plain_gradients


def test_plain_is_what_transforms_and_exports_need():
    seen = []

    def look(x):
        seen.append(needs_plain())
        return x * x

    x = torch.rand(3)
    look(x)
    torch.func.vmap(look)(x)
    torch.func.grad(lambda x: look(x).sum())(x)
    torch.jit.trace(look, (x,), check_trace=False)
    with forward_ad.dual_level():
        look(x)
    assert seen == [False, True, True, True, True]


def test_a_backward_pass_is_plain_where_it_is_differentiated():
    with torch.no_grad():
        assert not needs_plain_backward()
    assert needs_plain_backward()


def test_gradients_are_those_that_are_needed_and_can_be_differentiated():
    x, y = (torch.rand(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    dx, nothing, none = plain_gradients(
        lambda x, y, _: x**2 * y, (x, y, None), (True, False, True), torch.ones_like(x)
    )
    assert nothing is None and none is None
    torch.testing.assert_close(dx, 2 * x * y)
    (twice,) = torch.autograd.grad(dx.sum(), x)
    torch.testing.assert_close(twice, 2 * y)
    with torch.no_grad():
        (dx,) = plain_gradients(torch.exp, (x,), (True,), torch.ones_like(x))
    assert not dx.requires_grad
    assert plain_gradients(torch.exp, (x,), (False,), torch.ones_like(x)) == [None]


def test_gradients_are_as_exact_as_the_inputs():
    """Products of fp32 that autocast would make in half precision stay what they are."""
    x, y = torch.rand(2, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (dx,) = plain_gradients(lambda x: x @ y, (x.requires_grad_(),), (True,), torch.ones(8, 8))
    torch.testing.assert_close(dx, torch.ones(8, 8) @ y.T)
