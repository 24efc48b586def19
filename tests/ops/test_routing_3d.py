import pytest
import torch

from capsnet.errors import UserError
from capsnet.layers import CapsConv, RoutedConv
from capsnet.layers.caps_conv import as_capsule_map, as_map
from capsnet.ops import (
    dynamic_routing_votes,
    routing_3d,
    routing_3d_trace,
    routing_3d_votes,
    squash,
)

OVER = ["capsule", "map"]


def inputs(N=2, H=2, W=3, I=3, D=2, J=2, E=4, K=3, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    u = squash(torch.randn(N, H, W, I, D, generator=g, dtype=torch.float64)).to(dtype)
    weight = torch.randn(J, E, D, K, K, generator=g, dtype=torch.float64).to(dtype)
    bias = torch.linspace(-0.2, 0.3, J * E, dtype=torch.float64).view(J, E).to(dtype)
    return u, weight, bias


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("num_iters", [1, 3])
def test_gradient_is_exact(over, num_iters):
    u, W, bias = inputs(I=2, J=2, E=3)
    u[0, 1, 1, 0] = 0  # a dead lower capsule
    arguments = [x.requires_grad_() for x in (u, W, bias)]

    def route(u, W, bias):
        return routing_3d(u, W, num_iters, bias=bias, squash_over=over)

    assert torch.autograd.gradcheck(route, arguments)


@pytest.mark.parametrize("over", OVER)
def test_zero_input_has_finite_value_and_gradient(over):
    u, W, _ = inputs(dtype=torch.float32)
    u = torch.zeros_like(u).requires_grad_()
    v = routing_3d(u, W.requires_grad_(), squash_over=over)
    v.sum().backward()
    assert (v == 0).all() and (u.grad == 0).all() and (W.grad == 0).all()


def test_votes_are_those_of_a_kernel_as_deep_as_a_capsule():
    u, W, _ = inputs()
    u_hat = routing_3d_trace(u, W, 1).u_hat  # [N, I, P * J, E]
    # A 3-D convolution over (channel, row, column) that moves on by a whole capsule.
    deep = u.permute(0, 3, 4, 1, 2).flatten(1, 2).unsqueeze(1)  # [N, 1, I * D, H, W]
    kernel = W.flatten(0, 1).unsqueeze(1)  # [J * E, 1, D, K, K]
    y = torch.nn.functional.conv3d(deep, kernel, stride=(2, 1, 1), padding=(0, 1, 1))
    y = y.unflatten(1, (2, 4)).permute(0, 3, 4, 5, 1, 2)  # [N, I, H, W, J, E]
    torch.testing.assert_close(u_hat, y.flatten(2, 4))


@pytest.mark.parametrize("num_iters", [1, 2, 4])
def test_is_dynamic_routing_to_every_type_at_every_place(num_iters):
    u, W, bias = inputs()
    trace = routing_3d_trace(u, W, num_iters, bias=bias)
    v = dynamic_routing_votes(trace.u_hat, num_iters, bias=bias.repeat(6, 1))
    torch.testing.assert_close(routing_3d(u, W, num_iters, bias=bias).flatten(1, 3), v)
    torch.testing.assert_close(trace.v[-1], v)
    torch.testing.assert_close(trace.a, trace.v.norm(dim=-1))
    torch.testing.assert_close(trace.c, trace.b.softmax(dim=-1))
    assert trace.c.shape == (num_iters, 2, 3, 12) and trace.biased and (trace.b[0] == 0).all()
    torch.testing.assert_close(trace.c.sum(dim=-1), torch.ones(num_iters, 2, 3).double())


def test_by_hand():
    # One place, two types that agree on parent 0 and contradict each other on parent 1; E = 1:
    # the case of tests/ops/test_dynamic.py, whose three iterations give 0.937562.
    u_hat = torch.tensor([[2.0, 1.0], [2.0, -1.0]], dtype=torch.float64).view(1, 1, 2, 2, 1)
    assert routing_3d_votes(u_hat, 3).flatten().tolist() == pytest.approx([0.937562, 0], abs=1e-6)
    # Two places share the same lower capsules: half of each goes to either, where all agrees.
    both = routing_3d_votes(u_hat.expand(1, 2, 2, 2, 1), 1).flatten().tolist()
    assert both == pytest.approx([0.5, 0, 0.5, 0])  # s = 4 / 4 = 1, v = 1 / 2


def test_one_iteration_is_the_squashed_even_share():
    u, W, bias = inputs()
    s = routing_3d_trace(u, W, 1).u_hat.sum(dim=1) / 12 + bias.repeat(6, 1)
    torch.testing.assert_close(routing_3d(u, W, 1, bias=bias).flatten(1, 3), squash(s))


def test_a_map_is_squashed_as_one_vector_for_each_type():
    u, W, bias = inputs()
    v = routing_3d(u, W, 1, bias=bias, squash_over="map")
    s = routing_3d_trace(u, W, 1, bias=bias).s[0].view(2, 2, 3, 2, 4)
    for j in range(2):
        long = squash(s[:, :, :, j].flatten(1)).view(2, 2, 3, 4)
        torch.testing.assert_close(v[:, :, :, j], long)
    trace = routing_3d_trace(u, W, 3, bias=bias, squash_over="map")
    v = routing_3d(u, W, 3, bias=bias, squash_over="map")
    torch.testing.assert_close(trace.v[-1], v.flatten(1, 3))


@pytest.mark.parametrize("over", OVER)
def test_laws(over):
    u, W, bias = inputs(N=3)
    v = routing_3d(u, W, bias=bias, squash_over=over)
    i, j = torch.tensor([2, 0, 1]), torch.tensor([1, 0])
    torch.testing.assert_close(routing_3d(u[..., i, :], W, bias=bias, squash_over=over), v)
    moved = routing_3d(u, W[j], bias=bias[j], squash_over=over)
    torch.testing.assert_close(moved, v[..., j, :])
    for n in range(3):
        alone = routing_3d(u[n : n + 1], W, bias=bias, squash_over=over)
        torch.testing.assert_close(alone, v[n : n + 1])
    assert (v.norm(dim=-1) < 1).all()
    assert routing_3d(u[:0], W, bias=bias, squash_over=over).shape == (0, *v.shape[1:])


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e4, 1e15])
def test_nothing_is_ever_nan(size, dtype, over):
    u, W, bias = inputs(dtype=dtype)
    for changed in (u * size, torch.full_like(u, size)):
        leaves = [x.clone().requires_grad_() for x in (changed, W, bias)]
        v = routing_3d(leaves[0], leaves[1], bias=leaves[2], squash_over=over)
        v.sum().backward()
        assert v.dtype == dtype and v.isfinite().all() and (v.norm(dim=-1) < 1.01).all()
        assert all(x.grad.isfinite().all() for x in leaves)


def test_votes_are_kept_once():
    u, W, bias = inputs(N=4, I=5, J=3, E=8, dtype=torch.float32)
    size, kept = 4 * 6 * 5 * 3 * 8, []
    leaves = [x.requires_grad_() for x in (u, W, bias)]

    def keep(x):
        kept.append((x.untyped_storage().data_ptr(), x.untyped_storage().nbytes() // 4))
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        v = routing_3d(leaves[0], leaves[1], 4, bias=leaves[2])
    assert len({pointer for pointer, numbers in kept if numbers >= size}) == 1
    v.sum().backward()


def test_compiles_and_runs_in_half_precision():
    u, W, bias = inputs(dtype=torch.float32)
    v = routing_3d(u, W, bias=bias)
    compiled = torch.compile(routing_3d, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(u, W, bias=bias), v)
    with torch.autocast("cpu", torch.bfloat16):
        found = routing_3d(u, W, bias=bias)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, v, rtol=0, atol=0.02)


def test_mistakes_are_sentences():
    u, W, bias = inputs()
    with pytest.raises(UserError, match="num_iters must be at least 1"):
        routing_3d(u, W, 0)
    with pytest.raises(UserError, match="'capsule' or 'map'"):
        routing_3d(u, W, squash_over="type")
    with pytest.raises(UserError, match=r"u must be \[N, H, W, I, 2\]"):
        routing_3d_trace(u[..., :1], W)
    for wrong in (W[..., :2], W[..., :2, :2], W[0]):
        with pytest.raises(UserError, match="with an odd K"):
            routing_3d(u, wrong)
    with pytest.raises(UserError, match="give floating-point numbers"):
        routing_3d(u.long(), W)
    with pytest.raises(UserError, match=r"must be \[2, 4\]"):
        routing_3d(u, W, bias=bias.T)
    with pytest.raises(UserError, match=r"must be \[N, P, I, J, E\]"):
        routing_3d_votes(u[0])


# The layers.


def test_capsules_of_a_map_are_neighbouring_channels():
    x = torch.randn(2, 12, 3, 5)
    capsules = as_capsule_map(x, 4)
    assert torch.equal(capsules[:, 2, 1, 1], x[:, 4:8, 2, 1])
    assert torch.equal(as_map(capsules), x)


@pytest.mark.parametrize("stride", [1, 2])
def test_caps_conv_is_a_squashed_convolution(stride):
    layer, x = CapsConv(6, types=3, dim=4, stride=stride), torch.randn(2, 6, 7, 5)
    y = torch.nn.functional.conv2d(x, layer.conv.weight, stride=stride, padding=1)
    torch.testing.assert_close(layer(x).unflatten(1, (3, 4)), squash(y.unflatten(1, (3, 4)), 2))
    assert [name for name, _ in layer.named_parameters()] == ["conv.weight"]
    variance = CapsConv(64, types=8, dim=8).conv.weight.var().item()
    assert variance == pytest.approx(1 / (3 * 64), rel=0.05)


def test_routed_conv_is_the_routing():
    layer, x = RoutedConv(4, types=2, dim=5, num_iters=2), torch.randn(2, 12, 3, 4)
    assert (layer.bias == 0.1).all() and layer.W.shape == (2, 5, 4, 3, 3)
    v = routing_3d(as_capsule_map(x, 4), layer.W, 2, bias=layer.bias)
    torch.testing.assert_close(layer(x), as_map(v))
    assert "capsules of 4 -> 2 of 5" in repr(layer)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_trace_is_of_the_type_of_the_result(dtype):
    u, W, bias = inputs(dtype=dtype)
    trace = routing_3d_trace(u, W, bias=bias)
    assert {x.dtype for x in (trace.b, trace.c, trace.s, trace.v, trace.a)} == {dtype}
    assert routing_3d(u, W, bias=bias).dtype == dtype
    assert trace[6:] == (False, True, "3-D routing") and not routing_3d_trace(u, W).biased
    assert len(trace.v) == 3
    N, I, parents, E = trace.u_hat.shape
    assert trace.s.shape == trace.v.shape == (3, N, parents, E)
    assert trace.b.shape == trace.c.shape == (3, N, I, parents)
