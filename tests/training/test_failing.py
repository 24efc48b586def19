"""Runs that fail, out of numbers or out of room: what was good before is kept."""

import os
import re
import resource
import subprocess
from contextlib import contextmanager
from dataclasses import replace

import pytest
from outcome import files_in, same_outcome

from capsnet.errors import UserError
from capsnet.models.tensor_file import load_tensors
from capsnet.training.checkpoint import CHECKPOINT
from capsnet.training.loop import train
from capsnet.training.outcome import Diverged, Finished, Interrupted


def test_epochs_of_one_step_are_saved_too(tiny, poisoned):
    config = tiny(batch_size=60, num_samples=60, epochs=3, checkpoint_seconds=0.0)
    with poisoned(3):
        assert "checkpoint is kept" in str(train(config))
    assert load_tensors(config.folder / CHECKPOINT)[1]["epoch"] == 2


def test_nan_stops_the_run_and_keeps_the_last_good_checkpoint(tiny, poisoned):
    whole, config = tiny("whole"), tiny(checkpoint_seconds=0.0)
    train(whole)
    with poisoned(5):
        outcome = train(config)
    assert outcome == Diverged(config.folder, checkpoint_kept=True)
    assert re.search(r"smaller.* checkpoint is kept", str(outcome))
    tensors, record = load_tensors(config.folder / CHECKPOINT)
    assert (record["epoch"], record["step"]) == (1, 1)
    assert all(x.isfinite().all() for x in tensors.values() if x.is_floating_point())
    assert not (config.folder / "weights.safetensors").exists()
    train(replace(config, resume=True))
    same_outcome(config, whole)


def test_broken_weights_behind_a_good_loss_are_not_saved(tiny, poisoned):
    # In the last step of all nothing comes after to turn the loss into NaN.
    with poisoned(6):
        outcome = train(tiny())
    assert outcome == Diverged(tiny().folder, checkpoint_kept=False)
    assert "kept" not in str(outcome)
    assert not (tiny().folder / CHECKPOINT).exists()


def test_hopeless_learning_rate_is_a_sentence(tiny):
    # Capsules stay below length 1 whatever the weights are; a CNN does not.
    config = tiny(lr=1e11, model="cnn_small", options=("channels=4",))
    assert "no longer a number; try smaller settings" in str(train(config))
    assert not (tiny().folder / "weights.safetensors").exists()


@contextmanager
def files_limited_to(num_bytes):
    """Let no file grow beyond a size: what a full disk does, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_room_for_a_checkpoint_leaves_nothing_half_written(tiny):
    with files_limited_to(100_000), pytest.raises(UserError, match=r"Could not write .*free some"):
        train(tiny())
    assert files_in(tiny().folder).keys() <= {"config.json", "log.jsonl"}


def test_no_room_later_keeps_the_checkpoint(tiny, ctrl_c):
    config = tiny()
    with ctrl_c(2):
        train(config)
    before = files_in(config.folder)[CHECKPOINT]
    with files_limited_to(100_000), pytest.raises(UserError, match="Could not write"):
        train(replace(config, resume=True))
    after = files_in(config.folder)
    assert after.keys() <= {"config.json", "log.jsonl", CHECKPOINT} and after[CHECKPOINT] == before


def test_full_disk(tiny, tmp_path, ctrl_c):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount a small disk")
    try:
        config = tiny(out="disk/run")
        with ctrl_c(2):
            assert isinstance(train(config), Interrupted)
        before = files_in(config.folder)[CHECKPOINT]
        with open(disk / "filler", "wb", buffering=0) as filler, pytest.raises(OSError):
            while True:
                filler.write(bytes(4096))
        with pytest.raises(UserError, match="Could not write"):
            train(replace(config, resume=True))
        assert files_in(config.folder)[CHECKPOINT] == before
        assert files_in(config.folder).keys() <= {"config.json", "log.jsonl", CHECKPOINT}
        (disk / "filler").unlink()
        assert isinstance(train(replace(config, resume=True)), Finished)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_folder_that_cannot_be_is_a_sentence(tiny, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for out in (tmp_path / "file", tmp_path / "file" / "run", "/proc/run"):
        with pytest.raises(UserError, match=r"Could not write .*choose a folder"):
            train(tiny(out=out))
    assert (tmp_path / "file").read_text() == "in the way"
