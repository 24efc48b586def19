"""Temperatures and thresholds from validation answers, and the baselines that get the same."""

import warnings

import numpy as np
import pytest
import torch
from made_up import TASKS, answered, made_up, positives

from capsnet.measures import baselines
from capsnet.measures.answered import Answered
from capsnet.measures.baselines import fit_baselines, small_pixels
from capsnet.measures.calibrating import calibrate
from capsnet.measures.judged import judge
from capsnet.measures.values import values
from capsnet.tasks import Calibration, Numbers, OneLabel, Pairs, SeveralLabels
from capsnet.training.evaluation import Answers, measured


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def told(num, truth, said, seed=0):
    """Two classes: the positive comes with probability `truth`, and the model says `said`."""
    random = np.random.default_rng(seed)
    labels = (random.random(num) < 0.5).astype(np.int64)
    right = random.random(num) < truth
    return positives(np.where(right == (labels == 1), said, 1 - said), labels)


def test_temperature_of_the_too_sure_and_the_too_shy():
    sure, shy = told(400, 0.7, 0.99), told(400, 0.95, 0.6)
    assert calibrate(sure).temperature > 3
    assert calibrate(shy).temperature < 0.5
    for said in (sure, shy):
        before, after = (values(judge(said, c)) for c in (None, calibrate(said)))
        assert after["log_loss"] < before["log_loss"] and after["ece"] < before["ece"]
    # p^(1/T) odds: 0.99 has to become 0.7.
    right = float((judge(sure).said == judge(sure).truth).all(axis=1).mean())
    exact = np.log(99) / np.log(right / (1 - right))
    assert calibrate(sure).temperature == pytest.approx(exact, rel=0.05)


def test_a_set_without_errors_does_not_ask_for_certainty():
    rule = calibrate(told(30, 1.0, 0.9))
    assert 0.3 < rule.temperature <= 1
    assert judge(told(30, 1.0, 0.9), rule).answers.max() < 0.99


def test_few_pictures_change_nothing():
    assert calibrate(told(19, 0.7, 0.99)) == Calibration()
    assert calibrate(made_up(TASKS["numbers"])) == Calibration()
    assert calibrate(made_up(TASKS["pairs"])) == Calibration()


def test_the_threshold_finds_a_rare_class():
    labels = np.r_[np.ones(10, int), np.zeros(190, int)]
    scores = np.r_[np.linspace(0.2, 0.4, 10), np.linspace(0.01, 0.15, 190)]
    said = positives(scores, labels)
    rule = calibrate(said)
    assert judge(said).said[:, 1].sum() == 0  # the most probable class is never the rare one
    assert not judge(said, rule).wrong.any() and len(rule.thresholds) == 1


def test_no_threshold_where_none_helps():
    half = np.arange(60) % 2
    assert calibrate(positives(np.full(60, 0.3), half)).thresholds == ()
    three = (np.arange(60) >= 57).astype(int)  # too few to draw a line by
    assert calibrate(positives(np.linspace(0.1, 0.9, 60), three)).thresholds == ()


def test_several_labels_have_a_threshold_each():
    said = made_up(TASKS["several"], num=200)
    rule = calibrate(said)
    assert len(rule.thresholds) == 3
    assert (
        values(judge(said, rule))["f1"] >= values(judge(said, Calibration(rule.temperature)))["f1"]
    )


def test_more_than_two_classes_have_a_temperature_alone():
    rule = calibrate(made_up(TASKS["many"]))
    assert rule.thresholds == () and rule.temperature != 1


def blobs(num, task):
    """Pictures whose bright corner is their class, or whose brightness is their number."""
    random = np.random.default_rng(num)
    images = random.integers(0, 60, size=(num, 1, 20, 20))
    kinds = np.arange(num) % len(task.names)
    if isinstance(task, Numbers):
        labels = torch.from_numpy(random.random((num, 1)).astype(np.float32))
        return torch.from_numpy(images + 150 * labels.numpy()[:, :, None, None]).byte(), labels
    for k, kind in enumerate(kinds):
        images[k, 0, kind * 5 : kind * 5 + 5, :10] += 150
    labels = torch.from_numpy(kinds)
    if isinstance(task, SeveralLabels):
        labels = torch.eye(len(task.names), dtype=torch.int64)[labels]
    if isinstance(task, Pairs):
        labels = torch.stack([labels, (labels + 1) % len(task.names)], dim=1)
    return torch.from_numpy(images).byte(), labels


@pytest.mark.parametrize(
    "task",
    [
        OneLabel(("a", "b")),
        OneLabel(("a", "b", "c", "never")),
        SeveralLabels(("a", "b", "c")),
        Pairs(("a", "b", "c")),
        Numbers(("light",), ("",), ((0.0, 1.0),)),
    ],
    ids=lambda task: f"{task.kind}-{len(task.names)}",
)
def test_baselines_learn_what_is_easy(task):
    seen = OneLabel(task.names[:3]) if "never" in task.names else task
    images, labels = blobs(120, seen)
    tests, truth = blobs(40, seen)
    majority, linear, near = fit_baselines(task, small_pixels(images), labels.numpy())
    for baseline in (majority, linear, near):
        answers = baseline.answer(small_pixels(tests))
        assert answers.shape == (40, len(task.names)) and np.isfinite(answers).all()
        found = values(judge(answered(task, answers, truth.numpy())))
        score = found["r2"] if isinstance(task, Numbers) else found["accuracy"]
        assert (score < 0.6) if baseline is majority else (score > 0.9), baseline.name


def test_baselines_draw_from_many_pictures(monkeypatch):
    task = OneLabel(("a", "b"))
    monkeypatch.setattr(baselines, "MOST_PICTURES", 30)
    images, labels = blobs(120, task)
    fitted = fit_baselines(task, small_pixels(images), labels.numpy())
    assert [x.num_train for x in fitted] == [30] * 3


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 64, 48), (12, 40, 40), (1, 5, 5), (40, 8, 8)])
def test_small_pixels_stay_few(shape):
    pixels = small_pixels(torch.full((2, *shape), 7, dtype=torch.uint8))
    assert pixels.shape[1] <= baselines.MOST_FEATURES and (pixels == 7).all()


@pytest.mark.parametrize("kind", ["two", "several"])
def test_errors_are_counted_as_people_are_answered(kind):
    random = np.random.default_rng(3)
    names = ("a", "b") if kind == "two" else ("a", "b", "c")
    task = OneLabel(names) if kind == "two" else SeveralLabels(names)
    answers = random.random((60, len(names)), dtype=np.float32)
    labels = random.integers(0, 2, 60 if kind == "two" else answers.shape)
    rule = Calibration(0.7, (0.3,) if kind == "two" else (0.2, 0.5, 0.9))
    files = tuple(map(str, range(60)))
    judged = judge(Answered(task, answers, labels, files, files), rule)
    truth = task.batched(torch.from_numpy(labels))
    said = Answers(torch.from_numpy(answers), truth, torch.empty(0))
    assert np.array_equal(measured(task, said, rule).wrong.numpy(), judged.wrong)
    assert not np.array_equal(measured(task, said, None).wrong.numpy(), judged.wrong)
