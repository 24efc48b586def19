"""Runs that end badly: killed, stopped, out of numbers, out of space, or resumed by mistake."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from outcome import same_outcome
from PIL import Image

from capsnet.errors import UserError
from capsnet.files import locked
from capsnet.models.weights import load_tensors, save_tensors
from capsnet.train import loop
from capsnet.train.checkpoint import CHECKPOINT
from capsnet.train.loop import LOCK, Interrupted, train

LONG = {"num_samples": 200, "batch_size": 2, "epochs": 4, "checkpoint_seconds": 0.0}


def start(config, *more, program=("-m", "capsnet")):
    """Start `capsnet train` with the settings of a config as its own process."""
    flags = []
    for name in ("model", "data", "out", "num_samples", "batch_size", "epochs", "device"):
        flags += [f"--{name.replace('_', '-')}", str(getattr(config, name))]
    flags += ["--checkpoint-seconds", str(config.checkpoint_seconds)]
    return subprocess.Popen(
        [sys.executable, *program, "train", *flags, "--options", *config.options, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_change(path, process, before=None):
    """Wait until a file is there, newer than before; False if the process ended first."""
    deadline = time.monotonic() + 120
    while not path.exists() or path.stat().st_mtime_ns == before:
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return True


@pytest.fixture(scope="module")
def uninterrupted(tiny_in, tmp_path_factory):
    out = tmp_path_factory.mktemp("uninterrupted")
    config = tiny_in(out, **{**LONG, "checkpoint_seconds": 60.0})
    train(config)
    return config


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_saves_and_leaves_and_resume_ends_the_same(number, tiny, uninterrupted):
    config = tiny(**LONG)
    process = start(config)
    assert wait_for_change(config.folder / CHECKPOINT, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == ""
    assert "--resume" in err and "Traceback" not in err
    position = load_tensors(config.folder / CHECKPOINT)[1]
    assert position["epoch"] < 4
    assert isinstance(train(replace(config, resume=True, checkpoint_seconds=60.0)), dict)
    same_outcome(config, uninterrupted)


@pytest.mark.slow
def test_impatient_ctrl_c_loses_nothing(tiny):
    config = tiny(**{**LONG, "epochs": 1000, "checkpoint_seconds": 60.0})
    process = start(config)
    assert wait_for_change(config.folder / "log.jsonl", process)
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)  # the last ones may come after the end
    assert load_tensors(config.folder / CHECKPOINT)[1]["epoch"] > 0


@pytest.mark.slow
def test_ctrl_c_again_ends_a_step_that_takes_forever(tiny):
    config = tiny(options=("num_iters=100_000_000",))
    process = start(config)
    assert wait_for_change(config.folder / "config.json", process)
    time.sleep(2)  # the first step has begun
    for _ in range(2):
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        time.sleep(1.5)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Ctrl-C again leaves without saving" in err and "Traceback" not in err


@pytest.mark.slow
def test_the_compiler_of_kernels_does_not_keep_the_signals(tiny, tmp_path, monkeypatch):
    pytest.importorskip("triton", reason="the kernels need Triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kernels"))
    program = Path(__file__).with_name("train_and_compile.py")
    process = start(tiny(**LONG), program=(str(program),))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out == "in place\n" and "--resume" in err


def test_epochs_of_one_step_are_saved_too(tiny, at_step):
    config = tiny(batch_size=60, num_samples=60, epochs=3, checkpoint_seconds=0.0)
    with at_step(3, poison), pytest.raises(UserError, match="checkpoint is kept"):
        train(config)
    assert load_tensors(config.folder / CHECKPOINT)[1]["epoch"] == 2


def test_two_runs_do_not_share_a_folder(tiny):
    config = tiny()
    with locked(config.folder / LOCK), pytest.raises(UserError, match="Another process"):
        train(config)
    assert files_in(config.folder) == {}
    assert isinstance(train(config), dict)


@pytest.mark.slow
def test_killed_at_any_time_a_run_goes_on_from_a_whole_checkpoint(tiny, uninterrupted):
    config = tiny(**LONG)
    path = config.folder / CHECKPOINT
    for kill in range(3):
        before = path.stat().st_mtime_ns if path.exists() else None
        process = start(config, *(["--resume"] if kill else []))
        if wait_for_change(path, process, before):
            time.sleep(random.random() * 0.3)
        process.kill()
        process.communicate()
        load_tensors(path)
    assert isinstance(train(replace(config, resume=True, checkpoint_seconds=60.0)), dict)
    same_outcome(config, uninterrupted)


def poison(module):
    module.class_caps.W.data[0, 0, 0, 0] = float("nan")


def test_nan_stops_the_run_and_keeps_the_last_good_checkpoint(tiny, at_step):
    whole, config = tiny("whole"), tiny(checkpoint_seconds=0.0)
    train(whole)
    with (
        at_step(5, poison),
        pytest.raises(UserError, match=r"smaller.* checkpoint is kept"),
    ):
        train(config)
    tensors, record = load_tensors(config.folder / CHECKPOINT)
    assert (record["epoch"], record["step"]) == (1, 1)
    assert all(x.isfinite().all() for x in tensors.values() if x.is_floating_point())
    assert not (config.folder / "weights.safetensors").exists()
    train(replace(config, resume=True))
    same_outcome(config, whole)


def test_broken_weights_behind_a_good_loss_are_not_saved(tiny, at_step):
    # In the last step of all nothing comes after to turn the loss into NaN.
    with at_step(6, poison), pytest.raises(UserError, match="smaller settings"):
        train(tiny())
    assert not (tiny().folder / CHECKPOINT).exists()


@pytest.mark.parametrize("lr", [1e8, 1e11])
def test_hopeless_learning_rate_is_a_sentence(lr, tiny):
    with pytest.raises(UserError, match="no longer a number; try smaller settings"):
        train(tiny(lr=lr))
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


def files_in(folder):
    found = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found.pop(LOCK, b"") == b""
    return found


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
        assert isinstance(train(replace(config, resume=True)), dict)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_folder_that_cannot_be_is_a_sentence(tiny, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for out in (tmp_path / "file", tmp_path / "file" / "run", "/proc/run"):
        with pytest.raises(UserError, match=r"Could not write .*choose a folder"):
            train(tiny(out=out))
    assert (tmp_path / "file").read_text() == "in the way"


def test_resume_where_nothing_is(tiny):
    with pytest.raises(UserError, match="no run to resume"):
        train(tiny(resume=True))
    assert not tiny().folder.exists()


def test_a_run_is_not_overwritten(tiny):
    train(tiny())
    before = files_in(tiny().folder)
    with pytest.raises(UserError, match="already holds a run"):
        train(tiny())
    assert files_in(tiny().folder) == before


def finish_first(monkeypatch, config):
    """Let the whole run be made just before another process, about to make it, takes the lock."""

    def locked_late(*arguments, **options):
        monkeypatch.undo()
        train(config)
        return locked(*arguments, **options)

    monkeypatch.setattr(loop, "locked", locked_late)


def test_a_run_made_meanwhile_is_not_overwritten(tiny, monkeypatch, at_step):
    finish_first(monkeypatch, tiny())
    with (
        at_step(7, lambda module: pytest.fail("trained over the six steps of a finished run")),
        pytest.raises(UserError, match="already holds a run"),
    ):
        train(tiny())


def test_resume_starts_from_the_last_checkpoint_of_all(tiny, monkeypatch, at_step, ctrl_c):
    config = tiny(resume=True)
    with ctrl_c(2):
        train(tiny())
    finish_first(monkeypatch, config)
    with at_step(5, lambda module: pytest.fail("the four steps left were made twice")):
        assert isinstance(train(config), dict)


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.999])
def test_truncated_checkpoint_is_a_sentence_and_left_alone(kept, tiny, ctrl_c):
    with ctrl_c(2):
        train(tiny())
    path = tiny().folder / CHECKPOINT
    cut = path.read_bytes()[: int(kept * path.stat().st_size)]
    path.write_bytes(cut)
    with pytest.raises(UserError, match="damaged or cut short"):
        train(tiny(resume=True))
    assert path.read_bytes() == cut


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lr": 0.5}, "lr: 0.001 -> 0.5"),
        ({"epochs": 9}, "epochs: 2 -> 9"),
        ({"model": "cnn_small", "options": ()}, "model: capsnet_small -> cnn_small"),
        ({"options": ("conv_channels=9",)}, "options"),
        ({"seed": 1}, "seed: 0 -> 1"),
    ],
)
def test_resume_with_other_settings_is_refused(changes, sentence, tiny, ctrl_c):
    with ctrl_c(2):
        train(tiny())
    before = files_in(tiny().folder)
    with pytest.raises(UserError, match=sentence):
        train(tiny(resume=True, **changes))
    assert files_in(tiny().folder) == before


@pytest.mark.parametrize("change", ["renamed", "fewer"])
def test_run_is_not_resumed_on_other_data(change, tiny, tmp_path, at_step):
    for name in "ab":
        (tmp_path / "own" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("L", (28, 28), 20 * i).save(tmp_path / "own" / name / f"{i}.png")
    config = tiny(data=str(tmp_path / "own"), num_samples=None, checkpoint_seconds=0.0)
    with at_step(2, poison), pytest.raises(UserError, match="checkpoint is kept"):
        train(config)
    if change == "renamed":  # its label becomes that of the other
        (tmp_path / "own" / "a").rename(tmp_path / "own" / "c")
    else:
        for i in range(5):
            (tmp_path / "own" / "a" / f"{i}.png").unlink()
    with pytest.raises(UserError, match="started with 16 images of a, b, now there are"):
        train(replace(config, resume=True))


def test_resume_on_another_kind_of_device_is_refused(tiny, ctrl_c):
    with ctrl_c(2):
        train(tiny())
    path = tiny().folder / CHECKPOINT
    tensors, record = load_tensors(path)
    assert record["device"] == "cpu"
    save_tensors(path, tensors, {**record, "device": "cuda"})
    before = files_in(tiny().folder)
    with pytest.raises(UserError, match="resume it with --device cuda, or choose another --out"):
        train(tiny(resume=True))
    assert files_in(tiny().folder) == before


def test_checkpoint_is_no_model_and_weights_are_no_checkpoint(tiny):
    from capsnet.models.weights import find_model

    config = tiny()
    train(config)
    with pytest.raises(UserError, match="holds no model"):
        find_model(str(config.folder / CHECKPOINT))
    (config.folder / "weights.safetensors").replace(config.folder / CHECKPOINT)
    with pytest.raises(UserError, match="another model"):
        train(replace(config, resume=True))


def test_signal_handlers_are_put_back(tiny):
    before = signal.getsignal(signal.SIGINT)
    train(tiny())
    assert signal.getsignal(signal.SIGINT) is before


def test_run_without_pictures_keeps_the_decoder_and_goes_on(tiny, ctrl_c):
    """The decoder has no gradient then, but a place in the checkpoint."""
    whole = train(tiny("whole", reconstruction_weight=0.0, averaging=0.9))
    with ctrl_c(2):
        train(tiny("parts", reconstruction_weight=0.0, averaging=0.9))
    train(tiny("parts", reconstruction_weight=0.0, averaging=0.9, resume=True))
    expected, got = (
        load_tensors(tiny(name).folder / "weights.safetensors")[0] for name in ("whole", "parts")
    )
    assert whole["num_images"] == 1000
    assert all(torch.equal(x, got[name]) for name, x in expected.items())
