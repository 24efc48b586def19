"""From weights to a file for other programs, compared with the original before it is there.

export("runs/mine", "onnx", Path("mine.onnx")).difference
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.data.sets.digits import load_digits
from capsnet.errors import UserError, unknown_name
from capsnet.exporting.answering import Answering
from capsnet.exporting.facts import facts_of
from capsnet.exporting.formats import FORMATS, Run
from capsnet.files import whole_file
from capsnet.models.weights import find_model

TOLERANCE = 1e-4
BATCHES = (1, 5)
STEPS = 3  # read, write, compare


@dataclass(frozen=True)
class Exported:
    """A file for other programs, and how far its answers are from the original's."""

    file: Path
    format: str
    model: str
    outputs: tuple[str, ...]
    num_bytes: int
    difference: float  # the greatest, in units of the output's largest value if that is above 1

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain JSON values."""
        return {**asdict(self), "file": str(self.file), "tolerance": TOLERANCE}

    def __str__(self) -> str:
        return (
            f"Wrote {self.file} ({self.num_bytes / 1e6:.1f} MB): {self.model}, which gives "
            f"{', '.join(self.outputs)}.\nThe greatest difference from the original on random and "
            f"real images, in batches of {' and '.join(map(str, BATCHES))}: {self.difference:.1e}."
        )


@torch.no_grad()
def export(
    weights: str | Path,
    format: Literal["onnx", "torch-export", "safetensors"],
    out: Path | str | None = None,
    force: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> Exported:
    """Write a trained model for other programs: any batch size, routing and calibration included.

    The file holds, as JSON, what a stranger has to know: names, shapes, how a picture is prepared.

    Args:
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        format: "onnx", "torch-export" (a .pt2 file), or "safetensors" (weights and card alone).
        out: The file; by default called as the weights are.
        force: Replace a file that is there.
        progress: Called with the steps done, the number of steps, and what comes next.

    Returns:
        An `Exported`, with the greatest difference from the original, at most 1e-4.

    Example:
        >>> export("capsnet_small", "onnx").file
        PosixPath('capsnet_small.onnx')
    """
    tell = progress or (lambda done, total, now: None)
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    form = FORMATS[format]
    path = default_path(weights, form.suffix) if out is None else Path(out)
    check_target(path, form.suffix, force)
    tell(0, STEPS, "reading the weights")
    model, card = find_model(str(weights))
    answering = Answering(model, card.calibration)
    with whole_file(path) as temporary:
        tell(1, STEPS, f"writing {format}")
        form.write(answering, card, facts_of(answering, card), temporary)
        tell(2, STEPS, "comparing with the original")
        difference = greatest_difference(answering, form.load(temporary))
        if not difference <= TOLERANCE:  # it may be no number at all
            raise UserError(
                f"{model.name} as {format} differs from the original by {difference:.1e}, more "
                f"than {TOLERANCE:g}, so no file was written; try another --format."
            )
        size = temporary.stat().st_size
    tell(3, STEPS, "")
    return Exported(path, format, model.name, answering.outputs, size, difference)


def default_path(weights: str | Path, suffix: str) -> Path:
    """Return the file in the present folder that is called as the weights or their run."""
    path = Path(weights)
    return Path((path.resolve().name if path.is_dir() else path.stem) + suffix)


def check_target(path: Path, suffix: str, force: bool) -> None:
    """Raise a UserError for a file that is called otherwise, or is there and may not be replaced.

    Weights of a run are hours of work, and are called as ours may be.
    """
    if path.suffix.lower() != suffix:
        raise UserError(f"Such a file is called *{suffix}; choose another name than {path}.")
    if path.exists() and not force:
        raise UserError(f"{path} is there already; give another --out, or --force to replace it.")


def greatest_difference(original: Answering, copy: Run) -> float:
    """Return how far two functions of images differ, over random and real images and batches.

    Where an output has values above 1, differences are in units of the largest of them.
    """
    shape = original.model.image_shape
    greatest = []
    for images in (random_images(shape), real_images(shape)):
        for num in BATCHES:
            expected, got = original(images[:num]), copy(images[:num])
            for name, truth in expected.items():
                scale = truth.abs().amax().clamp(min=1)
                greatest.append((got[name] - truth).abs().amax() / scale)
    return float(torch.stack(greatest).max())


def random_images(image_shape: tuple[int, int, int]) -> Tensor:
    """Return images [5, C, H, W] of noise, always the same."""
    return torch.rand(max(BATCHES), *image_shape, generator=torch.Generator().manual_seed(0))


def real_images(image_shape: tuple[int, int, int]) -> Tensor:
    """Return embedded digits [5, C, H, W], scaled to a model's shape."""
    channels, height, width = image_shape
    images = load_digits("test").images[: max(BATCHES)].float() / 255
    images = F.interpolate(images, (height, width), mode="bilinear")
    return images.repeat(1, channels, 1, 1)
