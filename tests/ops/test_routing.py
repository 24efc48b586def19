import pytest
import torch

from capsnet.errors import UserError
from capsnet.ops import dynamic_routing, dynamic_routing_votes, routing_trace, squash
from capsnet.ops.routing import chunked

BACKENDS = ["reference", "fused"]


def inputs(N=2, I=5, J=3, E=4, D=3, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    u = squash(torch.randn(N, I, D, generator=g, dtype=torch.float64)).to(dtype)
    W = torch.randn(I, J, E, D, generator=g, dtype=torch.float64).to(dtype)
    return u, W


def small_bias(J=3, E=4):
    return torch.linspace(-0.2, 0.3, J * E, dtype=torch.float64).view(J, E)


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


# The vote-free version against fp64 truth: its error may be twice that of the reference in fp32.


def errors(u, W, bias, truth, **options):
    arguments = [x.detach().float().requires_grad_() for x in (u, W, bias)]
    v = dynamic_routing(*arguments[:2], bias=arguments[2], **options)
    found = [v, *torch.autograd.grad((v * v.detach().roll(1, -1)).sum(), arguments)]
    return [(a.double() - b).abs().max() for a, b in zip(found, truth, strict=True)]


def check_fused(u, W, bias, **options):
    arguments = [x.double().requires_grad_() for x in (u, W, bias)]
    v = dynamic_routing(*arguments[:2], bias=arguments[2], backend="reference", **options)
    truth = [v, *torch.autograd.grad((v * v.detach().roll(1, -1)).sum(), arguments)]
    reference = errors(u, W, bias, truth, backend="reference", **options)
    fused = errors(u, W, bias, truth, backend="fused", **options)
    for k, (ours, theirs, true) in enumerate(zip(fused, reference, truth, strict=True)):
        atol = 2e-6 * max(true.abs().max().item(), 1e-6)
        assert ours <= (2 if k == 0 else 3) * theirs + atol, ("v", "du", "dW", "dbias")[k]


@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("gradient", ["full", "last"])
@pytest.mark.parametrize(
    ("N", "I", "J", "E", "D"),
    [
        (1, 1, 1, 2, 2),
        (3, 63, 2, 5, 3),
        (2, 63, 47, 16, 8),
        (2, 1153, 10, 16, 8),
        (5, 7, 10, 32, 32),
        (1, 1153, 1, 3, 17),
    ],
)
def test_fused_is_as_exact_as_the_reference(N, I, J, E, D, gradient, leaky):
    u, W = inputs(N, I, J, E, D, torch.float32)
    W = W * (3 / I**0.5)
    check_fused(u, W, 0.1 * torch.ones(J, E), gradient=gradient, leaky=leaky)


@pytest.mark.parametrize("elements", [1, 100, 700])
def test_chunks_of_any_size_give_the_same(elements, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", elements)
    u, W = inputs(3, 23, 5, 4, 3, torch.float32)
    check_fused(u, W, 0.1 * torch.ones(5, 4), num_iters=4)


@pytest.mark.parametrize("scale", [0.0, 1e-6, 30.0])
def test_fused_is_exact_at_tiny_and_huge_input(scale):
    u, W = inputs(3, 13, 5, 4, 3, torch.float32)
    check_fused(u * scale, W, torch.zeros(5, 4))


def test_fused_takes_any_strides():
    u, W = inputs(3, 23, 5, 4, 6, torch.float32)
    u_strided = u.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    W_strided = W.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    assert not u_strided.is_contiguous() and not W_strided.is_contiguous()
    v = dynamic_routing(u, W, backend="fused")
    assert torch.equal(dynamic_routing(u_strided, W_strided, backend="fused"), v)
    check_fused(u[:, ::2, 1:4], W[::2, ..., 1:4], torch.zeros(5, 4))


def test_fused_keeps_no_votes_for_the_backward_pass():
    N, I, J, E, D = 16, 200, 10, 16, 8
    u, W = inputs(N, I, J, E, D, torch.float32)

    def kept(backend):
        sizes = {}

        def pack(x):
            sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // 4
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            v = dynamic_routing(u.requires_grad_(), W.requires_grad_(), backend=backend)
        v.sum().backward()
        return sum(sizes.values()) - W.numel()

    votes = N * I * J * E
    assert kept("reference") >= votes  # else this would measure nothing
    assert kept("fused") < votes / 5
    assert kept("auto") < votes / 5


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
    with pytest.raises(UserError, match="'reference' or 'fused'"):
        dynamic_routing(u, W, backend="cuda")
    with pytest.raises(UserError, match=r"u must be \[N, 5, 3\]"):
        routing_trace(u[:, 1:], W)
    with pytest.raises(UserError, match=r"u_hat .*must be \[N, I, J, E\]"):
        dynamic_routing_votes(torch.zeros(2, 3, 4))
    with pytest.raises(UserError, match=r"W .*must be \[I, J, E, D\]"):
        dynamic_routing(u, W[0])
