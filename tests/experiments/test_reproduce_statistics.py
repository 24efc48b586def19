from dataclasses import replace

import numpy as np
import pytest

from capsnet.experiments.rows import verdicts
from capsnet.experiments.runner.records import Record
from capsnet.experiments.statistics import compare, holm, mcnemar, mean_std, welch
from capsnet.training.evaluation import pack


def test_welch_by_hand():
    # t = -1, df = 8 for equal variances and sizes: p = 0.3466 in any table of Student's t.
    assert welch([1, 2, 3, 4, 5], [2, 3, 4, 5, 6]) == pytest.approx(0.34659, abs=1e-5)
    assert welch([1.0], [2.0, 3.0]) is None
    assert welch([1.0, 1.0], [2.0, 2.0]) is None


def test_mcnemar_by_hand():
    a = np.array([True] * 6 + [False] * 14)
    b = np.array([False] * 5 + [True] + [False] * 13 + [True])
    # 5 images only a gets wrong, 1 only b: p = 2 (1 + 6) / 2^6.
    assert mcnemar(a, b) == pytest.approx(14 / 64)
    assert mcnemar(b, a) == pytest.approx(14 / 64)
    assert mcnemar(a, a) == 1.0
    with pytest.raises(ValueError):
        mcnemar(a, b[:5])


def test_holm_by_hand():
    # 0.01 · 4, 0.02 · 3, 0.03 · 2 (but not below the one before), 0.4 · 1.
    assert holm([0.03, 0.01, None, 0.4, 0.02]) == pytest.approx([0.06, 0.04, None, 0.4, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


def test_means_are_shown_with_spread_and_number():
    assert mean_std([0.25, 0.26, 0.24]) == "0.25 ± 0.01 (3)"
    assert mean_std([0.25]) == "0.25 (1)" and mean_std([]) == "–"


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([0.25, 0.26, 0.24], [0.39, 0.41, 0.40], "lower for A (Welch's t-test, p < 0.001)"),
        ([0.39, 0.41, 0.40], [0.25, 0.26, 0.24], "lower for B"),
        ([0.25, 0.35], [0.26, 0.36], "no significant difference"),
        ([0.25], [0.40], "too few runs"),
        ([], [0.40], "not both"),
    ],
)
def test_verdicts(a, b, verdict):
    assert verdict in compare([("Error", {"A": a, "B": b})])[0]


def test_several_tests_are_taken_together():
    near, far = {"A": [1.0, 1.1, 1.2], "B": [1.3, 1.4, 1.5]}, {"A": [1.0, 1.1], "B": [1.0, 1.1]}
    assert "lower for A (Welch's t-test, p = 0.021)" in compare([("Error", near)])[0]
    three = compare([("Error", near), ("Error", far), ("Error", far)])
    assert "no significant difference (Welch's t-test, p = 0.021; p = 0.064 as one of 3" in three[0]


def test_single_runs_are_compared_image_by_image_on_the_same_seed():
    def run(seed, wrong):
        result = {"error_percent": 10.0, "num_images": 20, "wrong": pack(np.arange(20) < wrong)}
        return Record("table1", "", seed, {}, result, None, "cpu", {}, 1.0, "")

    rows = {"A": [run(4, 9), run(0, 8)], "B": [run(0, 1)]}
    assert "seed 0: McNemar's test, p = 0.016" in verdicts(rows, [("A", "B")])[0]  # 2 / 2^7
    twice = verdicts(rows, [("A", "B"), ("B", "A")])
    assert all("seed 0: McNemar's test, p = 0.031 as one of 2 tests." in text for text in twice)
    assert "McNemar" not in verdicts({"A": [run(1, 9)], "B": [run(0, 1)]}, [("A", "B")])[0]
    assert "McNemar" not in verdicts({"A": [run(0, 9), run(1, 8)], "B": rows["A"]}, [("A", "B")])[0]
    diverged = replace(run(1, 0), result={"diverged": True})
    rows["B"].append(diverged)  # has no error, so that seeds still cannot be compared
    assert "seed 0: McNemar's test, p = 0.016" in verdicts(rows, [("A", "B")])[0]
