"""One training step of the paper's CapsNet on two CPU threads, and what feeding it costs.

python benchmarks/cpu_step.py [--batch 32] [--steps 15]

Steps of the variants alternate, so that other load on the machine touches all alike.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from capsnet.data import Augment, open_data
from capsnet.models import create_model
from capsnet.train.config import TrainConfig
from capsnet.train.loop import epoch_plan
from capsnet.train.step import TrainStep

VARIANTS = {
    "stored votes, fp32": ("reference", torch.float32),
    "ours, fp32": ("auto", torch.float32),
    "ours, bf16": ("auto", torch.bfloat16),
}


def milliseconds(run) -> float:
    start = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - start)


def summary(times: list[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(times, n=4)
    return {"median_ms": median, "quartiles_ms": [low, high]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(2)

    stream = open_data("digits", "train", augment=Augment(shift=2))
    plan = epoch_plan(stream, seed=0, epoch=0, num_rows=options.batch)
    steps = {}
    for name, (backend, precision) in VARIANTS.items():
        model = create_model("capsnet_mnist", backend=backend)
        step = TrainStep(model, stream, TrainConfig(), precision)
        steps[name] = lambda step=step: step(plan, 1e-3, 1.0)
    times: dict[str, list[float]] = {name: [] for name in steps}
    feed = []
    for k in range(options.steps + 2):
        for name, run in steps.items():
            elapsed = milliseconds(run)
            if k >= 2:
                times[name].append(elapsed)
        feed.append(milliseconds(lambda: stream.batch(plan)))
    epoch = milliseconds(lambda: epoch_plan(stream, 0, 1, stream.num_samples))

    result = {name: summary(t) for name, t in times.items()}
    fastest = min(r["median_ms"] for r in result.values())
    per_epoch_step = epoch * options.batch / stream.num_samples
    result["data pipeline"] = {
        "median_ms": statistics.median(feed) + per_epoch_step,
        "share_of_fastest_step_percent": 100
        * (statistics.median(feed) + per_epoch_step)
        / fastest,
    }
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import capsnet; capsnet.create_model"], check=True)
    result["import capsnet"] = {"seconds": time.perf_counter() - start}
    for name, numbers in result.items():
        print(f"{name:<20} {json.dumps(numbers)}")
    record = {"batch": options.batch, "threads": 2, "torch": torch.__version__, **result}
    path = Path(__file__).parent.parent / "results" / "cpu_step.jsonl"
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
