"""The user's own pictures: listed, read, parted and checked; see capsnet/pictures for each step.

own = open_own(Path("scans"), Layout(class_from="1", group_from="2")); own.split("train"), own.check
"""

import csv
import io
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from capsnet.data.splits.mapped import Mapped
from capsnet.data.splits.parting import part
from capsnet.data.splits.room import fits
from capsnet.data.splits.split import Split
from capsnet.errors import UserError
from capsnet.files import whole_file
from capsnet.pictures.alike import Alike, find_alike
from capsnet.pictures.checking import Check, check_pictures
from capsnet.pictures.grouping import group_rows
from capsnet.pictures.layout import ImagesIn, Layout, Listing
from capsnet.pictures.listing import list_pictures
from capsnet.pictures.store import Progress, Stored, read_pictures
from capsnet.tasks import Numbers, OneLabel, SeveralLabels, Task

MAX_SIZE = 10_000


@dataclass(frozen=True, eq=False)
class Own:
    """Pictures that have been read, and the split of each.

    on_disk: their images stay there and are read for every batch anew.
    """

    stored: Stored
    splits: tuple[str, ...]
    alike: Alike
    on_disk: bool = False

    @property
    def listing(self) -> Listing:
        """The pictures, and what is said of each."""
        return self.stored.listing

    @cached_property
    def check(self) -> Check:
        """What there is to say of them."""
        return check_pictures(self.stored, self.splits, self.alike)

    @cached_property
    def task(self) -> Task:
        """What is asked of them; the ranges of numbers are those of training."""
        listing = self.listing
        if listing.kind == "one_label":
            return OneLabel(listing.names)
        if listing.kind == "several_labels":
            return SeveralLabels(listing.names)
        rows = [k for k, split in enumerate(self.splits) if split == "train"]
        values = np.array([listing.labels[k] for k in rows], dtype=np.float32)
        ranges = tuple(zip(values.min(axis=0).tolist(), values.max(axis=0).tolist(), strict=True))
        for name, (low, high) in zip(listing.names, ranges, strict=True):
            if not low < high:
                raise UserError(f"The column {name} is {low:g} in every row; choose another.")
        return Numbers(listing.names, ("",) * len(listing.names), ranges)

    def kept(self, images_in: ImagesIn, device: torch.device) -> "Own":
        """Return the pictures as they are kept for a device; auto: in its memory if all fit."""
        fit = images_in == "memory" or (
            images_in == "auto" and fits(self.stored.images.nbytes, device)
        )
        return replace(self, on_disk=not fit)

    def split(self, name: str, device: torch.device | str = "cpu") -> Split:
        """Return the pictures of one split for a device, with their files and groups."""
        rows = [k for k, split in enumerate(self.splits) if split == name]
        if not rows:
            raise UserError(f"There are no pictures for {name} in {self.listing.root}; add some.")
        images = Mapped(self.stored.images, np.array(rows), device)
        listing = self.listing
        files = [listing.files[k] for k in rows]
        groups = [listing.groups[k] for k in rows] if listing.groups else files
        labels = self._labels(rows).to(device)
        return Split(images if self.on_disk else images.load(), labels, self.task, files, groups)

    def _labels(self, rows: list[int]) -> Tensor:
        listing = self.listing
        if listing.kind == "numbers":
            return torch.tensor([listing.labels[k] for k in rows], dtype=torch.float32)
        place = {name: k for k, name in enumerate(listing.names)}
        if listing.kind == "one_label":
            return torch.tensor([place[str(listing.labels[k])] for k in rows])
        table = torch.zeros(len(rows), len(place), dtype=torch.int64)
        for n, row in enumerate(rows):
            for name in listing.labels[row]:
                table[n, place[str(name)]] = 1
        return table

    def split_text(self) -> str:
        """Return a table with file, label, group and split of every picture, for others to use."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("file", "label", "group", "split"))
        listing = self.listing
        for k, file in enumerate(listing.files):
            label = listing.labels[k]
            told = label if isinstance(label, str) else "|".join(map(str, label))
            group = listing.groups[k] if listing.groups else ""
            writer.writerow((file, told, group, self.splits[k]))
        return text.getvalue()


def open_own(
    path: Path,
    layout: Layout | None = None,
    size: int | None = None,
    channels: int | None = None,
    holdout: int | None = None,
    seed: int = 0,
    fold: tuple[int, int] | None = None,
    progress: Progress | None = None,
    parted: bool = True,
) -> Own:
    """List, read and part the pictures of a folder or table.

    A split made by hand in which training knows test pictures is refused unless the layout allows
    it; in one made here groups and pictures that are alike stay together. Pictures that are not to
    be parted are all for testing, unless they are parted already.

    Args:
        path: The folder or table.
        layout: What its classes, groups and splits are, and how pictures are read.
        size: Side in pixels that they are brought to; by default chosen from them.
        channels: 1 or 3; by default 1 if all are grey.
        holdout: Pictures for validation, about; None: a sixth.
        seed: Of the split.
        fold: The number of the fold that is tested, counted from 1, and of how many.
        progress: Called while files are read.
        parted: Whether they are parted at all.

    Returns:
        An `Own`: the pictures, and the split of each.

    Example:
        >>> sorted(set(open_own(Path("pictures")).splits))
        ['test', 'train', 'validation']
    """
    layout = layout or Layout()
    if size is not None and not 1 <= size <= MAX_SIZE:
        raise UserError(f"Images cannot be {size} px wide; ask for 1 to {MAX_SIZE}.")
    listing = list_pictures(path, layout)
    stored = read_pictures(listing, size, channels, layout, progress)
    listing = stored.listing
    _require_no_lost_class(listing)
    alike = _alike(stored)
    if parted or listing.splits:
        splits = part(listing, group_rows(listing, alike), holdout, seed, fold)
    else:
        splits = ("test",) * len(listing)
    _require_all_classes(listing, splits)
    own = Own(stored, splits, alike)
    if listing.splits and not layout.allow_leak and own.check.leaks:
        raise UserError(
            f"{own.check.leaks[0].sentence} Mend the split, let it be made by capsnet, or go on "
            "with --allow-leak."
        )
    return own


def load_folder(
    root: str | Path,
    split: str,
    size: int | None = None,
    channels: int | None = None,
    seed: int = 0,
) -> Split:
    """Return the "train" or "test" split [M, channels, size, size] of an image folder.

    Args:
        root: The folder; a folder in it for each class.
        split: "train" or "test".
        size: Side in pixels that pictures are brought to; by default chosen from them.
        channels: 1 or 3; by default 1 if all are grey.
        seed: Of the split, unless the folder has one.

    Returns:
        A `Split`, whose files are the pictures'.

    Example:
        >>> load_folder("pictures", "train", size=28).task.names
        ('cat', 'dog')
    """
    return open_own(Path(root), None, size, channels, holdout=0, seed=seed).split(split)


def _alike(stored: Stored) -> Alike:
    """Return which pictures are alike, computed once for each array in the cache."""
    path = stored.folder / "alike.npz"
    try:
        with np.load(path) as kept:
            return Alike(kept["same"], kept["near"], kept["flat"])
    except (OSError, EOFError, KeyError, ValueError, BadZipFile):
        alike = find_alike(stored.images, stored.reading.white)
    with suppress(UserError), whole_file(path) as temporary:  # it can be computed again
        np.savez(temporary, same=alike.same, near=alike.near, flat=alike.flat)
    return alike


def _require_no_lost_class(listing: Listing) -> None:
    """Raise a UserError if all pictures of a class had to be left out."""
    if listing.kind == "one_label" and (lost := set(listing.names) - set(map(str, listing.labels))):
        raise UserError(
            f"None of the pictures of the class '{min(lost)}' can be used ({listing.skipped[-1]}); "
            "mend them, or take the class away."
        )


def _require_all_classes(listing: Listing, splits: tuple[str, ...]) -> None:
    """Raise a UserError if a split made by hand lacks a class that another one has."""
    if listing.kind != "one_label" or not listing.splits:
        return
    classes = {
        name: {x for x, split in zip(listing.labels, splits, strict=True) if split == name}
        for name in ("train", "test")
    }
    if odd := classes["train"] ^ classes["test"]:
        raise UserError(
            f"The train and test splits of {listing.root} must hold the same classes; these are "
            f"only in one of them: {', '.join(sorted(map(str, odd)))}."
        )
