"""What a trained model says of picture files.

predict([Path("seven.jpg")], "runs/mine", invert=True, centre=True)[0].decision
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from capsnet.data import read_image
from capsnet.errors import require
from capsnet.files import whole_file
from capsnet.models.weights import find_model
from capsnet.tasks import Labels
from capsnet.training.device import pick_device

BATCH_SIZE = 64


@dataclass(frozen=True)
class Prediction:
    """What a model says of one file."""

    file: Path
    decision: str  # in words: the class, the classes, or the numbers
    answers: dict[str, float]  # the probability of each class, or each number
    are_probabilities: bool
    reconstruction: Path | None = None  # what the winning capsule draws, if it was asked for

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as plain JSON values."""
        facts: dict[str, Any] = {"file": str(self.file), "decision": self.decision}
        facts["lengths" if self.are_probabilities else "numbers"] = self.answers
        if self.reconstruction is not None:
            facts["reconstruction"] = str(self.reconstruction)
        return facts

    def __str__(self) -> str:
        if not self.are_probabilities:
            return f"{self.file}: {self.decision}"
        ranked = sorted(self.answers.items(), key=lambda item: -item[1])[:3]
        lengths = "  ".join(f"{name} {length:.3f}" for name, length in ranked)
        return f"{self.file}: {self.decision}   ({lengths})"


@torch.inference_mode()
def predict(
    files: Sequence[Path | str],
    weights: str | Path,
    invert: bool = False,
    centre: bool = False,
    reconstruct: Path | None = None,
    device: str = "auto",
    progress: Callable[[int], None] | None = None,
) -> list[Prediction]:
    """Say what a trained model sees on PNG or JPEG files.

    Args:
        files: Pictures of any size; each is scaled to the model's (C, H, W).
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        invert: The pictures show dark ink on white paper.
        centre: Crop the ink and centre it as MNIST's digits are.
        reconstruct: Folder for what the winning capsule draws, one PNG per picture.
        device: auto, cpu, cuda or cuda:N.
        progress: Called after each batch with the number of files done.

    Returns:
        A `Prediction` for each file, in order: decision, and one answer for each of the J classes
        or numbers of the model's task.

    Example:
        >>> predict(["seven.jpg"], "capsnet_mnist", invert=True, centre=True)[0].decision
        '7'
    """
    model, _ = find_model(str(weights))
    artist = model.draws
    if reconstruct is not None:
        artist = require(
            artist, f"{model.name} has no decoder to draw with; leave --reconstruct out."
        )
    channels, size, _ = model.image_shape
    where = pick_device(device)
    model = model.to(where).eval()
    paths = [Path(file) for file in files]
    names = distinct_stems(paths)
    task, answers = model.task, []
    for start in range(0, len(paths), BATCH_SIZE):
        batch = paths[start : start + BATCH_SIZE]
        images = torch.stack([read_image(f, size, channels, invert, centre) for f in batch])
        output = model(images.to(where).float() / 255)
        for n, file in enumerate(batch):
            drawn = None
            if reconstruct is not None and artist is not None:
                drawn = reconstruct / f"{names[start + n]}-reconstruction.png"
                write_png(artist.reconstruct(output.v[n : n + 1])[0], drawn)
            said = output.answers[n].cpu()
            by_name = dict(zip(task.names, said.tolist(), strict=True))
            answers.append(
                Prediction(file, task.decide(said), by_name, isinstance(task, Labels), drawn)
            )
        if progress is not None:
            progress(start + len(batch))
    return answers


def distinct_stems(files: Sequence[Path]) -> list[str]:
    """Return the name of each file without its ending, with a number where it is taken."""
    taken: dict[str, None] = {}
    for file in files:
        names = chain([file.stem], (f"{file.stem}-{number}" for number in count(2)))
        taken[next(name for name in names if name not in taken)] = None
    return list(taken)


def write_png(picture: Tensor, path: Path) -> None:
    """Write a picture [C, H, W] in [0, 1] as PNG."""
    pixels = (picture * 255).round().byte().permute(1, 2, 0).cpu().numpy()
    with whole_file(path) as temporary:
        Image.fromarray(pixels.squeeze(-1) if pixels.shape[2] == 1 else pixels).save(
            temporary, "PNG"
        )
