"""Runs on pictures of strangers: groups, a leak, and names that would like to be HTML."""

import json
from dataclasses import replace
from pathlib import Path

import torch

from capsnet.data import Split, register_data
from capsnet.measures.answered import Answered
from capsnet.measures.calibrating import calibrate
from capsnet.models.weights import WEIGHTS, load_weights, save_weights
from capsnet.tasks import OneLabel
from capsnet.training.config import TrainConfig
from capsnet.training.evaluation import answer
from capsnet.training.loop import train
from capsnet.training.setup import open_stream

EVIL = "<script>alert(1)</script>"
BREAK = "scan\n<img src=x onerror=alert(2)>"
NOT_TEXT = "caf\udce9"  # a byte that is no UTF-8, as Python reads it from a disk
SIZE = 20
SMALL = {
    "capsnet_small": ("conv_channels=4", "primary_types=2", "decoder=(16,)"),
    "cnn_small": ("channels=4",),
}


def strange(part, ask):
    """Bright on the left or on the right, three pictures of each patient."""
    num = 60 if part == "train" else 36
    # Fold 0 tests two patients of its own training data.
    first = 0 if part == "train" else (18 if ask.seed == 0 else 100)
    random = torch.Generator().manual_seed(first + ask.seed)
    groups = [f"patient {first + k // 3}" for k in range(num)]
    labels = torch.tensor([(first + k // 3) % 2 for k in range(num)])
    images = torch.randint(0, 90, (num, 1, SIZE, SIZE), generator=random)
    sides = labels.clone()
    sides[:2] = 1 - sides[:2]  # what is wrong is shown, with its name
    for k, label in enumerate(sides.tolist()):
        images[k, :, :, SIZE // 2 * label :][..., : SIZE // 2] += 60
    files = [f"{groups[k]}/{part} {k}.png" for k in range(num)]
    files[0], files[1] = f"{BREAK} {part}.png", f"{NOT_TEXT} {part}.png"
    return Split(images.byte(), labels, OneLabel(("well", EVIL)), files, groups)


def make_folds(folder: Path) -> Path:
    """Train two folds, each with a CNN beside it, and keep what a run on pictures keeps."""
    register_data("strange")(strange)
    for fold in (0, 1):
        place = folder / f"fold{fold + 1}"
        for model, out in (("capsnet_small", place), ("cnn_small", place / "baseline")):
            config = TrainConfig(
                model=model,
                data="strange",
                options=SMALL[model],
                holdout=24,
                data_seed=fold,
                epochs=2,
                batch_size=12,
                warmup_steps=0,
                shift=0,
                device="cpu",
                out=out,
            )
            train(config)
            keep_answers(config)
    sentence = f"Two pictures of {EVIL} are nearly the same."
    found = {"findings": [{"weight": "warning", "sentence": sentence}]}
    (folder / "fold1" / "data.json").write_text(json.dumps(found), encoding="utf-8")
    return folder


def keep_answers(config: TrainConfig) -> None:
    """Write the answers to validation and test, and the calibration into the weights' card."""
    model, card = load_weights(config.folder / WEIGHTS)
    for name in ("validation", "test"):
        stream = open_stream(config, name, torch.device("cpu"))
        said, split = answer(model, stream), stream.split
        labels = split.labels.numpy()
        kept = Answered(split.task, said.answers.numpy(), labels, split.files, split.groups)
        kept.save(config.folder / f"answers-{name}.npz")
        if name == "validation":
            card = replace(card, calibration=calibrate(kept))
    save_weights(model, config.folder / WEIGHTS, card)
