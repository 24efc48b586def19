"""The report of real runs: folds on strangers' pictures, old runs, every task, and bad folders."""

import csv
import json
import re
import shutil
from dataclasses import replace
from functools import partial
from html import unescape
from html.parser import HTMLParser

import pytest
import torch
from strange import BREAK, EVIL, NOT_TEXT, SMALL

from capsnet.data import Split, register_data
from capsnet.data.streams.overlap import OverlapStream
from capsnet.measures.answered import Answered
from capsnet.report.render import command_of, visible
from capsnet.report.runs import config_of
from capsnet.report.writing import write_report
from capsnet.tasks import Numbers, OneLabel, SeveralLabels
from capsnet.training.loop import train


class Tags(HTMLParser):
    """All tags of a page with their attributes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def folds(strange_runs):
    """The report of two folds: what was written, the page's text, and the numbers."""
    written = write_report(strange_runs)
    numbers = json.loads(written.numbers.read_text(encoding="utf-8"))
    return written, written.page.read_text(encoding="utf-8"), numbers


def test_the_first_sentence_says_what_the_baselines_do(folds):
    written, page, numbers = folds
    assert written.verdict == numbers["verdict"] == "no better"
    assert re.match(r"The capsules are no better than \w", written.summary[0])
    assert numbers["summary"] == list(written.summary)
    assert all(sentence in page for sentence in written.summary[1:])
    names = [x["name"] for x in numbers["baselines"]]
    assert names == ["cnn", "majority", "logistic", "neighbours"]
    for baseline in numbers["baselines"]:
        for d in baseline["differences"]:
            ends = d["difference"]
            assert ends["low"] <= ends["value"] <= ends["high"]
            assert ends["value"] == pytest.approx(d["ours"]["value"] - d["theirs"]["value"])


def test_a_leak_is_said(folds):
    written, page, numbers = folds
    assert numbers["leaks"] and "Do not trust these numbers" in written.summary[2]
    assert numbers["data"]["in_shared_groups"] == 6  # two patients of the first fold
    assert set(numbers["data"]["shared_groups"]) == {"patient 18", "patient 19"}
    assert page.count('class="warning"') == 2


def test_folds_are_pooled_and_told_one_by_one(folds):
    _, page, numbers = folds
    assert numbers["pictures"]["num"] == 72 and numbers["pictures"]["num_groups"] == 24
    assert numbers["groups"]["level"] == "group" and numbers["groups"]["num"] == 24
    assert numbers["over_runs"]["accuracy"]["num"] == 2
    assert [run["name"] for run in numbers["runs"]] == ["fold1", "fold2"]
    assert numbers["pictures"]["scores"].keys() >= {"auc", "sensitivity_at_95", "ece", "brier"}
    accuracy = numbers["pictures"]["scores"]["accuracy"]
    assert f"{accuracy['value']:.3f} <small>{accuracy['low']:.3f} to" in page


def test_names_are_text_and_nothing_else(folds):
    written, page, _ = folds
    tags = Tags()
    tags.feed(page)
    assert not {name for name, _ in tags.found} & {"script", "iframe", "link", "object", "form"}
    for _, attributes in tags.found:
        assert not any(name.startswith(("on", "style")) for name in attributes)
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith(("data:", "#"))
    assert "default-src 'none'" in unescape(page)
    assert visible(EVIL) in unescape(page) and visible(BREAK) in unescape(page)
    assert visible(NOT_TEXT) in page
    assert "Two pictures of &lt;script&gt;" in page  # what the check of the data found
    assert visible("a\nb\udce9\u202e") == "a\\nb\\udce9\\u202e"
    with written.table.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header[:7] == ["file", "group", "split", "run", "truth", "prediction", "confidence"]
    assert header[7:] == ["well", EVIL]
    assert len(rows) == 2 * (24 + 36) and {row[2] for row in rows} == {"validation", "test"}
    assert f"{BREAK} test.png" in {row[0] for row in rows}
    for row in rows:
        assert float(row[7]) + float(row[8]) == pytest.approx(1, abs=1e-4)


def test_a_page_is_small_and_an_unfinished_fold_is_named(strange_runs, tmp_path):
    runs = shutil.copytree(strange_runs, tmp_path / "runs")
    (runs / "fold2" / "weights.safetensors").unlink()
    shutil.rmtree(runs / "fold1" / "baseline")
    written = write_report(runs, tmp_path / "mine.html")
    assert written.table.name == "mine-predictions.csv" and written.numbers.name == "mine.json"
    page = written.page.read_text(encoding="utf-8")
    assert "Not finished, and left out: fold2" in page
    assert "There is no CNN beside this run" in page
    assert len(page) < 1_000_000


def test_an_old_run_is_answered_again(trained, cli, tmp_path):
    out = tmp_path / "report.html"
    done = cli("report", trained, "--out", out, "--json")
    assert done.status == 0, done.err
    told, numbers = json.loads(done.out), json.loads((tmp_path / "report.json").read_text())
    assert told["verdict"] == numbers["verdict"] and told["page"] == str(out)
    result = json.loads((trained / "result.json").read_text())
    accuracy = numbers["pictures"]["scores"]["accuracy"]["value"]
    assert 100 * (1 - accuracy) == pytest.approx(result["error_percent"], abs=0.11)
    assert numbers["groups"] is None and numbers["data"]["in_shared_groups"] is None
    page = out.read_text(encoding="utf-8")
    for sentence in ("No groups are known", "There is no result by group", "were held out"):
        assert sentence in page
    assert len(numbers["most_wrong"]) == len(numbers["least_sure"]) == 12
    assert len({x["truth"] for x in numbers["least_sure"]}) == 10  # balanced over the classes
    assert (
        len(numbers["dimensions"]["pictures"]) == 6 and "learned" in numbers["decoder"]["verdict"]
    )
    assert not list(trained.glob("report*"))


def plain(task, labels, name, **how):
    """Register noise in colour, of a task, under a name."""

    def load(part, ask):
        num = 40 if part == "train" else 24
        images = torch.randint(256, (num, 3, 20, 20), generator=torch.Generator().manual_seed(num))
        return Split(images.byte(), labels(num), task)

    load.__qualname__ = name
    register_data(name, **how)(load)


CASES = {
    "several": (
        SeveralLabels(("a", "b", "never")),
        lambda num: torch.eye(3, dtype=torch.int64)[torch.arange(num) % 2],
        ("capsnet_small", SMALL["capsnet_small"]),
    ),
    "numbers": (
        Numbers(("age", "still"), ("y", ""), ((0.0, 1.0), (0.0, 1.0))),
        lambda num: torch.stack([torch.arange(num) / num, torch.ones(num) / 2], 1),
        ("capsnet_numbers", ("conv_channels=4", "primary_types=2", "decoder=(8,)")),
    ),
    "absent": (
        OneLabel(("a", "b", "c")),
        lambda num: torch.arange(num) % (3 if num == 40 else 1),
        ("cnn_small", SMALL["cnn_small"]),
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_every_task_has_a_report(kind, tiny):
    task, labels, (model, options) = CASES[kind]
    plain(task, labels, f"plain_{kind}")
    config = tiny(model=model, options=options, data=f"plain_{kind}", num_samples=None)
    train(config)
    written = write_report(config.folder)
    numbers = json.loads(written.numbers.read_text(encoding="utf-8"))
    page = written.page.read_text(encoding="utf-8")
    scores = numbers["pictures"]["scores"]
    if kind == "numbers":
        assert scores.keys() == {"mae", "rmse", "r2"} and "still is the same everywhere" in page
        assert numbers["curves"] is None and numbers["dimensions"] is not None
    elif kind == "several":
        assert "No picture shows never" in page and numbers["curves"]["confusion"] is None
        assert scores["average_precision"]["value"] is not None
    else:  # a network that draws nothing, and a test with one class
        assert scores["auc"] is None and "Every picture shows a" in page
        assert numbers["decoder"] is None and "The network has no decoder" in page


def test_pictures_that_are_made_of_others(tiny):
    pairs = partial(plain, OneLabel(("a", "b", "c")), lambda num: torch.arange(num) % 3)
    pairs("plain_pairs", stream=lambda split, ask: OverlapStream(split, 24, canvas=28))
    config = tiny(data="plain_pairs", options=SMALL["capsnet_small"], num_samples=None)
    train(config)
    numbers = json.loads(write_report(config.folder).numbers.read_text(encoding="utf-8"))
    assert numbers["task"]["kind"] == "pairs" and len(numbers["most_wrong"]) == 12
    assert numbers["data"]["splits"][0]["by_class"] == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: None, "There is no folder"),
        (lambda folder: folder.mkdir(), "There is no finished run in"),
        (lambda folder: _unfinished(folder), "finish run with --resume"),
        (lambda folder: _unfinished(folder / "fold1"), "finish fold1 with --resume"),
    ],
)
def test_what_is_no_run_is_one_sentence(make, words, cli, tmp_path):
    make(tmp_path / "run")
    done = cli("report", tmp_path / "run")
    assert done.status == 2 and done.out == "" and words in done.err and done.err.count("\n") == 1


def _unfinished(folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")


def test_a_page_is_called_html(cli, trained):
    done = cli("report", trained, "--out", "report.pdf")
    assert done.status == 2 and "ends in .html" in done.err


def test_damaged_answers_are_one_sentence(strange_runs, cli, tmp_path):
    runs = shutil.copytree(strange_runs, tmp_path / "runs")
    (runs / "fold1" / "answers-test.npz").write_bytes(b"nothing")
    done = cli("report", runs)
    assert done.status == 2 and done.out == "" and "cannot be read" in done.err


def test_pictures_that_have_changed_are_one_sentence(strange_runs, cli, tmp_path):
    runs = shutil.copytree(strange_runs, tmp_path / "runs")
    path = runs / "fold2" / "answers-test.npz"
    kept = Answered.load(path)
    replace(kept, files=("no longer\nthere.png", *kept.files[1:])).save(path)
    done = cli("report", runs)
    assert done.status == 2 and "('no longer\\nthere.png' is gone)" in done.err


def test_settings_come_back_as_they_were(tiny):
    config = tiny(plugin=(), options=("a=1", "decoder=()"))
    again = config_of(json.loads(json.dumps(config.to_json())) | {"unknown": 1})
    assert again == config
    assert "--options a=1 'decoder=()'" in command_of(config)
