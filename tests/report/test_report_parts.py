"""The rules of the first sentence, and the charts' arithmetic."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from capsnet.data import Split
from capsnet.errors import UserError
from capsnet.measures.answered import Answered
from capsnet.measures.comparing import Difference
from capsnet.measures.judged import judge
from capsnet.measures.metrics import Metrics
from capsnet.measures.resampling import Estimate
from capsnet.report.charts import Line, bar, fitting, lines, ticks_of
from capsnet.report.content import _rows
from capsnet.report.facts import Checked, DataFacts, _prints, checked_of
from capsnet.report.render import command_of, command_of_all
from capsnet.report.runs import open_runs, unbegun
from capsnet.report.summary import Compared, signed, summarise
from capsnet.report.writing import Written
from capsnet.tasks import Numbers, OneLabel
from capsnet.training import TrainConfig, train
from capsnet.training.series import parts

TASK = OneLabel(("a", "b"))
SCORES = {"auc": Estimate(0.8, 0.7, 0.9), "accuracy": None}
METRICS = Metrics("picture", 90, 30, 1000, SCORES, (), ())
CLEAN = DataFacts("x", "grey", ("a", "b"), (), 90, 0, (), 0, (), Checked())


def against(title, theirs, low, high):
    value = Estimate(0.8 - theirs, low, high)
    difference = Difference("auc", Estimate(0.8), Estimate(theirs), value)
    return Compared(title, title, {}, (difference,))


BEATEN = against("guessing", 0.5, 0.2, 0.4)
EQUAL = against("pixels", 0.82, -0.05, 0.01)
BETTER = against("a CNN", 0.9, -0.15, -0.05)


@pytest.mark.parametrize(
    ("compared", "verdict", "begin"),
    [
        ([BEATEN], "better", "The capsules beat every baseline; the strongest is guessing: AUC"),
        ([BEATEN, EQUAL], "no better", "The capsules are no better than pixels: AUC (ROC) 0.8"),
        ([BEATEN, EQUAL, BETTER], "worse", "The capsules are worse than a CNN (nor do they be"),
        ([], "unknown", "The capsules could not be compared"),
    ],
)
def test_the_first_sentence(compared, verdict, begin):
    summary = summarise(TASK, "The capsules", METRICS, compared, CLEAN)
    assert summary.verdict == verdict and summary.sentences[0].startswith(begin)
    assert summary.sentences[1] == (
        "On 90 test pictures of 30 groups the result is AUC (ROC) 0.800 (0.700 to 0.900)."
    )


def test_pictures_without_groups_are_told_once_under_several_seeds():
    def result(num):
        facts = replace(CLEAN, in_shared_groups=None)
        return summarise(TASK, "It", replace(METRICS, num=num), [], facts).sentences[1]

    assert result(30).startswith("On 30 test pictures the result is")
    assert result(90).startswith("On 30 test pictures, each answered by 3 networks, the result is")


def test_the_last_sentence_warns():
    def last(**changes):
        facts = replace(CLEAN, **changes)
        summary = summarise(TASK, "The network", METRICS, [EQUAL], facts)
        return summary.leaks, summary.sentences[2]

    assert last() == (False, "No picture and no group is in both training and test.")
    leaks, told = last(in_shared_groups=89)
    assert leaks and "89 test pictures (99 %)" in told
    leaks, told = last(copies=3)
    assert leaks and "3 of 90" in told
    leaks, told = last(in_shared_groups=None)
    assert not leaks and "no groups are known" in told


def test_what_the_check_of_the_data_found_is_said_once():
    found = {"decided": ["Pad."], "findings": [{"weight": "leak", "sentence": "Near copies."}]}
    checked = checked_of([found, found, {"skipped": ["a.png is empty."]}])
    assert checked == Checked(("Pad.",), (("leak", "Near copies."),), ("a.png is empty.",))
    summary = summarise(TASK, "The network", METRICS, [EQUAL], replace(CLEAN, checked=checked))
    assert summary.leaks and summary.sentences[2].endswith("Near copies.")


def test_numbers_have_a_sign():
    told = [signed(x) for x in (0.5, -0.25, 0.0001, -0.0001)]
    assert told == ["+0.500", "−0.250", "0.000", "0.000"]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.003), (-7, 1234), (3, 3.5), (0, 97.2)])
def test_ticks_are_few_and_hold_the_ends(low, high):
    ticks = ticks_of(low, high)
    assert ticks[0] <= low + 1e-9 and ticks[-1] >= high - 1e-9 and 3 <= len(ticks) <= 7


def test_charts_hold_their_points():
    svg = lines([Line("a", [1, 2, 3], [5.0, 70.0, 20.0])], "epoch", "error", "x < y", unit=False)
    assert "x &lt; y" in svg and ">1.5<" not in svg
    frame = fitting([Line("", [4], [0.0])])
    assert frame.x[0] < 4 < frame.x[1] and frame.y[0] < frame.y[1]
    assert 'cx="116.0"' in bar(Estimate(7.0), 0, 1)  # what is outside is at the end


def test_black_pictures_are_no_copies_of_each_other():
    pixels = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
    pixels[2:, :, 2:4] = 200
    prints = list(_prints(Split(pixels, torch.zeros(4, dtype=torch.int64), TASK)))
    assert prints[:2] == [None, None] and prints[2] == prints[3] is not None


def test_folds_that_were_never_begun_are_named(tmp_path):
    for k in (1, 2):
        (tmp_path / f"fold{k}").mkdir()
        (tmp_path / f"fold{k}" / "config.json").write_text('{"folds": 4}')
    assert unbegun(tmp_path, [tmp_path / "fold1"]) == ("fold3", "fold4")
    told = str(Written(tmp_path, tmp_path, tmp_path, ("One.",), "worse", ("fold3",)))
    assert "Not finished, and left out: fold3;" in told


def test_numbers_can_be_computed_again_from_the_table():
    task = Numbers(("age",), ("",), ((0.0, 90.0),))
    answered = Answered(task, np.float32([[3]]), np.float32([[12.3456]]), ("a.png",), ("a",))
    (row,) = _rows(judge(answered), "test", ())
    assert row[-2:] == ("3", "12.3456")


def test_of_sets_there_is_no_report(tmp_path):
    settings = {"model": "capsnet_slots", "data": "crowd_digits", "epochs": 1, "batch_size": 20}
    options = ("channels=(4, 4)", "primary_types=2", "decoder=(8,)")
    train(TrainConfig(**settings, options=options, num_samples=20, out=tmp_path, device="cpu"))
    with pytest.raises(UserError, match="of which there is no report"):
        open_runs(tmp_path)


@pytest.mark.parametrize("folds, seeds", [(0, 3), (2, 1), (2, 2)])
def test_the_command_of_a_series_makes_all_its_runs(folds, seeds):
    config = TrainConfig(data="scans", folds=folds, seed=4, seeds=seeds, out=Path("runs/scans"))
    each = list(parts(config))
    assert len(each) == max(1, folds) * seeds
    assert command_of_all(each, Path("runs/scans")) == command_of(config)
