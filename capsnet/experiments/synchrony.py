"""Does synchrony bind? Slots filled by phases, by routing, by attention, on the same capsules.

One to three digits, the same class allowed, and two to four hollow shapes. An answer is right only
if all objects are named, as often as they are there. What differs between the rows is what shares
the primary capsules out among the slots: phases that synchronise, phases that stay where they
start, each read by slots that follow the phases they hold or by fixed ones, the paper's routing to
the classes of all slots, slot attention. "Shuffled phases" are those of a row, handed to other
capsules of the image after training.

`synchrony` is made for a GPU; `synchrony-small`, with digits of half size and a small stem, is made
by any computer in some hours.
"""

from collections.abc import Callable
from functools import partial

from capsnet.experiments.binding import measure
from capsnet.experiments.pages import markdown
from capsnet.experiments.runner.experiment import Experiment
from capsnet.experiments.runner.records import Results, by_seed, current, marked, values
from capsnet.experiments.statistics import compare_paired, mean_std
from capsnet.training.config import TrainConfig

NAME, SMALL = "synchrony", "synchrony-small"
PHASES, STILL = "phases, T = 8", "phases that stay, T = 0"
FIXED, STILL_FIXED = f"{PHASES}, fixed slots", f"{STILL}, fixed slots"
ROUTING, ATTENTION = "dynamic routing", "slot attention"
LONG = f"{ATTENTION}, six times as long"
BINDINGS: dict[str, tuple[str, ...]] = {
    PHASES: ("binding=synchrony",),
    STILL: ("binding=synchrony", "num_steps=0"),
    FIXED: ("binding=synchrony", "num_moves=0"),
    STILL_FIXED: ("binding=synchrony", "num_steps=0", "num_moves=0"),
    ROUTING: ("binding=dynamic",),
    ATTENTION: ("binding=attention",),
}
PAIRS = (
    (PHASES, STILL),
    (PHASES, FIXED),
    (PHASES, ROUTING),
    (PHASES, ATTENTION),
    (FIXED, STILL_FIXED),
)
DIGITS, HOLLOW = "digits", "hollow shapes"
DATA = {DIGITS: ("crowds", "num_slots=3"), HOLLOW: ("hollow", "num_slots=4")}
COLUMNS = {
    "all": "error_percent",
    "one": "error_of_1",
    "two": "error_of_2",
    "three": "error_of_3",
    "four": "error_of_4",
    "two of a class": "error_of_twins",
    "two apart": "error_apart",
    "two that touch": "error_touching",
    "two that overlap": "error_overlapping",
    "number known": "error_number_known",
    "shuffled phases": "error_shuffled",
    "FG-ARI": "ari",
    "FG-ARI, no overlap": "ari_apart",
    "FG-ARI of drawings": "ari_drawn",
    "kB an image": "kept_kb_per_image",
}


def row_name(data: str, binding: str) -> str:
    """Return what a row is called."""
    return f"{data}: {binding}"


def recipes(seed: int) -> dict[str, TrainConfig]:
    """Return all rows of the large comparison."""
    return {
        row_name(data, binding): TrainConfig(
            model="capsnet_slots",
            options=(*options, slots),
            data=source,
            num_samples=100_000,
            epochs=20,
            batch_size=256,
            lr=2e-3,
            schedule="linear",
            warmup_steps=1_000,
            compile=True,
            seed=seed,
        )
        for data, (source, slots) in DATA.items()
        for binding, options in BINDINGS.items()
    }


def small_recipes(seed: int) -> dict[str, TrainConfig]:
    """Return all rows of the small comparison; the learning rate was chosen for slot attention."""
    rows = {binding: (options, 5) for binding, options in BINDINGS.items()}
    rows[LONG] = (BINDINGS[ATTENTION], 30)
    return {
        row_name(DIGITS, binding): TrainConfig(
            model="capsnet_slots",
            options=(*options, "channels=(16, 32, 64)", "decoder=(128, 256)"),
            data="small_crowds",
            num_samples=20_000,
            epochs=epochs,
            batch_size=64,
            lr=5e-3,
            schedule="linear",
            warmup_steps=200,
            averaging=0.998,
            precision="bf16",
            seed=seed,
        )
        for binding, (options, epochs) in rows.items()
    }


def table(name: str, make: Callable[[int], dict[str, TrainConfig]], results: Results) -> str:
    """Return errors and groupings, and what phases buy over seeds."""
    rows = current(results[name])
    columns = {
        title: key
        for title, key in COLUMNS.items()
        if any(values(runs, key) for runs in rows.values())
    }
    body = []
    for row in make(0):
        runs = rows.get(row, [])
        cells = [mean_std(values(runs, key)) for key in columns.values()]
        sizes = ", ".join(f"{x:,}" for x in sorted({*values(runs, "parameters")})) or "–"
        body.append([marked(row, runs, make), *cells, sizes])
    said = []
    for title, key in (("Error", "error_percent"), ("Error of two of a class", "error_of_twins")):
        found = {row: by_seed(runs, key) for row, runs in rows.items()}
        for data in DATA:
            pairs = [(row_name(data, a), row_name(data, b)) for a, b in PAIRS]
            if any(row in rows for pair in pairs for row in pair):
                said += compare_paired(title, found, pairs)
    header = ("exact-set test error %", *columns, "parameters")
    return "\n\n".join(
        [markdown.table(header, body), markdown.bullets(said), markdown.recipes(rows)]
    )


def experiment(
    name: str, title: str, make: Callable[[int], dict[str, TrainConfig]], own: dict[str, int]
) -> Experiment:
    """Return one of the two comparisons."""
    return Experiment(
        name,
        title,
        make,
        partial(table, name, make),
        measure,
        seeds=5,
        own_seeds=own,
        columns={"test error %": "error_percent", "two of a class": "error_of_twins"},
    )


EXPERIMENTS = (
    experiment(NAME, "Routing by synchronisation: which parts belong together", recipes, {}),
    experiment(
        SMALL,
        "Routing by synchronisation: small digits, a small stem",
        small_recipes,
        {row_name(DIGITS, LONG): 1},
    ),
)
