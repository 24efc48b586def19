"""Training the paper's CapsNet on two CPU threads: one step, and what feeding it costs.

python benchmarks/cpu_training.py [--batch 32]

Adds a line to results/bench.jsonl.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from capsnet.bench.report import table, where
from capsnet.bench.step import bench_step
from capsnet.bench.timing import measure
from capsnet.data import Augment, open_data
from capsnet.files import append_line
from capsnet.train.loop import epoch_plan

CPU = torch.device("cpu")
RESULTS = Path(__file__).parent.parent / "results" / "bench.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32)
    batch = parser.parse_args().batch
    torch.set_num_threads(2)

    result = {**where(CPU), **bench_step((batch,), CPU)}
    stream = open_data("digits", "train", augment=Augment(shift=2))
    plan = epoch_plan(stream, seed=0, epoch=0, num_rows=batch)
    gather = measure(lambda: stream.batch(plan), CPU).median_ms
    draw = measure(lambda: epoch_plan(stream, 0, 1, stream.num_samples), CPU).median_ms
    feed = gather + draw * batch / stream.num_samples
    fastest = min(row["step"]["median_ms"] for row in result["rows"])
    result |= {"data_ms_per_step": feed, "data_percent_of_step": 100 * feed / fastest}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import capsnet; capsnet.create_model"], check=True)
    result["import_seconds"] = time.perf_counter() - start

    print(table(result))
    print(f"data: {feed:.2f} ms a step, {result['data_percent_of_step']:.2f} % of the fastest")
    print(f"import capsnet: {result['import_seconds']:.2f} s")
    append_line(RESULTS, json.dumps(result))


if __name__ == "__main__":
    main()
