"""Runs that are stopped or killed: they save, leave, and go on to the same result."""

import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Thread

import pytest
from outcome import same_outcome

from capsnet.models.tensor_file import load_tensors
from capsnet.training.checkpoint import CHECKPOINT
from capsnet.training.loop import train
from capsnet.training.outcome import Finished
from capsnet.training.stopping import PATIENCE, Stop

LONG = {"num_samples": 100, "batch_size": 2, "epochs": 4, "checkpoint_seconds": 0.0}


def start(config, *more, program=("-m", "capsnet"), **streams):
    """Start `capsnet train` with the settings of a config as its own process."""
    flags = []
    for name in ("model", "data", "out", "num_samples", "batch_size", "epochs", "device"):
        flags += [f"--{name.replace('_', '-')}", str(getattr(config, name))]
    flags += ["--checkpoint-seconds", str(config.checkpoint_seconds)]
    return subprocess.Popen(
        [sys.executable, *program, "train", *flags, "--options", *config.options, *more],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **streams},
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
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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
    assert isinstance(train(replace(config, resume=True, checkpoint_seconds=60.0)), Finished)
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
    options = ("conv_channels=8", "primary_types=4", "decoder=()", "num_iters=1000")
    config = tiny(options=options, num_samples=2000, batch_size=2000)
    process = start(config)
    assert wait_for_change(config.folder / "config.json", process)
    while "parameters;" not in (line := process.stderr.readline()):  # said before the first step
        assert line, "it ended before the first step"
    process.send_signal(signal.SIGINT)
    while "Ctrl-C again leaves without saving" not in (line := process.stderr.readline()):
        assert line, "it left at once"
    time.sleep(1.2 * PATIENCE)  # sooner it would be the same Ctrl-C
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err


@pytest.mark.slow
def test_the_compiler_of_kernels_does_not_keep_the_signals(tiny, tmp_path, monkeypatch):
    pytest.importorskip("triton", reason="the kernels need Triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kernels"))
    program = Path(__file__).with_name("train_and_compile.py")
    process = start(tiny(**LONG), program=(str(program),))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out == "in place\n" and "--resume" in err


@pytest.mark.slow
def test_killed_at_any_time_a_run_goes_on_from_a_whole_checkpoint(tiny, uninterrupted):
    config = tiny(**LONG)
    path = config.folder / CHECKPOINT
    for kill in range(2):
        before = path.stat().st_mtime_ns if path.exists() else None
        process = start(config, *(["--resume"] if kill else []))
        if wait_for_change(path, process, before):
            time.sleep(Random(kill).random() * 0.3)  # the moment is what is tried
        process.kill()
        process.communicate()
        load_tensors(path)
    assert isinstance(train(replace(config, resume=True, checkpoint_seconds=60.0)), Finished)
    same_outcome(config, uninterrupted)


@pytest.mark.slow
def test_a_closed_terminal_saves_though_nobody_can_be_told(tiny):
    config = tiny(**{**LONG, "epochs": 1000, "checkpoint_seconds": 60.0})
    ours, theirs = pty.openpty()
    code = "import fcntl, termios, sys; fcntl.ioctl(2, termios.TIOCSCTTY, 0);"
    code += "from capsnet.cli import main; sys.exit(main(sys.argv[1:]))"
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = start(config, program=("-c", code), start_new_session=True, **streams)
    os.close(theirs)
    reader = Thread(target=read_all, args=(ours,), daemon=True)  # or it would wait for us
    reader.start()
    assert wait_for_change(config.folder / "log.jsonl", process)
    os.close(ours)  # closing the last end hangs up
    process.wait(timeout=60)
    assert load_tensors(config.folder / CHECKPOINT)[1]["epoch"] > 0


def read_all(handle):
    with suppress(OSError):
        while os.read(handle, 4096):
            pass


def test_under_nohup_the_end_of_the_terminal_is_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signal_handlers_are_put_back(tiny):
    before = signal.getsignal(signal.SIGINT)
    train(tiny())
    assert signal.getsignal(signal.SIGINT) is before


def test_wish_to_stop_is_noted_though_nobody_can_be_told(monkeypatch):
    def closed(*_):
        raise OSError("Bad file descriptor")

    monkeypatch.setattr(os, "write", closed)
    stop = Stop()
    stop.ask(signal.SIGTERM, None)
    assert stop
