"""Routing below what torch does to functions: second gradients, torch.func, export, compile."""

import pytest
import torch
from routed_inputs import BACKENDS, inputs, small_bias
from torch.autograd import forward_ad

from capsnet.errors import UserError
from capsnet.ops import dynamic_routing, squash

# Second derivatives, sizes, dtypes and transforms: alike in every version.


@pytest.mark.parametrize("leaky", [False, True])
@pytest.mark.parametrize("gradient", ["full", "last"])
def test_gradient_of_the_gradient_is_that_of_the_reference(gradient, leaky):
    results = []
    for backend in BACKENDS:
        u, W, bias = (x.requires_grad_() for x in (*inputs(), small_bias()))
        options = {"gradient": gradient, "leaky": leaky, "backend": backend}
        # W depends on u too, so that a gradient counted twice would show.
        v = dynamic_routing(u, W * u.mean(), bias=bias, **options)
        loss = v.sum()
        (du,) = torch.autograd.grad(loss, u, create_graph=True)
        results.append((du, *torch.autograd.grad(loss + du.square().sum(), (u, W, bias))))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_of_the_gradient_is_exact(backend):
    arguments = [x.requires_grad_() for x in (*inputs(1, 3, 2, 2, 2), small_bias(2, 2))]

    def route(u, W, bias):
        return dynamic_routing(u, W, bias=bias, backend=backend)

    assert torch.autograd.gradgradcheck(route, arguments)


def test_gradient_of_the_gradient_of_dead_capsules_is_finite():
    u, W = inputs()
    u = torch.zeros_like(u).requires_grad_()
    (du,) = torch.autograd.grad(dynamic_routing(u, W).sum(), u, create_graph=True)
    assert (torch.autograd.grad(du.sum(), u)[0] == 0).all()


class Net(torch.nn.Module):
    """Squash and routing, as a model has them."""

    def __init__(self, backend="auto"):
        super().__init__()
        self.W = torch.nn.Parameter(inputs()[1])
        self.bias = torch.nn.Parameter(small_bias())
        self.backend = backend

    def forward(self, x):
        return dynamic_routing(squash(x), self.W, bias=self.bias, backend=self.backend)


def test_transforms():
    net, x = Net(), inputs()[0].requires_grad_()
    v = net(x)
    (expected,) = torch.autograd.grad(v.square().sum(), x)
    loss = lambda x: net(x).square().sum()  # noqa: E731
    x = x.detach()
    torch.testing.assert_close(torch.func.grad(loss)(x), expected)
    torch.testing.assert_close(torch.func.vmap(lambda one: net(one[None])[0])(x), v)
    jacobian = torch.func.jacrev(net)(x)
    torch.testing.assert_close(torch.einsum("nje,njemid->mid", 2 * v, jacobian), expected)
    torch.testing.assert_close(torch.func.jacfwd(net)(x), jacobian)
    # The forward pass is not transformed here, only the backward pass is.
    batched = torch.autograd.functional.jacobian(net, x, vectorize=True)
    torch.testing.assert_close(batched, jacobian)
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    each = torch.func.vmap(
        torch.func.grad(lambda p, one: torch.func.functional_call(net, p, one[None]).sum()),
        in_dims=(None, 0),
    )(parameters, x)
    whole = torch.autograd.grad(net(x).sum(), list(net.parameters()))
    for a, b in zip(each.values(), whole, strict=True):
        torch.testing.assert_close(a.sum(dim=0), b)


@pytest.mark.parametrize("backend", ["chunked", "fused"])
def test_what_cannot_be_transformed_says_so(backend):
    net, (x, _) = Net(backend), inputs()
    for attempt in (torch.func.vmap(lambda one: net(one[None])), lambda x: torch.jit.trace(net, x)):
        with pytest.raises(UserError, match="use 'auto' or 'reference' there"):
            attempt(x)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_exports(grad, strict):
    net, (x, _) = Net(), inputs(N=4)
    with torch.set_grad_enabled(grad):
        any_batch = ({0: torch.export.Dim("N", min=2)},)
        exported = torch.export.export(net, (x,), dynamic_shapes=any_batch, strict=strict)
    assert not any("capsnet" in str(node.target) for node in exported.graph.nodes)
    torch.testing.assert_close(exported.module()(x[:3]), net(x[:3]))


def test_traces():
    net, (x, _) = Net(), inputs()
    torch.testing.assert_close(torch.jit.trace(net, x)(x[:1]), net(x[:1]))


def check_compiled(**options):
    net, x = Net(), inputs()[0].requires_grad_()
    compiled = torch.compile(net, fullgraph=True, **options)
    leaves = (x, *net.parameters())
    results = []
    for f in (net, compiled):
        v = f(x)
        results.append((v, *torch.autograd.grad(v.square().sum(), leaves)))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
    return compiled


def test_compiles_to_the_chunked_routing_both_ways():
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    called = []

    def note(graph, _):
        called.extend(str(node.target) for node in graph.graph.nodes)
        return make_boxed_func(graph.forward)

    check_compiled(backend=aot_autograd(fw_compiler=note, bw_compiler=note))
    names = [name for name in called if "capsnet" in name]
    assert names == ["capsnet.chunked_forward.default", "capsnet.chunked_backward.default"]


def test_compiles_for_any_batch():
    compiled = check_compiled(backend="aot_eager", dynamic=True)
    x = inputs(N=7)[0]
    torch.testing.assert_close(compiled(x), Net()(x))


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_shapes_are_known_without_numbers(backend):
    u, W = (x.to("meta").requires_grad_() for x in inputs())
    v = dynamic_routing(u, W, backend=backend)
    v.sum().backward()
    assert v.shape == (2, 3, 4) and v.is_meta
    assert u.grad.shape == u.shape and W.grad.shape == W.shape


def test_derivatives_along_a_direction():
    u, W = inputs()
    along = torch.ones_like(u)
    with forward_ad.dual_level():
        v, dv = forward_ad.unpack_dual(dynamic_routing(forward_ad.make_dual(u, along), W))
    step = 1e-6
    ahead, behind = (dynamic_routing(u + sign * step * along, W) for sign in (1, -1))
    torch.testing.assert_close(dv, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(v, dynamic_routing(u, W))
