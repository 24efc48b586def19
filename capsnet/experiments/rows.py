"""The rows of the paper's Table 1, those that stand beside them, and how two rows are compared."""

from collections.abc import Iterable

from capsnet.experiments.runner.records import Record, values
from capsnet.experiments.statistics import compare, holm, mcnemar, show_p
from capsnet.training.evaluation import unpack

BASELINE = "baseline CNN"
R1_PLAIN = "CapsNet, r = 1, no reconstruction"
R1 = "CapsNet, r = 1, reconstruction"
R3_PLAIN = "CapsNet, r = 3, no reconstruction"
R3 = "CapsNet, r = 3, reconstruction"
BASELINE_OURS = f"{BASELINE}, our recipe"
RELEASED = "CapsNet as in the authors' code"
OURS = f"{RELEASED}, our recipe"
OURS_WARPED = f"{OURS}, small warps"
MODERN = "capsules on a modern stem"
MODERN_READS = f"{MODERN}, drawings read"
MODERN_CNN = "CNN on the same stem"
EFFICIENT = "Efficient-CapsNet"

# Test errors in per cent that the paper gives: MNIST, MultiMNIST.
IN_THE_PAPER = {
    BASELINE: ("0.39", "8.1"),
    R1_PLAIN: ("0.34 ± 0.032", "–"),
    R1: ("0.29 ± 0.011", "7.5"),
    R3_PLAIN: ("0.35 ± 0.036", "–"),
    R3: ("0.25 ± 0.005", "5.2"),
    RELEASED: ("–", "–"),
    OURS: ("–", "–"),
    OURS_WARPED: ("–", "–"),
    MODERN: ("–", "–"),
    MODERN_READS: ("–", "–"),
    MODERN_CNN: ("–", "–"),
    EFFICIENT: ("–", "–"),
    BASELINE_OURS: ("–", "–"),
}


def verdicts(rows: dict[str, list[Record]], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Compare pairs of rows over seeds, or image by image where there are too few seeds."""
    pairs = list(pairs)
    errors = {row: values(rows.get(row, []), "error_percent") for pair in pairs for row in pair}
    texts = compare(("Error", {a: errors[a], b: errors[b]}) for a, b in pairs)
    found = [by_image(rows.get(a, []), rows.get(b, [])) for a, b in pairs]
    tests = holm([p for _, p in found])
    count = sum(p is not None for p in tests)
    together = f" as one of {count} tests" if count > 1 else ""
    for k, ((seed, _), p) in enumerate(zip(found, tests, strict=True)):
        if p is not None:
            texts[k] += f" Image by image, seed {seed}: McNemar's test, {show_p(p)}{together}."
    return texts


def by_image(a: list[Record], b: list[Record]) -> tuple[int, float] | tuple[None, None]:
    """Return the first seed of both rows and p for its two networks on the same images.

    Nothing where seeds can be compared instead, or no seed is in both.
    """
    found = [{r.seed: r.result for r in runs if "wrong" in r.result} for runs in (a, b)]
    shared = sorted(found[0].keys() & found[1].keys())
    if not shared or min(len(values(runs, "error_percent")) for runs in (a, b)) > 1:
        return None, None
    results = [of_row[shared[0]] for of_row in found]
    return shared[0], mcnemar(*(unpack(x["wrong"], x["num_images"]) for x in results))
