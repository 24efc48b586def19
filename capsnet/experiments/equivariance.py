"""What happens inside when a digit turns, moves, grows or thickens.

A test digit is changed in small steps. For a CapsNet we follow the direction of the capsule that
wins for the unchanged digit, and its length; for a CNN the direction of its last hidden features,
and the probability of the class that wins. Over one path of S directions d_s (unit vectors):

path        sum of the angles between neighbours, in degrees: how much the change is noticed
straight    angle between the ends / path; 1 is a path that never turns back
rough       mean |d_(s+1) - 2 d_s + d_(s-1)| / mean |d_(s+1) - d_s|; 0 is a smooth path
on a line   share of the path's variance along its first principal direction
drift       mean |length_s - length of the unchanged digit|; 0 is a steady length
"""

from statistics import mean
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from capsnet.data.streams.alter import thicken
from capsnet.data.streams.geometry import SHARP, affine_theta, linear_map, warp
from capsnet.experiments import scrambled
from capsnet.experiments.pages import markdown
from capsnet.experiments.runner.experiment import Experiment, Trained
from capsnet.experiments.runner.records import Record, Results, current, values
from capsnet.experiments.statistics import compare, mean_std
from capsnet.figures.plot import BLUE, RED
from capsnet.models import Model

STEPS = torch.linspace(-1, 1, 9)  # whole pixels of a shift, which leave the picture sharp
CENTRE = len(STEPS) // 2
# The change at -1 and 1.
CHANGES = {
    "rotation": "±30°",
    "shift": "±4 px",
    "scale": "±30 %",
    "thickness": "−½ to +1 px",
}
MEASURES = {"path": 1, "straight": 3, "rough": 3, "on_a_line": 3, "drift": 3}  # decimals
NUM_IMAGES = 1_000
COLOURS = {"CapsNet": BLUE, "CNN": RED}


def change(images: Tensor, kind: str, amount: float) -> Tensor:
    """Return images [N, 1, H, W] turned, moved, scaled or thickened by amount in [-1, 1].

    They stay as sharp as they were, so that no step is a change of focus.
    """
    if kind == "thickness":  # a whole pixel less would erase many digits
        return thicken(images, amount if amount > 0 else amount / 2)
    t = torch.full((len(images),), amount, device=images.device)
    zero = torch.zeros_like(t)
    A = linear_map(
        angle=30 * t if kind == "rotation" else zero,
        scale=(1 + 0.3 * t if kind == "scale" else 1 + zero)[:, None].expand(-1, 2),
        shear=zero,
    )
    shift = torch.stack([4 * t if kind == "shift" else zero, zero], 1)
    size = (images.shape[2], images.shape[3])
    contrast = SHARP if kind != "shift" and amount else 1.0
    return warp(images, affine_theta(A, shift, size, size), size, contrast)


def follow(model: Model, images: Tensor, winner: Tensor) -> tuple[Tensor, Tensor]:
    """Return the vector [N, E] inside the model and the length [N] of class `winner` [N]."""
    output = model(images)
    rows = torch.arange(len(images), device=images.device)
    hidden = model.embeds
    vectors = output.v[rows, winner] if hidden is None else hidden.embed(images)
    return vectors, output.answers[rows, winner]


def path_measures(vectors: Tensor, lengths: Tensor) -> dict[str, Any]:
    """Return means over N paths of vectors [S, N, E] and lengths [S, N], and their curves."""
    d = F.normalize(vectors.double(), dim=-1)
    steps = d.diff(dim=0)
    path = angle(d[1:], d[:-1]).sum(0)
    moved = path > 0
    bends = torch.linalg.vector_norm(steps.diff(dim=0), dim=-1).mean(0)
    speed = torch.linalg.vector_norm(steps, dim=-1).mean(0)
    variance = torch.linalg.svdvals((d - d.mean(0)).transpose(0, 1)).square()
    share = variance[:, 0] / variance.sum(1)
    apart = lengths - lengths[CENTRE]
    return {
        "path": float(path.mean()),
        "straight": float((angle(d[0], d[-1]) / path)[moved].mean()),
        "rough": float((bends / speed)[moved].mean()),
        "on_a_line": float(share[moved].mean()),
        "drift": float(apart.abs().mean()),
        "angles": angle(d, d[CENTRE]).mean(1).tolist(),
        "lengths": lengths.mean(1).tolist(),
    }


def angle(a: Tensor, b: Tensor) -> Tensor:
    """Return the angle [...] in degrees between unit vectors [..., E], exact for small ones."""
    apart, together = (torch.linalg.vector_norm(x, dim=-1) for x in (a - b, a + b))
    return torch.rad2deg(2 * torch.atan2(apart, together))


@torch.inference_mode()
def measure(trained: Trained) -> dict[str, Any]:
    """Return the measures of each change over test digits that are read rightly unchanged."""
    stream, model = trained.stream("test"), trained.model.eval()
    num_images = trained.count(NUM_IMAGES)
    plan = {name: x[:num_images] for name, x in stream.plan(None).items()}
    batch = stream.batch(plan)
    winner = model(batch.images).answers.argmax(1)
    right = winner == batch.labels[:, 0]
    images, winner = batch.images[right], winner[right]
    result: dict[str, Any] = {"paths": len(images)}
    for kind in CHANGES:
        found = [follow(model, change(images, kind, t), winner) for t in STEPS.tolist()]
        vectors, lengths = (torch.stack(x).cpu() for x in zip(*found, strict=True))
        result |= {f"{kind}_{k}": x for k, x in path_measures(vectors, lengths).items()}
    return result


def table(results: Results) -> str:
    """Return all measures, and tests of smoothness, straightness and steadiness."""
    rows = current(results["equivariance"])
    body = []
    for kind, size in CHANGES.items():
        for model, runs in rows.items():
            cells = [mean_std(values(runs, f"{kind}_{m}"), n) for m, n in MEASURES.items()]
            body.append([f"{kind} {size}", model, *cells])
    header = ("change", "model", "path in °", "straight", "rough", "on a line", "drift")
    pairs = []
    for kind in CHANGES:
        for m, words in (("rough", "Roughness"), ("drift", "Drift of the length")):
            pair = {name: values(rows.get(name, []), f"{kind}_{m}") for name in COLOURS}
            pairs.append((f"{words}, {kind}", pair))
    said = compare(pairs, digits=3)
    parts = [markdown.table(header, body), markdown.bullets(said), markdown.recipes(rows)]
    return "\n\n".join(parts)


def plot(results: Results) -> Figure:
    """Draw the angle from the unchanged digit's direction, and the length, for each change."""
    rows = current(results["equivariance"])
    figure = Figure(figsize=(3 * len(CHANGES), 5), layout="constrained")
    axes = figure.subplots(2, len(CHANGES), sharex=True, sharey="row")
    for column, (kind, size) in enumerate(CHANGES.items()):
        for model in filter(rows.get, COLOURS):
            for axis, curve in zip(axes[:, column], ("angles", "lengths"), strict=True):
                means = mean_curve(rows[model], f"{kind}_{curve}")
                axis.plot(STEPS.tolist(), means, "o-", ms=3, color=COLOURS[model], label=model)
        axes[0, column].set_title(f"{kind} {size}", fontsize=10)
    axes[0, 0].set_ylabel("angle from the unchanged, °")
    axes[1, 0].set(ylabel="length or probability", ylim=(0, 1.05))
    axes[0, 0].legend(fontsize=8)
    return figure


def mean_curve(runs: list[Record], key: str) -> list[float]:
    """Return the mean over runs of a list of numbers."""
    curves = [r.result[key] for r in runs if key in r.result]
    return [mean(x) for x in zip(*curves, strict=True)] or [float("nan")] * len(STEPS)


EXPERIMENT = Experiment(
    "equivariance",
    "What a change of the input does inside",
    scrambled.recipes,
    table,
    measure,
    plot,
    columns={
        "test error %": "error_percent",
        **{f"{kind}, rough": f"{kind}_rough" for kind in CHANGES},
    },
)
