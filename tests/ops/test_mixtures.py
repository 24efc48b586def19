"""EM and variational-Bayes routing: both fit Gaussians to votes, and obey the same laws."""

from math import e, lgamma, log, pi

import pytest
import torch

from capsnet.errors import UserError
from capsnet.ops import Windows, em_routing, em_routing_trace, vb_routing, vb_routing_trace
from capsnet.ops.dynamic import dynamic_routing_votes
from capsnet.ops.dynamic.placed import dynamic_routing_places, dynamic_routing_places_trace
from capsnet.ops.gaussians.reference import moments_of
from capsnet.ops.vb.digamma import digamma_series

ROUTINGS = {"em": (em_routing, em_routing_trace), "vb": (vb_routing, vb_routing_trace)}
both = pytest.mark.parametrize("name", list(ROUTINGS))


def inputs(N=2, P=1, I=5, J=3, E=4, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    u_hat = torch.randn(N, P, I, J, E, dtype=dtype, generator=g)
    a = torch.rand(N, P, I, dtype=dtype, generator=g)
    betas = 0.3 * torch.randn(2, J, dtype=dtype, generator=g)
    return u_hat, a, *betas


@both
def test_gradient_is_exact(name):
    u_hat, a, beta_u, beta_a = inputs(1, 1, 3, 2, 2)
    u_hat[0, 0, 1], a[0, 0, 0] = 0.0, 0.0  # a zero vote, and a child that is not there
    leaves = [x.requires_grad_() for x in (u_hat, a, beta_u, beta_a)]
    assert torch.autograd.gradcheck(lambda *x: ROUTINGS[name][0](*x, 3), leaves)


@both
def test_gradient_is_exact_with_windows(name):
    windows = Windows((3, 2), 2, 1)
    u_hat, a, beta_u, beta_a = (x.requires_grad_() for x in inputs(1, 2, 4, 2, 2))
    route = lambda *x: ROUTINGS[name][0](*x, 2, share=windows.share)  # noqa: E731
    assert torch.autograd.gradcheck(route, (u_hat, a, beta_u, beta_a))


@both
def test_order_of_children_does_not_matter_and_that_of_parents_is_kept(name):
    route = ROUTINGS[name][0]
    u_hat, a, *betas = inputs(I=7)
    upper = route(u_hat, a, *betas)
    order = torch.randperm(7)
    for x, y in zip(route(u_hat[:, :, order], a[:, :, order], *betas), upper, strict=True):
        torch.testing.assert_close(x, y)
    order = torch.tensor([2, 0, 1])
    found = route(u_hat[:, :, :, order], a, *(beta[order] for beta in betas))
    for x, y in zip(found, upper, strict=True):
        torch.testing.assert_close(x, y[:, :, order])


@both
def test_a_sample_does_not_depend_on_its_batch_mates(name):
    route = ROUTINGS[name][0]
    u_hat, a, *betas = inputs(N=3)
    whole, one = route(u_hat, a, *betas), route(u_hat[1:2], a[1:2], *betas)
    for x, y in zip(whole, one, strict=True):
        torch.testing.assert_close(x[1:2], y)


@both
def test_couplings_sum_to_one_and_the_trace_ends_at_the_result(name):
    route, trace_of = ROUTINGS[name]
    u_hat, a, *betas = inputs(P=2)
    trace, (v, a_upper) = trace_of(u_hat, a, *betas, 4), route(u_hat, a, *betas, 4)
    torch.testing.assert_close(trace.c.sum(dim=-1), torch.ones(4, 4, 5, dtype=torch.float64))
    torch.testing.assert_close(trace.b.softmax(dim=-1), trace.c)
    torch.testing.assert_close(trace.v[-1], v.flatten(0, 1))
    torch.testing.assert_close(trace.a[-1], a_upper.flatten(0, 1))
    assert torch.equal(trace.u_hat, u_hat.flatten(0, 1)) and (trace.b[0] == 0).all()
    words = {"em": "EM routing", "vb": "variational-Bayes routing"}
    assert trace[6:] == (False, False, words[name])
    assert len(trace_of(u_hat, a, *betas).v) == 3  # iterations, unless told otherwise
    torch.testing.assert_close(route(u_hat, a, *betas), route(u_hat, a, *betas, 3))


def test_first_iteration_of_em_is_mean_and_spread():
    u_hat, a, beta_u, beta_a = inputs()
    v, a_upper = em_routing(u_hat, a, beta_u, beta_a, 1, lam=2.0)
    w = (a / a.sum(dim=2, keepdim=True))[..., None, None]
    mean = (w * u_hat).sum(dim=2)
    variance = (w * (u_hat - mean.unsqueeze(2)).square()).sum(dim=2)
    torch.testing.assert_close(v, mean, rtol=1e-5, atol=1e-5)
    # All children there would give I / J to each parent; what is there is mean(a) of it.
    cost = (beta_u[:, None] + 0.5 * (variance + 5e-4).log()).sum(-1) * a.mean(dim=2, keepdim=True)
    expected = torch.sigmoid(2.0 * 0.05 * (beta_a - cost))
    torch.testing.assert_close(a_upper, expected, rtol=1e-5, atol=1e-5)


def test_em_of_two_children_and_two_parents_by_hand():
    # One number to a pose. Child 0 votes 0 and 1, child 1 votes 2 and 1: parent 1 is agreed on.
    u_hat = torch.tensor([[0.0, 1.0], [2.0, 1.0]], dtype=torch.float64).view(1, 1, 2, 2, 1)
    a, beta = torch.ones(1, 1, 2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    trace = em_routing_trace(u_hat, a, beta, beta, 2)
    variance = torch.tensor([1.0 + 5e-4, 5e-4], dtype=torch.float64)
    torch.testing.assert_close(
        trace.v[0, 0, :, 0], torch.ones(2, dtype=torch.float64), atol=1e-5, rtol=0
    )
    a_0 = torch.sigmoid(-0.05 * 0.5 * variance.log())
    torch.testing.assert_close(trace.a[0, 0], a_0, atol=1e-6, rtol=0)
    distance = torch.tensor([1.0, 0.0], dtype=torch.float64) / variance
    log_p = -0.5 * (distance + variance.log() + log(2 * pi))
    b = (a_0.log() + log_p).expand(2, 2)
    torch.testing.assert_close(trace.b[1, 0], b, atol=1e-4, rtol=0)
    assert (trace.c[1, 0, :, 1] > 0.97).all()


def test_em_finds_the_cluster_that_children_agree_on():
    torch.manual_seed(0)
    u_hat = 3 * torch.randn(1, 1, 40, 2, 16)
    u_hat[:, :, :20, 1] = 0.05 * torch.randn(20, 16) + 1.0
    v, a = em_routing(u_hat, torch.ones(1, 1, 40), torch.zeros(2), torch.zeros(2), 5)
    torch.testing.assert_close(v[0, 0, 1], torch.ones(16), atol=0.1, rtol=0)
    assert a[0, 0, 1] > 0.9 > 0.2 > a[0, 0, 0]


def test_first_iteration_of_vb_is_the_posterior():
    u_hat, a, beta_u, beta_a = inputs(N=1, I=6, J=2, E=3)
    v, a_upper = vb_routing(u_hat, a, beta_u, beta_a, 1)
    R = a.sum() / 2
    mu = (a[..., None, None] * u_hat / 2).sum(dim=2) / R
    torch.testing.assert_close(v, R * mu / (1 + R), rtol=1e-5, atol=1e-5)
    scatter = (a[..., None, None] / 2 * (u_hat - mu.unsqueeze(2)).square()).sum(dim=2)
    inverse_Psi = 1 + scatter + R / (1 + R) * mu.square()

    def digamma(x, h=1e-5):
        return (lgamma(x + h) - lgamma(x - h)) / (2 * h)

    degrees = sum(digamma((4 + float(R) - d) / 2) for d in range(3))
    log_lambda = degrees + 3 * log(2) - inverse_Psi.log().sum(dim=-1)
    H = 1.5 * log(2 * pi * e) - 0.5 * log_lambda
    log_pi = digamma(1 + float(R)) - digamma(2 + 2 * float(R))
    expected = torch.sigmoid(beta_a - (e**log_pi * H + beta_u))
    torch.testing.assert_close(a_upper, expected, rtol=1e-5, atol=1e-5)


def test_vb_logits_are_the_expected_log_probability():
    u_hat, a, *betas = inputs(N=1, I=6, J=2, E=3)
    trace = vb_routing_trace(u_hat, a, *betas, 2)
    # By sampling: precisions from the Wishart (chi-squared on the diagonal), means, weights.
    rho = trace.c[0, 0] * a[0, 0, :, None]
    R, V = rho.sum(0), u_hat[0, 0]
    mu = torch.einsum("ij,ije->je", rho, V) / R[:, None]
    kappa, nu, m = 1 + R, 4 + R, (R / (1 + R))[:, None] * mu
    Psi = 1 / (
        1 + torch.einsum("ij,ije->je", rho, (V - mu).square()) + (R / kappa)[:, None] * mu.square()
    )
    distance = (nu[:, None] * Psi * (V - m).square()).sum(-1) + 3 / kappa
    d = torch.arange(3)
    log_lambda = torch.digamma((nu[:, None] - d) / 2).sum(-1) + 3 * log(2) + Psi.log().sum(-1)
    log_pi = torch.digamma(1 + R) - torch.digamma((1 + R).sum())
    expected = log_pi + 0.5 * log_lambda - 1.5 * log(2 * pi) - 0.5 * distance
    torch.testing.assert_close(trace.b[1, 0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-3, 1.0, 1e6, 1e12, 1e30])
@pytest.mark.parametrize("activation", [0.0, 1e-30, 0.5, 1.0, "mixed"])
@both
def test_no_input_gives_nan(name, activation, scale):
    windows = Windows((4, 5), 2, 1)
    u_hat, a, *betas = inputs(2, 12, 8, 3, 4, torch.float32)
    u_hat = u_hat * scale
    u_hat[0] = scale  # all agree
    a = torch.randint(0, 2, a.shape).float() if activation == "mixed" else a * 0 + activation
    for share in (windows.share, None):
        leaves = [x.clone().requires_grad_() for x in (u_hat, a, *betas)]
        options = {} if share is None else {"share": share}
        v, a_upper = ROUTINGS[name][0](*leaves, 3, **options)
        assert v.isfinite().all() and ((a_upper >= 0) & (a_upper <= 1)).all()
        target = a_upper.sum() + (v / max(scale, 1.0)).sum()
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(target, leaves))


@pytest.mark.parametrize("name", ["em", "vb", "dynamic"])
def test_votes_are_the_only_thing_of_their_size_that_is_kept(name):
    u_hat, a, *betas = inputs(2, 2, 11, 3, 16, torch.float32)
    u_hat.requires_grad_()
    kept = {}

    def pack(x):
        if x.numel() >= u_hat.numel():
            kept[x.untyped_storage().data_ptr()] = x.shape
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        if name == "dynamic":
            v, a_upper = dynamic_routing_places(u_hat)
        else:
            v, a_upper = ROUTINGS[name][0](u_hat, a, *betas)
    assert set(kept) == {u_hat.untyped_storage().data_ptr()}
    (v.sum() + a_upper.sum()).backward()
    assert u_hat.grad.isfinite().all()


@both
def test_half_precision_is_routed_in_fp32(name):
    u_hat, a, *betas = inputs(I=50, dtype=torch.float32)
    half = u_hat.bfloat16()
    exact = ROUTINGS[name][0](half.float(), a, *betas)
    with torch.autocast("cpu", torch.bfloat16):
        found = ROUTINGS[name][0](half, a, *betas)
    for x, y in zip(found, exact, strict=True):
        assert x.dtype == torch.float32
        torch.testing.assert_close(x, y)


@both
def test_compiles_in_one_graph(name):
    windows = Windows((3, 4), 2, 1)
    leaves = [x.requires_grad_() for x in inputs(2, 6, 4, 3, 4)]

    def run(u_hat, a, beta_u, beta_a):
        return ROUTINGS[name][0](u_hat, a, beta_u, beta_a, 2, share=windows.share)

    compiled = torch.compile(run, fullgraph=True, backend="eager")
    results = []
    for f in (run, compiled):
        v, a_upper = f(*leaves)
        results.append((v, *torch.autograd.grad(v.square().sum() + a_upper.sum(), leaves)))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@both
def test_transforms(name):
    u_hat, a, *betas = inputs()
    route = lambda u_hat: ROUTINGS[name][0](u_hat, a, *betas)[0].square().sum()  # noqa: E731
    leaf = u_hat.clone().requires_grad_()
    (expected,) = torch.autograd.grad(route(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(route)(u_hat), expected)


def test_dynamic_routing_of_one_place_is_that_of_votes():
    u_hat = inputs(N=3, I=7)[0]
    v, a = dynamic_routing_places(u_hat, 3)
    expected = dynamic_routing_votes(u_hat[:, 0], 3)
    torch.testing.assert_close(v[:, 0], expected)
    torch.testing.assert_close(a[:, 0], expected.norm(dim=-1))
    trace = dynamic_routing_places_trace(u_hat, 3)
    torch.testing.assert_close(trace.v[-1], expected)
    leaf = inputs(1, 2, 3, 2, 2)[0].requires_grad_()
    assert torch.autograd.gradcheck(dynamic_routing_places, leaf)
    for route in (dynamic_routing_places, dynamic_routing_places_trace):
        with pytest.raises(UserError, match="num_iters must be at least 1, not 0"):
            route(u_hat, 0)


@both
def test_mistakes_are_sentences(name):
    for route in ROUTINGS[name]:
        check_mistakes(route)


def check_mistakes(route):
    u_hat, a, beta_u, beta_a = inputs()
    with pytest.raises(UserError, match="num_iters must be at least 1, not 0"):
        route(u_hat, a, beta_u, beta_a, 0)
    with pytest.raises(UserError, match=r"\[N, P, I, J, E\]"):
        route(u_hat[:, 0], a, beta_u, beta_a)
    with pytest.raises(UserError, match=r"give \[2, 1, 5\]"):
        route(u_hat, a[:, :, 1:], beta_u, beta_a)
    with pytest.raises(UserError, match=r"beta_a of shape \(2,\) must be \[3\]"):
        route(u_hat, a, beta_u, beta_a[1:])
    with pytest.raises(UserError, match=r"beta_u of shape \(2,\) must be \[3\]"):
        route(u_hat, a, beta_u[1:], beta_a)
    with pytest.raises(UserError, match="floating-point"):
        route(u_hat.long(), a, beta_u, beta_a)


def test_digamma_that_can_be_exported_is_that_of_torch():
    x = torch.cat([torch.linspace(1, 30, 200), torch.tensor([1e3, 1e6])]).double().requires_grad_()
    torch.testing.assert_close(digamma_series(x), torch.digamma(x), rtol=0, atol=1e-13)
    slopes = [torch.autograd.grad(f(x).sum(), x)[0] for f in (digamma_series, torch.digamma)]
    torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-8)  # torch's own is no better


@pytest.mark.parametrize("empty", range(5))
@pytest.mark.parametrize("name", ["em", "vb", "dynamic"])
def test_sizes_of_zero(name, empty):
    sizes = [2, 3, 4, 2, 3]
    sizes[empty] = 0
    N, P, _, J, E = sizes
    u_hat, a, *betas = inputs(*sizes)
    u_hat.requires_grad_()
    if name == "dynamic":
        v, a_upper = dynamic_routing_places(u_hat)
    else:
        v, a_upper = ROUTINGS[name][0](u_hat, a, *betas)
    (v.sum() + a_upper.sum()).backward()
    assert v.shape == (N, P, J, E) and a_upper.shape == (N, P, J)
    assert v.isfinite().all() and a_upper.isfinite().all() and u_hat.grad.shape == u_hat.shape


@both
def test_gradient_by_hand_is_that_of_the_reference(name):
    windows = Windows((3, 4), 2, 1)
    results = []
    for gradient in ("by hand", "by torch"):
        u_hat, a, *betas = (x.requires_grad_() for x in inputs(2, 6, 8, 3, 4))
        # Votes that depend on activations too, so that a gradient counted twice would show.
        votes = u_hat * a[..., None, None]
        v, a_upper = ROUTINGS[name][0](votes, a, *betas, share=windows.share)
        loss = v.square().sum() + a_upper.sum()
        leaves = (u_hat, a, *betas)
        first = torch.autograd.grad(loss, leaves, create_graph=gradient == "by torch")
        results.append(first)
    for x, y in zip(*results, strict=True):
        torch.testing.assert_close(x, y)
    assert first[0].requires_grad  # and it can be differentiated again
    second = torch.autograd.grad(first[0].square().sum(), leaves, allow_unused=True)
    assert all(x.isfinite().all() for x in second if x is not None)


@both
def test_gradient_of_the_gradient_is_exact(name):
    leaves = [x.requires_grad_() for x in inputs(1, 1, 3, 2, 2)]
    route = lambda *x: ROUTINGS[name][0](*x, 2)  # noqa: E731
    assert torch.autograd.gradgradcheck(route, leaves, atol=1e-4)


def test_parents_that_get_next_to_nothing_have_half_a_mean():
    # rho = LEAST_SUM, so that half of what the mean is divided by is there to keep it a number.
    votes = torch.full((1, 1, 1, 1, 2), 3.0, dtype=torch.float64)
    moments = moments_of(votes, torch.full((1, 1, 1, 1), 1e-6, dtype=torch.float64))
    torch.testing.assert_close(moments.mean, torch.full_like(moments.mean, 1.5))
