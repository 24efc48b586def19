"""One benchmark by name: runs it, says where it ran, and writes it as a table."""

from pathlib import Path
from typing import Any

import torch

from capsnet.bench.heads import TABLES, bench_heads
from capsnet.bench.routing import bench_routing, check
from capsnet.bench.step import bench_epoch, bench_inference, bench_step
from capsnet.bench.stream import bench_stream
from capsnet.bench.timing import Shown
from capsnet.errors import UserError
from capsnet.lines import read_sealed
from capsnet.options import LARGEST
from capsnet.provenance import git_commit, machine

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def where(device: torch.device) -> dict[str, Any]:
    """Return what every result carries: device, versions, commit and date."""
    return {
        **machine(device),
        "threads": torch.get_num_threads(),
        "commit": git_commit(),
    }


def default_batches(kind: str, device: torch.device) -> tuple[int, ...]:
    """Return the batch sizes of a benchmark when none are given."""
    if kind == "inference":
        return (1, 1024)
    return (128, 512) if device.type == "cuda" else (32,)


def run_bench(
    kind: str,
    device: torch.device,
    batches: tuple[int, ...],
    capsules: tuple[int, ...],
    dtype: str | None,
    peer: Path | None,
    data: str | None,
    data_folder: Path | None,
    progress: Shown | None = None,
) -> dict[str, Any]:
    """Return the result of one benchmark as plain JSON values; first, routing must be right.

    progress: called before each part; an epoch shows itself, as `capsnet train` does.
    """
    if not all(1 <= size < LARGEST for size in batches + capsules):
        raise UserError(f"batch and capsules must be at least 1 and below {LARGEST:,}.")
    batches = batches or default_batches(kind, device)
    number = DTYPES[dtype or ("bf16" if device.type == "cuda" else "fp32")]
    errors = check(device, number)
    if kind == "routing":
        result = bench_routing(batches, capsules or (1152,), device, number, progress=progress)
    elif kind == "step":
        result = bench_step(batches, device, peer, progress)
    elif kind == "epoch":
        result = bench_epoch(batches, device, data or "digits", data_folder)
    elif kind in TABLES:
        result = bench_heads(kind, batches, device, progress)
    elif kind == "stream":
        result = bench_stream(batches, device, progress)
    else:
        result = bench_inference(batches, device, progress)
    return {**where(device), "error_over_reference": errors, **result}


def table(result: dict[str, Any]) -> str:
    """Return a result as a Markdown table, one line per row."""
    rows = [_flat(row) for row in result["rows"]]
    head = list(rows[0])
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(_text(row.get(name)) for name in head) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def last_benches(results_folder: Path) -> dict[str, dict[str, Any]]:
    """Return the last result of each benchmark and device in bench.jsonl, as bench/KIND/gpu."""
    path = results_folder / "bench.jsonl"
    try:
        return {
            f"bench/{result['bench']}/{'cpu' if result['device'] == 'cpu' else 'gpu'}": result
            for _, result in read_sealed(path)
        }
    except KeyError as error:
        raise UserError(f"{path} holds a line that no benchmark wrote; remove it.") from error


def bench_block(result: dict[str, Any]) -> str:
    """Return a result as a page shows it."""
    cpu = result["device"] == "cpu"
    place = f"CPU, {result['threads']} threads" if cpu else f"One {result['device']}"
    made = f"{place}, torch {result['versions']['torch']}; `capsnet bench {result['bench']}`:"
    return f"{made}\n\n{table(result)}"


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):  # a Timing
            spread = f"[{value['low_ms']:.4g}, {value['high_ms']:.4g}]"
            flat[f"{name}, ms"] = f"{value['median_ms']:.4g} {spread}"
            if value["peak_mb"] is not None:
                flat[f"{name}, MB"] = value["peak_mb"]
        else:
            flat[name] = value
    return flat


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
