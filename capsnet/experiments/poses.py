"""What a capsule's numbers encode: position, scale and rotation, read by a linear map.

Scenes of one shape each, whose pose is known. Networks learn which shape it is, never the pose.
Then a linear map is fitted from the numbers of the shown shape's capsule, or from as many of the
CNN's features for that class, to each part of the pose, one map for each shape; R² on test images
says how much of it is there to be read.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from capsnet.data import Stream
from capsnet.experiments.pages import markdown
from capsnet.experiments.runner.experiment import BATCH, Experiment, Trained
from capsnet.experiments.runner.records import Results, by_seed, current, marked, values
from capsnet.experiments.statistics import compare_paired, mean_std
from capsnet.measures.readout import Sample, read_out
from capsnet.models import Model
from capsnet.training.config import TrainConfig

NAME = "poses"
EPOCHS = 30
HOLDOUT = 2_000
MOST = 8_000  # training images that maps are fitted on
FACTORS = ("x", "y", "scale", "rotation")
R3, R1, R3_PLAIN = "capsules, r = 3", "capsules, r = 1", "capsules, r = 3, no decoder"
CNN, CNN_DRAWS = "CNN head", "CNN head, decoder"
ROWS: dict[str, tuple[str, tuple[str, ...]]] = {
    R3: ("capsnet_modern", ()),
    R1: ("capsnet_modern", ("num_iters=1",)),
    R3_PLAIN: ("capsnet_modern", ("decoder=()",)),
    CNN: ("cnn_modern", ()),
    CNN_DRAWS: ("cnn_modern", ("decoder=(256, 512)",)),
}


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return all rows."""
    common: dict[str, Any] = {
        "data": "scenes",
        "epochs": EPOCHS,
        "batch_size": 128,
        "lr": 1e-3,
        "schedule": "linear",
        "weight_decay": 0.05,
        "holdout": HOLDOUT,
        "compile": True,
        "seed": seed,
    }
    return {
        row: TrainConfig(model=model, options=options, **common)
        for row, (model, options) in ROWS.items()
    }


def measure(trained: Trained) -> dict[str, Any]:
    """Return R² of each part of the pose, the mean over the shapes, and DCI."""
    model = trained.model.eval()
    most = trained.count(MOST)
    train, held, test = (
        by_class(model, trained.stream(split), most) for split in ("train", "validation", "test")
    )
    result: dict[str, list[float]] = {}
    for parts in zip(train, held, test, strict=True):
        found = read_out(FACTORS, *parts)
        for name, r_squared in zip(FACTORS, found.r_squared, strict=True):
            if r_squared is not None:
                result.setdefault(f"{name}_r_squared", []).append(r_squared)
        result.setdefault("disentanglement", []).append(found.dci.disentanglement)
        result.setdefault("completeness", []).append(found.dci.completeness)
    return {name: float(np.mean(x)) for name, x in result.items()}


@torch.inference_mode()
def by_class(model: Model, stream: Stream, most: int) -> list[Sample]:
    """Return for each class its vectors [M, E] and the poses of the images that show it."""
    plan = stream.plan(None)
    own: list[Tensor] = []
    labels: list[Tensor] = []
    for start in range(0, min(stream.num_samples, most), BATCH):
        rows = slice(start, min(start + BATCH, most))
        batch = stream.batch({name: x[rows] for name, x in plan.items()})
        shown = batch.labels[:, 0]
        own.append(model(batch.images).v[torch.arange(len(shown)), shown].float().cpu())
        labels.append(shown.cpu())
    factors = stream.split.factors
    assert factors is not None
    samples = []
    for k in range(len(model.task.names)):
        chosen = (torch.cat(labels) == k).nonzero().flatten()
        poses = factors.to("cpu").subset(chosen)
        vectors = torch.cat(own)[chosen]
        samples.append(Sample(vectors.numpy(), poses.values.numpy(), poses.periods.numpy()))
    return samples


def table(results: Results) -> str:
    """Return R² for each part of the pose, and capsules against the CNN over seeds."""
    rows = current(results[NAME])
    keys = [f"{name}_r_squared" for name in FACTORS]
    shown = ["error_percent", *keys, "disentanglement", "completeness"]
    body = [
        [marked(row, rows.get(row, []), recipes)]
        + [mean_std(values(rows.get(row, []), key)) for key in shown]
        for row in ROWS
    ]
    header = ("head", "test error %", *(f"R² of {name}" for name in FACTORS), "D", "C")
    said = []
    for name, key in zip(FACTORS, keys, strict=True):
        found = {row: by_seed(runs, key) for row, runs in rows.items()}
        said += compare_paired(f"R² of {name}", found, [(R3, CNN), (R3, CNN_DRAWS)])
    return "\n\n".join(
        [markdown.table(header, body), markdown.bullets(said), markdown.recipes(rows)]
    )


EXPERIMENT = Experiment(
    NAME,
    "What a capsule's numbers encode: poses of shapes",
    recipes,
    table,
    measure,
    columns={"test error %": "error_percent", "R² of rotation": "rotation_r_squared"},
)
