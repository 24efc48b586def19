"""How deep can capsules be stacked? The same stem below one to six layers of routed capsules.

What differs between the kinds is what keeps a stack from shrinking to nothing: nothing, a start of
W that fits the sizes, a norm between layers (also without agreement, or of each capsule by itself),
residual capsules, both.
"""

from statistics import mean, stdev
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from capsnet.experiments.pages import markdown
from capsnet.experiments.runner.experiment import Experiment, Trained
from capsnet.experiments.runner.records import Record, Results, by_seed, current, marked, values
from capsnet.experiments.statistics import compare_paired, mean_std
from capsnet.figures.plot import BLUE, GREEN, ORANGE, PINK, RED, SKY
from capsnet.layers import ClassCaps, PrimaryCaps
from capsnet.models import Model, Progress, create_model
from capsnet.tasks import Batch
from capsnet.training.config import TrainConfig

NAME = "depth"
EPOCHS = 20
IMAGES = 256  # of the test set, that lengths and gradients are measured on
DATA = {"MNIST": "mnist", "Fashion-MNIST": "fashion"}
PLAIN, START, NORM, ONE = "plain", "start", "norm", "norm, r = 1"
RESIDUAL, BOTH, CAPSULE = "residual", "norm and residual", "norm of each capsule"
KINDS: dict[str, tuple[str, ...]] = {
    PLAIN: ("norm=none", "residual=False", "gain=None"),
    START: ("norm=none", "residual=False", "gain=2.5"),
    NORM: ("norm=layer", "residual=False", "gain=None"),
    ONE: ("norm=layer", "residual=False", "gain=None", "num_iters=1"),
    CAPSULE: ("norm=capsule", "residual=False", "gain=None"),
    RESIDUAL: ("norm=none", "residual=True", "gain=None"),
    BOTH: ("norm=layer", "residual=True", "gain=None"),
}
COLOURS = {
    PLAIN: RED,
    START: ORANGE,
    NORM: BLUE,
    ONE: SKY,
    CAPSULE: "black",
    RESIDUAL: PINK,
    BOTH: GREEN,
}
# Residual capsules need two hidden layers; below that they change nothing.
DEPTHS: dict[str, dict[str, tuple[int, ...]]] = {
    "MNIST": {
        PLAIN: (1, 2, 3, 4),
        START: (2, 4),
        NORM: (1, 2, 3, 4, 6),
        ONE: (4, 6),
        CAPSULE: (4, 6),
        RESIDUAL: (4, 6),
        BOTH: (3, 4, 6),
    },
    "Fashion-MNIST": {
        PLAIN: (1, 2, 3),
        NORM: (1, 2, 4, 6),
        ONE: (4,),
        CAPSULE: (4,),
        BOTH: (4, 6),
    },
}


def row_name(data: str, kind: str, depth: int) -> str:
    """Return the name of a row."""
    return f"{data}, {kind}, {depth} layer{'s' if depth > 1 else ''}"


ROWS = {
    row_name(data, kind, depth): (data, kind, depth)
    for data, kinds in DEPTHS.items()
    for kind, depths in kinds.items()
    for depth in depths
}
DEAD = row_name("MNIST", PLAIN, 4)  # it has no gradient at the start: one seed says it


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return all rows, of one recipe."""
    return {
        row: TrainConfig(
            model="capsnet_deep",
            options=(f"depth={depth}", *KINDS[kind]),
            data=DATA[data],
            epochs=EPOCHS,
            batch_size=128,
            lr=1e-3,
            schedule="linear",
            warmup_steps=500,
            averaging=0.0,
            seed=seed,
        )
        for row, (data, kind, depth) in ROWS.items()
    }


def look_inside(model: Model, batch: Batch) -> dict[str, list[float]]:
    """Return the mean length of each layer's capsules and the size of the loss's gradient there.

    The layers are those of PrimaryCaps and ClassCaps, from the images to the answer.
    """
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, v: Tensor) -> None:
        found.append(v)

    layers = [m for m in model.modules() if isinstance(m, PrimaryCaps | ClassCaps)]
    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        loss = model.loss(model(batch.images), batch, Progress.at(0, 1))
    finally:
        for hook in hooks:
            hook.remove()
    gradients = torch.autograd.grad(loss, found)
    return {
        "lengths": [torch.linalg.vector_norm(v.detach(), dim=-1).mean().item() for v in found],
        "gradients": [torch.linalg.vector_norm(g).item() for g in gradients],
    }


def measure(trained: Trained) -> dict[str, Any]:
    """Return lengths and gradients of all layers, at the start and at the end, in fp32.

    At the start the norms of the stem take the batch's statistics, as in training.
    """
    stream = trained.stream("test")
    plan = stream.plan(None)
    batch = stream.batch({k: x[: trained.count(IMAGES)] for k, x in plan.items()})
    torch.manual_seed(trained.config.seed)
    model = create_model(trained.model.name, **trained.model.options)
    start = look_inside(model.to(trained.device).train(), batch)
    end = look_inside(trained.model.eval(), batch)
    return {
        "lengths_at_start": start["lengths"],
        "lengths": end["lengths"],
        "gradients_at_start": start["gradients"],
        "gradients": end["gradients"],
        "gradient_ratio_at_start": ratio(start["gradients"]),
        "gradient_ratio": ratio(end["gradients"]),
    }


def ratio(gradients: list[float]) -> float | None:
    """Return the first layer's gradient as a part of the last one's; None if that is zero."""
    return gradients[0] / gradients[-1] if gradients[-1] else None


def in_short(number: float) -> str:
    """Return a number of any size in three to seven characters."""
    return f"{number:.2f}" if number == 0 or 0.01 <= number < 100 else f"{number:.0e}"


def layerwise(runs: list[Record], key: str) -> str:
    """Return the mean over runs of a number of every layer, from the primary capsules on."""
    found = [r.result[key] for r in runs if r.result.get(key)]
    return ", ".join(in_short(mean(layer)) for layer in zip(*found, strict=True)) or "–"


def table(results: Results) -> str:
    """Return error, lengths and gradients of every row, and tests against one layer."""
    rows = current(results[NAME])
    body = []
    for row in ROWS:
        runs = rows.get(row, [])
        ratios = [values(runs, f"gradient_ratio{when}") for when in ("_at_start", "")]
        body.append(
            [
                marked(row, runs, recipes),
                mean_std(values(runs, "error_percent")),
                layerwise(runs, "lengths_at_start"),
                layerwise(runs, "lengths"),
                *(in_short(mean(x)) if x else "–" for x in ratios),
            ]
        )
    header = (
        "row",
        "test error %",
        "mean lengths at the start, primary to class",
        "after training",
        "gradient, first / last layer, at the start",
        "after training",
    )
    errors = {row: by_seed(runs, "error_percent") for row, runs in rows.items()}
    said = compare_paired("Error", errors, pairs())
    return "\n\n".join(
        [markdown.table(header, body), markdown.bullets(said), markdown.recipes(rows)]
    )


def pairs() -> list[tuple[str, str]]:
    """Return which rows are tested: those of four and six layers against one plain layer."""
    return [
        (row, row_name(data, PLAIN, 1))
        for row, (data, kind, depth) in ROWS.items()
        if kind in (NORM, CAPSULE, BOTH) and depth >= 4
    ]


def plot(results: Results) -> Figure:
    """Draw the error against the depth, one line per kind."""
    rows = current(results[NAME])
    figure = Figure(figsize=(8, 4), layout="constrained")
    for axis, data in zip(figure.subplots(1, len(DATA)), DATA, strict=True):
        for kind, depths in DEPTHS[data].items():
            runs = {
                d: values(rows.get(row_name(data, kind, d), []), "error_percent") for d in depths
            }
            made = [d for d in depths if runs[d]]
            axis.errorbar(
                made,
                [mean(runs[d]) for d in made],
                [stdev(runs[d]) if len(runs[d]) > 1 else 0.0 for d in made],
                fmt="o-",
                capsize=3,
                color=COLOURS[kind],
                label=kind,
            )
        axis.set(title=data, yscale="log", xlabel="layers of routed capsules")
        axis.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axis.yaxis.set_minor_formatter(lambda y, _: "")
    figure.axes[0].set_ylabel("test error, %")
    figure.axes[-1].legend()
    return figure


EXPERIMENT = Experiment(
    NAME,
    "Stacks of capsule layers: error against depth",
    recipes,
    table,
    measure,
    plot,
    seeds=3,
    own_seeds={DEAD: 1},
)
