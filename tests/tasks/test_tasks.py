import json

import pytest
import torch

from capsnet.data import Split, stratified
from capsnet.data.streams.stream import ImageStream
from capsnet.errors import UserError
from capsnet.models import Progress, create_model
from capsnet.ops import margin_loss, reconstruction_loss
from capsnet.tasks import Numbers, OneLabel, Pairs, Sets, SeveralLabels, task_from_json
from capsnet.training.config import TrainConfig
from capsnet.training.setup import build_model
from capsnet.training.step import answer_and_loss

NAMES = ("cat", "dog", "owl")
ANGLE = Numbers(("angle", "width"), ("°", " px"), ((-45.0, 45.0), (0.0, 9.0)))
TASKS = [OneLabel(NAMES), Pairs(NAMES), SeveralLabels(NAMES), Sets(NAMES), ANGLE]
TABLE = torch.tensor([[1, 0, 1], [0, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_a_task_survives_json(task):
    assert task_from_json(json.loads(json.dumps(task.to_json()))) == task


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="no task called 'telepathy'"):
        task_from_json({"kind": "telepathy"})


def test_one_label_by_hand():
    task = OneLabel(NAMES)
    answers = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.3, 0.1], [0.1, 0.2, 0.7]])
    result = task.measure(answers, task.batched(torch.tensor([0, 0, 2])))
    assert result.wrong.tolist() == [False, True, False]
    assert result.error_percent == result.figure == pytest.approx(100 / 3)
    assert result.per_class_error_percent == (50.0, None, 0.0)
    assert str(result) == "33.33 % error, 1 of 3 images wrong"
    assert task.decide(answers[1]) == "dog" and task.say(torch.tensor([2])) == "owl"


def test_pairs_by_hand():
    task = Pairs(NAMES)
    answers = torch.tensor([[0.9, 0.1, 0.8], [0.9, 0.8, 0.1]])
    result = task.measure(answers, torch.tensor([[2, 0], [0, 2]]))
    assert result.wrong.tolist() == [False, True]
    assert task.decide(answers[0]) == "cat + owl" and task.say(torch.tensor([2, 0])) == "cat+owl"


def test_sets_by_hand():
    task = Sets(NAMES)
    answers = torch.tensor([[1.9, 0.1, 0.8], [0.9, 0.8, 0.1], [0.0, 0.2, 0.1]])
    labels = torch.tensor([[0, 2, 0], [0, -1, -1], [-1, -1, -1]])
    task.check(labels, 3)
    result = task.measure(answers, labels)
    assert result.wrong.tolist() == [False, True, False]
    assert result.per_class_error_percent == (50.0, None, 0.0)
    assert [task.decide(x) for x in answers] == ["cat + cat + owl", "cat + dog", "none"]
    assert task.say(labels[0]) == "cat + cat + owl"
    assert task.strata(torch.tensor([[0, 2], [2, 0], [0, -1]])).unique().numel() == 2
    with pytest.raises(UserError, match="or be -1 for nobody"):
        task.check(torch.tensor([[3]]), 1)


def test_several_labels_by_hand():
    task = SeveralLabels(NAMES)
    answers = torch.tensor([[0.9, 0.1, 0.8], [0.1, 0.6, 0.2], [0.4, 0.9, 0.1]])
    result = task.measure(answers, task.batched(TABLE))
    assert result.wrong.tolist() == [False, True, False]
    assert result.per_class_error_percent == (0.0, 0.0, 0.0)  # of the images that show it
    assert [task.decide(x) for x in answers] == ["cat, owl", "dog", "dog"]
    assert task.decide(torch.zeros(3)) == "none"


def test_numbers_by_hand():
    labels = torch.tensor([[0.0, 1.0], [10.0, 1.0], [20.0, 1.0]])
    answers = torch.tensor([[1.0, 2.0], [10.0, 1.0], [18.0, 1.0]])
    result = ANGLE.measure(answers, labels)
    assert result.mean_absolute_errors == pytest.approx((1.0, 1 / 3))
    assert result.r_squared == (pytest.approx(1 - 5 / 200), None)
    assert result.figure == pytest.approx(2 / 3)
    assert ANGLE.misses(answers, labels).tolist() == [1.0, 0.0, 1.0]
    assert "angle: mean absolute error 1°, R² 0.975" in str(result)
    assert ANGLE.decide(answers[0]) == "angle 1°, width 2 px"


@pytest.mark.parametrize(
    ("task", "labels", "sentence"),
    [
        (OneLabel(NAMES), torch.tensor([0, 1, 3]), "run from 0 to 3"),
        (OneLabel(NAMES), torch.zeros(3), "must be int64"),
        (Pairs(NAMES), torch.tensor([0, 1, 2]), r"int64 \[3, 2\]"),
        (Pairs(NAMES), torch.tensor([[0, 1], [2, 2], [1, 0]]), "two different classes"),
        (SeveralLabels(NAMES), torch.full((3, 3), 2), "zeros and ones"),
        (SeveralLabels(NAMES), torch.zeros(3, 2), "zeros and ones"),
        (ANGLE, torch.zeros(3), "finite floats"),
        (ANGLE, torch.full((3, 2), torch.nan), "finite floats"),
    ],
)
def test_labels_of_another_task_are_a_sentence(task, labels, sentence):
    images = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)
    with pytest.raises(UserError, match=sentence):
        Split(images, labels, task)


def test_numbers_need_names_units_and_ranges():
    with pytest.raises(UserError, match="as many of each"):
        Numbers(("a", "b"), ("",), ((0.0, 1.0),))
    with pytest.raises(UserError, match="range of a is empty"):
        Numbers(("a",), ("",), ((1.0, 1.0),))


def test_a_random_choice_keeps_the_shares_of_combinations():
    labels = TABLE.repeat(20, 1)
    rest, chosen = stratified(SeveralLabels(NAMES).strata(labels), 30, seed=0)
    assert labels[chosen].sum(0).tolist() == [10, 10, 10] and len(rest) == 30


def test_several_labels_draw_the_picture_together():
    torch.manual_seed(0)
    options = {"conv_channels": 8, "primary_types": 4, "decoder": (16,), "num_classes": 3}
    model = create_model("capsnet_small", **options, reconstruction_weight=0.5)
    model.class_caps.W.data *= 20
    task = SeveralLabels(NAMES)
    model.set_task(task)
    stream = ImageStream(Split(torch.randint(256, (3, 1, 28, 28)).byte(), TABLE, task))
    batch = stream.batch(stream.plan(None))
    assert batch.parts is None
    loss, misses = answer_and_loss(model, batch, Progress.at(0, 1))
    output = model(batch.images)
    drawn = model.draw(output.v * TABLE[..., None])
    expected = margin_loss(output.lengths, TABLE) + 0.5 * reconstruction_loss(drawn, batch.images)
    torch.testing.assert_close(loss, expected)
    assert misses.shape == (3,)


def test_a_model_is_not_trained_for_what_it_cannot_answer():
    numbers = create_model("capsnet_numbers")
    with pytest.raises(UserError, match="answers with numbers, but one label is asked for"):
        numbers.set_task(OneLabel(NAMES))
    with pytest.raises(UserError, match="gives 10 answers, but 3 are asked for"):
        create_model("capsnet_small").set_task(OneLabel(NAMES))
    digits = torch.zeros(3, 1, 28, 28, dtype=torch.uint8)
    stream = ImageStream(Split(digits, torch.zeros(3, 2), ANGLE))
    with pytest.raises(UserError, match="capsnet_small cannot be trained for what mine asks"):
        build_model(TrainConfig(model="capsnet_small", data="mine"), stream)


def test_progress_of_a_run():
    progress = Progress.at(25, total_steps=100, steps_per_epoch=10)
    assert progress.epoch.item() == 2 and progress.share.item() == 0.25


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (range(2), "must be words, not range"),
        ("ab", "'ab'"),
        (("a", "b", "a"), "Two are called 'a'"),
    ],
)
def test_names_that_are_no_different_words_are_a_sentence(names, sentence):
    for task in (OneLabel, SeveralLabels, lambda x: Numbers(x, ("",) * 2, ((0.0, 1.0),) * 2)):
        with pytest.raises(UserError, match=sentence):
            task(names)
    with pytest.raises(UserError, match=sentence):
        Split(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1]), names)


def test_lists_are_taken_as_tuples():
    task = Numbers(["angle"], ["°"], [[0.0, 1.0]])
    assert task == Numbers(("angle",), ("°",), ((0.0, 1.0),)) == task_from_json(task.to_json())
