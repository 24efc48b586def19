"""What a run chooses and says for pictures of one's own, and how it stops early."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from outcome import history, same_outcome
from PIL import Image

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.models.tensor_file import load_tensors, save_tensors
from capsnet.models.weights import find_model
from capsnet.training import loop, run
from capsnet.training.checkpoint import CHECKPOINT
from capsnet.training.config import SettledConfig, TrainConfig
from capsnet.training.evaluation import evaluate
from capsnet.training.loop import train
from capsnet.training.outcome import Epoch, Finished, Interrupted
from capsnet.training.patience import out_of_patience
from capsnet.training.planning import choose, settle
from capsnet.training.setup import open_stream

NOTHING = {"batch_size": None, "epochs": None}
EARLY = {
    "holdout": 40,
    "patience": 3,
    "epochs": 9,
    "lr": 0.01,
    "averaging": 0.5,
    "warmup_steps": 0,
    "schedule": "constant",
}
FIGURES = (50.0, 30.0, 40.0, 30.0, 35.0, 10.0)  # the last is never seen


@pytest.fixture
def folder(tmp_path):
    """Pictures of two shades, 40 of one and 10 of the other."""
    for name, count in (("bright", 40), ("dark", 10)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for i in range(count):
            shade = (200 if name == "bright" else 20) + i
            Image.new("L", (16, 16), shade).save(tmp_path / "own" / name / f"{i}.png")
    return tmp_path / "own"


# What is chosen


@pytest.mark.parametrize("num", [20, 120, 800, 4_000, 100_000])
def test_own_pictures_get_steps_enough(num):
    chosen = choose(num, NOTHING, validated=True)
    batch, epochs, patience = (chosen[k] for k in ("batch_size", "epochs", "patience"))
    steps = -(-num // batch)
    assert 8 <= batch <= 128 and 10 <= epochs <= 400 and 10 <= patience <= max(10, epochs)
    assert batch == 8 or steps >= 10
    assert steps * epochs >= 2_000 or epochs == 400
    assert choose(num, NOTHING, validated=False)["patience"] == 0


def test_what_is_given_is_not_chosen():
    assert choose(120, {"batch_size": 5, "epochs": 7}, False)["batch_size"] == 5
    assert choose(120, {"batch_size": 60, "epochs": None}, False)["epochs"] == 400
    assert choose(120, {"batch_size": None, "epochs": 100}, True)["patience"] == 20


def test_named_data_is_trained_as_ever():
    stream = open_data("digits", "train", num_samples=60)
    settled = settle(TrainConfig(data="digits"), stream)
    assert (settled.batch_size, settled.epochs, settled.patience) == (128, 50, 0)
    assert settle(settled, stream) == settled == SettledConfig(data="digits")


def test_numbers_chosen_for_a_folder_are_kept_and_said(folder, tiny, ctrl_c, capsys):
    config = tiny(data=str(folder), num_samples=None, epochs=None, batch_size=None, holdout=6)
    with ctrl_c(3):
        assert train(config) == Interrupted(config.folder)
    kept = json.loads((config.folder / "config.json").read_text())
    assert kept["batch_size"] == 8 and kept["epochs"] == 400 and kept["patience"] == 80
    said = capsys.readouterr().err
    for words in (
        "training on 34 images of 16×16, 1 channel; 6 for validation",
        "2 classes: bright (27), dark (7)",
        "batches of 8, 5 steps an epoch, 400 epochs",
        "2,000 steps",
        "augmentation: shift 2 px",
        f"{config.model}, ",
        "float32 on cpu",
        "Fewer than 10 training images show dark;",
        "--balance sampling",
    ):
        assert words in said, words
    assert "too few" not in said


def test_what_was_chosen_stays_chosen_in_a_resumed_run(folder, tiny, ctrl_c, monkeypatch):
    config = tiny(data=str(folder), num_samples=None, epochs=None, batch_size=None)
    with ctrl_c(2):
        train(config)
    # A run of an older version: other numbers, and it knew of no patience.
    path = config.folder / CHECKPOINT
    tensors, record = load_tensors(path)
    old = {k: x for k, x in record["config"].items() if k not in ("patience", "balance", "flip")}
    save_tensors(path, tensors, {**record, "config": {**old, "epochs": 3}})
    outcome = train(replace(config, resume=True))
    assert len(outcome.history) == 3 and outcome.taken == 3
    with pytest.raises(UserError, match="epochs: 3 -> 4"):
        train(replace(config, resume=True, epochs=4))


def test_plan_is_part_of_the_result(tiny, capsys):
    outcome = train(tiny())
    facts = json.loads((tiny().folder / "result.json").read_text())
    assert facts["plan"] == json.loads(json.dumps(outcome.plan.to_json()))
    assert facts["plan"]["steps"] == 6 and facts["taken_epoch"] == 2
    assert len(facts["plan"]["hints"]) == 2 and "too few" in facts["plan"]["hints"][0]
    assert "6 steps are too few to learn much; give more --epochs" in capsys.readouterr().err


# Stopping early


def epochs_with(*figures):
    return [Epoch(k, 0.0, 0.0, 0.0, 0.0, 0.0, None, x) for k, x in enumerate(figures, 1)]


@pytest.mark.parametrize(
    ("figures", "patience", "over"),
    [
        ((), 1, False),
        ((5.0,), 1, False),
        ((5.0, 5.0), 1, True),
        ((5.0, 4.0), 1, False),
        ((4.0, 5.0, 5.0), 3, False),
        ((4.0, 5.0, 5.0, 4.0), 3, True),
        ((4.0, 5.0, 5.0, 4.0), 0, False),
    ],
)
def test_patience_is_counted_from_the_first_of_the_best(figures, patience, over):
    assert out_of_patience(epochs_with(*figures), patience) == over


@pytest.fixture
def scripted(monkeypatch):
    """Let the validation of the k-th epoch, here of 40 images, come out as FIGURES[k]."""

    def evaluate_by_script(model, stream, **options):
        if stream.num_samples != 40:
            return evaluate(model, stream, **options)
        seen.append(model.training)
        return SimpleNamespace(figure=FIGURES[len(seen) - 1])

    seen = []
    monkeypatch.setattr(run, "evaluate", evaluate_by_script)
    return seen


def test_weights_of_the_best_epoch_are_tested_and_kept(tiny, scripted):
    outcome = train(config := tiny(**EARLY))
    lines = history(config)
    assert [line["validation_error_percent"] for line in lines] == list(FIGURES[:5])
    assert outcome.taken == 4  # the latest of the best
    assert [line["epoch"] for line in lines if line.get("taken")] == [4]
    facts = json.loads((config.folder / "result.json").read_text())
    assert facts["taken_epoch"] == 4 and facts["plan"]["patience"] == 3
    assert "weights of epoch 4 of 5" in str(outcome)
    model, _ = find_model(str(config.folder))
    assert evaluate(model, open_data("digits", "test")).figure == outcome.result.figure
    # They are those that a run of just so many epochs ends with.
    short = tiny("short", **{**EARLY, "epochs": 4, "patience": 0})
    scripted.clear()
    train(short)
    a, b = (load_tensors(c.folder / "weights.safetensors")[0] for c in (config, short))
    assert all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("step", [5, 14])  # before and after the epoch that is taken
def test_a_run_that_stops_early_goes_on_to_the_same(step, tiny, ctrl_c, scripted):
    whole, parts = tiny("whole", **EARLY), tiny("parts", **EARLY)
    train(whole)
    scripted.clear()
    with ctrl_c(step):
        assert isinstance(train(parts), Interrupted)
    assert isinstance(train(replace(parts, resume=True)), Finished)
    same_outcome(whole, parts)
    again = train(replace(parts, resume=True))
    assert again.taken == 4
    same_outcome(whole, parts)


def test_test_images_are_read_once(tiny, monkeypatch):
    opened = []
    before = loop.open_stream
    monkeypatch.setattr(loop, "open_stream", lambda c, s, *x: opened.append(s) or before(c, s, *x))
    train(tiny(**{**EARLY, "epochs": 2}))
    assert opened == ["train", "validation", "test"]


def test_patience_needs_validation(tiny):
    with pytest.raises(UserError, match="patience needs validation"):
        train(tiny(patience=3))
    assert not tiny().folder.exists()


@pytest.mark.parametrize("balance", ["loss", "sampling"])
def test_a_run_can_be_balanced_and_goes_on_to_the_same(balance, tiny, ctrl_c):
    made = {"balance": balance, "num_samples": 64}  # not a multiple of the ten classes
    whole, parts = tiny("whole", **made), tiny("parts", **made)
    train(whole)
    with ctrl_c(2):
        train(parts)
    train(replace(parts, resume=True))
    same_outcome(whole, parts)
    train(plain := tiny("plain", num_samples=64))
    assert history(plain) != history(whole)


@pytest.mark.parametrize(
    ("name", "value"),
    [("flip", "both"), ("crop", 0.3), ("brightness", 0.3), ("intensity", 0.3), ("colour", 0.3)],
)
def test_no_variation_is_ignored(name, value, tiny):
    batches = []
    for config in (tiny(channels=3), tiny(channels=3, **{name: value})):
        stream = open_stream(config, "train", torch.device("cpu"))
        plan = stream.plan(torch.Generator().manual_seed(0))
        batches.append((plan, stream.batch(plan).images))
    assert batches[0][0].keys() != batches[1][0].keys()
    if name != "colour":  # grey digits in three channels have no colours to turn
        assert not torch.equal(batches[0][1], batches[1][1])
