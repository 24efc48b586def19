"""The pictures of a folder or a table, with splits from wherever they are said.

listing = list_pictures(Path("scans"), Layout(class_from="1", group_from="2"))
"""

from dataclasses import replace
from pathlib import Path

from capsnet.errors import UserError, unknown_name
from capsnet.pictures.finding import SPLITS, list_folder, part_of
from capsnet.pictures.layout import TABLES, Layout, Listing, is_table
from capsnet.pictures.table import list_table, read_splits


def list_pictures(path: Path, layout: Layout) -> Listing:
    """Return all pictures of a folder or table; a UserError says what is not clear."""
    split_file = None
    if layout.split_from and Path(layout.split_from).suffix.lower() in TABLES:
        split_file, layout = Path(layout.split_from), replace(layout, split_from=None)
    if is_table(path):
        listing = list_table(path, layout)
    elif path.is_dir():
        listing = list_folder(path, layout)
        if layout.split_from is not None:
            listing = replace(listing, splits=_split_parts(listing, layout.split_from))
    else:
        raise UserError(
            f"There is no folder {path}, nor a table of that name; give a folder that holds a "
            "folder per class, or a CSV file that names pictures."
        )
    if split_file is not None:
        listing = _parted(listing, split_file, layout.skip_bad)
    if layout.positive is not None:
        listing = replace(listing, names=_with_last(listing, layout.positive))
    return listing


def _with_last(listing: Listing, positive: str) -> tuple[str, ...]:
    """Return the names of two classes with the one to be found last."""
    if listing.kind != "one_label" or len(listing.names) != 2:
        raise UserError("--positive is for two classes, one for each picture; leave it out.")
    if positive not in listing.names:
        raise unknown_name("class", positive, listing.names)
    return (*(name for name in listing.names if name != positive), positive)


def _split_parts(listing: Listing, part: str) -> tuple[str, ...]:
    """Return the split of each picture from a folder of its path or a pattern."""
    splits = []
    for file in listing.files:
        said = part_of(listing.root, file, file.split("/")[:-1], part, "split")
        if said.lower() not in SPLITS:
            raise UserError(
                f"{listing.root / file} has '{said}' for its split, not train, validation or test; "
                "give another --split-from."
            )
        splits.append(SPLITS[said.lower()])
    return tuple(splits)


def _parted(listing: Listing, path: Path, skip_bad: bool) -> Listing:
    """Return the pictures with their splits as a file written by a run says them.

    A run that left out bad files does not name them: neither are they here.
    """
    said = read_splits(path)
    rows = [k for k, file in enumerate(listing.files) if file in said]
    if len(rows) < len(listing):
        others = [listing.root / file for file in listing.files if file not in said]
        if not skip_bad or not rows:
            shown = str(others[0]).replace("\n", "\\n")
            raise UserError(f"{shown} is not in {path}; take it away, or make a new split.")
        listing = listing.subset(rows, tuple(f"{x} is not in {path}." for x in others))
    return replace(listing, splits=tuple(said[file] for file in listing.files))
