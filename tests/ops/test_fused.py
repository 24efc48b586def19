"""The fused kernels against the fp64 reference: values, every gradient, and how they are used.

On a machine without a GPU a few small cases run in Triton's interpreter, in another process since
the interpreter must be chosen before Triton is imported. With a GPU: `pytest -m gpu`.
"""

from itertools import product
from typing import NamedTuple

import pytest
import torch
from machine import DEVICE, gpu, interpreted
from torch import Tensor

from capsnet.errors import UserError
from capsnet.ops import dynamic_routing
from capsnet.ops.dynamic.reference import route_reference

pytest.importorskip("triton", reason="the fused routing needs Triton")


class Case(NamedTuple):
    N: int = 3
    I: int = 9
    J: int = 3
    E: int = 16
    D: int = 8
    num_iters: int = 3
    bias: bool = True
    gradient: str = "full"
    leaky: bool = False
    scale: float = 1.0


SMALL = [
    Case(),
    Case(N=1, I=1, J=1, E=2, D=2, num_iters=1),
    Case(N=2, I=5, J=2, E=5, D=3, leaky=True),
    Case(N=18, I=17, J=2, num_iters=2, bias=False, gradient="last"),
    Case(N=2, I=4, J=12, E=3, D=4, num_iters=2, leaky=True),
    Case(N=2, I=3, J=2, E=32, D=32, num_iters=2),
    Case(N=2, I=33, J=2, E=4, D=2, num_iters=5, gradient="last", leaky=True),
    Case(N=2, J=2, scale=1e4),
    Case(N=2, J=2, scale=0.0),
]
LARGE = [
    *SMALL,
    Case(N=64, I=1152, J=10),
    Case(N=130, I=1153, J=10, num_iters=2, leaky=True),
    Case(N=5, I=1000, J=47, E=8, D=4, leaky=True),
    Case(N=65, I=63, J=10, num_iters=5, gradient="last"),
    Case(N=33, I=40, J=7, E=24, D=12),
    Case(N=2, I=40, J=100, E=16, D=8, num_iters=2),
    Case(N=20, I=64, J=10, scale=1e3),
]


def inputs(case: Case, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """u, W, bias and the gradient at v, all rounded to `dtype`."""
    draw = torch.Generator().manual_seed(sum(case[:5]))
    u = 0.3 * case.scale * torch.randn(case.N, case.I, case.D, generator=draw)
    W = 0.3 * torch.randn(case.I, case.J, case.E, case.D, generator=draw)
    bias = 0.1 * torch.randn(case.J, case.E, generator=draw) if case.bias else None
    dv = torch.randn(case.N, case.J, case.E, generator=draw)
    return tuple(None if x is None else x.to(DEVICE, dtype) for x in (u, W, bias, dv))  # type: ignore[return-value]


def run(route, case: Case, tensors, dtype: torch.dtype) -> list[Tensor]:
    """v and the gradients of u, W and bias, computed in `dtype`."""
    leaves = [x if x is None else x.to(dtype, copy=True).requires_grad_() for x in tensors[:3]]
    u, W, bias = leaves
    v = route(u, W, case.num_iters, bias, case.gradient, case.leaky)
    v.backward(tensors[3].to(dtype))
    return [v.detach(), *(x.grad for x in leaves if x is not None)]


def check(case: Case, dtype: torch.dtype) -> None:
    from capsnet.ops.dynamic.fused import route_fused

    tensors = inputs(case, dtype)
    truth = run(route_reference, case, tensors, torch.float64)
    plain = run(route_reference, case, tensors, dtype)
    fused = run(route_fused, case, tensors, dtype)
    again = run(route_fused, case, tensors, dtype)
    for name, t, p, f, a in zip(
        ("v", "du", "dW", "dbias"), truth, plain, fused, again, strict=False
    ):
        assert f.dtype == dtype and f.shape == t.shape
        assert torch.equal(f, a), f"{name} differs from run to run"
        size = t.abs().max().item()
        error, allowed = ((x.double() - t).abs().max().item() for x in (f, p))
        # Where the reference happens to be exact, a few roundings of the largest value remain;
        # logits grow with the scale of u, and exp turns their rounding into a relative error.
        floor = 8 * torch.finfo(dtype).eps * max(1.0, case.scale) * size
        assert error <= (2 if name == "v" else 3) * allowed + floor, f"{name}: {error} > {allowed}"


@pytest.mark.long
def test_in_interpreter(pass_in_interpreter) -> None:
    pass_in_interpreter()


@interpreted
@pytest.mark.parametrize("case", SMALL)
def test_interpreted_equals_reference(case: Case) -> None:
    check(case, torch.float32)


@interpreted
def test_interpreted_half_precision() -> None:
    # fp16 stands for both: the interpreter multiplies bf16 wrongly.
    check(Case(I=17, leaky=True), torch.float16)


@interpreted
def test_interpreted_not_contiguous() -> None:
    check_not_contiguous()


@interpreted
def test_interpreted_operators_are_registered_properly() -> None:
    check_operators()


@interpreted
def test_interpreted_autocast() -> None:
    check_autocast(torch.float16)


@interpreted
def test_interpreted_is_alike() -> None:
    check_second_gradient()
    check_sizes_of_zero()
    check_dtypes()
    check_refusals()


@pytest.mark.gpu
@gpu
def test_is_alike() -> None:
    check_second_gradient()
    check_sizes_of_zero()
    check_dtypes()
    check_refusals()


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize(
    "case,dtype",
    [
        *product(LARGE, (torch.float32, torch.bfloat16)),
        (Case(), torch.float16),
        (Case(N=64, I=1152, J=10), torch.float16),
    ],
)
def test_equals_reference(case: Case, dtype: torch.dtype) -> None:
    check(case, dtype)


@pytest.mark.gpu
@gpu
def test_not_contiguous() -> None:
    check_not_contiguous()


@pytest.mark.gpu
@gpu
def test_operators_are_registered_properly() -> None:
    check_operators()


@pytest.mark.gpu
@gpu
def test_autocast() -> None:
    check_autocast(torch.bfloat16)


@pytest.mark.gpu
@gpu
def test_compiles_without_a_graph_break() -> None:
    from capsnet.ops.dynamic.fused import route_fused

    case = Case(N=16, I=40)
    tensors = inputs(case, torch.bfloat16)
    compiled = torch.compile(route_fused, fullgraph=True)
    for expected, got in zip(
        run(route_fused, case, tensors, torch.bfloat16),
        run(compiled, case, tensors, torch.bfloat16),
        strict=True,
    ):
        assert torch.equal(expected, got)


@pytest.mark.gpu
@gpu
def test_captures_into_a_cuda_graph() -> None:
    from capsnet.ops.dynamic.fused import route_fused

    case = Case(N=16, I=40)
    u, W, bias, dv = inputs(case, torch.bfloat16)
    u.requires_grad_()

    def step() -> tuple[Tensor, Tensor]:
        v = route_fused(u, W, 3, bias, "full", False)
        return v, torch.autograd.grad(v, u, dv)[0]

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        u.copy_(torch.randn_like(u))
    graph.replay()
    for expected, got in zip(step(), captured, strict=True):
        assert torch.equal(expected, got)


@pytest.mark.gpu
@gpu
def test_memory_stays_near_the_inputs() -> None:
    from capsnet.ops.dynamic.fused import route_fused

    case = Case(N=512, I=1152, J=10)
    u, W, _, dv = inputs(case, torch.bfloat16)
    u.requires_grad_()
    W.requires_grad_()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    torch.autograd.grad(route_fused(u, W, 3, None, "full", False), (u, W), dv)
    extra = torch.cuda.max_memory_allocated() - before
    own = sum(x.numel() * x.element_size() for x in (u, W))
    assert extra <= 1.25 * 2 * own


def check_not_contiguous() -> None:
    from capsnet.ops.dynamic.fused import route_fused

    u, W, bias, _ = inputs(Case(), torch.float32)
    strided = (
        u.transpose(0, 1).contiguous().transpose(0, 1),
        W.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        bias.T.contiguous().T,
    )
    assert not any(x.is_contiguous() for x in strided)
    expected = route_fused(u, W, 3, bias, "full", False)
    assert torch.equal(expected, route_fused(*strided[:2], 3, strided[2], "full", False))


def check_operators() -> None:
    """Schema, fake tensors and autograd registration, as torch.compile relies on them."""
    from capsnet.ops.dynamic.fused import route_forward

    u, W, bias, _ = inputs(Case(N=2, J=2), torch.float32)
    for x in (u, W, bias):
        x.requires_grad_()
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(route_forward, (u, W, bias, 3, True, False), test_utils=tests)


def check_autocast(dtype: torch.dtype) -> None:
    """Under autocast u is rounded, and the gradients come back in the parameters' own dtype."""
    from capsnet.ops.dynamic.fused import route_fused

    u, W, bias, _ = inputs(Case(), torch.float32)
    W.requires_grad_()
    with torch.autocast(u.device.type, dtype):
        v = route_fused(u, W, 3, bias, "full", False)
    assert v.dtype == dtype
    v.float().sum().backward()
    assert W.grad is not None and W.grad.dtype == torch.float32
    assert torch.equal(v, route_fused(u.to(dtype), W, 3, bias, "full", False))


def check_second_gradient() -> None:
    """The gradient of a gradient is that of the reference: exact, not silently a part of it."""
    for case in (Case(), Case(N=2, J=2, gradient="last", leaky=True, bias=False)):
        results = []
        for backend in ("reference", "fused"):
            leaves = [x for x in inputs(case, torch.float32)[:3] if x is not None]
            u, W, *bias = (x.requires_grad_() for x in leaves)
            options = {"gradient": case.gradient, "leaky": case.leaky, "backend": backend}
            v = dynamic_routing(u, W, bias=bias[0] if bias else None, **options)
            loss = v.sum()
            (du,) = torch.autograd.grad(loss, u, create_graph=True)
            again = torch.autograd.grad(loss + du.square().sum(), leaves)
            results.append((du, *again))
        for expected, found in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def check_sizes_of_zero() -> None:
    for empty in "NIJED":
        u, W, bias, _ = inputs(Case()._replace(**{empty: 0}), torch.float32)
        v = dynamic_routing(u.requires_grad_(), W.requires_grad_(), bias=bias, backend="fused")
        v.sum().backward()
        assert torch.equal(v, dynamic_routing(u, W, bias=bias, backend="reference"))
        assert (u.grad == 0).all() and (W.grad == 0).all()


def check_dtypes() -> None:
    """The result has the dtype of u, and each gradient that of its tensor."""
    narrow = (torch.float16, torch.float32)
    for dtype, other in product(narrow, (*narrow, torch.float64)):
        tensors, kinds = inputs(Case(N=2, J=2), torch.float32)[:3], (dtype, other, other)
        leaves = [x.to(t).requires_grad_() for x, t in zip(tensors, kinds, strict=True)]
        results = []
        for backend in ("reference", "fused"):
            v = dynamic_routing(*leaves[:2], bias=leaves[2], backend=backend)
            results.append((v, *torch.autograd.grad(v.float().sum(), leaves)))
            assert [x.dtype for x in results[-1]] == [dtype, dtype, other, other]
        for expected, found in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, atol=0.01, rtol=0.02)


def check_refusals() -> None:
    u, W, _, _ = inputs(Case(), torch.float64)
    with pytest.raises(UserError, match=r"takes fp32, bf16 and fp16, .*use 'auto' or 'chunked'"):
        dynamic_routing(u, W, backend="fused")
    u, W, _, _ = inputs(Case(D=33), torch.float32)
    with pytest.raises(UserError, match="at most 32 numbers"):
        dynamic_routing(u, W, backend="fused")
    dynamic_routing(u, W, backend="auto")
