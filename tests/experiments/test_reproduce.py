import json
import signal
import time
from dataclasses import replace

import pytest
from PIL import Image
from torch.nn.modules.module import register_module_forward_hook

from capsnet.errors import UserError
from capsnet.experiments.catalogue import EXPERIMENTS
from capsnet.experiments.drawings import DRAWINGS
from capsnet.experiments.rows import BASELINE
from capsnet.experiments.runner import run
from capsnet.experiments.runner.records import current, digest, read, settings
from capsnet.experiments.runner.run import Summary, reproduce
from capsnet.experiments.table1 import MODELS
from capsnet.models import CapsNet
from capsnet.training import setup
from capsnet.training.checkpoint import CHECKPOINT
from capsnet.training.config import TrainConfig
from capsnet.training.evaluation import unpack
from capsnet.training.outcome import Diverged, Interrupted
from capsnet.training.stopping import Stop


@pytest.fixture
def here(tmp_path):
    """Folders of one test, and the rest of what a try-out takes."""
    return {
        "results": tmp_path / "results",
        "runs": tmp_path / "runs",
        "device": "cpu",
        "smoke": True,
    }


def folders(runs_folder):
    """The folders of runs, without that of their locks."""
    return sorted(p for p in runs_folder.iterdir() if p.name != run.LOCKS)


@pytest.fixture
def trainings(monkeypatch):
    """The configs that were trained; the third and later ones fail if `fail_at` is set to 3."""
    real, seen = run.train_one, []

    def train(config):
        seen.append(config)
        if len(seen) == train.fail_at:
            raise RuntimeError("killed")
        return real(config)

    train.fail_at = 0
    train.seen = seen
    monkeypatch.setattr(run, "train_one", train)
    return train


# Others of the same make, or with many rows; `make long` has them.
LONG = {"family", "family-fashion", "family-affine", "family-few", "family-cifar10"}
LONG |= {"family-small", "family-small-slow", "family-small-fast"}
LONG |= {"depth", "self-reading", "synchrony", "synchrony-small"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in EXPERIMENTS],
)
def test_experiment_from_recipes_to_table(name, here, tmp_path, trainings):
    experiment = EXPERIMENTS[name]
    rows = list(experiment.recipes(0))
    assert reproduce(name, seeds=1, **here) == Summary(len(rows), 0, 0)
    records = read(here["results"], name)
    assert [r.row for r in records] == rows
    for r in records:
        assert r.experiment == name and r.seed == r.config["seed"] == 0
        assert 0 <= r.result["error_percent"] <= 100 and r.seconds > 0
        assert r.device == "cpu" and "torch" in r.versions and r.date.startswith("20")
        assert r.result["epochs"] == 1 and r.result["images_per_second"] > 0
    assert not folders(here["runs"])
    results = {other: [] for other in EXPERIMENTS} | {name: records}
    assert experiment.table(results).count("(1) |") >= len(rows)
    if experiment.plot:
        experiment.plot(results).savefig(tmp_path / "plot.png")
    made = len(trainings.seen)
    assert reproduce(name, seeds=1, **here) == Summary(0, len(rows), 0)
    assert len(trainings.seen) == made


def test_heads_are_measured_beyond_their_error(here):
    rows = ("variational Bayes", "CNN, pooled, decoder")
    assert reproduce("family", seeds=1, rows=rows, **here) == Summary(2, 0, 0)
    records = read(here["results"], "family")
    for r in records:
        for key in EXPERIMENTS["family"].columns.values():
            assert r.result[key] >= 0, key
    table = EXPERIMENTS["family"].table({"family": records})
    assert all(f"| {row} (" in table for row in rows) and "too few shared seeds" in table


def test_rows_of_table_1_open_the_test_set_once(here, monkeypatch):
    real, opened = setup.open_data, []

    def open_data(name, split, **options):
        opened.append(split)
        return real(name, split, **options)

    monkeypatch.setattr(setup, "open_data", open_data)
    reproduce("table1", seeds=1, rows=(BASELINE,), **here)
    assert opened.count("test") == 1
    result = read(here["results"], "table1")[0].result
    assert unpack(result["wrong"], result["num_images"]).sum() == result["num_wrong"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_of_an_experiment_differ_and_seeds_too(name):
    configs = [c for seed in (0, 1) for c in EXPERIMENTS[name].recipes(seed).values()]
    for config in configs:
        config.check()
    assert len({json.dumps(settings(c)) for c in configs}) == len(configs)


def test_rows_of_table_1_share_the_paper_recipe():
    recipes = EXPERIMENTS["table1"].recipes(0)
    paper = [recipes[row] for row in MODELS]
    assert len(paper) == 5 and paper[0].schedule == "paper"
    assert len({json.dumps(settings(replace(c, model="", options=()))) for c in paper}) == 1
    assert paper[0].lr_decay ** (paper[0].epochs * 469 / paper[0].lr_decay_steps) == pytest.approx(
        0.96**150, rel=0.05
    )
    released = recipes["CapsNet as in the authors' code"]
    assert (released.epochs * 469, released.lr_decay_steps) == (300_160, 2_001)


def test_killed_in_the_middle_goes_on(here, trainings):
    trainings.fail_at = 3
    with pytest.raises(RuntimeError, match="killed"):
        reproduce("scrambled", seeds=2, **here)
    assert len(read(here["results"], "scrambled")) == 2
    path = here["results"] / "scrambled.jsonl"
    path.write_text(path.read_text() + '{"experiment": "scr')  # killed while writing
    assert reproduce("scrambled", seeds=2, **here) == Summary(2, 2, 0)
    assert len(trainings.seen) == 5
    assert len(read(here["results"], "scrambled")) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_goes_on_to_the_same_result(number, here, trainings, monkeypatch):
    planned = run.plan(EXPERIMENTS["scrambled"], 1, True)[0]
    monkeypatch.setattr(run, "plan", lambda *_: [planned._replace(config=two_epochs)])
    two_epochs = replace(planned.config, epochs=2)
    steps = []

    def interrupt(module, arguments, output):
        if isinstance(module, CapsNet) and module.training:
            steps.append(module)
            if len(steps) == 5:  # in the middle of the second of two epochs of three steps
                signal.raise_signal(number)

    handle = register_module_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        reproduce("scrambled", minutes=1, **here)
    handle.remove()
    (folder,) = folders(here["runs"])
    assert (folder / CHECKPOINT).exists() and not read(here["results"], "scrambled")
    assert reproduce("scrambled", **here) == Summary(1, 0, 0)
    assert [c.resume for c in trainings.seen] == [False, True]
    other = here["results"] / "whole"
    assert reproduce("scrambled", **{**here, "results": other}) == Summary(1, 0, 0)
    cut, whole = (read(f, "scrambled")[0] for f in (here["results"], other))
    for key in ("loss", "epochs", "error_percent", "length_quarters_accepted_at_99"):
        assert cut.result[key] == whole.result[key]


def test_time_is_up_like_ctrl_c(request):
    # Started in the background of a shell, Python would ignore Ctrl-C from the outset.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with pytest.raises(KeyboardInterrupt), run.interrupt_at(time.monotonic() + 0.05):
        for _ in range(500):  # a signal is served between two short waits
            time.sleep(0.01)
    with run.interrupt_at(time.monotonic() + 60):
        pass
    with run.interrupt_at(None):
        pass


def test_time_that_is_up_is_no_interruption(here, tmp_path, monkeypatch):
    def train(config):
        with Stop() as stop:
            while not stop:
                time.sleep(0.01)
        return Interrupted(config.folder)

    monkeypatch.setattr(run, "train_one", train)
    config = TrainConfig(out=tmp_path)
    assert run.make_run(EXPERIMENTS["scrambled"], config, time.monotonic() + 0.05, None) is None


def test_ctrl_c_ends_with_the_status_of_train(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "train_one", lambda config: Interrupted(config.folder))
    done = cli(
        *("reproduce", "scrambled", "--smoke", "--results", tmp_path, "--runs", tmp_path / "runs")
    )
    assert done.status == 130 and done.out == ""


def test_results_of_a_try_out_stay_apart(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    del here["results"]
    assert reproduce("scrambled", seeds=1, rows=("CNN",), **here).made == 1
    assert len(read(run.SMOKE_RESULTS, "scrambled")) == 1 and not run.RESULTS.exists()


def test_results_that_cannot_be_written_cost_no_training(here, trainings):
    here["results"].write_text("in the way")
    with pytest.raises(UserError, match="Could not write"):
        reproduce("scrambled", **here)
    assert not trainings.seen


def test_budget_starts_nothing_that_will_not_end(here, monkeypatch):
    monkeypatch.setattr(run, "estimate", lambda *_: 60.0)
    done = reproduce("scrambled", seeds=2, minutes=0.5, **here)
    assert done == Summary(1, 0, 3)  # the first of a call is always tried


def test_estimate_is_that_of_the_row_on_this_device(here):
    reproduce("scrambled", seeds=1, **here)
    records = read(here["results"], "scrambled")
    a, b = (replace(r, seconds=s) for r, s in zip(records, (5.0, 9.0), strict=True))
    planned = run.plan(EXPERIMENTS["scrambled"], 1, True)[0]
    assert run.estimate(planned, [a, replace(a, seconds=7.0), b], "cpu") == 6.0
    assert run.estimate(planned, [b], "cpu") == 9.0
    assert run.estimate(planned, [a, b], "H200") == 0.0


def test_other_settings_are_another_run_and_both_stay(here, monkeypatch):
    reproduce("scrambled", seeds=1, **here)
    small = run.small
    monkeypatch.setattr(run, "small", lambda config: replace(small(config), lr=2e-3))
    assert reproduce("scrambled", seeds=1, **here) == Summary(2, 0, 0)
    records = read(here["results"], "scrambled")
    assert len(records) == 4
    assert {r.config["lr"] for runs in current(records).values() for r in runs} == {2e-3}


def test_kept_run_is_shared_by_experiments(here, trainings):
    reproduce("scrambled", seeds=1, keep=True, **here)
    before = folders(here["runs"])
    assert reproduce("equivariance", seeds=1, **here).made == 2
    assert folders(here["runs"]) == before
    assert [c.resume for c in trainings.seen] == [False, False, True, True]
    one, two = (read(here["results"], n)[0] for n in ("scrambled", "equivariance"))
    assert one.result["error_percent"] == two.result["error_percent"]


def test_diverged_run_is_recorded_and_not_repeated(here, monkeypatch):
    small = run.small
    monkeypatch.setattr(run, "small", lambda config: replace(small(config), lr=1e11))
    only = {"seeds": 1, "rows": ("CNN",), **here}
    assert reproduce("scrambled", **only).made == 1
    records = read(here["results"], "scrambled")
    assert records[0].result == {"diverged": True}
    results = {name: [] for name in EXPERIMENTS} | {"scrambled": records}
    assert "1 of 1 runs diverged" in EXPERIMENTS["scrambled"].table(results)
    assert reproduce("scrambled", **only) == Summary(0, 1, 0)


def test_only_divergence_is_a_result(here, monkeypatch):
    def train(config):
        if error is not None:
            raise error
        return Diverged(config.folder, False)

    monkeypatch.setattr(run, "train_one", train)
    error = UserError("The disk is no longer a number.")
    with pytest.raises(UserError, match="The disk"):
        reproduce("scrambled", seeds=1, **here)
    error = None
    assert reproduce("scrambled", seeds=1, **here).made == 2


def test_only_some_rows_are_made(here):
    assert reproduce("scrambled", seeds=2, rows=("CNN",), **here) == Summary(2, 0, 0)
    records = read(here["results"], "scrambled")
    assert [(r.row, r.seed) for r in records] == [("CNN", 0), ("CNN", 1)]
    assert reproduce("scrambled", seeds=2, rows=("CNN", "CapsNet"), **here) == Summary(2, 2, 0)


def test_number_of_seeds_is_that_of_every_row():
    table1 = EXPERIMENTS["table1"]
    runs = {(x.row, x.seed) for x in run.plan(table1, 2, False)}
    assert runs == {(row, seed) for row in table1.recipes(0) for seed in (0, 1)}
    for row, number in table1.own_seeds.items():
        own = run.plan(table1, None, False, (row,))
        assert [(x.row, x.seed) for x in own] == [(row, seed) for seed in range(number)]


def test_settings_that_say_where_are_not_recorded():
    config = TrainConfig(seed=3)
    elsewhere = replace(config, out="elsewhere", data_folder="data", device="cuda", resume=True)
    assert digest(elsewhere) == digest(config) != digest(TrainConfig(seed=4))


@pytest.mark.parametrize("name", DRAWINGS)
def test_figures_are_drawn(name, trained, tmp_path, monkeypatch):
    drawing = DRAWINGS[name]
    monkeypatch.setitem(DRAWINGS, name, drawing._replace(weights=str(trained)))
    assert reproduce(name, figures_folder=tmp_path).made == 1
    assert Image.open(tmp_path / f"{name}.png").size[0] > 300
