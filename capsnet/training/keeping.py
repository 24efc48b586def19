"""What a run on the user's own pictures keeps beside its weights: split, check, answers.

own = open_pictures(config); keep_pictures(own, config); calibration = keep_answers(…)
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from capsnet.data import Own, Stream, find_data, open_own
from capsnet.errors import UserError
from capsnet.files import write_text
from capsnet.measures.answered import Answered
from capsnet.models import Model
from capsnet.models.reference import NAME, measure_reference
from capsnet.models.weights import SPLIT_FILE
from capsnet.pictures.layout import Layout
from capsnet.tasks import Calibration
from capsnet.training.config import TrainConfig, flag
from capsnet.training.distributed.world import from_leader
from capsnet.training.evaluation import Answers, answer
from capsnet.training.progress import WorkProgress

DATA_FILE = "data.json"  # what was found in the pictures
MANY = 256  # images that say what is usual


def open_pictures(config: TrainConfig, device: torch.device) -> Own | None:
    """Return the user's own pictures as a run's settings ask for them; None for other data."""
    entry, folder = find_data(config.data, config.data_folder)
    if not entry.own or folder is None:
        said = [f.name for f in fields(Layout) if getattr(config, f.name) != f.default]
        if said:
            raise UserError(
                f"--{flag(said[0])} is for pictures of your own, not {entry.name}; leave it out."
            )
        return None
    with WorkProgress("reading pictures", unit="pictures") as progress:
        own = open_own(
            Path(folder),
            config,
            config.image_size,
            config.channels,
            config.holdout,
            config.data_seed,
            (config.fold, config.folds) if config.folds else None,
            progress,
        )
    return own.kept(config.images_in, device)


def keep_pictures(own: Own, config: TrainConfig) -> None:
    """Write the split and what was found; a UserError if a run to resume had other pictures."""
    path = config.folder / SPLIT_FILE
    text = own.split_text()
    if (
        config.resume
        and path.exists()
        and path.read_text(encoding="utf-8", errors="surrogateescape") != text
    ):
        raise UserError(
            f"The pictures of {config.data} are others than when the run in {config.folder} began; "
            "bring them back, or start a new run with another --out."
        )
    write_text(path, text)
    found = json.dumps(own.check.to_json(), indent=2)
    write_text(config.folder / DATA_FILE, found)


def keep_answers(
    model: Model,
    validation: Stream | None,
    final: Stream,
    said: Answers,
    final_split: str,
    folder: Path,
    precision: torch.dtype,
) -> Calibration | None:
    """Write what the model answers to every picture; returns the calibration, from validation."""
    from capsnet.measures.calibrating import calibrate

    calibration = None
    if validation is not None:
        held = said if final_split == "validation" else answer(model, validation, 256, precision)
        answered = _answered(validation, held)
        from_leader(lambda: answered.save(folder / "answers-validation.npz"))
        calibration = calibrate(answered)
    if final_split != "validation":
        answered = _answered(final, said)
        from_leader(lambda: answered.save(folder / f"answers-{final_split}.npz"))
    return calibration


def keep_reference(model: Model, stream: Stream) -> dict[str, Any]:
    """Return, for the card, how well the model draws images it knows, if it draws."""
    plan = {name: x[:MANY] for name, x in stream.plan(None).items()}
    reference = measure_reference(model.eval(), stream.batch(plan).images)
    return {} if reference is None else {NAME: reference.to_json()}


def _answered(stream: Stream, said: Answers) -> Answered:
    split = stream.split
    return Answered(
        stream.task,
        said.answers.float().numpy(),
        split.labels.cpu().numpy(),
        split.files,
        split.groups,
    )
