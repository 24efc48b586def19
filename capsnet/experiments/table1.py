"""Table 1: MNIST, the paper's recipe for all rows alike, and our recipe beside it.

The MultiMNIST column comes from the runs of multimnist.py.
"""

from capsnet.experiments import multimnist
from capsnet.experiments.pages import markdown
from capsnet.experiments.recipes import AUTHORS, modern, ours, paper
from capsnet.experiments.rows import (
    BASELINE,
    BASELINE_OURS,
    EFFICIENT,
    IN_THE_PAPER,
    MODERN,
    MODERN_READS,
    OURS,
    R1,
    R1_PLAIN,
    R3,
    R3_PLAIN,
    RELEASED,
    verdicts,
)
from capsnet.experiments.runner.experiment import Experiment
from capsnet.experiments.runner.records import Record, Results, current, marked, values
from capsnet.experiments.statistics import mean_std
from capsnet.training.config import TrainConfig

EPOCHS = 50
EPOCHS_OURS = 300  # tuned with 200 (docs/log.md)
EPOCHS_AUTHORS = 640  # their 300,000 steps
EPOCHS_MODERN = 100

# Shown once they have runs.
BESIDE = (RELEASED, OURS, BASELINE_OURS, MODERN, MODERN_READS, EFFICIENT)

MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    BASELINE: ("cnn_baseline", ()),
    R1_PLAIN: ("capsnet_mnist", ("num_iters=1", "decoder=()")),
    R1: ("capsnet_mnist", ("num_iters=1",)),
    R3_PLAIN: ("capsnet_mnist", ("decoder=()",)),
    R3: ("capsnet_mnist", ()),
}


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return the rows of the table."""
    chosen = ours(EPOCHS_OURS)
    rows = {row: (*model, paper(EPOCHS)) for row, model in MODELS.items()}
    rows[OURS] = ("capsnet_mnist", AUTHORS, chosen)
    rows[BASELINE_OURS] = (*MODELS[BASELINE], chosen)
    released = {**paper(EPOCHS_AUTHORS), "warmup_steps": 0, "average_classes": True}
    rows[RELEASED] = ("capsnet_mnist", AUTHORS, released)
    small = {**modern(EPOCHS_MODERN), "elastic": 0.5}
    rows[MODERN] = ("capsnet_modern_mnist", (), small)
    drawn = {"reconstruction_weight": 0.02, "weight_decay": 0.0}
    rows[MODERN_READS] = ("capsnet_modern_mnist", ("cycle_weight=1.0",), small | drawn)
    rows[EFFICIENT] = ("efficient_capsnet", (), small)
    return {
        row: TrainConfig(model=model, data="mnist", options=options, seed=seed, **recipe)
        for row, (model, options, recipe) in rows.items()
    }


def table(results: Results) -> str:
    """Return the table with the paper's columns and ours, and what can be said of it."""
    rows, overlaps = current(results["table1"]), current(results["multimnist"])
    shown = [
        *MODELS,
        *(row for row in BESIDE if row in rows),
    ]
    body = []
    for row in shown:
        runs = rows.get(row, [])
        body.append(
            [
                marked(row, runs, recipes),
                IN_THE_PAPER[row][0],
                mean_std(values(runs, "error_percent")),
                IN_THE_PAPER[row][1],
                overlap_cell(row, overlaps.get(row, [])),
                min((f"{s:.0f}" for s in values(runs, "seconds")), key=int, default="–"),
            ]
        )
    header = (
        "test error %",
        "MNIST, paper",
        "MNIST, here",
        "MultiMNIST, paper",
        "MultiMNIST, here",
        "seconds of training, MNIST, fastest run",
    )
    beside = ((OURS, R3), (OURS, BASELINE_OURS), *((row, OURS) for row in BESIDE[3:]))
    pairs = ((R3, BASELINE), (R3, R1), (R3, R3_PLAIN), *beside)
    said = verdicts(rows, [pair for pair in pairs if {*pair} <= {*shown}])
    said.append("The MultiMNIST column has recipes of its own: MultiMNIST in docs/results.md.")
    made = markdown.recipes({row: rows[row] for row in shown if row in rows})
    return "\n\n".join([markdown.table(header, body), markdown.bullets(said), made])


def overlap_cell(row: str, runs: list[Record]) -> str:
    """Return the error on MultiMNIST, with a mark if its runs are not of the recipe of now."""
    text = mean_std(values(runs, "error_percent"))
    return text if marked(row, runs, multimnist.recipes) == row else f"{text}, earlier settings"


EXPERIMENT = Experiment(
    "table1",
    "Table 1: MNIST",
    recipes,
    table,
    own_seeds={OURS: 5, RELEASED: 1, MODERN: 5, MODERN_READS: 5},
    columns={"test error %": "error_percent", "training error %": "train_error_percent"},
)
