"""Image folders: root/CLASS/*.png|jpg|jpeg, or root/train/CLASS/… and root/test/CLASS/….

Without train and test folders a fifth of each class, drawn by the seed, is the test split. Images
become squares by the rules of pictures.py. The size, if not given, is the longest side of any
picture but at most 32; the channels are 1 if all pictures are grey, else 3.

Usage: split = load_folder("pets", "train", size=32, channels=3)
"""

from pathlib import Path

import torch

from capsnet.data.sets.pictures import picture_form, read_image
from capsnet.data.splits.split import Split, stratified
from capsnet.errors import UserError

SUFFIXES = (".png", ".jpg", ".jpeg")
NO_PICTURES = ("thumbs.db", "desktop.ini")  # left in folders by Windows
DEFAULT_SIZE = 32
TEST_SHARE = 0.2


def load_folder(
    root: str | Path,
    split: str,
    size: int | None = None,
    channels: int | None = None,
    seed: int = 0,
) -> Split:
    """Return the "train" or "test" split [M, channels, size, size] of an image folder."""
    root = Path(root)
    if not root.is_dir():
        raise UserError(f"There is no folder {root}; give one that holds a folder per class.")
    names = {path.name for path in _folders(root)}
    if {"train", "test"} <= names:
        if unused := ", ".join(sorted(names - {"train", "test"})):
            raise UserError(
                f"{root} holds train and test, and beside them {unused}, which would not be used; "
                "move it elsewhere, or its pictures into train."
            )
        found = {part: list_pictures(root / part) for part in ("train", "test")}
        if found["train"].keys() != found["test"].keys():
            odd = ", ".join(sorted(found["train"].keys() ^ found["test"].keys()))
            raise UserError(
                f"The train and test folders of {root} must hold the same classes; "
                f"these are only in one of them: {odd}."
            )
    else:
        found = _divide(list_pictures(root), seed)
    if size is None or channels is None:
        forms = [
            picture_form(path)
            for part in found.values()
            for paths in part.values()
            for path in paths
        ]
        size = size or min(DEFAULT_SIZE, max(side for side, _ in forms))
        channels = channels or max(count for _, count in forms)
    classes = tuple(found[split])
    images, labels = [], []
    for label, paths in enumerate(found[split].values()):
        images += [read_image(path, size, channels) for path in paths]
        labels += [label] * len(paths)
    return Split(torch.stack(images), torch.tensor(labels), classes)


def list_pictures(root: Path) -> dict[str, list[Path]]:
    """Return the picture files of every class folder under `root`, both sorted by name."""
    found = {}
    for folder in _folders(root):
        paths = sorted(path for path in folder.iterdir() if not _is_hidden(path))
        for path in paths:
            if path.is_dir():
                raise UserError(
                    f"{path} is a folder where pictures should be; lay the data out as "
                    "ROOT/CLASS/*.png, or as ROOT/train/CLASS/*.png and ROOT/test/CLASS/*.png."
                )
            if path.suffix.lower() not in SUFFIXES:
                raise UserError(
                    f"{path} is not a PNG or JPEG picture; remove it from the class folder."
                )
        if not paths:
            raise UserError(f"The class folder {folder} is empty; add pictures or remove it.")
        found[folder.name] = paths
    if len(found) < 2:
        raise UserError(
            f"{root} needs a folder of pictures for each of two or more classes, "
            f"but has {len(found)}; lay it out as {root}/CLASS/picture.png."
        )
    return found


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and not _is_hidden(path))


def _is_hidden(path: Path) -> bool:
    return path.name.startswith(".") or path.name.lower() in NO_PICTURES


def _divide(found: dict[str, list[Path]], seed: int) -> dict[str, dict[str, list[Path]]]:
    """Split every class by the seed: at least one picture for each side."""
    divided: dict[str, dict[str, list[Path]]] = {"train": {}, "test": {}}
    for name, paths in found.items():
        if len(paths) < 2:
            raise UserError(
                f"The class '{name}' has only one picture; add more, one of them is for testing."
            )
        num_test = max(1, round(TEST_SHARE * len(paths)))
        rest, chosen = stratified(torch.zeros(len(paths), dtype=torch.int64), num_test, seed)
        divided["train"][name] = [paths[i] for i in rest.tolist()]
        divided["test"][name] = [paths[i] for i in chosen.tolist()]
    return divided
