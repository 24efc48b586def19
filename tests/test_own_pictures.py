"""From a raw folder to a report, by the command line alone, on real pictures."""

import csv
import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FROM = ("--class-from", "1", "--group-from", "2", "--image-size", "28")


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Three classes of scikit-learn's digits as CLASS/PART/*.png."""
    spec = importlib.util.spec_from_file_location("own", ROOT / "examples" / "own_pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    root = tmp_path_factory.mktemp("own") / "scans"
    module.write_folder(root, classes=3)
    return root


@pytest.fixture(scope="module")
def runs(scans):
    from capsnet.cli import main

    out = scans.parent / "runs"
    size = ("--model", "capsnet_small", "--epochs", "2", "--batch-size", "32")
    words = ("train", "--data", str(scans), *FROM, *size, "--folds", "2", "--out", str(out))
    assert main(list(words)) == 0
    return out


def test_check_says_what_there_is(cli, scans):
    done = cli("data", "check", str(scans), *FROM)
    assert done.status == 0 and "537 pictures" in done.out and "13 groups" in done.out
    raw = cli("data", "check", str(scans))
    assert raw.status == 2 and "--class-from 1 --group-from 2" in raw.err


def test_folds_keep_groups_whole_and_test_all(runs, scans):
    tested = []
    for fold in ("fold1", "fold2"):
        with (runs / fold / "split.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        where = {}
        for row in rows:
            where.setdefault(row["group"], set()).add(row["split"])
        assert all(len(splits) == 1 for splits in where.values())
        tested += [row["file"] for row in rows if row["split"] == "test"]
        assert (runs / fold / "baseline" / "weights.safetensors").exists()
    assert sorted(tested) == sorted(
        str(p.relative_to(scans).as_posix()) for p in scans.rglob("*.png")
    )
    summary = json.loads((runs / "summary.json").read_text(encoding="utf-8"))
    assert summary["num_runs"] == 2 and summary["mean"] < 20


def test_a_series_goes_on_where_it_is(cli, runs, scans, monkeypatch):
    words = ("train", "--data", str(scans), *FROM, "--model", "capsnet_small", "--epochs", "2")
    series = (*words, "--batch-size", "32", "--folds", "2", "--out", str(runs))
    assert "--resume" in cli(*series).err
    monkeypatch.setattr("capsnet.training.loop.train_one", None)  # nothing is left to be made
    done = cli(*series, "--resume")
    assert done.status == 0 and "(2 runs)" in done.out


def test_report_of_the_series(cli, runs):
    done = cli("report", str(runs), "--json")
    assert done.status == 0, done.err
    page = (runs / "report.html").read_text(encoding="utf-8")
    numbers = json.loads((runs / "report.json").read_text(encoding="utf-8"))
    assert len(page) < 5_000_000 and numbers
    with (runs / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["split"] == "test" for row in rows) == 537


def test_the_weights_know_their_pictures(cli, runs, scans, tmp_path):
    told = json.loads((runs / "fold1" / "result.json").read_text(encoding="utf-8"))
    done = cli("evaluate", "--weights", str(runs / "fold1"), "--json")
    assert json.loads(done.out)["error_percent"] == told["error_percent"]
    out = tmp_path / "said.csv"
    done = cli("predict", str(scans / "0"), "--weights", str(runs / "fold1"), "--csv", str(out))
    assert done.status == 0, done.err
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 178 and sum(row["prediction"] == "0" for row in rows) > 150


def test_pictures_that_changed_are_not_resumed(cli, runs, scans):
    words = ("train", "--data", str(scans), *FROM, "--model", "capsnet_small", "--epochs", "2")
    one = (*words, "--batch-size", "32", "--folds", "2", "--fold", "1", "--resume")
    before, after = (scans / "0" / "part01" / name for name in ("0000.png", "new.png"))
    before.rename(after)
    try:
        done = cli(*one, "--out", str(runs / "fold1"))
        assert done.status == 2 and "others than when the run" in done.err
    finally:
        after.rename(before)


def test_other_pictures_are_all_tested(cli, runs, scans, tmp_path):
    other = tmp_path / "new"
    for path in (p for p in scans.rglob("*.png") if p.parent.name in ("part01", "part02")):
        place = other / path.relative_to(scans)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    done = cli("evaluate", "--weights", str(runs / "fold1"), "--data", str(other), "--json")
    assert json.loads(done.out)["num_images"] == len(list(other.rglob("*.png")))


@pytest.mark.parametrize(
    ("model", "asked", "score"),
    [
        ("capsnet_small", ("--class-from", "even,small"), "average precision"),
        ("capsnet_numbers", ("--numbers-from", "value"), "mean absolute error"),
    ],
)
def test_a_table_of_several_labels_or_numbers(cli, scans, tmp_path, model, asked, score):
    table = scans / "table.csv"
    rows = [
        (p.relative_to(scans).as_posix(), int(p.parts[-3]), p.parts[-2])
        for p in sorted(scans.rglob("*.png"))[::3]
    ]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("file", "value", "even", "small", "group"))
        writer.writerows((f, v, int(v % 2 == 0), int(v < 2), g) for f, v, g in rows)
    out = tmp_path / "run"
    words = ("--model", model, "--image-size", "28", "--epochs", "1", "--batch-size", "16")
    train = cli("train", "--data", str(table), *asked, *words, "--baseline", "none", "--out", out)
    assert train.status == 0, train.err
    report = cli("report", str(out), "--json")
    assert report.status == 0, report.err
    assert score in (out / "report.html").read_text(encoding="utf-8").lower()
    table.unlink()
