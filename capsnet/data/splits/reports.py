"""What `capsnet data fetch` and `capsnet data check` have to say about a data set.

Usage: report = check("mnist"); report.ok, report.files[0].place, report.label_counts["train"]
"""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from capsnet.data.entries import INSIDE, Entry, Request
from capsnet.data.registry import find_data
from capsnet.data.sources.locate import MissingFile, Source, WrongFile, locate


@dataclass(frozen=True)
class FileReport:
    """A file: whether its digest is right, and the place it was found in or what is wrong."""

    name: str
    ok: bool
    place: str
    path: str
    missing: bool = False


@dataclass(frozen=True)
class DataReport:
    """A data set: its files, and the number of images of each class and of all in each split."""

    name: str
    files: tuple[FileReport, ...]
    label_counts: dict[str, tuple[int, ...]]  # nothing where the labels are numbers
    num_images: dict[str, int]

    @property
    def ok(self) -> bool:
        """Whether everything is there and right."""
        return all(file.ok for file in self.files)


def fetch(name: str, folder: str | Path | None = None) -> DataReport:
    """Get all files of a data set from the first place that has them, and report on them.

    Args:
        name: One of `list_data()`.
        folder: Where its files are, if they were placed by hand.

    Returns:
        A report: ok, files, and the number of images in each split.

    Example:
        >>> fetch("digits").num_images  # which are in the package
        {'train': 5000, 'test': 1000}
    """
    entry, place = find_data(name, folder)
    if entry.source is None:
        return check(name, folder)
    located = locate(entry.source, folder=place)
    files = [FileReport(file, True, at.place, str(at.path)) for file, at in located.items()]
    return _report(entry, place, files)


def check(name: str, folder: str | Path | None = None) -> DataReport:
    """Verify the files of a data set that are on this machine, fetching nothing.

    Args:
        name: One of `list_data()`.
        folder: Where its files are, if they were placed by hand.

    Returns:
        A report: ok, files, and the number of images in each split.

    Example:
        >>> check("digits").ok
        True
    """
    entry, folder = find_data(name, folder)
    if entry.source:
        files = [_check_file(entry.source, file, folder) for file in entry.source.raw_md5]
    elif folder is not None:
        files = [FileReport(name, True, "given folder", str(folder))]
    elif entry.needs != INSIDE:
        files = []
    else:
        asset = resources.files("capsnet") / "assets" / "digits.npz"
        files = [FileReport("digits.npz", True, "inside the package", str(asset))]
    return _report(entry, folder, files)


def _check_file(source: Source, name: str, folder: str | Path | None) -> FileReport:
    try:
        located = locate(source, [name], folder, online=False)[name]
    except (MissingFile, WrongFile) as error:
        return FileReport(name, False, str(error), "", isinstance(error, MissingFile))
    return FileReport(name, True, located.place, str(located.path))


def _report(entry: Entry, folder: str | Path | None, files: list[FileReport]) -> DataReport:
    counts, sizes = {}, {}
    if all(file.ok for file in files):
        ask = Request(folder, None, None, None, None, seed=0, training=False)
        for part in ("train", "test"):
            split = entry.load(part, ask)
            counts[part], sizes[part] = split.label_counts(), len(split)
    return DataReport(entry.name, tuple(files), counts, sizes)
