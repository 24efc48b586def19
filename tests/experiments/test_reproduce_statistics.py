import numpy as np
import pytest

from capsnet.experiments.reproduce.statistics import (
    compare,
    mcnemar,
    mean_std,
    pack,
    two_proportions,
    unpack,
    welch,
)


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


def test_two_proportions_by_hand():
    # 60 and 40 of 100: z = 0.2 / sqrt(0.25 * 0.02) = 2.8284, p = 0.00468.
    a, b = np.arange(100) < 60, np.arange(100) < 40
    assert two_proportions(a, b) == pytest.approx(0.004678, abs=1e-6)
    assert two_proportions(np.zeros(10, bool), np.zeros(20, bool)) == 1.0


def test_wrong_images_survive_packing():
    wrong = np.random.default_rng(0).random(100_003) < 0.05
    text = pack(wrong)
    assert np.array_equal(unpack(text, len(wrong)), wrong) and len(text) < 8_000


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
    assert verdict in compare("Error", {"A": a, "B": b})
