"""What a trained model says of picture files.

predict_files([Path("seven.jpg")], "runs/mine", invert=True, centre=True)[0]["decision"]
"""

from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from capsnet.data import read_image
from capsnet.errors import UserError
from capsnet.files import whole_file
from capsnet.models import CapsNet
from capsnet.models.weights import find_model
from capsnet.training.device import pick_device

BATCH_SIZE = 64


@torch.inference_mode()
def predict_files(
    files: Sequence[Path],
    weights: str,
    invert: bool = False,
    centre: bool = False,
    reconstruct: Path | None = None,
    device: str = "auto",
) -> list[dict[str, Any]]:
    """Return file, decision, class lengths and, if asked for, the drawn picture of each file."""
    model, card = find_model(weights)
    classes = card["classes"]
    if reconstruct is not None and not (isinstance(model, CapsNet) and model.decoder):
        raise UserError(f"{model.name} has no decoder to draw with; leave --reconstruct out.")
    channels, size, _ = model.image_shape
    where = pick_device(device)
    model = model.to(where).eval()
    names = distinct_stems(files)
    answers = []
    for start in range(0, len(files), BATCH_SIZE):
        batch = files[start : start + BATCH_SIZE]
        images = torch.stack([read_image(f, size, channels, invert, centre) for f in batch])
        output = model(images.to(where).float() / 255)
        for n, file in enumerate(batch):
            lengths = dict(zip(classes, output.lengths[n].tolist(), strict=True))
            answer: dict[str, Any] = {
                "file": str(file),
                "decision": max(lengths, key=lambda name: lengths[name]),
                "lengths": lengths,
            }
            if reconstruct is not None:
                assert isinstance(model, CapsNet)
                path = reconstruct / f"{names[start + n]}-reconstruction.png"
                write_png(model.reconstruct(output.v[n : n + 1])[0], path)
                answer["reconstruction"] = str(path)
            answers.append(answer)
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
