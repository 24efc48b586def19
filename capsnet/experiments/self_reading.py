"""Does one number of a capsule mean one property? A network reads its own drawings (Fig. 4).

One number of the winning capsule is changed, the picture drawn and read: by the network itself,
and by a shipped CNN, since a network could agree with itself on pictures that nobody else takes
for the digit. What the rows differ in is the loss. Then the capsules are turned to the principal
directions of each class, and changes are measured in standard deviations of each number.
"""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from capsnet.experiments.pages import markdown
from capsnet.experiments.runner.experiment import Experiment, Trained
from capsnet.experiments.runner.records import Results, by_seed, current, marked, values
from capsnet.experiments.statistics import compare_paired, mean_std
from capsnet.figures.plot import BLUE, GREEN, ORANGE, PINK, RED, SKY, YELLOW
from capsnet.measures.strokes import PROPERTIES, UNITS, meanings, stroke_shapes
from capsnet.models import Model, create_model
from capsnet.models.principal import with_principal_directions
from capsnet.models.self_reading import moved_drawings, self_reading, spreads
from capsnet.training.config import TrainConfig

NAME = "self-reading"
EPOCHS = 40
AMOUNTS = (0.0, 0.05, 0.15, 0.25)
SPREADS = 2.5  # standard deviations of each number
NUM_IMAGES = 500  # of the test set
NUM_KNOWN = 5_000  # training images whose spread is taken
FEW = 10  # images of a try-out
READER = "cnn_small"
SHOWN = 20  # test images of each class whose strokes are measured
STEPS = torch.tensor([-2.0, -1.0, 1.0, 2.0])  # spreads

PLAIN = "reconstruction × 1"
LIGHT = "reconstruction × 1, cycle"
CYCLE = "reconstruction × 20, cycle"
NOISE = "reconstruction × 20, cycle, noise"
ON = "cycle_weight=1.0"
# weight of the reconstruction, weight decay, other options
ROWS: dict[str, tuple[float, float, tuple[str, ...]]] = {
    PLAIN: (0.0005, 0.05, ()),
    "reconstruction × 5": (0.0025, 0.05, ()),
    "reconstruction × 20": (0.01, 0.05, ()),
    LIGHT: (0.0005, 0.05, (ON,)),
    CYCLE: (0.01, 0.05, (ON,)),
    NOISE: (0.01, 0.05, (ON, "pose_noise=0.1")),
    f"{CYCLE}, no weight decay": (0.01, 0.0, (ON,)),
    "reconstruction × 40, no weight decay": (0.02, 0.0, ()),
    "reconstruction × 40, cycle, no weight decay": (0.02, 0.0, (ON,)),
}
COLOURS = dict(
    zip(ROWS, (RED, ORANGE, YELLOW, BLUE, PINK, GREEN, SKY, "grey", "black"), strict=True)
)


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return all rows; the paper's weight of the reconstruction is × 1, the authors' × 20."""
    common: dict[str, Any] = {
        "model": "capsnet_modern",
        "data": "mnist",
        "epochs": EPOCHS,
        "batch_size": 256,
        "lr": 2e-3,
        "schedule": "linear",
        "compile": True,
        "seed": seed,
    }
    return {
        row: TrainConfig(
            reconstruction_weight=weight, weight_decay=decay, options=options, **common
        )
        for row, (weight, decay, options) in ROWS.items()
    }


def images_of(trained: Trained, split: Any, num: int) -> Tensor:
    """Return the first images of a split, not augmented."""
    stream = trained.stream(split)
    return stream.batch({name: x[:num] for name, x in stream.plan(None).items()}).images


@torch.inference_mode()
def measure(trained: Trained) -> dict[str, Any]:
    """Return what drawings are read as, before and after turning, and what the numbers mean."""
    model = trained.model.eval()
    reader = create_model(READER, pretrained=True).to(trained.device).eval()
    many = trained.at_most is None  # each image is drawn often
    images = images_of(trained, "test", NUM_IMAGES if many else FEW)
    known = images_of(trained, "train", NUM_KNOWN if many else FEW)
    result: dict[str, Any] = {}
    for amount in AMOUNTS:
        result |= read(model, images, amount, f"at_{round(100 * amount):02d}", reader)
    main = with_principal_directions(model, known)
    spread = spreads(main, known)
    result |= read(main, images, AMOUNTS[-1], "turned_at_25", reader)
    result |= read(main, images, SPREADS * spread, "at_spreads", reader)
    result["spread"] = float(spreads(model, known).mean())
    return result | told(main, known, spread)


def read(
    model: Model, images: Tensor, amount: float | Tensor, key: str, reader: Model
) -> dict[str, float]:
    """Return the share that the model, and the reader, read as what was drawn, and the change.

    first_change: that by the first number alone, the principal direction of a turned model.
    """
    own, others = (self_reading(model, images, amount, who) for who in (None, reader))
    return {
        f"same_percent_{key}": 100 * own.same,
        f"reader_percent_{key}": 100 * others.same,
        f"change_{key}": own.change,
        f"first_change_{key}": own.change_of[0],
    }


def told(model: Model, images: Tensor, spread: Tensor) -> dict[str, Any]:
    """Return what the numbers of the turned capsules do to strokes, over images of each class.

    r: of each property, |r| of the number that tells it best, the mean over classes; by: the most
    that one spread of a number changes it. r_of: of each number and property the mean |r|.
    """
    winners, before, after = [], [], []
    seen = np.zeros(len(spread), int)
    for part in images.split(SHOWN):
        chosen = []
        for n, j in enumerate(model(part).answers.argmax(1).tolist()):
            seen[j] += 1
            if seen[j] <= SHOWN:
                chosen.append(n)
        for moved in moved_drawings(model, part[chosen], spread[..., None].cpu() * STEPS):
            winners.append(moved.winner.cpu().numpy())
            before.append(stroke_shapes(moved.before[:, 0].cpu().numpy()))
            after.append(stroke_shapes(moved.drawn[:, :, :, 0].cpu().numpy()))
    winner, shapes, changed = (np.concatenate(x) for x in (winners, before, after))
    classes = [winner == j for j in np.flatnonzero(seen > 1)]
    found = [meanings(STEPS.numpy(), shapes[own], changed[own]) for own in classes]
    if not found:
        return {}
    r, slope = (np.abs(np.stack(x)) for x in zip(*found, strict=True))  # [J, E, 5]
    best, most = r.max(1).mean(0), slope.max(1).mean(0)
    return {
        **{f"r_{name}": float(x) for name, x in zip(PROPERTIES, best, strict=True)},
        **{f"by_{name}": float(x) for name, x in zip(PROPERTIES, most, strict=True)},
        "r_of": r.mean(0).round(3).tolist(),
    }


def table(results: Results) -> str:
    """Return errors, how drawings are read, how much they change, and what numbers tell."""
    rows = current(results[NAME])
    keys = {f"same_percent_at_{round(100 * x):02d}": 1 for x in AMOUNTS}
    keys |= {"reader_percent_at_00": 1, "reader_percent_at_25": 1, "change_at_25": 3, "spread": 3}
    header = (
        "loss",
        "test error %",
        *(f"read as drawn at ±{x:g}, %" for x in AMOUNTS),
        "by a CNN at ±0, %",
        "by a CNN at ±0.25, %",
        "change at ±0.25",
        "spread",
    )
    body, meant = [], []
    for row in ROWS:
        runs = rows.get(row, [])
        shown = marked(row, runs, recipes)
        cells = [mean_std(values(runs, key), digits) for key, digits in keys.items()]
        body.append([shown, mean_std(values(runs, "error_percent")), *cells])
        more = ("same_percent_at_spreads", "reader_percent_at_spreads")
        cells = [mean_std(values(runs, key), 1) for key in more]
        for key in ("change_at_spreads", "first_change_at_spreads"):
            cells.append(mean_std(values(runs, key), 3))
        for name in PROPERTIES:
            cells += [mean_std(values(runs, f"r_{name}")), mean_std(values(runs, f"by_{name}"))]
        meant.append([shown, *cells])
    others = (
        f"principal directions, ±{SPREADS:g} spreads",
        "read as drawn, %",
        "by a CNN, %",
        "change",
        "change by the first",
        *(
            text
            for name, unit in zip(PROPERTIES, UNITS, strict=True)
            for text in (f"{name}, r", f"by one spread, {unit}")
        ),
    )
    errors = {row: by_seed(runs, "error_percent") for row, runs in rows.items()}
    said = compare_paired("Error", errors, [(PLAIN, row) for row in (LIGHT, CYCLE, NOISE)])
    parts = [markdown.table(header, body), markdown.table(others, meant)]
    return "\n\n".join([*parts, markdown.bullets(said), markdown.recipes(rows)])


def plot(results: Results) -> Figure:
    """Draw the share that is read as drawn against the change of the picture, one line per run."""
    figure = Figure(figsize=(6, 5), layout="constrained")
    axis = figure.subplots()
    rows = current(results[NAME])
    keys = [f"at_{round(100 * x):02d}" for x in AMOUNTS]
    for row in filter(rows.get, ROWS):
        for k, run in enumerate(rows[row]):
            if f"change_{keys[0]}" not in run.result:
                continue  # it diverged
            axis.plot(
                [run.result[f"change_{key}"] for key in keys],
                [run.result[f"same_percent_{key}"] for key in keys],
                "o-",
                ms=3,
                color=COLOURS[row],
                label=row if k == 0 else None,
            )
    axis.set(xlabel="mean squared change of a pixel", ylabel="drawings read as drawn, %")
    figure.legend(loc="outside lower center", fontsize=8, ncols=2)
    return figure


EXPERIMENT = Experiment(
    NAME,
    "Numbers that mean something: a network reads its own drawings",
    recipes,
    table,
    measure,
    plot,
    columns={
        "test error %": "error_percent",
        "read as drawn at ±0.25, %": "same_percent_at_25",
        "change at ±0.25": "change_at_25",
    },
)
