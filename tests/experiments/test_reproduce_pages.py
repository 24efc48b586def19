import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.experiments.catalogue import EXPERIMENTS
from capsnet.experiments.pages import cards as shipping_module
from capsnet.experiments.pages.cards import ship
from capsnet.experiments.pages.report import report
from capsnet.experiments.runner.records import Record, marked, settings
from capsnet.experiments.runner.run import reproduce
from capsnet.lines import sealed
from capsnet.models.tensor_file import load_tensors
from capsnet.models.weights import load_weights
from capsnet.training.evaluation import evaluate

PAGE = "# Title\n\n<!-- results:{0} -->\nold\n<!-- /results:{0} -->\n\nend\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    for name, seeds in (("scrambled", 2), ("multimnist", 1)):
        reproduce(name, seeds=seeds, results=folder, runs=folder / "runs", smoke=True)
    return folder


@pytest.fixture
def root(tmp_path, made):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(PAGE.format("scrambled"))
    (tmp_path / "docs" / "own.md").write_text(PAGE.format("multimnist"))
    shutil.copytree(made, tmp_path / "results")
    return tmp_path


def names(paths):
    return sorted(p.name for p in paths)


def test_report_round_trip(root):
    results = root / "results"
    everything = ["README.md", "model_cards.md", "multimnist.png", "own.md", "results.md"]
    assert names(report(results, root, check=True)) == sorted([*everything, "scrambled.png"])
    assert "old" in (root / "README.md").read_text() and not (root / "docs/results.md").exists()
    assert names(report(results, root)) == sorted([*everything, "scrambled.png"])
    assert report(results, root, check=True) == [] == report(results, root)
    readme = (root / "README.md").read_text()
    assert readme.startswith("# Title\n") and readme.endswith("\n\nend\n") and "old" not in readme
    assert "(docs/figures/scrambled.png)" in readme
    assert "(figures/multimnist.png)" in (root / "docs" / "own.md").read_text()


def test_every_run_is_listed(root):
    report(root / "results", root)
    page = (root / "docs" / "results.md").read_text()
    for name in ("scrambled", "multimnist"):
        lines = (root / "results" / f"{name}.jsonl").read_text().splitlines()
        for record in map(json.loads, lines):
            start = f"| {record['row']} | {record['seed']} | "
            assert f"{start}{record['result']['error_percent']:.4g} |" in page
    assert page.count("No runs yet") == len(EXPERIMENTS) - 2


@pytest.mark.parametrize("page", ["README.md", "docs/own.md", "docs/results.md"])
def test_check_finds_an_edited_number(page, root):
    report(root / "results", root)
    path = root / page
    text = path.read_text()
    digit = re.search(r"\d(?= \(1\) \| )" if "own" in page else r"\d(?= ± \d)", text)
    changed = str((int(digit[0]) + 1) % 10)
    path.write_text(text[: digit.start()] + changed + text[digit.end() :])
    assert report(root / "results", root, check=True) == [path]


def test_check_finds_a_new_run_and_a_missing_plot(root):
    report(root / "results", root)
    lines = root / "results" / "multimnist.jsonl"
    record = json.loads(lines.read_text().splitlines()[-1])
    record["seed"] = record["config"]["seed"] = 1
    record["result"]["error_percent"] = 50.0
    del record["digest"]
    lines.write_text(lines.read_text() + sealed(record) + "\n")
    assert names(report(root / "results", root, check=True)) == [
        "multimnist.png",
        "own.md",
        "results.md",
    ]
    report(root / "results", root)
    (root / "docs" / "figures" / "scrambled.png").unlink()
    assert names(report(root / "results", root, check=True)) == ["scrambled.png"]


def test_check_finds_a_plot_that_is_drawn_in_another_way(root, monkeypatch):
    report(root / "results", root)
    drawn_now = replace(EXPERIMENTS["multimnist"], plot=lambda results: Figure())
    monkeypatch.setitem(EXPERIMENTS, "multimnist", drawn_now)
    assert names(report(root / "results", root, check=True)) == ["multimnist.png"]


def test_runs_of_other_times_are_shown(root):
    results = root / "results"
    report(results, root)
    for name in ("multimnist", "scrambled"):
        path = results / f"{name}.jsonl"
        record = json.loads(path.read_text().splitlines()[0])
        del record["digest"]
        given_up = {**record, "row": "given up", "config": {}, "result": {}}
        again = {**record, "config": {**record["config"], "lr": 0.5}}
        lines = [sealed(x) + "\n" for x in (given_up, again)]
        path.write_text(path.read_text() + "".join(lines))
    assert names(report(results, root, check=True)) == names(report(results, root))
    page = (root / "docs" / "results.md").read_text()
    assert page.count("| given up | 0 |") == 2
    assert "| CapsNet (superseded) | 0 |" in page and "| CapsNet | 0 |" in page
    assert report(results, root, check=True) == []


def test_row_that_is_given_up_is_marked():
    scrambled = EXPERIMENTS["scrambled"].recipes
    made = Record("", "CNN", 1, settings(scrambled(1)["CNN"]), {}, None, "", {}, 1.0, "")
    assert marked("CNN", [made], scrambled) == "CNN"
    assert marked("RNN", [made], scrambled) == "RNN (earlier settings)"


def test_blanks_after_a_marker_do_not_matter(root):
    path = root / "README.md"
    path.write_text(path.read_text().replace(" -->\n", " --> \t\n"))
    assert path in report(root / "results", root, check=True)
    report(root / "results", root)
    assert "old" not in path.read_text() and path.read_text().count(" --> \t\n") == 2


@pytest.mark.parametrize("missing", ["results", "root"])
def test_folder_that_is_missing_is_a_sentence(missing, root):
    folders = {"results": root / "results", "root": root} | {missing: root / "nowhere"}
    with pytest.raises(UserError, match=r"no folder .*nowhere"):
        report(folders["results"], folders["root"])
    assert "old" in (root / "README.md").read_text() and not (root / "nowhere").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<!-- results:tabel1 -->\n<!-- /results:tabel1 -->", "did you mean 'table1'"),
        ("<!-- results:table1 -->\n", "no whole block results:table1"),
        ("<!-- results:table1 --> x\n<!-- /results:table1 -->", "no whole block results:table1"),
        ("<!-- results:table1 -->\n" * 2 + "<!-- /results:table1 -->", "no whole block"),
    ],
)
def test_wrong_markers_are_sentences(text, sentence, root):
    (root / "README.md").write_text(text)
    with pytest.raises(UserError, match=sentence):
        report(root / "results", root)


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    monkeypatch.setattr(
        shipping_module, "shipped_path", lambda name: tmp_path / f"{name}.safetensors"
    )
    return tmp_path


def test_shipped_weights_have_a_card_and_a_line(shelf, tiny_in):
    from capsnet.training.loop import train

    result = train(tiny_in(shelf / "run", options=())).to_json()
    path = ship(shelf / "run", "capsnet_small", root=shelf)
    tensors, card = load_tensors(path)
    assert {x.dtype for x in tensors.values()} == {torch.float16}
    assert card["config"]["data"] == "digits" and card["config"]["seed"] == 0
    assert card["result"]["error_percent"] == result["error_percent"]
    assert card["commit"] is None  # the run does not know
    assert "out" not in card["config"] and not {"folder", "wrong"} & card["result"].keys()
    again = evaluate(load_weights(path)[0], open_data("digits", "test"))
    assert again.error_percent == pytest.approx(result["error_percent"], abs=0.3)
    page = (shelf / "docs" / "model_cards.md").read_text()
    assert "| `capsnet_small` | digits |" in page and f"{result['error_percent']:.2f} %" in page
    record = {"experiment": "table1", "row": "ours", "commit": "abc"}
    (shelf / "run" / "record.json").write_text(json.dumps(record))
    _, card = load_tensors(ship(shelf / "run", "capsnet_small", root=shelf))
    assert {key: card[key] for key in record} == record
    assert "| abc |" in (shelf / "docs" / "model_cards.md").read_text()


def test_weights_of_another_model_or_for_other_images_are_refused(shelf, trained, tiny_in):
    from capsnet.training.loop import train

    train(tiny_in(shelf / "large", image_size=32))
    for run, name in ((trained, "cnn_small"), (shelf / "large", "capsnet_small")):
        with pytest.raises(UserError, match=r"must be for images of shape \(1, 28, 28\)"):
            ship(run, name, root=shelf)
    assert not list(shelf.glob("*.safetensors"))


def test_a_validation_error_is_not_shipped_as_a_test_error(shelf, tiny_in):
    from capsnet.training.loop import train

    train(tiny_in(shelf / "run", options=(), epochs=1, holdout=10, final_split="validation"))
    with pytest.raises(UserError, match="ship a run whose final split is test"):
        ship(shelf / "run", "capsnet_small", root=shelf)
    assert not list(shelf.glob("*.safetensors"))


def test_weights_are_shipped_into_a_folder_that_is_there(shelf, trained):
    with pytest.raises(UserError, match="There is no folder"):
        ship(trained, "capsnet_small", root=shelf / "nowhere")
    assert not (shelf / "nowhere").exists() and not list(shelf.glob("*.safetensors"))


def test_the_pages_of_this_repository_agree_with_its_results(dev):
    root = Path(__file__).parents[2]
    done = dev("report", "--check", "--results", str(root / "results"), "--root", str(root))
    assert done.status == 0 and "All pages agree" in done.out, done.out + done.err
