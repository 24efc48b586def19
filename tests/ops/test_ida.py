import pytest
import torch
import torch.nn.functional as F

from capsnet.errors import UserError
from capsnet.ops import ida_routing, ida_step, ida_trace


def inputs(N=2, P=1, I=5, J=3, E=4, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    u_hat = torch.randn(N, P, I, J, E, generator=g, dtype=torch.float64)
    weight = 1 + 0.1 * torch.randn(E, generator=g, dtype=torch.float64)
    bias = 0.1 * torch.randn(E, generator=g, dtype=torch.float64)
    return [x.to(dtype) for x in (u_hat, weight, bias)]


@pytest.mark.parametrize("num_iters", [1, 2, 3])
def test_gradient_is_exact(num_iters):
    u_hat, weight, bias = inputs(P=2, I=3)
    u_hat[0, 0, 1] = 0
    leaves = [x.requires_grad_() for x in (u_hat, weight, bias)]
    assert torch.autograd.gradcheck(lambda *x: ida_routing(*x, num_iters), leaves)


def test_first_iteration_is_the_normed_mean_share():
    u_hat, weight, bias = inputs()
    expected = F.layer_norm(u_hat.sum(dim=2) / 3, (4,), weight, bias)
    torch.testing.assert_close(ida_routing(u_hat, weight, bias, 1), expected)
    torch.testing.assert_close(ida_step(u_hat, None, weight, bias), expected)


def test_by_hand():
    # Two children, two parents, E = 4; what a layer norm of ±1 leaves is ±1 (eps aside).
    one = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    other = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    u_hat = torch.stack([torch.stack([one, other]), torch.stack([one, -other])])[None, None]
    weight, bias = torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    trace = ida_trace(u_hat, weight, bias, 2)
    # First: s_0 = one, s_1 = 0; v_0 = one, v_1 = 0. Then b_i0 = 4 / 2 = 2 and b_i1 = 0,
    # c_i0 = 1 / (1 + e^-2) = 0.880797; s_0 = 2 · 0.880797 one, s_1 = 0.
    torch.testing.assert_close(trace.v[0, 0, 0], one, rtol=1e-4, atol=0)
    assert (trace.v[:, 0, 1].abs() < 1e-12).all()
    expected = torch.tensor([[0.880797, 0.119203]] * 2, dtype=torch.float64)
    torch.testing.assert_close(trace.c[1, 0], expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(trace.s[1, 0, 0], 2 * 0.880797 * one, rtol=1e-4, atol=0)


def test_steps_are_the_iterations():
    u_hat, weight, bias = inputs(P=2)
    v = None
    for t in range(1, 4):
        v = ida_step(u_hat, v, weight, bias)
        torch.testing.assert_close(v, ida_routing(u_hat, weight, bias, t))


def test_each_child_is_shared_out_among_its_parents():
    c = ida_trace(*inputs(N=3, I=7, J=4), 4).c
    torch.testing.assert_close(c.sum(dim=-1), torch.ones(4, 3, 7, dtype=torch.float64))
    torch.testing.assert_close(c[0], torch.full_like(c[0], 1 / 4))


def test_order_of_children_does_not_matter_and_of_parents_carries_over():
    u_hat, weight, bias = inputs(P=2)
    v = ida_routing(u_hat, weight, bias, 3)
    i, j = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 0, 1])
    mixed = ida_routing(u_hat[:, :, i][:, :, :, j], weight, bias, 3)
    torch.testing.assert_close(mixed, v[:, :, j])


def test_samples_and_places_are_independent():
    u_hat, weight, bias = inputs(N=3, P=2)
    v = ida_routing(u_hat, weight, bias, 3)
    for n in range(3):
        for p in range(2):
            alone = ida_routing(u_hat[n : n + 1, p : p + 1], weight, bias, 3)
            torch.testing.assert_close(alone, v[n : n + 1, p : p + 1])


def test_agreement_draws_a_child_to_its_parent():
    u_hat, weight, bias = inputs(N=1, I=9, J=2, E=8)
    u_hat[..., 0, :] = u_hat[:, :, :1, 0]  # all nine agree on parent 0
    c = ida_trace(u_hat, weight, bias, 2).c[:, 0, :, 0].mean(dim=1)
    assert c[0] == 0.5 and c[1] > 0.7


def test_share_is_what_is_given():
    u_hat, weight, bias = inputs()
    v = ida_routing(u_hat, weight, bias, 1, share=lambda b: b + 1)
    torch.testing.assert_close(v, F.layer_norm(u_hat.sum(dim=2), (4,), weight, bias))


@pytest.mark.parametrize("num_iters", [1, 3])
@pytest.mark.parametrize("size", [0.0, 1e-20, 1.0, 1e12])
def test_nothing_is_ever_not_a_number(size, num_iters):
    u_hat, weight, bias = inputs(I=9, dtype=torch.float32)
    leaves = [x.requires_grad_() for x in (u_hat * size, weight, bias)]
    v = ida_routing(*leaves, num_iters)
    grads = torch.autograd.grad((v * torch.arange(4)).sum(), leaves)
    assert all(x.isfinite().all() for x in (v, *grads))
    constant = ida_routing(torch.full_like(u_hat, size), weight, bias, num_iters)
    torch.testing.assert_close(constant, bias.expand_as(constant), rtol=0, atol=1e-3)


def test_half_precision_is_summed_in_fp32():
    u_hat, weight, bias = inputs(I=999)
    half = u_hat.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        v = ida_routing(half, weight.float(), bias.float(), 3)
    exact = ida_routing(half.double(), weight, bias, 3)
    assert v.dtype == torch.float32
    torch.testing.assert_close(v.double(), exact, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("num_iters", [1, 3])
def test_the_votes_are_kept_once(num_iters):
    u_hat, weight, bias = inputs(N=4, P=3, I=40, J=6, E=16, dtype=torch.float32)
    kept = {}

    def pack(x):
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // 4
        return x

    u_hat = u_hat.requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        v = ida_routing(u_hat, weight, bias, num_iters)
    assert u_hat.numel() <= sum(kept.values()) < 1.2 * u_hat.numel()
    v.sum().backward()


def test_trace_ends_at_the_result():
    u_hat, weight, bias = inputs()
    trace = ida_trace(u_hat, weight, bias, 3)
    torch.testing.assert_close(trace.v[-1], ida_routing(u_hat, weight, bias, 3)[:, 0])
    assert trace.u_hat.shape == (2, 5, 3, 4) and trace.b.shape == (3, 2, 5, 3)
    assert (trace.a == 1).all() and trace.a.shape == (3, 2, 3)
    torch.testing.assert_close(ida_routing(u_hat, weight, bias)[:, 0], trace.v[1])  # usually two
    assert len(ida_trace(u_hat, weight, bias).v) == 2
    rest = ida_trace(u_hat, weight, bias, 2, v=ida_routing(u_hat, weight, bias, 1))
    torch.testing.assert_close(rest.v, trace.v[1:])


def test_compiles_as_one_graph_and_transforms():
    u_hat, weight, bias = inputs()
    u_hat.requires_grad_()
    expected = ida_routing(u_hat, weight, bias)
    (gradient,) = torch.autograd.grad(expected.square().sum(), u_hat)
    compiled = torch.compile(ida_routing, fullgraph=True, backend="aot_eager")
    v = compiled(u_hat, weight, bias)
    torch.testing.assert_close(v, expected)
    torch.testing.assert_close(torch.autograd.grad(v.square().sum(), u_hat)[0], gradient)
    loss = lambda x: ida_routing(x, weight, bias).square().sum()  # noqa: E731
    torch.testing.assert_close(torch.func.grad(loss)(u_hat.detach()), gradient)


def test_mistakes_are_sentences():
    u_hat, weight, bias = inputs()
    for call, sentence in [
        (lambda: ida_routing(u_hat[0], weight, bias), r"must be \[N, P, I, J, E\]"),
        (lambda: ida_routing(u_hat[0, 0, 0, 0], weight, bias), r"must be \[N, P, I, J, E\]"),
        (lambda: ida_routing(u_hat, weight[1:], bias), r"must be \[4\]"),
        (lambda: ida_routing(u_hat, weight, bias, 0), "num_iters must be at least 1, not 0"),
        (lambda: ida_trace(u_hat, weight, bias, 0), "num_iters must be at least 1, not 0"),
        (lambda: ida_step(u_hat, u_hat[:, 0], weight, bias), r"give \[2, 1, 3, 4\]"),
    ]:
        with pytest.raises(UserError, match=sentence):
            call()
