"""Weights after a few steps in float64, where rounding hides nothing: NAME OPTIONS OUT, ….

Run by torchrun in several processes, or alone.
"""

import sys

import torch
from safetensors.torch import save_file

from capsnet.training.config import TrainConfig
from capsnet.training.distributed.world import joined, leads
from capsnet.training.setup import build_model, open_stream
from capsnet.training.step import TrainStep, epoch_plan, own_rows

ROWS, STEPS = 25, 3


def weights_after(model: str, options: tuple[str, ...]) -> dict[str, torch.Tensor]:
    config = TrainConfig(
        model=model, data="digits", num_samples=60, batch_size=ROWS, epochs=2, options=options
    )
    stream = open_stream(config, "train", torch.device("cpu"))
    torch.manual_seed(0)
    trained = build_model(config, stream)
    step = TrainStep(trained, stream, config, torch.float32)
    trained.train()
    plan = epoch_plan(stream, 0, 0, ROWS * STEPS)
    for k in range(STEPS):
        rows = own_rows(slice(k * ROWS, (k + 1) * ROWS))
        step({name: x[rows] for name, x in plan.items()}, 1e-3, 0.1)
    return {name: x.clone() for name, x in trained.state_dict().items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    with joined("cpu"):
        for job in sys.argv[1:]:
            name, options, out = job.split("|")
            made = weights_after(name, tuple(options.split()))
            if leads():
                save_file(made, out)
