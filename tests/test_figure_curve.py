"""The learning curve of a run, drawn from its log."""

import json
import os

import numpy as np
import pytest
from PIL import Image

from capsnet.errors import UserError
from capsnet.figures.curve import draw_curve
from capsnet.training.loop import train

LINES = [
    {"epoch": 1, "loss": 0.9, "train_error_percent": 60.0, "validation_error_percent": 50.0},
    {"epoch": 2, "loss": 0.5, "train_error_percent": 30.0, "validation_error_percent": 20.0},
    {"epoch": 3, "loss": 0.3, "train_error_percent": 10.0, "validation_error_percent": 25.0},
]


def write(folder, lines):
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "log.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_curve_shows_both_splits_and_marks_the_taken_epoch(tmp_path):
    lines = [LINES[0], {**LINES[1], "taken": True}, LINES[2]]
    left, right = draw_curve(write(tmp_path / "run", lines)).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in right.lines}
    assert drawn["train"] == [60, 30, 10] and drawn["validation"] == [50, 20, 25]
    (marked,) = (line for line in right.lines if line.get_label().startswith("kept"))
    assert list(marked.get_xdata()) == [2, 2] and marked.get_label() == "kept: epoch 2"
    assert list(left.lines[0].get_ydata()) == [0.9, 0.5, 0.3]
    assert right.get_ylabel() == "error in %" and right.get_xlabel() == "epoch"


def test_without_a_taken_epoch_the_last_is_kept(tmp_path):
    lines = [{k: x for k, x in line.items() if "validation" not in k} for line in LINES]
    right = draw_curve(write(tmp_path / "run", lines)).axes[1]
    assert [line.get_label() for line in right.lines] == ["train", "kept: epoch 3"]


def test_curve_of_a_run_is_a_picture(cli, tiny, tmp_path):
    train(config := tiny(holdout=20, epochs=2, patience=1))
    path = tmp_path / "curve.png"
    done = cli("figure", "curve", "--weights", config.folder, "--out", path)
    assert done.status == 0 and str(path) in done.out
    with Image.open(path) as picture:
        assert picture.format == "PNG" and np.array(picture.convert("L")).std() > 5


@pytest.mark.parametrize(
    ("lines", "sentence"), [(None, "give the folder of a run"), ([], "no finished epoch")]
)
def test_where_there_is_no_log_a_sentence_says_so(lines, sentence, tmp_path):
    if lines is not None:
        write(tmp_path / "run", lines)
    with pytest.raises(UserError, match=sentence):
        draw_curve(tmp_path / "run")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_log_that_is_no_file_is_not_waited_for(make, tmp_path):
    make(tmp_path / "log.jsonl")
    with pytest.raises(UserError, match="it is a folder, a pipe or a device"):
        draw_curve(tmp_path)


def test_a_curve_has_no_test_images(cli, tmp_path):
    done = cli("figure", "curve", "--weights", write(tmp_path / "run", LINES), "--index", 3)
    assert done.status == 2 and "leave data and index out" in done.err
