"""One changed bit, anywhere in a file, is always noticed."""

import shutil
from dataclasses import replace

import pytest
import torch
from damage import flipped_anywhere

from capsnet.data.sets import digits
from capsnet.errors import UserError
from capsnet.models import weights as weights_module
from capsnet.models.weights import WEIGHTS, load_weights, shipped_path
from capsnet.training.checkpoint import CHECKPOINT, load_checkpoint
from capsnet.training.loop import train
from capsnet.training.planning import settle
from capsnet.training.setup import build_model, open_stream
from capsnet.training.step import TrainStep


def test_a_bit_of_weights(tally, trained, tmp_path):
    whole = (trained / WEIGHTS).read_bytes()
    for random in tally.trials("one bit of a weights file flipped", 10_000):
        (tmp_path / WEIGHTS).write_bytes(flipped_anywhere(whole, random))
        with pytest.raises(UserError):
            load_weights(tmp_path / WEIGHTS)
        tally.noticed += 1


@pytest.fixture(scope="module")
def started(tiny_in, tmp_path_factory):
    """A finished run, and a step into which its checkpoint can be loaded."""
    config = tiny_in(tmp_path_factory.mktemp("started") / "run")
    train(config)
    return step_of(config)


def step_of(config):
    """Return the settled settings of a run, and a step of it."""
    device = torch.device("cpu")
    stream = open_stream(config, "train", device)
    held = open_stream(config, "validation", device) if config.holdout else None
    config = settle(config, stream, held)
    return config, TrainStep(build_model(config, stream), stream, config, torch.float32)


def test_a_bit_of_a_checkpoint(tally, started, tmp_path):
    config, step = started
    whole = (config.folder / CHECKPOINT).read_bytes()
    config = replace(config, out=tmp_path)
    (tmp_path / CHECKPOINT).write_bytes(whole)
    load_checkpoint(tmp_path, step, config)
    for random in tally.trials("one bit of a checkpoint flipped", 10_000):
        (tmp_path / CHECKPOINT).write_bytes(flipped_anywhere(whole, random))
        with pytest.raises(UserError):
            load_checkpoint(tmp_path, step, config)
        tally.noticed += 1


def test_a_bit_of_the_embedded_digits(tally, tmp_path, monkeypatch):
    whole = digits.FILE.read_bytes()
    shutil.copy(digits.FILE.with_name("SHA256SUMS"), tmp_path)
    monkeypatch.setattr(digits, "FILE", tmp_path / "digits.npz")
    for random in tally.trials("one bit of the embedded digits flipped", 10_000):
        digits.FILE.write_bytes(flipped_anywhere(whole, random))
        with pytest.raises(UserError):
            digits.load_digits("test")
        tally.noticed += 1


def test_a_bit_of_shipped_weights(tally, tmp_path, monkeypatch):
    whole = shipped_path("cnn_small").read_bytes()
    sums = shipped_path("cnn_small").with_name("SHA256SUMS").read_bytes()
    monkeypatch.setattr(weights_module, "SHELF", tmp_path)
    for random in tally.trials("one bit of shipped weights, or of their digests, flipped", 10_000):
        other = random.random() < 0.1  # of the digests, those of other files may change
        kept = next(line for line in sums.splitlines() if b"cnn_small" in line)
        (tmp_path / "SHA256SUMS").write_bytes(flipped_anywhere(kept, random) if other else kept)
        shipped_path("cnn_small").write_bytes(whole if other else flipped_anywhere(whole, random))
        with pytest.raises(UserError):
            load_weights(shipped_path("cnn_small"))
        tally.noticed += 1


def test_a_cut(tally, trained, tmp_path):
    whole = (trained / WEIGHTS).read_bytes()
    for random in tally.trials("a weights file cut short", 2_000):
        (tmp_path / WEIGHTS).write_bytes(whole[: random.randrange(len(whole))])
        with pytest.raises(UserError):
            load_weights(tmp_path / WEIGHTS)
        tally.noticed += 1
