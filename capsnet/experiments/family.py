"""Every routing on one stem, by one recipe, on the same votes; and CNN heads in their place.

capsnet_modern and cnn_modern have the same stem, and in all rows but the pooled ones the head has
about as many weights; a decoder, where there is one, comes on top.

MNIST with noise, blur, attacks, scrambled digits and calibration beside the error;
Fashion-MNIST; CIFAR-10 for a few heads; digits placed on 40×40 and warped; few labels. On the stem
of capsnet_modern_small one of them is made by any computer in some hours (family-small), two heads
also at half and twice the learning rate (family-small-slow, family-small-fast).
"""

from collections.abc import Callable
from functools import partial
from statistics import mean, median, stdev
from typing import Any

from matplotlib.figure import Figure

from capsnet.experiments import affine
from capsnet.experiments.pages import markdown
from capsnet.experiments.robustness import robustness
from capsnet.experiments.runner.experiment import Experiment, Trained, nothing_more
from capsnet.experiments.runner.records import Record, Results, by_seed, current, marked, values
from capsnet.experiments.statistics import compare_paired, mean_std
from capsnet.figures.plot import BLUE, RED
from capsnet.training.config import TrainConfig

CAPSULES, CNN = "capsnet_modern", "cnn_modern"
SMALL = "capsnet_modern_small"
SMALL_CNN = ("channels=(16, 32, 64)", "conv_channels=128")  # the same stem and size
DRAWN, SMALL_DRAWN = "decoder=(256, 512)", "decoder=(128, 256)"
DYNAMIC, DENSE = "dynamic routing, r = 3", "CNN, dense"
HEADS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dynamic routing, r = 1": (CAPSULES, ("num_iters=1",)),
    "dynamic routing, r = 2": (CAPSULES, ("num_iters=2",)),
    DYNAMIC: (CAPSULES, ()),
    "dynamic routing, r = 5": (CAPSULES, ("num_iters=5",)),
    "dynamic routing, r = 3, no decoder": (CAPSULES, ("decoder=()",)),
    "EM": (CAPSULES, ("routing=em",)),
    "variational Bayes": (CAPSULES, ("routing=vb",)),
    "self-routing": (CAPSULES, ("routing=self",)),
    "inverted attention": (CAPSULES, ("routing=ida",)),
    "self-attention": (CAPSULES, ("routing=attention",)),
    DENSE: (CNN, ()),
    "CNN, dense, decoder": (CNN, (DRAWN,)),
    "CNN, pooled": (CNN, ("pooled=True",)),
    "CNN, pooled, decoder": (CNN, ("pooled=True", DRAWN)),
}
ERROR, HELD = "test error %", "validation error %"
BEST = (DYNAMIC, "EM", "self-attention", DENSE, "CNN, pooled")  # for CIFAR-10
MARKERS = dict(zip(HEADS, "ovs^D*PXph<>d8", strict=True))
HOLDOUT = 5_000
EPOCHS = 40
FEW = 1_000  # labels


def on_small(row: str) -> tuple[str, tuple[str, ...]]:
    """Return model and options of a row on the stem of capsnet_modern_small."""
    model, options = HEADS[row]
    options = tuple(SMALL_DRAWN if x == DRAWN else x for x in options)
    return (SMALL, options) if model == CAPSULES else (model, (*SMALL_CNN, *options))


def recipes(
    data: str,
    rows: tuple[str, ...],
    epochs: int,
    heads: Callable[[str], tuple[str, tuple[str, ...]]],
    changes: dict[str, Any],
    seed: int,
) -> dict[str, TrainConfig]:
    """Return the rows on a data set; heads: the model and options of each."""
    common: dict[str, Any] = {
        "data": data,
        "epochs": epochs,
        "batch_size": 256,
        "lr": 2e-3,
        "schedule": "linear",
        "weight_decay": 0.05,
        "holdout": HOLDOUT,
        "compile": True,
        "seed": seed,
        **changes,
    }
    if "num_samples" in changes:
        common["data_seed"] = seed
    made = {row: heads(row) for row in rows}
    return {
        row: TrainConfig(model=model, options=options, **common)
        for row, (model, options) in made.items()
    }


def table(
    name: str,
    columns: dict[str, str],
    make: Callable[[int], dict[str, TrainConfig]],
    results: Results,
) -> str:
    """Return all heads with all that was measured, and each error against dynamic routing's.

    What else was measured is compared between dynamic routing and the CNN's dense head.
    """
    rows = current(results[name])
    names = list(make(0))
    sized = any(values(runs, "parameters") for runs in rows.values())
    body = []
    for row in names:
        runs = rows.get(row, [])
        cells = [mean_std(values(runs, key)) for key in columns.values()]
        sizes = [f"{x:,}" for x in sorted({*values(runs, "parameters")})]
        told = [", ".join(sizes) or "–"] if sized else []
        body.append([marked(row, runs, make), *cells, *told])
    errors = {row: by_seed(runs, "error_percent") for row, runs in rows.items()}
    said = compare_paired("Error", errors, [(row, DYNAMIC) for row in names if row != DYNAMIC])
    also = {
        f"{row} ({x})": by_seed(runs, key)
        for row, runs in rows.items()
        for x, key in columns.items()
    }
    pairs = [(f"{DYNAMIC} ({x})", f"{DENSE} ({x})") for x in columns if x not in (ERROR, HELD)]
    said += compare_paired("Beyond", also, pairs, digits=1)
    shown = {row: rows[row] for row in names if row in rows}
    header = ("head", *columns, *(["parameters"] if sized else []))
    parts = [markdown.table(header, body), markdown.bullets(said)]
    return "\n\n".join([*parts, markdown.recipes(shown)])


def plot(name: str, results: Results) -> Figure:
    """Draw the test error of every head against the time of a training step."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    rows = current(results[name])
    shown = [row for row in HEADS if values(rows.get(row, []), "error_percent")]
    for row in shown:
        errors = values(rows[row], "error_percent")
        axis.errorbar(
            median(map(step_ms, rows[row])),
            mean(errors),
            stdev(errors) if len(errors) > 1 else None,
            fmt=MARKERS[row],
            color=BLUE if HEADS[row][0] == CAPSULES else RED,
            label=row,
            capsize=3,
        )
    axis.set(xlabel="one training step, ms", ylabel="test error, %")
    axis.set_xlim(left=0)
    figure.legend(loc="outside right upper", fontsize=8)
    return figure


def step_ms(run: Record) -> float:
    """Return how long a training step of a run took, by its last epoch."""
    return 1e3 * run.config["batch_size"] / run.result["images_per_second"]


def experiment(
    name: str,
    title: str,
    data: str,
    columns: dict[str, str],
    rows: tuple[str, ...] = tuple(HEADS),
    epochs: int = EPOCHS,
    measure: Callable[[Trained], dict[str, Any]] = nothing_more,
    heads: Callable[[str], tuple[str, tuple[str, ...]]] = HEADS.__getitem__,
    seeds: int = 3,
    **changes: Any,
) -> Experiment:
    """Return the heads on one data set as an experiment."""
    make = partial(recipes, data, rows, epochs, heads, changes)
    columns = {ERROR: "error_percent", **columns}
    return Experiment(
        name,
        title,
        make,
        partial(table, name, columns, make),
        measure,
        partial(plot, name),
        seeds,
        columns=columns,
    )


BEYOND = {
    "error with noise 0.2": "noise_0.2_error_percent",
    "error with blur 1 px": "blur_1_error_percent",
    "error under FGSM 0.1": "fgsm_error_percent",
    "error under PGD 0.1": "pgd_error_percent",
    "scrambled, accepted %": "scrambled_accepted_at_99",
    "ECE %": "ece_percent",
    "ECE %, calibrated": "calibrated_ece_percent",
}
MOVED: dict[str, Any] = {"flip": "horizontal", "shift": 4}
ON_SMALL: dict[str, Any] = {
    "epochs": 100,
    "heads": on_small,
    "seeds": 5,
    "num_samples": FEW,
    "holdout": FEW,
    "batch_size": 64,
    "compile": False,
}
EXPERIMENTS = (
    experiment(
        "family-small",
        f"Every head on one small stem: {FEW:,} labels",
        "mnist",
        {HELD: "validation_error_percent", **BEYOND},
        measure=robustness,
        **ON_SMALL,
    ),
    *(
        experiment(
            f"family-small-{name}",
            f"Two heads on the small stem: {words} the learning rate",
            "mnist",
            {HELD: "validation_error_percent"},
            (DYNAMIC, DENSE),
            lr=lr,
            **ON_SMALL,
        )
        for name, words, lr in (("slow", "half", 1e-3), ("fast", "twice", 4e-3))
    ),
    experiment("family", "Every head on one stem: MNIST", "mnist", BEYOND, measure=robustness),
    experiment("family-fashion", "Every head on one stem: Fashion-MNIST", "fashion", {}),
    experiment(
        "family-affine",
        "Every head on one stem: placed digits, warped",
        "mnist40",
        {
            "error % affNIST-style": "affine_error_percent",
            "error % warped in place": "warped_error_percent",
        },
        measure=affine.measure,
    ),
    experiment(
        "family-few",
        f"Every head on one stem: {FEW:,} labels",
        "mnist",
        {},
        epochs=200,
        num_samples=FEW,
        batch_size=128,
        lr=1e-3,
    ),
    experiment(
        "family-cifar10", "A few heads on one stem: CIFAR-10", "cifar10", {}, BEST, 60, **MOVED
    ),
)
