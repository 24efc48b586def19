"""One worker in this process: it finds, goes on, gives back, and never sees the test set."""

import json
import signal
from dataclasses import replace
from types import SimpleNamespace

import optuna
import pytest
from optuna.trial import TrialState
from trials import SEARCH, TINY, WORDS

from capsnet.errors import UserError
from capsnet.training import loop
from capsnet.training.config import TrainConfig
from capsnet.training.outcome import Epoch
from capsnet.training.settings_file import read_settings
from capsnet.tuning import worker
from capsnet.tuning.study import give_again, open_storage
from capsnet.tuning.worker import tune

SHORT = replace(TINY, num_samples=100, holdout=60, epochs=2)  # when it matters not what is found
NAME = "capsnet_small-digits"
pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.fixture
def short(tmp_path):
    """Tune with trials that are soon over: short(trials=2)."""

    def run(trials, **more):
        return tune(replace(SHORT, out=tmp_path), trials, SEARCH, lost_after=2, **more)

    return run


def study_in(folder):
    storage = open_storage(f"sqlite:///{folder / 'study.db'}", 60)
    return optuna.load_study(study_name=NAME, storage=storage)


@pytest.fixture
def splits(monkeypatch):
    """The splits that runs open."""
    seen, real = [], loop.open_stream
    monkeypatch.setattr(loop, "open_stream", lambda c, s, *a: seen.append(s) or real(c, s, *a))
    return seen


def test_a_study_finds_better_settings_that_train_takes(cli, tmp_path, splits):
    folder = tmp_path / "found"
    arguments = [*WORDS, "--out", folder, "--json"]
    done = cli("tune", *arguments, "--trials", 4)
    assert done.status == 0, done.err
    found = json.loads(done.out)
    best, default = found["best"], found["default"]
    assert found["trials"] == 4 and "test" not in splits
    assert default["number"] == 0 and default["values"] == {"lr": 1e-3, "averaging": 0.999}
    assert best["figure"] < default["figure"] - 10
    assert {path.name for path in folder.iterdir()} == {"study.db", "report.html", "best.json"}

    again = cli("tune", *arguments, "--trials", 4)  # nothing is left to do
    assert json.loads(again.out) == found and "trial 4" not in again.err
    winner = folder / "best.json"
    assert TrainConfig(**read_settings(winner)) == replace(TINY, **best["values"])
    out = tmp_path / "run"
    trained = cli("train", "--config", winner, "--out", out, "--json")
    assert trained.status == 0 and json.loads(trained.out)["split"] == "test"
    lines = (out / "log.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["validation_error_percent"] == best["figure"]


def test_one_worker_draws_the_same_again(tmp_path):
    tried = [
        [t.values for t in tune(replace(SHORT, out=tmp_path / n), 4, SEARCH).trials] for n in "ab"
    ]
    assert tried[0] == tried[1] and len({str(values) for values in tried[0]}) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_the_trial_back(number, cli, at_step, short, tmp_path):
    words = ["--num-samples", "100", "--holdout", "60", "--epochs", "2", "--out", tmp_path]
    with at_step(3, lambda module: signal.raise_signal(number)):
        done = cli("tune", *WORDS, *words, "--trials", 2, "--lost-after", 2)
    assert done.status == 130 and "Trial 0 was given back" in done.err
    assert [t.state for t in study_in(tmp_path).trials] == [TrialState.FAIL, TrialState.WAITING]
    tuned = short(2)
    assert tuned.default is not None and [t.number for t in tuned.trials] == [1, 2]


def test_a_trial_that_another_took_over_is_left_to_it(at_step, short, tmp_path, capsys):
    """What a worker sees that slept too long: its trial has failed and waits for another."""

    def take_away(module):
        study = study_in(tmp_path)
        study.tell(0, state=TrialState.FAIL)
        give_again(study, study.trials[0])

    with at_step(1, take_away):
        tuned = short(2)
    assert "another worker has it now" in capsys.readouterr().err
    assert [t.number for t in tuned.trials] == [1, 2] and tuned.default is not None


def test_a_storage_that_breaks_under_way_is_a_sentence(cli, at_step, tmp_path):
    kept = tmp_path / "study.db"
    with at_step(2, lambda module: kept.write_bytes(b"no database" * 1000)):
        done = cli("tune", *WORDS, "--out", tmp_path, "--trials", 2)
    last = done.err.splitlines()[-1]
    assert done.status == 2 and "could not be used" in last and "Traceback" not in done.err


def test_a_worker_killed_before_its_first_sign_of_life_is_missed(short, tmp_path):
    short(1)
    lost = study_in(tmp_path).ask().number
    tuned = short(2)
    trials = study_in(tmp_path).trials
    assert trials[lost].state == TrialState.FAIL
    assert [t.number for t in tuned.trials] == [0, lost + 1]


def test_no_trial_more_than_asked_for(short, tmp_path, monkeypatch):
    """The last trial is taken by another between a worker's look and its step."""
    real, others = optuna.Study.ask, []

    def ask(study, *arguments):
        if not others:
            others.append(real(study))  # it takes the default, which waits
        return real(study, *arguments)

    monkeypatch.setattr(optuna.Study, "ask", ask)
    tuned = short(1)
    assert len(tuned.trials) == 1 and tuned.default is not None


def poison(module):
    module.class_caps.W.data[0, 0, 0, 0] = float("nan")


def test_a_trial_that_diverges_counts_and_is_told(at_step, short, tmp_path):
    with at_step(5, poison):  # the first of the second trial
        tuned = short(3)
    assert [t.is_finished for t in tuned.trials] == [True, False, True]
    assert "no longer a number" in tuned.trials[1].note and tuned.trials[1].figure is None
    assert (tmp_path / "report.html").read_text().count("no longer a number") == 1


def test_after_the_last_of_the_usual_epochs_no_trial_is_given_up(tmp_path, monkeypatch):
    def train_one(config, watch):
        watch(Epoch(50, 0.1, 5.0, 1e-3, 100.0, 1.0, validation=4.0))
        task = SimpleNamespace(metric="error_percent", tell=str)
        trained, result = SimpleNamespace(task=task), SimpleNamespace(figure=4.0)
        return SimpleNamespace(trained=trained, result=result, seconds=1.0)

    monkeypatch.setattr(worker, "train_one", train_one)
    monkeypatch.setattr(optuna.Trial, "should_prune", lambda trial: True)
    tuned = tune(replace(SHORT, epochs=None, out=tmp_path), 2, SEARCH)
    assert [trial.is_finished for trial in tuned.trials] == [True, True]


def test_hopeless_trials_are_given_up(tmp_path):
    config = replace(SHORT, out=tmp_path, epochs=4, lr=1e-2, averaging=0.0)
    tuned = tune(config, 8, ("lr=1e-6,1e-2",))
    given_up = [t for t in tuned.trials if not t.is_finished]
    assert given_up and all(1 < t.epochs < 4 and "worse than most" in t.note for t in given_up)
    assert all(t.is_finished for t in tuned.trials if t.is_default)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--search lrr", "did you mean 'lr'"),
        ("--trials 0", "trials must be at least 1"),
        ("--lost-after 1", "at least 2 seconds"),
        ("--holdout 0", "give a larger --holdout"),
        ("--resume", "leave --resume out"),
        ("--seeds 2", "leave --seeds out"),
        ("--model cnn_smal", "did you mean 'cnn_small'"),
        (
            "--model cnn_small --options --search reconstruction_weight",
            "has no reconstruction_weight",
        ),
        ("--config none.json", "Could not read none.json"),
    ],
)
def test_mistakes_end_in_a_sentence(arguments, sentence, cli, tmp_path):
    done = cli("tune", *WORDS, "--out", tmp_path, *arguments.split())
    assert done.status == 2 and done.out == ""
    last = done.err.splitlines()[-1]
    assert last.startswith("capsnet: ") and sentence in last and "Traceback" not in done.err


def test_images_for_validation_are_set_apart_and_said(tmp_path, capsys):
    config = replace(SHORT, holdout=None, epochs=1, out=tmp_path)
    assert tune(config, 1, SEARCH).config.holdout == 833
    assert "833 of 5,000 training images" in capsys.readouterr().err


def test_none_finished_is_a_sentence(at_step, short):
    with at_step(1, poison), pytest.raises(UserError, match="No trial has come to its end"):
        short(1)
