"""Scores against hand-computed cases, laws of intervals, and scikit-learn under weights."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from made_up import TASKS, TWO, answered, made_up, positives

from capsnet.errors import UserError
from capsnet.measures.answered import Answered
from capsnet.measures.comparing import compare, over_runs
from capsnet.measures.curves import curves_of
from capsnet.measures.judged import by_group, judge, pool
from capsnet.measures.metrics import measure
from capsnet.measures.resampling import interval
from capsnet.measures.values import all_scores, draws, values
from capsnet.measures.weighted import ranked
from capsnet.tasks import Calibration, Numbers, OneLabel


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_a_small_case_by_hand():
    # 7 of 9 pairs are in order, 4 of 6 answers right.
    said = judge(positives([0.95, 0.65, 0.35, 0.85, 0.25, 0.15], [1, 1, 1, 0, 0, 0]))
    metrics = measure(said)
    score = {name: x.value for name, x in metrics.scores.items()}
    off = np.array([0.05, 0.35, 0.65, 0.85, 0.25, 0.15])
    assert score["accuracy"] == score["balanced_accuracy"] == pytest.approx(4 / 6)
    assert score["sensitivity"] == score["specificity"] == pytest.approx(2 / 3)
    assert score["auc"] == pytest.approx(7 / 9)
    assert score["average_precision"] == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert score["sensitivity_at_90"] == pytest.approx(1 / 3)
    assert score["brier"] == pytest.approx((off**2).mean())
    assert score["log_loss"] == pytest.approx(-np.log(1 - off).mean())
    assert score["ece"] == pytest.approx(off.mean())  # every picture has a tenth of its own
    assert curves_of(said).confusion == ((2, 1), (1, 2))
    assert [part.num for part in metrics.parts] == [3, 3] and metrics.missing == ()


def test_numbers_by_hand():
    task = Numbers(("angle",), ("°",), ((0.0, 4.0),))
    metrics = measure(judge(answered(task, [[1], [2], [5]], [[0.0], [2.0], [4.0]])))
    assert metrics.scores["mae"].value == pytest.approx(2 / 3)
    assert metrics.scores["rmse"].value == pytest.approx((2 / 3) ** 0.5)
    assert metrics.scores["r2"].value == pytest.approx(1 - 2 / 8)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_resamples_are_scored_as_scikit_learn_does(task):
    judged = judge(made_up(task))
    plain = values(judged)
    weights = np.random.default_rng(1).integers(0, 4, size=(3, len(judged))).astype(np.float32)
    drawn = draws(judged, np.vstack([np.ones_like(weights[:1]), weights]), all_scores(judged))
    assert drawn.keys() == set(all_scores(judged))
    for name, column in drawn.items():
        assert column[0] == pytest.approx(plain[name], abs=1e-6), name
    for row, times in zip(range(1, 4), weights.astype(int), strict=True):
        again = np.repeat(np.arange(len(judged)), times)  # a picture drawn twice is there twice
        whole = made_up(task)
        copies = Answered(
            task,
            whole.answers[again],
            whole.labels[again],
            tuple(whole.files[k] for k in again),
            tuple(whole.groups[k] for k in again),
        )
        for name, value in values(judge(copies)).items():
            if name in drawn:
                assert drawn[name][row] == pytest.approx(value, abs=1e-5), name


def test_equal_scores_count_half():
    weights, there = np.ones((1, 4), np.float32), np.array([1, 0, 1, 0])
    assert ranked(weights, np.full(4, 0.5), there).auc[0] == 0.5
    assert ranked(weights, np.full(4, 0.5), there).average_precision[0] == 0.5


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_perfect_answers(task):
    said = made_up(task, skill=1.0)
    metrics = measure(judge(said))
    best = {"log_loss": 0, "brier": 0, "ece": 0, "mae": 0, "rmse": 0}
    for name, x in metrics.scores.items():
        assert x.value == pytest.approx(best.get(name, 1), abs=1e-4), name
    if "accuracy" in metrics.scores:  # 12 groups without an error do not prove there is none
        assert metrics.scores["accuracy"].low == pytest.approx(0.025 ** (1 / 12))
        assert metrics.scores["auc"].low < 0.9


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_intervals_hold_the_value_and_order_changes_nothing(task):
    said = made_up(task)
    order = np.random.default_rng(5).permutation(len(said))
    other = Answered(
        task,
        said.answers[order],
        said.labels[order],
        tuple(said.files[k] for k in order),
        tuple(said.groups[k] for k in order),
    )
    one, two = measure(judge(said), 300), measure(judge(other), 300)
    for name, x in one.scores.items():
        assert x.low <= x.value <= x.high, name
        assert x.low < x.high, name
        again = two.scores[name]
        assert (x.value, x.low, x.high) == pytest.approx((again.value, again.low, again.high))
    assert one.to_json()["scores"].keys() == one.scores.keys()


def test_groups_widen_the_interval():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 20)
    right = np.repeat(random.random(20) < 0.7, 20)  # all pictures of a patient go the same way
    labels = groups % 2
    scores = np.where(right, labels, 1 - labels) * 0.8 + 0.1
    width = [
        x.high - x.low
        for g in (None, groups)
        for x in [measure(judge(positives(scores, labels, g))).scores["accuracy"]]
    ]
    assert width[1] > 3 * width[0]


def test_groups_are_judged_by_their_mean():
    said = positives([0.9, 0.8, 0.1, 0.2, 0.3, 0.6], [1, 1, 1, 0, 0, 0], list("aaabbb"))
    grouped = by_group(judge(said))
    assert grouped.level == "group" and len(grouped) == 2 and grouped.files == ("a", "b")
    assert grouped.answers[:, 1] == pytest.approx([0.6, 1.1 / 3])
    assert not grouped.wrong.any() and judge(said).wrong.sum() == 2
    assert by_group(judge(said), [Calibration(1.0, (0.7,))]).wrong.tolist() == [True, False]
    assert by_group(judge(positives([0.9, 0.1], [1, 0]))) is None  # nothing to average
    assert by_group(judge(positives([0.9, 0.1], [1, 0], "aa"))) is None  # no truth of its own


def test_what_cannot_be_told_is_said():
    task = OneLabel(("a", "b", "c"))
    said = answered(task, [[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.2, 0.7, 0.1]], [0, 0, 1])
    metrics = measure(judge(said))
    assert metrics.parts[2].scores == dict.fromkeys(metrics.parts[2].scores)
    assert any("c" in sentence for sentence in metrics.missing)
    assert metrics.scores["auc"].value == 1.0  # of the classes that are there
    alone = measure(judge(positives([0.9, 0.8], [1, 1], "aa")))
    assert alone.scores["auc"] is None and alone.scores["sensitivity_at_90"] is None
    assert alone.scores["accuracy"].low is None
    assert any("one group" in sentence for sentence in alone.missing)
    one = measure(judge(positives([0.9], [0])))
    assert one.scores["accuracy"].value == 0
    still = Numbers(("n",), ("",), ((0.0, 1.0),))
    assert measure(judge(answered(still, [[1], [2]], [[1.0], [1.0]]))).scores["r2"] is None


def test_an_interval_needs_resamples_that_have_a_value():
    assert interval(0.5, np.array([np.nan, np.nan, 0.4, np.nan]), 9).low is None
    assert interval(None, np.zeros(4), 9) is None
    assert interval(0.9, np.array([0.1, 0.2, 0.3]), 9).high == 0.9


def test_paired_differences():
    labels = np.arange(200) % 2
    random = np.random.default_rng(0)
    good = positives(np.clip(labels * 0.3 + 0.7 * random.random(200), 0, 1), labels)
    noise = positives(random.random(200), labels)
    auc, accuracy = compare(judge(good), judge(noise))
    assert (auc.score, auc.verdict, accuracy.verdict) == ("auc", "better", "better")
    assert compare(judge(noise), judge(good))[0].verdict == "worse"
    same = compare(judge(good), judge(good))[0]
    assert same.difference.value == same.difference.low == same.difference.high == 0
    assert same.verdict == "no better"
    swapped = Answered(
        TWO, noise.answers[::-1].copy(), labels[::-1], noise.files[::-1], noise.groups[::-1]
    )
    assert compare(judge(good), judge(swapped)) == (auc, accuracy)
    with pytest.raises(UserError, match="same data"):
        compare(judge(good), judge(answered(TWO, noise.answers, labels, prefix="other")))


@pytest.mark.parametrize("name", TASKS)
def test_one_group_says_nothing_of_others(name):
    good, bad = (
        replace(judge(made_up(TASKS[name], 40, skill)), groups=("one",) * 40) for skill in (0.9, 0)
    )
    assert compare(good, bad)[0].difference.value != 0
    assert {x.verdict for x in compare(good, bad)} == {"no better"}
    assert all(x is None or x.low is None for x in measure(good).scores.values())


def test_less_is_better_for_numbers():
    task = TASKS["numbers"]
    good, bad = (judge(made_up(task, 200, skill)) for skill in (0.9, 0.1))
    (mae,) = compare(good, bad)
    assert mae.difference.value < 0 and mae.verdict == "better"


def test_folds_are_pooled():
    parts = [judge(made_up(TASKS["many"], seed=k)) for k in range(3)]
    pooled = pool(parts)
    assert len(pooled) == 180 and pooled.runs.tolist() == [0] * 60 + [1] * 60 + [2] * 60
    assert pooled.num_groups == 12  # the same patients under other seeds are drawn together
    assert len(by_group(pooled)) == 36
    spread = over_runs(parts)["accuracy"]
    each = [1 - part.wrong.mean() for part in parts]
    assert (spread.mean, spread.num) == (pytest.approx(np.mean(each)), 3)
    assert spread.deviation == pytest.approx(np.std(each, ddof=1))
    assert measure(pooled).scores["accuracy"].value == pytest.approx(np.mean(each))
