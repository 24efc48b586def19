"""How sure we are: tests for differences of means over seeds and of errors on the same images.

welch([0.25, 0.26, 0.24], [0.39, 0.41, 0.40]) -> p
"""

import warnings
from collections.abc import Iterable
from math import isfinite
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np
from scipy import stats

SIGNIFICANT = 0.05


def welch(a: list[float], b: list[float]) -> float | None:
    """Return p of Welch's two-sided t-test for equal means; None with fewer than two of each."""
    if min(len(a), len(b)) < 2:
        return None
    if len({*a}) == len({*b}) == 1:  # no spread: nothing to test a difference against
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one row without spread is no mistake
        p = float(stats.ttest_ind(a, b, equal_var=False).pvalue)
    return p if isfinite(p) else None


class Paired(NamedTuple):
    """The mean difference of two rows over shared seeds, its 95 % interval and p (t-test)."""

    difference: float
    low: float
    high: float
    p: float
    num: int


def paired(a: dict[int, float], b: dict[int, float]) -> Paired | None:
    """Return how far a lies above b, seed by seed; None with fewer than two shared seeds."""
    differences = [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]
    if len(differences) < 2 or len({*differences}) == 1:
        return None
    test = stats.ttest_1samp(differences, 0)
    low, high = test.confidence_interval(0.95)
    return Paired(mean(differences), float(low), float(high), float(test.pvalue), len(differences))


def compare_paired(
    what: str, rows: dict[str, dict[int, float]], pairs: Iterable[tuple[str, str]], digits: int = 2
) -> list[str]:
    """Return for each pair of rows (seed -> value) a sentence on whether they differ over seeds.

    The tests are taken together: a difference is called one only if it outlives Holm's correction.
    """
    pairs = list(pairs)
    found = [paired(rows.get(a, {}), rows.get(b, {})) for a, b in pairs]
    corrected = holm([None if x is None else x.p for x in found])
    count = sum(x is not None for x in found)
    texts = []
    for (a, b), x, p in zip(pairs, found, corrected, strict=True):
        if x is None or p is None:
            texts.append(f"{what}, {a} against {b}: too few shared seeds for a test.")
            continue
        lower = a if x.difference < 0 else b
        verdict = f"lower for {lower}" if p < SIGNIFICANT else "no significant difference"
        texts.append(
            f"{what}, {a} against {b}: {x.difference:+.{digits}f} "
            f"[{x.low:+.{digits}f}, {x.high:+.{digits}f}] over {x.num} seeds; {verdict} "
            f"(paired t-test, {show_p(x.p)}; {show_p(p)} as one of {count} tests)."
        )
    return texts


def mcnemar(wrong_a: np.ndarray, wrong_b: np.ndarray) -> float:
    """Return p of the exact McNemar test for two models' errors on the same images."""
    if wrong_a.shape != wrong_b.shape:
        raise ValueError("The two models must have seen the same images.")
    only_a = int((wrong_a & ~wrong_b).sum())
    only_b = int((wrong_b & ~wrong_a).sum())
    if only_a + only_b == 0:
        return 1.0
    return float(stats.binomtest(only_a, only_a + only_b, 0.5).pvalue)


def holm(tests: list[float | None]) -> list[float | None]:
    """Return the p of several tests, corrected for their number by Holm's method."""
    order = sorted((p, k) for k, p in enumerate(tests) if p is not None)
    corrected, least = list(tests), 0.0
    for rank, (p, k) in enumerate(order):
        least = max(least, min(1.0, p * (len(order) - rank)))
        corrected[k] = least
    return corrected


def mean_std(values: list[float], digits: int = 2) -> str:
    """Return "mean ± std (n)", the std that of a sample; a dash for nothing."""
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.{digits}f} (1)"
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f} ({len(values)})"


def show_p(p: float) -> str:
    """Return "p = 0.031" or "p < 0.001"."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def compare(pairs: Iterable[tuple[str, dict[str, list[float]]]], digits: int = 2) -> list[str]:
    """Return for each (what, {name: values, other: values}) a sentence on whether the means differ.

    The tests are taken together: a difference is called one only if it outlives Holm's correction.
    """
    pairs = list(pairs)
    tests = [welch(*rows.values()) for _, rows in pairs]
    texts = []
    for (what, rows), p, corrected in zip(pairs, tests, holm(tests), strict=True):
        (name_a, values_a), (name_b, values_b) = rows.items()
        if not values_a or not values_b:
            texts.append(f"{what}: not both of {name_a} and {name_b} have been run yet.")
            continue
        numbers = f"{name_a} {mean_std(values_a, digits)}, {name_b} {mean_std(values_b, digits)}"
        if p is None or corrected is None:
            texts.append(f"{what}: {numbers}; too few runs for a test.")
            continue
        lower = name_a if mean(values_a) < mean(values_b) else name_b
        found = f"lower for {lower}" if corrected < SIGNIFICANT else "no significant difference"
        count = sum(x is not None for x in tests)
        together = f"; {show_p(corrected)} as one of {count} tests" if count > 1 else ""
        texts.append(f"{what}: {numbers}; {found} (Welch's t-test, {show_p(p)}{together}).")
    return texts
