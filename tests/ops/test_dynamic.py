import pytest
import torch
from machine import INTERPRETED
from routed_inputs import BACKENDS, inputs, small_bias

from capsnet.errors import UserError
from capsnet.ops import dynamic, dynamic_routing, dynamic_routing_votes, routing_trace, squash


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("num_iters", [1, 2, 3])
def test_gradient_is_exact(backend, leaky, num_iters):
    u, W = inputs()
    u[0, 1] = 0  # a dead lower capsule, and a sample of nothing but dead ones
    u[1] = 0
    arguments = [x.requires_grad_() for x in (u, W, small_bias())]

    def route(u, W, bias):
        return dynamic_routing(u, W, num_iters, bias=bias, leaky=leaky, backend=backend)

    assert torch.autograd.gradcheck(route, arguments)


@pytest.mark.parametrize("backend", BACKENDS)
def test_zero_input_has_finite_value_and_gradient(backend):
    u, W = inputs(dtype=torch.float32)
    u = torch.zeros_like(u).requires_grad_()
    v = dynamic_routing(u, W.requires_grad_(), backend=backend)
    v.sum().backward()
    assert (v == 0).all() and (u.grad == 0).all() and (W.grad == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_iters", [1, 3])
def test_by_hand(backend, num_iters):
    # Two lower capsules that agree on parent 0 and contradict each other on parent 1; E = 1.
    # Votes: u_hat_00 = u_hat_10 = 2, u_hat_01 = 1, u_hat_11 = -1.
    u = torch.ones(1, 2, 1, dtype=torch.float64)
    W = torch.tensor([[2.0, 1.0], [2.0, -1.0]], dtype=torch.float64).view(2, 2, 1, 1)
    v = dynamic_routing(u, W, num_iters, backend=backend).flatten().tolist()
    # Iteration 1: c = 1/2, s = (2, 0), v = (4/5, 0). Then b_i0 = 2 · 0.8 = 1.6, b_i1 = 0.
    # Iteration 2: c_i0 = 1 / (1 + e^-1.6) = 0.832018, s_0 = 4 · 0.832018 = 3.328074,
    #   v_0 = s² / (1 + s²) = 0.917192. Then b_i0 = 1.6 + 2 · 0.917192 = 3.434383.
    # Iteration 3: c_i0 = 1 / (1 + e^-3.434383) = 0.968762, s_0 = 3.875048, v_0 = 0.937562.
    # Parent 1's votes cancel out in all of them.
    assert v[0] == pytest.approx({1: 0.8, 3: 0.937562}[num_iters], abs=1e-6)
    assert v[1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_iteration_is_the_squashed_mean_share(backend):
    u, W = inputs()
    s = torch.einsum("ijed,nid->nje", W, u) / 3
    torch.testing.assert_close(dynamic_routing(u, W, 1, backend=backend), squash(s))


def test_each_lower_capsule_shares_itself_out_among_its_parents():
    u, W = inputs(N=3, I=7, J=4)
    c = routing_trace(u, W, 4).c
    torch.testing.assert_close(c.sum(dim=-1), torch.ones(4, 3, 7, dtype=torch.float64))
    assert not torch.allclose(c[-1].sum(dim=1), c[-1].sum(dim=1).mean())  # not so over i


def test_leaky_keeps_a_share_for_nobody():
    u, W = inputs()
    c = routing_trace(u, W, 3, leaky=True).c
    assert (c > 0).all() and (c.sum(dim=-1) < 1).all()
    torch.testing.assert_close(c[0], torch.full_like(c[0], 1 / 4))
    b = routing_trace(u, W, 3, leaky=True).b[-1]
    torch.testing.assert_close(c[-1], b.exp() / (1 + b.exp().sum(-1, keepdim=True)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("leaky", [False, True])
def test_order_of_lower_capsules_does_not_matter(backend, leaky):
    u, W = inputs()
    i = torch.tensor([3, 0, 4, 1, 2])
    v = dynamic_routing(u, W, leaky=leaky, backend=backend)
    torch.testing.assert_close(dynamic_routing(u[:, i], W[i], leaky=leaky, backend=backend), v)


@pytest.mark.parametrize("backend", BACKENDS)
def test_order_of_parents_carries_over(backend):
    u, W = inputs()
    j = torch.tensor([2, 0, 1])
    v = dynamic_routing(u, W, backend=backend)
    torch.testing.assert_close(dynamic_routing(u, W[:, j], backend=backend), v[:, j])


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_sample_is_independent_of_its_batch(backend):
    u, W = inputs(N=6, I=9)
    v = dynamic_routing(u, W, 4, backend=backend)
    for n in range(6):
        alone = dynamic_routing(u[n : n + 1], W, 4, backend=backend)
        assert alone.shape == (1, 3, 4)
        torch.testing.assert_close(alone, v[n : n + 1])


def test_agreement_draws_a_capsule_to_its_parent():
    u = torch.ones(1, 9, 1)
    W = torch.zeros(9, 2, 2, 1)
    W[:, 0, 0] = 1.0  # all nine agree on parent 0
    W[:, 1, :, 0] = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    c = routing_trace(u, W, 3).c[:, 0, :, 0].mean(dim=1)
    assert c[0] == 0.5 and c[1] > c[0] and c[2] > c[1]


def test_last_gradient_is_that_of_detached_earlier_iterations():
    def by_hand(u, W, bias):
        u_hat = torch.einsum("ijed,nid->nije", W, u)
        b = torch.zeros(u_hat.shape[:3], dtype=u.dtype)
        for t in range(3):
            votes, offset = (u_hat, bias) if t == 2 else (u_hat.detach(), bias.detach())
            v = squash((b.softmax(-1)[..., None] * votes).sum(1) + offset)
            b = b + (votes * v[:, None]).sum(-1)
        return v

    def gradients(route):
        arguments = [x.clone().requires_grad_() for x in (*inputs(), small_bias())]
        v = route(*arguments)
        return v, torch.autograd.grad((v * torch.arange(4)).sum(), arguments)

    v, expected = gradients(by_hand)
    for backend in BACKENDS:
        for gradient in ("last", "full"):

            def route(u, W, bias, gradient=gradient, backend=backend):
                return dynamic_routing(u, W, bias=bias, gradient=gradient, backend=backend)

            same_v, found = gradients(route)
            torch.testing.assert_close(same_v, v)
            for a, b in zip(found, expected, strict=True):
                assert torch.allclose(a, b) == (gradient == "last")


@pytest.mark.parametrize("backend", BACKENDS)
def test_bias_is_added_to_s_in_every_iteration(backend):
    u, W = inputs()
    bias = small_bias()
    assert not torch.allclose(dynamic_routing(u, W, 1, backend=backend), squash(bias))
    v = dynamic_routing(torch.zeros_like(u), W, 3, bias=bias, backend=backend)
    torch.testing.assert_close(v, squash(bias).expand(2, -1, -1))
    once = squash(torch.einsum("ijed,nid->nje", W, u) / 3 + bias)
    torch.testing.assert_close(dynamic_routing(u, W, 1, bias=bias, backend=backend), once)
    trace = routing_trace(u, W, 2, bias=bias)
    torch.testing.assert_close(dynamic_routing(u, W, 2, bias=bias, backend=backend), trace.v[1])
    torch.testing.assert_close(trace.b[1], torch.einsum("nije,nje->nij", trace.u_hat, once))


@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("bias", [None, small_bias()])
def test_trace_ends_where_routing_ends(leaky, bias):
    u, W = inputs()
    for num_iters in (1, 2, 5):
        trace = routing_trace(u, W, num_iters, bias=bias, leaky=leaky)
        v = dynamic_routing(u, W, num_iters, bias=bias, leaky=leaky, backend="reference")
        assert torch.equal(trace.v[-1], v) and len(trace.c) == num_iters
        assert (trace.b[0] == 0).all()
        votes = dynamic_routing_votes(trace.u_hat, num_iters, bias=bias, leaky=leaky)
        assert torch.equal(votes, v)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_finite_at_huge_votes(backend, dtype):
    u, W = inputs(dtype=dtype)
    u, W = u * 200, W * 20  # votes in the thousands: their squares overflow fp16
    u, W = u.requires_grad_(), W.requires_grad_()
    v = dynamic_routing(u, W, backend=backend)
    v.float().sum().backward()
    assert v.dtype == u.grad.dtype == W.grad.dtype == dtype
    assert v.isfinite().all() and u.grad.isfinite().all() and W.grad.isfinite().all()
    assert (v.float().norm(dim=-1) <= 1.01).all()


@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("empty", range(5))
def test_sizes_of_zero(empty, leaky):
    sizes = [2, 5, 3, 4, 3]
    sizes[empty] = 0
    N, _, J, E, _ = sizes
    u, W = inputs(*sizes)
    for bias in (None, 0.1 * torch.ones(J, E, dtype=torch.float64)):
        for backend in ("auto", *BACKENDS):
            leaves = [x.clone().requires_grad_() for x in (u, W)]
            v = dynamic_routing(*leaves, bias=bias, leaky=leaky, backend=backend)
            v.sum().backward()
            # Without lower capsules, or components of them, the bias is all there is.
            expected = torch.zeros(N, J, E, dtype=u.dtype) if bias is None else squash(bias)
            torch.testing.assert_close(v, expected.expand(N, J, E))
            assert all((x.grad == 0).all() and x.grad.shape == x.shape for x in leaves)
        trace = routing_trace(u, W, 2, bias=bias, leaky=leaky)
        assert trace.v.shape == (2, N, J, E) and trace.u_hat.shape == (N, sizes[1], J, E)


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("other", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_of_u_is_that_of_the_result(dtype, other):
    u, W, bias = *inputs(), small_bias()
    exact = dynamic_routing(u, W, bias=bias)
    close = {"atol": 8 * max(torch.finfo(x).eps for x in (dtype, other)), "rtol": 0.0}
    for backend in ("auto", *BACKENDS):
        leaves = [u.to(dtype), W.to(other), bias.to(other)]
        leaves = [x.requires_grad_() for x in leaves]
        v = dynamic_routing(*leaves[:2], bias=leaves[2], backend=backend)
        assert v.dtype == dtype
        torch.testing.assert_close(v.double(), exact, **close)
        grads = torch.autograd.grad(v.double().sum(), leaves)
        assert [x.dtype for x in grads] == [dtype, other, other]
    trace = routing_trace(u.to(dtype), W.to(other), 2, bias=bias.to(other))
    assert {x.dtype for x in trace[:5]} == {dtype}
    v = dynamic_routing_votes(trace.u_hat, 3, bias=bias.to(other))
    assert v.dtype == dtype
    torch.testing.assert_close(v.double(), exact, **close)


def test_half_precision_is_summed_in_fp32():
    # A thousand capsules, each a rounding below the sum: half precision would lose most of them.
    u, W = inputs(2, 4096, 4, 16, 8)
    for dtype in (torch.float16, torch.bfloat16):
        half = [x.to(dtype) for x in (u, W * 0.05)]
        leaves = [x.clone().requires_grad_() for x in half]
        wide = [x.double().requires_grad_() for x in half]
        v = dynamic_routing(*leaves, backend="chunked")
        truth = dynamic_routing(*wide, backend="reference")
        found = [v, *torch.autograd.grad(v, leaves, torch.ones_like(v))]
        exact = [truth, *torch.autograd.grad(truth, wide, torch.ones_like(truth))]
        for x, y in zip(found, exact, strict=True):
            # No more than rounding the exact result once.
            assert (x.double() - y).norm() <= 1.01 * (y.to(dtype).double() - y).norm()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_iterations_do_not_amplify_the_rounding_of_half_precision(dtype):
    draw = torch.Generator().manual_seed(0)
    u = torch.randn(8, 36, 8, generator=draw).to(dtype)
    W = torch.randn(36, 10, 16, 8, generator=draw).to(dtype)
    truth = dynamic_routing(u.double(), W.double(), 10, backend="reference")
    rounded = (truth.to(dtype).double() - truth).abs().max()
    for backend in BACKENDS:
        v = dynamic_routing(u, W, 10, backend=backend)
        assert v.dtype == dtype and (v.double() - truth).abs().max() <= 1.01 * rounded + 1e-5
    trace = routing_trace(u, W, 10)
    assert (trace.v[-1].double() - truth).abs().max() <= 1.01 * rounded + 1e-5
    votes = torch.randn(4, 36, 10, 16, generator=draw).to(dtype)
    truth = dynamic_routing_votes(votes.double(), 10)
    v = dynamic_routing_votes(votes, 10)
    assert v.dtype == dtype
    rounded = (truth.to(dtype).double() - truth).abs().max()
    assert (v.double() - truth).abs().max() <= 1.01 * rounded + 1e-5


def test_huge_votes_become_unit_vectors():
    u, W = inputs(dtype=torch.float32)
    for backend in BACKENDS:
        leaves = [x.clone().requires_grad_() for x in (u * 1e12, W * 1e12)]
        v = dynamic_routing(*leaves, num_iters=1, backend=backend)
        torch.testing.assert_close(v.norm(dim=-1), torch.ones(2, 3))
        assert all(x.isfinite().all() for x in torch.autograd.grad(v.sum(), leaves))


def test_trace_says_which_routing_it_was():
    u, W = inputs()
    assert routing_trace(u, W)[6:] == (False, False, "dynamic")
    assert routing_trace(u, W, leaky=True)[6:] == (True, False, "dynamic")
    trace = routing_trace(u, W, bias=small_bias())
    assert not trace.leaky and trace.biased


def test_fused_is_refused_where_its_kernels_do_not_run():
    u, W = inputs(dtype=torch.float32)
    with pytest.raises(UserError, match=r"runs on a GPU, and u is on cpu; use .*'chunked'"):
        dynamic_routing(u, W, backend="fused")


def test_mistakes_are_sentences():
    u, W = inputs()
    with pytest.raises(UserError, match=r"num_iters must be at least 1"):
        dynamic_routing(u, W, 0)
    with pytest.raises(UserError, match=r"u must be \[N, 5, 3\]"):
        dynamic_routing(u[:, 1:], W)
    with pytest.raises(UserError, match=r"u must be \[N, 5, 3\]"):
        dynamic_routing(u[..., :2], W)
    with pytest.raises(UserError, match=r"u must be \[N, 5, 3\]"):
        dynamic_routing(u[0], W)
    with pytest.raises(UserError, match=r"must be \[3, 4\]"):
        dynamic_routing(u, W, bias=torch.zeros(4, 3))
    with pytest.raises(UserError, match="'full' or 'last'"):
        dynamic_routing(u, W, gradient="none")
    with pytest.raises(UserError, match="'reference', 'chunked' or 'fused'"):
        dynamic_routing(u, W, backend="cuda")
    with pytest.raises(UserError, match=r"u must be \[N, 5, 3\]"):
        routing_trace(u[:, 1:], W)
    with pytest.raises(UserError, match=r"u_hat .*must be \[N, I, J, E\]"):
        dynamic_routing_votes(torch.zeros(2, 3, 4))
    with pytest.raises(UserError, match="give floating-point votes"):
        dynamic_routing_votes(torch.zeros(2, 3, 4, 5, dtype=torch.long))
    with pytest.raises(UserError, match="give floating-point numbers"):
        dynamic_routing(u.long(), W)
    with pytest.raises(UserError, match=r"W .*must be \[I, J, E, D\]"):
        dynamic_routing(u, W[0])


@pytest.mark.skipif(INTERPRETED, reason="the kernels can run there")
def test_what_runs_on_a_cpu():
    u, W = inputs()
    assert dynamic._choose("auto", u, W) == "chunked"
    assert [dynamic._choose(backend, u, W) for backend in BACKENDS] == BACKENDS
    assert dynamic._choose("chunked", u[:, :0], W[:0]) == "reference"
    with pytest.raises(UserError, match="runs on a GPU, and u is on cpu; use 'auto'"):
        dynamic_routing(u, W, backend="fused")
    with pytest.raises(UserError, match="backend must be 'auto'"):
        dynamic_routing(u, W, backend="fast")
    for backend in ("chunked", "fused"):
        with pytest.raises(UserError, match="cannot be transformed"):
            torch.func.vmap(lambda u, b=backend: dynamic_routing(u[None], W, backend=b))(u)


def test_without_triton_there_is_no_fused_routing(monkeypatch):
    monkeypatch.setattr(dynamic, "INTERPRETED", True)
    monkeypatch.setattr(dynamic, "TRITON", False)
    assert "needs Triton" in dynamic.why_not_fused(*inputs())


def test_three_iterations_unless_told_otherwise():
    u, W = inputs()
    trace = routing_trace(u, W)
    assert len(trace.v) == 3
    for backend in ("auto", *BACKENDS):
        torch.testing.assert_close(dynamic_routing(u, W, backend=backend), trace.v[-1])
    torch.testing.assert_close(dynamic_routing_votes(trace.u_hat), trace.v[-1])


def test_wrong_arguments_are_a_sentence():
    u, W = inputs()
    for route in (dynamic_routing, routing_trace):
        with pytest.raises(UserError, match="num_iters must be at least 1, not 0"):
            route(u, W, 0)
        for shape in ((4, 3), (3, 5), (3,)):
            with pytest.raises(UserError, match=r"must be \[3, 4\]"):
                route(u, W, bias=torch.zeros(shape))
    with pytest.raises(UserError, match="gradient must be"):
        dynamic_routing(u, W, gradient="first")
    with pytest.raises(UserError, match="at least 1"):
        dynamic_routing_votes(torch.zeros(2, 5, 3, 4), 0)
    with pytest.raises(UserError, match=r"must be \[N, I, J, E\]"):
        dynamic_routing_votes(torch.zeros(5, 3, 4))
    with pytest.raises(UserError, match=r"must be \[3, 4\]"):
        dynamic_routing_votes(torch.zeros(2, 5, 3, 4), bias=torch.zeros(4, 3))
