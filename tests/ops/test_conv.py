"""The convolution kernels against F.conv2d in fp64: values, every gradient, and how they are used.

On a machine without a GPU a few small cases run in Triton's interpreter, in another process since
the interpreter must be chosen before Triton is imported. With a Hopper GPU: `pytest -m gpu`.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from machine import CUDA, DEVICE, HALF, interpreted
from torch import Tensor

from capsnet.ops import conv
from capsnet.ops.conv import conv2d, unfolded

MEASURED = {"MIN_BATCH": conv.MIN_BATCH, "MIN_KERNEL": conv.MIN_KERNEL}
HOPPER = CUDA and torch.cuda.get_device_capability() == (9, 0)
gpu = pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")


class Case(NamedTuple):
    N: int
    C: int
    H: int
    W: int
    O: int
    K: int
    stride: int = 1
    relu: bool = True
    bias: bool = True
    padding: int = 0

    @property
    def narrow(self) -> bool:
        return self.C < 64


SMALL = [
    Case(3, 64, 9, 8, 64, 5, 2),
    Case(66, 64, 4, 5, 128, 3, relu=False),
    Case(1, 128, 5, 5, 64, 3, 2, bias=False),
    Case(3, 1, 12, 11, 64, 9),
    Case(130, 3, 6, 6, 128, 5, relu=False),
    Case(2, 1, 9, 9, 64, 5, 2, bias=False),
    Case(16, 64, 3, 4, 128, 5, padding=2),
    Case(2, 64, 6, 5, 64, 3, 2, padding=1),
    Case(16, 1, 8, 7, 64, 9, padding=4),
]
LARGE = [
    Case(512, 256, 20, 20, 256, 9, 2, relu=False),
    Case(130, 256, 28, 28, 256, 9, 2),
    Case(1, 64, 20, 20, 512, 9, 2, relu=False),
    Case(3, 512, 9, 12, 64, 5, 1, bias=False),
    Case(64, 192, 11, 11, 320, 5, 2),
    Case(128, 1, 28, 28, 256, 9),
    Case(130, 1, 36, 36, 256, 9, 2),
    Case(1, 3, 28, 28, 64, 5, relu=False),
    Case(3, 1, 28, 28, 320, 9, bias=False),
    Case(130, 256, 28, 28, 256, 5, padding=2),
    Case(64, 256, 28, 28, 128, 5, padding=2),
    Case(130, 512, 18, 18, 256, 5, padding=2),
    Case(130, 1, 36, 36, 512, 9, padding=4),
    Case(128, 1, 28, 28, 256, 5, padding=2),
]


@pytest.fixture(autouse=True)
def any_batch(monkeypatch) -> None:
    """Take the kernels also where they would be slower."""
    monkeypatch.setattr(conv, "MIN_BATCH", 1)
    monkeypatch.setattr(conv, "MIN_KERNEL", 1)


def plain(x, weight, bias, stride, relu, padding=0) -> Tensor:
    y = F.conv2d(x, weight, bias, stride, padding)
    return y.relu() if relu else y


def inputs(case: Case, dtype: torch.dtype) -> list[Tensor | None]:
    """Return x, weight and bias rounded to `dtype`."""
    draw = torch.Generator().manual_seed(sum(case))
    x = torch.randn(case.N, case.C, case.H, case.W, generator=draw)
    weight = torch.randn(case.O, case.C, case.K, case.K, generator=draw) / case.K
    bias = torch.randn(case.O, generator=draw) if case.bias else None
    return [t if t is None else t.to(DEVICE, dtype) for t in (x, weight, bias)]


def run(function, case: Case, tensors, dtype: torch.dtype, sure: Tensor | None = None):
    """Return y and the gradients of x, weight and bias, computed in `dtype`.

    The gradient at y is zero where the sign of y is not sure, so that the ReLUs agree.
    """
    leaves = [t if t is None else t.to(dtype, copy=True) for t in tensors]
    for t in leaves[case.narrow :]:
        if t is not None:
            t.requires_grad_()
    y = function(*leaves, case.stride, case.relu, case.padding)
    draw = torch.Generator().manual_seed(1)
    dy = torch.randn(y.shape, generator=draw).to(DEVICE, tensors[0].dtype)
    y.backward(dy.to(y.dtype) if sure is None else (dy * sure).to(y.dtype))
    return [y.detach(), *(t.grad for t in leaves if t is not None and t.requires_grad)]


def check(case: Case, dtype: torch.dtype) -> None:
    tensors = inputs(case, dtype)
    x, weight, bias = (t if t is None else t.double() for t in tensors)
    sure = F.conv2d(x, weight, bias, case.stride, case.padding).abs() > 0.1
    fast = run(conv2d, case, tensors, dtype, sure)
    again = run(conv2d, case, tensors, dtype, sure)
    truth = run(plain, case, tensors, torch.float64, sure)
    usual = run(plain, case, tensors, dtype, sure)
    assert fast[0].is_contiguous(memory_format=torch.channels_last)
    for i, (f, a, t, u) in enumerate(zip(fast, again, truth, usual, strict=True)):
        assert f.dtype == dtype and f.shape == t.shape
        assert torch.equal(f, a), "differs from run to run"
        error, allowed = ((z.double() - t).norm().item() for z in (f, u))
        floor = torch.finfo(dtype).eps / 4 * t.norm().item()
        assert error <= (3 if i else 2) * allowed + floor, f"{i}: {error} > {allowed}"


def check_autocast(case: Case) -> None:
    """Under autocast fp32 weights get fp32 gradients, more exact than half precision can hold."""
    case = case._replace(relu=False)
    tensors = inputs(case, HALF)
    with torch.autocast(DEVICE, HALF):
        y, *grads = run(conv2d, case, tensors, torch.float32)
    truth = run(plain, case, tensors, torch.float64)
    assert y.dtype == HALF
    for grad, true in zip(grads[-2:], truth[-2:], strict=True):
        assert grad.dtype == torch.float32
        assert (grad.double() - true).norm() <= 1e-5 * true.norm()


def check_layouts(case: Case) -> None:
    """Strided inputs and gradients give the same as contiguous ones."""
    x, weight, bias = inputs(case, HALF)
    weight.requires_grad_()
    results = []
    for layout in (torch.contiguous_format, torch.channels_last):
        y = conv2d(x.to(memory_format=layout), weight.to(memory_format=layout), bias, case.stride)
        dy = torch.linspace(-1, 1, y.numel(), device=DEVICE, dtype=HALF).view(y.shape)
        results.append((y, *torch.autograd.grad(y, weight, dy.to(memory_format=layout))))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def check_operators() -> None:
    """Schema, fake tensors and autograd registration, as torch.compile relies on them."""
    from capsnet.ops.conv import narrow, wide

    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    for module, op, case in (
        (wide, wide.conv_wide, SMALL[0]),
        (narrow, narrow.conv_narrow, SMALL[3]),
    ):
        x, weight, bias = inputs(case, HALF)
        tensors = [module.pack(weight, HALF), bias.requires_grad_()]
        if not case.narrow:
            tensors.insert(0, F.pad(x, [1] * 4))
            x.requires_grad_()
        arguments = (x, weight.requires_grad_(), *tensors, case.stride, True)
        torch.library.opcheck(op, arguments, test_utils=tests)


def check_second_gradient(case: Case) -> None:
    """The gradient of a gradient is that of F.conv2d: exact, not silently a part of it."""
    results = []
    for function, dtype in ((conv2d, HALF), (plain, torch.float64)):
        leaves = [t if t is None else t.to(dtype) for t in inputs(case, HALF)]
        wanted = [t.requires_grad_() for t in leaves[case.narrow :] if t is not None]
        loss = function(*leaves, case.stride, case.relu, case.padding).square().mean()
        grads = torch.autograd.grad(loss, wanted, create_graph=True)
        again = loss + sum(g.square().sum() for g in grads)
        results.append([*grads, *torch.autograd.grad(again, wanted)])
    for ours, exact in zip(*results, strict=True):
        assert (ours - exact).norm() <= 0.02 * exact.norm()


@pytest.mark.long
def test_in_interpreter(pass_in_interpreter) -> None:
    pass_in_interpreter()


@interpreted
@pytest.mark.parametrize("case", SMALL)
def test_interpreted_equals_torch(case: Case) -> None:
    check(case, torch.float16)


@interpreted
@pytest.mark.parametrize("case", [SMALL[0], SMALL[3], SMALL[7]])
def test_interpreted_second_gradient(case: Case) -> None:
    assert conv._kind(*inputs(case, HALF)[:2], case.padding, HALF) != "torch"
    check_second_gradient(case)


@interpreted
def test_interpreted_use() -> None:
    check_autocast(SMALL[0])
    check_autocast(SMALL[3])
    check_layouts(SMALL[0])
    check_operators()


@pytest.mark.parametrize(
    "tiles,steps,slots", [(144, 324, 132), (36, 324, 132), (131, 324, 132), (5, 9, 4), (3, 2, 4)]
)
def test_programs_share_out_every_step_once(tiles, steps, slots) -> None:
    pytest.importorskip("triton", reason="the kernels need Triton")
    from capsnet.ops.conv.kernels_wide import spans
    from capsnet.ops.conv.wide import plan

    split = plan(tiles, steps, slots)
    programs = [spans.fn(pid, *split, steps) for pid in range(split.full + split.parts)]
    assert programs[0][0] == 0 and programs[-1][1] == tiles * steps
    assert all(end == start for (_, end), (start, _) in pairwise(programs))
    for start, end in programs:
        assert 0 < end - start <= steps  # so that a program has pieces of two tiles at most
    ragged = split.full % slots
    assert split.parts <= slots and (ragged == 0 or ragged > 0.9 * slots)


def test_torch_takes_what_the_kernels_do_not() -> None:
    x, weight, bias = torch.randn(2, 5, 9, 9), torch.randn(7, 5, 3, 3), torch.randn(7)
    assert torch.equal(conv2d(x, weight, bias, 2, relu=True), plain(x, weight, bias, 2, True))
    assert torch.equal(conv2d(x, weight), F.conv2d(x, weight))
    assert torch.equal(conv2d(x, weight, padding=2), F.conv2d(x, weight, padding=2))


@pytest.mark.parametrize(
    ("kind", "N", "C", "size", "O", "kernel", "padding", "dtype"),
    [
        ("wide", 16, 64, (5, 6), 64, (5, 6), 0, HALF),
        ("wide", 16, 128, (3, 4), 128, (5, 5), 1, torch.float16),
        ("torch", 15, 64, (5, 6), 64, (5, 6), 0, HALF),  # too few images
        ("torch", 16, 64, (5, 6), 64, (5, 4), 0, HALF),  # too small a kernel
        ("torch", 16, 64, (5, 6), 96, (5, 6), 0, HALF),  # no whole tiles of outputs
        ("torch", 16, 64, (5, 6), 64, (6, 5), 0, HALF),  # the kernel is higher than the image
        ("torch", 16, 64, (6, 5), 64, (5, 6), 0, HALF),  # or wider
        ("torch", 16, 64, (2, 9), 64, (5, 5), 1, HALF),
        ("torch", 16, 64, (5, 6), 64, (5, 6), 0, torch.float32),
        ("narrow", 16, 1, (9, 9), 64, (9, 9), 0, HALF),
        ("narrow", 16, 127, (1, 1), 64, (1, 1), 0, HALF),
        ("torch", 16, 2, (9, 9), 64, (8, 8), 0, HALF),  # with the bias, more than 128 rows
    ],
)
def test_kernels_are_taken_where_they_were_measured_to_win(
    kind, N, C, size, O, kernel, padding, dtype, monkeypatch
) -> None:
    monkeypatch.setattr(conv, "INTERPRETED", True)  # as if the kernels could run
    for name, value in MEASURED.items():
        monkeypatch.setattr(conv, name, value)
    x, weight = torch.empty(N, C, *size, dtype=dtype), torch.empty(O, C, *kernel)
    assert conv._kind(x, weight, padding, dtype) == kind
    assert conv._kind(x[0], weight, padding, dtype) == "torch"
    assert conv._kind(x[:, 1:], weight, padding, dtype) == "torch"
    if kind == "narrow":  # has no gradient of its input
        assert conv._kind(x.requires_grad_(), weight, padding, dtype) == "torch"
        with torch.no_grad():
            assert conv._kind(x, weight, padding, dtype) == "narrow"


@pytest.mark.skipif(CUDA, reason="unfolded is for CPUs")
@pytest.mark.parametrize(
    ("kind", "C", "padding", "dtype"),
    [
        ("unfolded", 64, 0, torch.bfloat16),
        ("torch", 63, 0, torch.bfloat16),
        ("torch", 64, 1, torch.bfloat16),
        ("torch", 64, 0, torch.float16),
        ("torch", 64, 0, torch.float32),
    ],
)
def test_unfolded_is_taken_where_it_was_measured_to_win(kind, C, padding, dtype) -> None:
    x, weight = torch.empty(2, C, 5, 5, dtype=dtype), torch.empty(8, C, 5, 5)
    assert conv._kind(x, weight, padding, dtype) == kind


@pytest.mark.parametrize("C", [1, 3, 64])
def test_padding_keeps_channels_last_both_ways(C: int) -> None:
    layout = torch.channels_last
    x = torch.randn(2, C, 5, 4).to(memory_format=layout).requires_grad_()
    y = conv._pad(x, 2)
    assert y.shape == (2, C, 9, 8) and y.is_contiguous(memory_format=layout)
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert dx.stride() == x.stride()


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("case", [*SMALL, *LARGE])
def test_equals_torch(case: Case) -> None:
    check(case, torch.bfloat16)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("case", [SMALL[0], SMALL[3]])
def test_equals_torch_in_fp16(case: Case) -> None:
    check(case, torch.float16)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("case", [SMALL[0], SMALL[3], SMALL[7]])
def test_second_gradient(case: Case) -> None:
    check_second_gradient(case)


@pytest.mark.gpu
@gpu
def test_use() -> None:
    check_autocast(LARGE[0]._replace(N=128))
    check_autocast(LARGE[5])
    check_layouts(SMALL[0])
    check_operators()


def two_layers(x, w1, b1, w2, b2) -> Tensor:
    with torch.autocast("cuda", torch.bfloat16):
        return conv2d(conv2d(x, w1, b1, relu=True), w2, b2, 2)


def two_layer_inputs() -> list[Tensor]:
    x, w1, b1 = inputs(Case(128, 1, 28, 28, 256, 9), torch.float32)
    _, w2, b2 = inputs(Case(1, 256, 9, 9, 256, 9), torch.float32)
    return [
        x,
        *(t.requires_grad_() for t in (w1, b1, w2.to(memory_format=torch.channels_last), b2)),
    ]


@pytest.mark.gpu
@gpu
def test_use_in_a_new_thread() -> None:
    tensors = [t.detach() for t in two_layer_inputs()]
    expected = two_layers(*tensors)
    with ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(two_layers, *tensors).result(), expected)


@pytest.mark.gpu
@gpu
def test_use_compiles_without_a_graph_break() -> None:
    tensors = two_layer_inputs()
    results = []
    for function in (two_layers, torch.compile(two_layers, fullgraph=True)):
        y = function(*tensors)
        results.append((y, *torch.autograd.grad(y.square().sum(), tensors[1:])))
    for eager, compiled in zip(*results, strict=True):
        assert torch.equal(eager, compiled)


@pytest.mark.gpu
@gpu
def test_use_captures_into_a_cuda_graph() -> None:
    tensors = two_layer_inputs()

    def step() -> list[Tensor]:
        y = two_layers(*tensors)
        return [y, *torch.autograd.grad(y.square().sum(), tensors[1:])]

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    tensors[0].copy_(torch.rand_like(tensors[0]))
    graph.replay()
    for expected, got in zip(step(), captured, strict=True):
        assert torch.equal(expected, got)


@pytest.mark.parametrize("N", [1, 3, 20])
@pytest.mark.parametrize(
    ("size", "kernel", "stride"),
    [((13, 12), (5, 5), 2), ((9, 9), (9, 9), 1), ((9, 12), (3, 5), 2), ((12, 9), (5, 3), 1)],
)
def test_unfolded_on_the_cpu_is_as_exact_as_the_library(
    N: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unfolded, "PIECE_BYTES", 1 << 20)  # several pieces, the last one smaller
    generator = torch.Generator().manual_seed(N)
    draw = partial(torch.randn, generator=generator)
    inputs = [draw(N, 64, *size), 0.05 * draw(32, 64, *kernel), draw(32)]
    inputs = [x.requires_grad_() for x in inputs]
    weights = draw(F.conv2d(*inputs, stride).shape)

    def results(function: Callable[..., Tensor], *tensors: Tensor) -> list[Tensor]:
        y = function(*tensors, stride)
        return [y, *torch.autograd.grad(y, tensors, weights.to(y.dtype))]

    truth = results(F.conv2d, *(x.detach().double().requires_grad_() for x in inputs))
    with torch.autocast("cpu", torch.bfloat16):
        assert conv._kind(*inputs[:2], 0, torch.bfloat16) == "unfolded"
        ours, library = results(conv2d, *inputs), results(F.conv2d, *inputs)
    for exact, x, y in zip(truth, ours, library, strict=True):
        error, allowed = ((z.double() - exact).norm() / exact.norm() for z in (x, y))
        assert error <= 2 * allowed + 1e-3
    assert ours[0].is_contiguous(memory_format=torch.channels_last)


def test_unfolded_memory_is_shared_by_evaluation_and_training(monkeypatch) -> None:
    """First a small batch in inference mode, then larger and smaller ones with gradients."""
    monkeypatch.setattr(unfolded, "_kept", threading.local())
    weight = torch.randn(8, 64, 3, 3).bfloat16().requires_grad_()
    with torch.inference_mode():
        conv2d(torch.randn(1, 64, 8, 8).bfloat16(), weight)
    for N in (1, 4, 2, 0):
        x = torch.randn(N, 64, 8, 8).bfloat16().requires_grad_()
        y = conv2d(x, weight)
        torch.testing.assert_close(y, F.conv2d(x, weight), atol=0.1, rtol=0.05)
        if N:
            y.sum().backward()
    assert unfolded._kept.room.numel() == 4 * 6 * 6 * 9 * 64
    monkeypatch.setattr(unfolded, "PIECE_BYTES", 1 << 10)
    conv2d(torch.randn(5, 64, 20, 20).bfloat16(), weight)
    assert unfolded._kept.room.numel() == 4 * 6 * 6 * 9 * 64  # a piece too large is not kept


def test_unfolded_takes_as_many_images_at_a_time_as_fit(monkeypatch) -> None:
    x = torch.empty(9, 64, 6, 8, dtype=torch.bfloat16)
    monkeypatch.setattr(unfolded, "PIECE_BYTES", 3 * (2 * 2) * (3 * 5) * 64 * 2)
    assert unfolded._pieces(x, (3, 5), 2) == (2, 2, 3)
    monkeypatch.setattr(unfolded, "PIECE_BYTES", 1)
    assert unfolded._pieces(x, (3, 5), 1) == (4, 4, 1)


@pytest.mark.skipif(CUDA, reason="unfolded is for CPUs")
@pytest.mark.parametrize("relu", [True, False])
def test_unfolded_gradient_of_the_gradient_is_exact(relu: bool) -> None:
    case = Case(3, 64, 9, 8, 16, 5, 2, relu)
    assert conv._kind(*inputs(case, torch.bfloat16)[:2], 0, torch.bfloat16) == "unfolded"
    check_second_gradient(case)


@pytest.mark.skipif(CUDA, reason="unfolded is for CPUs")
def test_unfolded_operators_are_registered_properly() -> None:
    x, weight, _ = inputs(Case(2, 64, 7, 6, 8, 3, 2), torch.bfloat16)
    x, weight = x.to(memory_format=torch.channels_last), weight[:, :, 1:]  # 2 high, 3 wide
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    leaves = (x.requires_grad_(), weight.float().requires_grad_(), weight)
    torch.library.opcheck(unfolded.unfolded_forward, (*leaves, 2), test_utils=tests)
    dy = torch.randn(2, 8, 3, 2).bfloat16()
    arguments = (dy, x.detach(), [2, 3], 2, torch.float32)
    torch.library.opcheck(unfolded.unfolded_wgrad, arguments, test_utils=tests)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_transforms_exports_and_compiles(dtype: torch.dtype) -> None:
    """Only what torch itself can transform and export is in the way, in half precision too."""
    x, weight, bias = inputs(Case(3, 64, 7, 6, 8, 3), dtype)

    class Layer(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return conv2d(x, weight, bias, 2, relu=True)

    y = plain(x, weight, bias, 2, True)
    close = partial(torch.testing.assert_close, atol=0.1, rtol=0.02)
    close(torch.func.vmap(lambda image: Layer()(image[None])[0])(x), y)
    loss = lambda weight: conv2d(x, weight, bias, 2).square().sum()  # noqa: E731
    leaf = weight.clone().requires_grad_()
    close(torch.func.grad(loss)(weight), torch.autograd.grad(loss(leaf), leaf)[0], atol=1.0)
    exported = torch.export.export(
        Layer(), (x,), dynamic_shapes=({0: torch.export.Dim("N", min=2)},)
    )
    close(exported.module()(x[:2]), y[:2])
    assert not any("capsnet" in str(node.target) for node in exported.graph.nodes)
    close(torch.jit.trace(Layer(), x)(x[:2]), y[:2])
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    close(*(torch.autograd.grad(f(leaf), leaf)[0] for f in (compiled, loss)), atol=1.0)
