"""What a step on many GPUs would take: the measured step of one, and a model of the exchange.

print(scaling_block(result))    # of `capsnet bench step` on a GPU

Every process sends its gradients once around: inside a machine over NVLink, where each GPU then
holds an eighth of the sums, between machines over the network, an eighth from each GPU, and back.
    t = 2 (g-1)/g B / b_in + 2 (m-1)/m B/g / b_out + latencies,
B bytes, g GPUs in a machine, m machines. DistributedDataParallel sends while the backward pass goes
on: how much of it that hides lies between nothing and all that fits.
"""

from math import log2
from typing import Any

from capsnet.models import create_model

IN_A_MACHINE = 8
INSIDE, BETWEEN = 360e9, 40e9  # bytes a second of one GPU: four fifths of NVLink 4, of 400 Gb/s
HOP_INSIDE, HOP_BETWEEN = 3e-6, 10e-6  # seconds from one to the next
BACKWARD = 2 / 3  # of a step, behind which an exchange can hide
VARIANT, MODEL = "ours, bf16", "capsnet_mnist"


def exchange_seconds(num_bytes: float, gpus: int) -> float:
    """Return the time in which gradients of so many bytes are summed over all GPUs.

    Example:
        >>> round(exchange_seconds(32.9e6, 8) * 1e3, 2)
        0.2
    """
    inside = min(gpus, IN_A_MACHINE)
    machines = gpus // inside
    spent = 2 * (inside - 1) / inside * num_bytes / INSIDE + 2 * (inside - 1) * HOP_INSIDE
    if machines > 1:
        spent += 2 * (machines - 1) / machines * num_bytes / inside / BETWEEN
        spent += 2 * log2(machines) * HOP_BETWEEN
    return spent


def scaling_block(result: dict[str, Any]) -> str:
    """Return the table of a page from the last measured step."""
    parameters = sum(p.numel() for p in create_model(MODEL).parameters())
    steps = {r["batch"]: r["step"]["median_ms"] for r in result["rows"] if r["variant"] == VARIANT}
    lines = [
        f"{MODEL}, {parameters:,} parameters, step of one {result['device']} as measured; the "
        "exchange is a model, nothing of it was measured:",
        "",
        "| images per GPU | one GPU, ms | gradients | GPUs | exchange, ms | step, ms | of ideal |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for batch, alone in sorted(steps.items()):
        for name, width in (("fp32", 4), ("bf16", 2)):
            for gpus in (8, 64, 512):
                sent = parameters * width
                exchange = 1e3 * exchange_seconds(sent, gpus)
                least, most = alone + max(0.0, exchange - BACKWARD * alone), alone + exchange
                lines.append(
                    f"| {batch} | {alone:.2f} | {name}, {sent / 1e6:.1f} MB | {gpus} | "
                    f"{exchange:.2f} | {least:.2f} to {most:.2f} | "
                    f"{alone / most:.0%} to {alone / least:.0%} |"
                )
    return "\n".join(lines)
