"""Time the five convolution passes of the paper's network against cuDNN, after checking them.

python benchmarks/conv_passes.py --batch 128 512
"""

import argparse
import json
import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.ops.conv import conv2d, narrow, wide
from capsnet.ops.conv.geometry import Shape, as_images, as_rows

HALF = torch.bfloat16


def graph_time(function: Callable[[], object], reps: int = 10) -> float:
    """Return the median time of a call in microseconds, replayed from a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function()
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(reps):
            function()
    graph.replay()
    times = []
    for _ in range(9):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / reps * 1e3)
    return statistics.median(times)


def draw(*shape: int, scale: float = 1.0) -> Tensor:
    """Return random numbers [N, C, H, W], channels-last."""
    x = scale * torch.randn(*shape, device="cuda")
    return x.to(HALF).to(memory_format=torch.channels_last)


def cudnn_gradients(dy: Tensor, x: Tensor, weight: Tensor, stride: int, which: int) -> Tensor:
    mask = [which == 0, which == 1, False]
    sizes = ([len(weight)], [stride] * 2, [0, 0], [1, 1], False, [0, 0], 1, mask)
    return torch.ops.aten.convolution_backward(dy, x, weight, *sizes)[which]


def passes(N: int) -> dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]]:
    """Return each pass as ours and cuDNN's, with results of the same shape."""
    first, second = Shape(N, 28, 28, 1, 256, 9, 9, 1), Shape(N, 20, 20, 256, 256, 9, 9, 2)
    images, w1, w2 = draw(N, 1, 28, 28), draw(256, 1, 9, 9), draw(256, 256, 9, 9, scale=0.01)
    bias = torch.randn(256, device="cuda")
    y1 = F.conv2d(images, w1, bias.to(HALF)).relu()
    dy1, dy2 = draw(N, 256, 20, 20), draw(N, 256, 6, 6)
    masked = dy1 * (y1 > 0)
    xt = narrow.transpose(images, HALF)
    p1, p2 = narrow.pack(w1, HALF), wide.pack(w2, HALF)
    rows, drows = as_rows(y1), as_rows(dy2)
    return {
        "conv1 forward": (
            lambda: as_images(
                narrow.forward(xt, p1, bias, first, True, narrow.FORWARD), 256, 20, 20
            ),
            lambda: F.conv2d(images, w1, bias.to(HALF)).relu_(),
        ),
        "conv1 weight gradient": (
            lambda: narrow.wgrad(as_rows(dy1), rows, xt, first, narrow.WGRAD)[0].view(w1.shape),
            lambda: cudnn_gradients(masked, images, w1, 1, 1),
        ),
        "primary forward": (
            lambda: as_images(wide.forward(rows, p2, bias, second, False, wide.FORWARD), 256, 6, 6),
            lambda: F.conv2d(y1, w2, bias.to(HALF), 2),
        ),
        "primary input gradient": (
            lambda: as_images(wide.dgrad(drows, p2, second, wide.DGRAD), 256, 20, 20),
            lambda: cudnn_gradients(dy2, y1, w2, 2, 0),
        ),
        "primary weight gradient": (
            lambda: as_images(wide.wgrad(drows, rows, second, wide.WGRAD), 256, 9, 9),
            lambda: cudnn_gradients(dy2, y1, w2, 2, 1),
        ),
    }


def both_layers(N: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return forward and backward of both layers under autocast, ours and torch's."""
    images, dy = torch.rand(N, 1, 28, 28, device="cuda"), draw(N, 256, 6, 6)
    params = [torch.randn(256, 1, 9, 9), torch.randn(256), torch.randn(256, 256, 9, 9) * 0.01]
    params = [p.cuda() for p in (*params, torch.randn(256))]
    params[2] = params[2].to(memory_format=torch.channels_last)
    for p in params:
        p.requires_grad_()

    def torch_conv(x: Tensor, w: Tensor, b: Tensor, stride: int, relu: bool) -> Tensor:
        y = F.conv2d(x, w, b, stride)
        return y.relu() if relu else y

    def step(conv: Callable[..., Tensor]) -> None:
        with torch.autocast("cuda", HALF, cache_enabled=False):
            hidden = conv(images, params[0], params[1], 1, True)
            y = conv(hidden, params[2], params[3], 2, False)
        torch.autograd.grad(y, params, dy)

    return lambda: step(conv2d), lambda: step(torch_conv)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 512])
    torch.backends.cudnn.benchmark = True
    for N in parser.parse_args().batch:
        for name, (ours, cudnn) in passes(N).items():
            a, b = ours().float(), cudnn().float()
            error = ((a - b).norm() / b.norm()).item()
            assert error < 5e-3, f"{name}: {error}"
            report(N, name, graph_time(ours), graph_time(cudnn))
        report(N, "both layers, all passes", *(graph_time(f) for f in both_layers(N)))


def report(N: int, name: str, ours: float, cudnn: float) -> None:
    row = {"batch": N, "pass": name, "ours_us": round(ours, 1), "cudnn_us": round(cudnn, 1)}
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
