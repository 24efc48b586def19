from math import exp

import pytest
import torch

from capsnet.errors import UserError
from capsnet.layers import DepthwiseCaps, SelfAttentionCaps
from capsnet.ops import (
    exponential_squash,
    self_attention_routing,
    self_attention_routing_votes,
    self_attention_trace,
)

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def inputs(N=2, I=5, J=3, E=4, D=3, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    u = exponential_squash(torch.randn(N, I, D, generator=g, dtype=torch.float64)).to(dtype)
    W = torch.randn(I, J, E, D, generator=g, dtype=torch.float64).to(dtype)
    bias = torch.linspace(-0.2, 0.3, I * J, dtype=torch.float64).view(I, J).to(dtype)
    return u, W, bias


# The squash.


@pytest.mark.parametrize("dim", [-1, 1])
def test_gradient_of_the_squash_is_exact(dim):
    s = torch.randn(3, 5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: exponential_squash(x, dim), s)


def test_squashed_length_and_direction():
    s = torch.randn(50, 8, dtype=torch.float64) * torch.logspace(-9, 1, 50)[:, None]
    v = exponential_squash(s)
    length, before = v.norm(dim=1), s.norm(dim=1)
    assert (length < 1).all()
    torch.testing.assert_close(length, -torch.expm1(-before))
    torch.testing.assert_close(v / length[:, None], s / before[:, None])


def test_squash_by_hand():
    alone = exponential_squash(torch.tensor(-3.0))
    torch.testing.assert_close(alone, torch.tensor(-3.0).expm1())  # -(1 - e^-3)
    v = exponential_squash(torch.tensor([3.0, 4.0]))
    torch.testing.assert_close(v, (1 - exp(-5)) * torch.tensor([0.6, 0.8]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_squash_is_the_identity_at_zero(dtype):
    s = torch.zeros(2, 3, dtype=dtype, requires_grad=True)
    v = exponential_squash(s)
    v.sum().backward()
    assert v.dtype == s.grad.dtype == dtype and (v == 0).all() and (s.grad == 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("end", ["tiny", "max"])
def test_squash_has_no_end_of_its_range(dtype, end):
    size = getattr(torch.finfo(dtype), end)
    s = torch.tensor([[size, 0.0], [-size, size]], dtype=dtype, requires_grad=True)
    v = exponential_squash(s)
    unit = torch.tensor([[1.0, 0.0], [-(0.5**0.5), 0.5**0.5]], dtype=dtype)
    torch.testing.assert_close(v, unit if end == "max" else s.detach())
    v[:, 1].sum().backward()
    assert s.grad.isfinite().all()
    if end == "tiny":
        expected = torch.tensor([[0.0, 1.0]], dtype=dtype).expand(2, 2)
        torch.testing.assert_close(s.grad, expected, rtol=0.01, atol=float(size))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_nothing_is_squashed_to_nothing(shape):
    assert exponential_squash(torch.zeros(shape)).shape == shape


# The routing.


def test_gradient_is_exact():
    u, W, bias = inputs()
    u[0, 1] = 0  # a dead lower capsule, and a sample of nothing but dead ones
    u[1] = 0
    arguments = [x.requires_grad_() for x in (u, W, bias)]
    assert torch.autograd.gradcheck(
        lambda u, W, bias: self_attention_routing(u, W, bias=bias), arguments
    )


def test_is_the_attention_of_all_pairs():
    # As attention is written: the matrix of all dot products of votes for one parent, summed.
    u, W, bias = inputs()
    u_hat = torch.einsum("ijed,nid->njie", W, u)
    A = u_hat @ u_hat.transpose(-1, -2) / 2  # [N, J, I, I], sqrt(E) = 2
    c = A.sum(dim=-1).softmax(dim=1) + bias.T
    s = (c.unsqueeze(-1) * u_hat).sum(dim=2)
    v = s / s.norm(dim=-1, keepdim=True) * (1 - (-s.norm(dim=-1, keepdim=True)).exp())
    torch.testing.assert_close(self_attention_routing(u, W, bias=bias), v)


def test_by_hand():
    # Two lower capsules that agree on parent 0 and contradict each other on parent 1; E = 1.
    # Votes: u_hat_00 = u_hat_10 = 1, u_hat_01 = 1, u_hat_11 = -1; their sums are 2 and 0.
    # b_i0 = 2, b_i1 = 0; c_i0 = 1 / (1 + e^-2) = 0.880797; s = (2 · 0.880797, 0).
    u = torch.ones(1, 2, 1, dtype=torch.float64)
    W = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64).view(2, 2, 1, 1)
    v = self_attention_routing(u, W).flatten().tolist()
    assert v == pytest.approx([1 - exp(-2 * 0.880797), 0.0], abs=1e-6)
    # A bias of 0.1 on the coupling (0, 0) is added after the softmax, and not before.
    bias = torch.tensor([[0.1, 0.0], [0.0, 0.0]], dtype=torch.float64)
    v = self_attention_routing(u, W, bias=bias).flatten().tolist()
    assert v == pytest.approx([1 - exp(-2 * 0.880797 - 0.1), 0.0], abs=1e-6)


def test_laws():
    u, W, bias = inputs(N=4)
    v = self_attention_routing(u, W, bias=bias)
    i, j = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 0, 1])
    torch.testing.assert_close(self_attention_routing(u[:, i], W[i], bias=bias[i]), v)
    moved = self_attention_routing(u, W[:, j], bias=bias[:, j])
    torch.testing.assert_close(moved, v[:, j])
    for n in range(4):
        alone = self_attention_routing(u[n : n + 1], W, bias=bias)
        torch.testing.assert_close(alone, v[n : n + 1])
    assert (v.norm(dim=-1) < 1).all()
    # Where the votes for all parents are the same, each parent gets the same share.
    even = self_attention_routing(u, W[:, :1].expand(-1, 3, -1, -1))
    mean = exponential_squash(torch.einsum("ied,nid->ne", W[:, 0], u) / 3)
    torch.testing.assert_close(even, mean[:, None].expand(-1, 3, -1))


def test_trace_ends_where_routing_ends():
    u, W, bias = inputs()
    trace = self_attention_trace(u, W, bias=bias)
    torch.testing.assert_close(trace.v[-1], self_attention_routing(u, W, bias=bias))
    assert trace.b.shape == trace.c.shape == (1, 2, 5, 3) and trace.s.shape == (1, 2, 3, 4)
    torch.testing.assert_close(trace.c, trace.b.softmax(dim=-1))
    torch.testing.assert_close(trace.a, trace.v.norm(dim=-1))
    assert trace.biased and not self_attention_trace(u, W).biased
    added = torch.einsum("ij,nije->nje", bias, trace.u_hat)
    sums = torch.einsum("nij,nije->nje", trace.c[0], trace.u_hat)
    torch.testing.assert_close(trace.s[0], sums + added)


def test_votes_of_many_places_with_a_share_of_ones_own():
    u, W, bias = inputs()
    u_hat = self_attention_trace(u, W).u_hat
    v = self_attention_routing_votes(u_hat, bias=bias)
    torch.testing.assert_close(v, self_attention_routing(u, W, bias=bias))
    places = self_attention_routing_votes(torch.stack([u_hat, 2 * u_hat], dim=1), bias=bias)
    torch.testing.assert_close(places[:, 0], v)
    torch.testing.assert_close(self_attention_routing_votes(u_hat[0], bias=bias), v[0])
    even = self_attention_routing_votes(u_hat, share=lambda b: torch.full_like(b, 0.5))
    torch.testing.assert_close(even, exponential_squash(u_hat.sum(dim=1) / 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e4, 1e15])
def test_nothing_is_ever_nan(size, dtype):
    u, W, bias = (x.detach() for x in inputs(dtype=dtype))
    for changed in (u * size, torch.full_like(u, size)):
        leaves = [x.clone().requires_grad_() for x in (changed, W, bias)]
        v = self_attention_routing(leaves[0], leaves[1], bias=leaves[2])
        v.sum().backward()
        assert v.dtype == dtype and v.isfinite().all() and (v.norm(dim=-1) < 1.01).all()
        assert all(x.grad.isfinite().all() for x in leaves)


def test_votes_are_kept_once():
    u, W, bias = inputs(N=4, I=7, J=5, E=6, dtype=torch.float32)
    size, kept = 4 * 7 * 5 * 6, []
    leaves = [x.requires_grad_() for x in (u, W, bias)]

    def keep(x):
        kept.append((x.untyped_storage().data_ptr(), x.untyped_storage().nbytes() // 4))
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        v = self_attention_routing(leaves[0], leaves[1], bias=leaves[2])
    votes = {pointer for pointer, numbers in kept if numbers >= size}
    assert len(votes) == 1 and W.numel() < size
    v.sum().backward()


def test_compiles_and_transforms():
    u, W, bias = inputs(dtype=torch.float32)
    v = self_attention_routing(u, W, bias=bias)
    compiled = torch.compile(self_attention_routing, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(u, W, bias=bias), v)
    each = torch.func.vmap(lambda x: self_attention_routing(x[None], W, bias=bias)[0])(u)
    torch.testing.assert_close(each, v)


def test_autocast_rounds_votes_and_nothing_else():
    u, W, bias = inputs(dtype=torch.float32)
    v = self_attention_routing(u, W, bias=bias)
    with torch.autocast("cpu", torch.bfloat16):
        found = self_attention_routing(u, W, bias=bias)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, v, rtol=0, atol=0.02)


def test_mistakes_are_sentences():
    u, W, bias = inputs()
    for wrong in (u[:, 1:], u[..., :2], u[0]):
        with pytest.raises(UserError, match=r"u must be \[N, 5, 3\]"):
            self_attention_routing(wrong, W)
    with pytest.raises(UserError, match=r"W .*must be \[I, J, E, D\]"):
        self_attention_trace(u, W[0])
    with pytest.raises(UserError, match="give floating-point numbers"):
        self_attention_routing(u.long(), W)
    with pytest.raises(UserError, match=r"must be \[5, 3\]"):
        self_attention_routing(u, W, bias=bias.T)
    with pytest.raises(UserError, match=r"must be \[\.\.\., I, J, E\]"):
        self_attention_routing_votes(u[0])
    for route, arguments in (
        (self_attention_routing_votes, (torch.zeros(2, 5, 3, 4),)),
        (self_attention_trace, (u, W)),
    ):
        with pytest.raises(UserError, match=r"must be \[5, 3\]"):
            route(*arguments, bias=bias.T)


# The layers.


def test_depthwise_capsule_is_its_channels_at_one_position():
    layer = DepthwiseCaps(12, dim=4, kernel_size=3, stride=2)
    features = torch.randn(2, 12, 9, 11)
    u = layer(features)
    assert u.shape == (2, 4 * 5 * 3, 4) and layer.conv.weight.shape == (12, 1, 3, 3)
    x = layer.conv(features)
    for row, column, kind in ((0, 0, 0), (3, 4, 2), (2, 1, 1)):
        s = x[:, kind * 4 : kind * 4 + 4, row, column]
        torch.testing.assert_close(u[:, (row * 5 + column) * 3 + kind], exponential_squash(s))


def test_self_attention_caps_is_the_routing():
    layer, u = SelfAttentionCaps(6, 4, num_classes=5, dim=7), torch.randn(3, 6, 4)
    assert (layer.bias == 0).all() and layer.W.shape == (6, 5, 7, 4)
    torch.nn.init.normal_(layer.bias)
    v = self_attention_routing(u, layer.W, bias=layer.bias)
    torch.testing.assert_close(layer(u), v)
    torch.testing.assert_close(layer.trace(u).v[-1], v)
    assert "6 capsules of 4 -> 5 of 7" in repr(layer)
