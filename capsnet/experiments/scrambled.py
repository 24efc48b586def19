"""Is a digit with its parts in the wrong places still a digit?

Test digits are cut into a grid and put together so that no part is in its place. A model accepts
a picture if its score is at least that of all but 1 % (or 5 %) of the real test digits. Scores:
the longest capsule or the largest probability; besides, for a CapsNet how well its winning
capsule draws the picture (minus the squared error), for a CNN its largest logit.
"""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy import stats
from torch import Tensor

from capsnet.data.streams.alter import scramble
from capsnet.experiments import table1
from capsnet.experiments.pages import markdown
from capsnet.experiments.rows import BASELINE, R3
from capsnet.experiments.runner.experiment import BATCH, Experiment, Trained
from capsnet.experiments.runner.records import Results, current, values
from capsnet.experiments.statistics import compare, mean_std
from capsnet.figures.plot import BLUE, ORANGE, RED, SKY
from capsnet.models import Model
from capsnet.training.config import TrainConfig

SEED = 2017
GRIDS = {"halves": (2, 1), "quarters": (2, 2), "sixteenths": (4, 4)}  # rows, columns
KEPT = (99, 95)  # per cent of real digits that are accepted

ROWS = {"CapsNet": R3, "CNN": BASELINE}
CRITERIA = {
    "CapsNet": {"length": "longest capsule", "drawing": "squared error of its drawing"},
    "CNN": {"probability": "largest probability", "logit": "largest logit"},
}
COLOURS = {"length": BLUE, "drawing": SKY, "probability": RED, "logit": ORANGE}


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return both networks as in Table 1."""
    rows = table1.recipes(seed)
    return {name: rows[row] for name, row in ROWS.items()}


@torch.inference_mode()
def scores(model: Model, images: Tensor) -> dict[str, np.ndarray]:
    """Return for each criterion how much images [N, C, H, W] look like a digit, [N]."""
    found: dict[str, list[Tensor]] = {}
    for part in images.split(BATCH):
        output = model(part)
        if (artist := model.draws) is not None:
            error = (artist.reconstruct(output.v) - part).square().flatten(1).sum(1)
            new = {"length": output.answers.amax(1), "drawing": -error}
        else:
            new = {"probability": output.answers.amax(1), "logit": output.v[..., 0].amax(1)}
        for name, score in new.items():
            found.setdefault(name, []).append(score.double().cpu())
    return {name: torch.cat(x).numpy() for name, x in found.items()}


def measure(trained: Trained) -> dict[str, Any]:
    """Return how often scrambled test digits are accepted, for each grid and criterion."""
    stream = trained.stream("test")
    num_images = trained.count(stream.num_samples)
    plan = {name: x[:num_images] for name, x in stream.plan(None).items()}
    images = stream.batch(plan).images
    trained.model.eval()
    real = scores(trained.model, images)
    generator = torch.Generator().manual_seed(SEED)
    result: dict[str, Any] = {"scrambled_num_images": num_images}
    for grid, (rows, columns) in GRIDS.items():
        false = scores(trained.model, scramble(images, rows, columns, generator))
        for name in real:
            result |= acceptance(f"{name}_{grid}", real[name], false[name])
    return result


def acceptance(name: str, real: np.ndarray, false: np.ndarray) -> dict[str, float]:
    """Return per cent of `false` scores accepted, and how often a real one scores higher."""
    result = {}
    for kept in KEPT:
        # "lower": a threshold that is one of the real scores, so that at least `kept` % pass.
        threshold = np.quantile(real, 1 - kept / 100, method="lower")
        result[f"{name}_accepted_at_{kept}"] = 100 * float((false >= threshold).mean())
    ranks = stats.mannwhitneyu(real, false)
    result[f"{name}_auroc"] = float(ranks.statistic / (len(real) * len(false)))
    return result


def table(results: Results) -> str:
    """Return the share of scrambled digits accepted, and a test of the first criteria."""
    rows = current(results["scrambled"])
    body = []
    for model, criteria in CRITERIA.items():
        for name, words in criteria.items():
            for grid in GRIDS:
                keys = [f"{name}_{grid}_accepted_at_{kept}" for kept in KEPT]
                cells = [mean_std(values(rows.get(model, []), key), 1) for key in keys]
                area = mean_std(values(rows.get(model, []), f"{name}_{grid}_auroc"), 3)
                body.append([model, words, grid, *cells, area])
    accepted = [f"accepted % where {kept} % of real digits are" for kept in KEPT]
    header = ("model", "criterion", "cut into", *accepted, "area under the ROC curve")
    pairs = []
    for grid in GRIDS:
        pair = {
            m: values(rows.get(m, []), f"{c}_{grid}_accepted_at_{KEPT[0]}")
            for m, c in (("CapsNet", "length"), ("CNN", "probability"))
        }
        pairs.append((f"Scrambled digits accepted, {grid}, %", pair))
    said = compare(pairs, digits=1)
    parts = [markdown.table(header, body), markdown.bullets(said), markdown.recipes(rows)]
    return "\n\n".join(parts)


def plot(results: Results) -> Figure:
    """Draw the share accepted for each grid and criterion, a dot per run over a bar of means."""
    rows = current(results["scrambled"])
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    bars = [(m, c, words) for m, criteria in CRITERIA.items() for c, words in criteria.items()]
    for k, (model, name, words) in enumerate(bars):
        for x, grid in enumerate(GRIDS):
            found = values(rows.get(model, []), f"{name}_{grid}_accepted_at_{KEPT[0]}")
            if found:
                place, label = x + 0.2 * (k - 1.5), f"{model}: {words}" if x == 0 else None
                axis.bar(place, np.mean(found), 0.18, color=COLOURS[name], label=label)
                axis.plot([place] * len(found), found, ".", color="black", markersize=4)
    axis.set_xticks(range(len(GRIDS)), [f"cut into {grid}" for grid in GRIDS])
    axis.set(ylabel=f"accepted, %, where {KEPT[0]} % of real digits are", ylim=(0, 100))
    figure.legend(loc="outside upper center", ncols=2, fontsize=8)
    return figure


EXPERIMENT = Experiment(
    "scrambled",
    "Digits with their parts in the wrong places",
    recipes,
    table,
    measure,
    plot,
    columns={
        "test error %": "error_percent",
        **{
            f"{name}, quarters, accepted %": f"{name}_quarters_accepted_at_{KEPT[0]}"
            for name in ("length", "drawing", "probability", "logit")
        },
    },
)
