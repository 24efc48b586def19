"""What came out of a run, to compare runs by."""

import json

import torch

from capsnet.models.tensor_file import load_tensors
from capsnet.training.loop import LOCK


def history(config):
    """What an epoch must always come out as: all but the times."""
    lines = [json.loads(line) for line in (config.folder / "log.jsonl").read_text().splitlines()]
    return [{k: x for k, x in line.items() if "second" not in k} for line in lines]


def same_outcome(one, other):
    a, _ = load_tensors(one.folder / "weights.safetensors")
    b, _ = load_tensors(other.folder / "weights.safetensors")
    assert history(one) == history(other)
    assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def files_in(folder):
    """What a run has left on the disk, file by file."""
    found = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found.pop(LOCK, b"") == b""
    return found
