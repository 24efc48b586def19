"""Layout: what the user says of a folder or a table of pictures; and the listing it leads to.

layout = Layout(class_from="1", group_from="2"); listing = list_pictures(Path("scans"), layout)
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from capsnet.pictures.reading import Fit

Kind = Literal["one_label", "several_labels", "numbers"]
ImagesIn = Literal["auto", "memory", "disk"]  # where images are while they are used
Label = str | tuple[str, ...] | tuple[float, ...]  # the class, the classes or the numbers
NO_GROUPS = "none"
TABLES = (".csv", ".tsv")


def is_own(path: Path) -> bool:
    """Whether a path is a folder or a table of pictures."""
    return path.is_dir() or (path.suffix.lower() in TABLES and path.is_file())


def is_table(path: Path) -> bool:
    """Whether a path is called as tables are, and is no folder."""
    return path.suffix.lower() in TABLES and not path.is_dir()


@dataclass(frozen=True)
class Layout:
    """What the user says of the pictures of a folder or table, and how they are read."""

    class_from: str | None = None
    """Of your own pictures: what says the class. A number is a folder below the data's, 1 the first
    (1,2: both together); else a pattern with one group over the path, or a column of a table
    (several columns of 0 and 1: several classes). By default 1, or the column label or class."""
    numbers_from: str | None = None
    """Columns of a table with numbers that are to be told instead of classes, as age,height."""
    group_from: str | None = None
    """What says of whom a picture is, in the same way; pictures of one group are never parted. It
    must be said where folders are nested; none: every picture stands alone."""
    split_from: str | None = None
    """What says train, validation or test, or a file split.csv of a run; by default folders of
    these names or the column split, else the split is made here."""
    positive: str | None = None
    """Of two classes the one that is to be found, as malignant: sensitivity and threshold are about
    it; by default the last by its name."""
    file_from: str | None = None
    """Column of a table with the file; by default file, filename, path, image or picture."""
    fit: Fit = "pad"
    """How a picture becomes a square: padded with black, cropped from the middle, or stretched."""
    window: tuple[float, float] | None = None
    """Values that become black and white, of pictures with more than 8 bits; by default the least
    and the largest there are."""
    skip_bad: bool = False
    """Leave out what cannot be read, and count it, instead of stopping."""
    allow_leak: bool = False
    """Go on although a split made by hand has test pictures that training knows."""


@dataclass(frozen=True, eq=False)
class Listing:
    """All pictures of a folder or table, in order, with what is said of each.

    groups, splits: of whom each picture is, and its split; empty if nobody says.
    """

    root: Path
    files: tuple[str, ...]  # relative to the root, with / between folders
    kind: Kind
    names: tuple[str, ...]
    labels: tuple[Label, ...]
    groups: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()  # what was decided for the user, in sentences
    skipped: tuple[str, ...] = ()  # what was left out, in sentences

    def __len__(self) -> int:
        return len(self.files)

    def path(self, index: int) -> str:
        """Return where a picture is."""
        return os.path.join(self.root, self.files[index])

    def strata(self) -> list[str]:
        """Return what the shares of a random choice are kept of: classes, or ranges of a number."""
        if self.kind == "one_label":
            return [str(x) for x in self.labels]
        if self.kind == "several_labels":
            return ["|".join(map(str, x)) for x in self.labels]
        first = [float(x[0]) for x in self.labels]
        order = sorted(first)
        edges = [order[len(order) * k // 5] for k in range(1, 5)]
        return [str(sum(x >= edge for edge in edges)) for x in first]

    def subset(self, rows: list[int], skipped: tuple[str, ...] = ()) -> "Listing":
        """Return the pictures at these rows, and what was left out besides."""
        return Listing(
            self.root,
            tuple(self.files[k] for k in rows),
            self.kind,
            self.names,
            tuple(self.labels[k] for k in rows),
            tuple(self.groups[k] for k in rows) if self.groups else (),
            tuple(self.splits[k] for k in rows) if self.splits else (),
            self.decided,
            self.skipped + skipped,
        )
