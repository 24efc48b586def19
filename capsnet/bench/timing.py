"""Time and memory of a call, measured alike for all variants.

timing = measure(lambda: model(images), device)
"""

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

WARM_UP = 3

Shown = Callable[[int, int, str], None]  # parts done, of how many, and what is measured now


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one call, and the device memory it took beyond what was there before."""

    median_ms: float
    low_ms: float  # first quartile
    high_ms: float  # third quartile
    peak_mb: float | None  # None on a CPU

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        return asdict(self)


def measure(
    run: Callable[[], object], device: torch.device, repeats: int = 30, graph: bool = False
) -> Timing:
    """Return the time of `run`; on a GPU by events, and, if asked, as the replay of a graph."""
    if device.type == "cpu":
        for _ in range(WARM_UP):
            run()
        times = [_clock(run) for _ in range(repeats)]
        return Timing(*_quartiles(times), peak_mb=None)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            run()
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        peak = (torch.cuda.max_memory_allocated(device) - before) / 1e6
    call = run
    if graph:
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            run()
        call = captured.replay
        call()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return Timing(*_quartiles(times), peak_mb=peak)


def counted(total: int, progress: Shown | None) -> Callable[[str], None]:
    """Return what to call with the name of each of `total` parts before it is measured."""
    numbers = itertools.count()

    def tell(name: str) -> None:
        if progress is not None:
            progress(next(numbers), total, name)

    return tell


def _clock(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def _quartiles(times: list[float]) -> tuple[float, float, float]:
    low, median, high = statistics.quantiles(times, n=4)
    return median, low, high


def ceilings(device: torch.device) -> dict[str, float]:
    """Return what this device reaches: TFLOP/s of a large matrix product, GB/s of a large copy."""
    cuda = device.type == "cuda"
    size, dtype = (8192, torch.bfloat16) if cuda else (1024, torch.float32)
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    product = measure(lambda: a @ b, device, repeats=10)
    block = torch.empty((1 << 30) if cuda else (1 << 26), dtype=torch.uint8, device=device)
    target = torch.empty_like(block)
    copy = measure(lambda: target.copy_(block), device, repeats=10)
    return {
        "matmul_tflops": 2 * size**3 / product.median_ms / 1e9,
        "copy_gb_per_s": 2 * block.numel() / copy.median_ms / 1e6,
    }
