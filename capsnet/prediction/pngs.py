"""Pictures that are made beside answers: all of them are there in the end, or none.

with staged(Path("seen")) as folder: write_png(pixels, folder / "seven-input.png")
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from PIL import Image
from torch import Tensor

from capsnet.errors import UserError
from capsnet.files import PREFIX, whole_file


@contextmanager
def staged(folder: Path | None) -> Iterator[Path | None]:
    """Give a new folder inside `folder`, whose files are moved up when the block succeeds."""
    if folder is None:
        yield None
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(dir=folder, prefix=PREFIX))
    except OSError as error:
        raise UserError(
            f"Could not write {folder}: {error.strerror}; choose a folder you can write to."
        ) from error
    try:
        yield stage
        for path in stage.iterdir():
            path.replace(folder / path.name)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def distinct_stems(files: Sequence[Path]) -> list[str]:
    """Return the name of each file without its ending, with a number where it is taken."""
    taken: dict[str, None] = {}
    numbers: dict[str, Iterator[int]] = {}
    for file in files:
        name = file.stem
        while name in taken:
            number = next(numbers.setdefault(file.stem, count(2)))
            name = f"{file.stem}-{number}"
        taken[name] = None
    return list(taken)


def write_png(picture: Tensor, path: Path) -> None:
    """Write a picture [C, H, W] in [0, 1] as PNG; of more or fewer channels than 3 the first."""
    pixels = (picture * 255).round().byte().permute(1, 2, 0).cpu().numpy()
    grey = pixels.shape[2] != 3
    with whole_file(path) as temporary:
        Image.fromarray(pixels[..., 0] if grey else pixels).save(temporary, "PNG")
