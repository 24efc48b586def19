"""A run that is killed at any moment goes on from a whole checkpoint, to the same bits."""

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from capsnet.models.tensor_file import load_tensors
from capsnet.models.weights import WEIGHTS
from capsnet.training.checkpoint import CHECKPOINT
from capsnet.training.loop import train

PATIENCE = 120  # seconds for a process to come to its first checkpoint
PROGRAM = """
import json, sys
from pathlib import Path
from capsnet.training.config import TrainConfig
from capsnet.training.loop import train
told = json.loads(sys.argv[1])
train(TrainConfig(**{**told, "out": Path(told["out"]), "options": tuple(told["options"])}))
"""


def start(config):
    names = ("model", "data", "options", "num_samples", "batch_size", "epochs", "device")
    told = {name: getattr(config, name) for name in (*names, "checkpoint_seconds", "resume")}
    told = json.dumps({**told, "out": str(config.out)})
    return subprocess.Popen([sys.executable, "-c", PROGRAM, told], stderr=subprocess.DEVNULL)


def changed_at(path):
    return path.stat().st_mtime_ns if path.exists() else None


@pytest.mark.long  # in make test, two kills of tests/training/test_stopping.py
def test_kills(tally, tiny):
    settings = {"num_samples": 100, "batch_size": 2, "epochs": 40}
    whole, config = tiny("whole", **settings), tiny("killed", **settings, checkpoint_seconds=0.0)
    train(whole)
    path = config.folder / CHECKPOINT
    for random in tally.trials("SIGKILL at a random moment of training", 60):
        before = changed_at(path)
        process = start(replace(config, resume=before is not None))
        deadline = time.monotonic() + PATIENCE
        while changed_at(path) == before and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(random.random() * 0.2)  # the moment is what is tried
        process.kill()
        process.wait()
        load_tensors(path)
    train(replace(config, resume=True, checkpoint_seconds=60.0))
    one, other = (load_tensors(c.folder / WEIGHTS)[0] for c in (whole, config))
    tally.wrong += not all(torch.equal(one[name], other[name]) for name in one)
    tally.lost += len([*config.folder.glob(".unfinished-*"), *config.folder.glob(".tmp*")])
    assert one.keys() == other.keys() and (tally.wrong, tally.lost) == (0, 0)
