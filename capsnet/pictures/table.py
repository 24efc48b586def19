"""A table of pictures: CSV or TSV, a row for each, with columns for file, classes or numbers.

listing = list_table(Path("faces.csv"), Layout(numbers_from="age", group_from="person"))
"""

import csv
import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from capsnet.errors import UserError, unknown_name
from capsnet.pictures.decoding import BadPicture, slice_of, slices_of
from capsnet.pictures.finding import SPLITS
from capsnet.pictures.layout import NO_GROUPS, Kind, Label, Layout, Listing

FILE_COLUMNS = ("file", "filename", "path", "image", "picture")
CLASS_COLUMNS = ("label", "class")
BETWEEN = "|"  # the classes in one cell
YES, NO = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no", "")
MAX_CELL = 1_000_000
MAX_SHOWN = 200
LARGEST = 1e30  # of a number; single precision ends a little above
NO_CELL = "\0"

Row = dict[str, str]


class Asked(NamedTuple):
    """What is asked of a picture, and the columns of the answer; `together`: names in one cell."""

    kind: Kind
    columns: tuple[str, ...]
    together: bool = False


def list_table(path: Path, layout: Layout) -> Listing:
    """Return the pictures that a table names; a UserError says in which row something is wrong."""
    columns, exact = _read(path)
    rows = {k: {name: cell.strip() for name, cell in row.items()} for k, row in exact.items()}
    decided: list[str] = []
    file_column = _column(path, columns, layout.file_from, "file", FILE_COLUMNS, decided)
    if file_column is None:
        raise UserError(
            f"{path} has no column for the file ({', '.join(columns)}); say which with --file-from."
        )
    if layout.class_from and layout.numbers_from:
        raise UserError("Give --class-from or --numbers-from, not both: a run has one task.")
    asked = _asked(path, columns, rows, layout, decided)
    _require_text(path, rows, asked)
    group_column = None
    if layout.group_from != NO_GROUPS:
        group_column = _column(path, columns, layout.group_from, "group", ("group",), decided)
    split_column = _column(path, columns, layout.split_from, "split", ("split",), decided)
    seen: dict[str, int] = {}
    files: list[str] = []
    labels: list[Label] = []
    groups: list[str] = []
    splits, skipped = [], []
    for number, row in rows.items():
        try:
            if NO_CELL in row.values():
                raise UserError(
                    f"has not {len(columns)} cells, as the first line (text with commas stands in "
                    "double quotes)"
                )
            file = row[file_column].replace("\\", "/")
            place = _place(path, file)
            if place in seen:
                raise UserError(f"names {file} again, after row {seen[place]}")
            label = _label(row, asked)
            split = _split(row, split_column)
            group = row[group_column] if group_column else ""
            if group_column and not group:
                raise UserError(f"says nothing in the column {group_column}")
        except UserError as error:
            sentence = f"Row {number} of {path} {error}".replace("\n", "\\n")
            if not layout.skip_bad:
                raise UserError(
                    f"{sentence}; correct it, or leave such rows out with --skip-bad."
                ) from None
            skipped.append(f"{sentence}.")
            continue
        seen[place] = number
        slices = _slices(place, file)
        files += slices
        labels += [label] * len(slices)
        groups += [group or slice_of(file)[0]] * len(slices)
        splits += [split] * len(slices)
    if not files:
        raise UserError(f"{path} names no picture that is there; correct it.")
    by_volume = not group_column and groups != files
    if by_volume:
        decided.append("The slices of a volume are one group.")
    names = asked.columns
    if asked.kind == "one_label" or asked.together:
        cells = [(x,) if isinstance(x, str) else x for x in labels]
        names = tuple(sorted({str(name) for cell in cells for name in cell}))
    if asked.kind != "numbers" and len(names) < 2:
        raise UserError(f"{path} needs two or more classes, but has {len(names)}; add some.")
    return Listing(
        path.parent,
        tuple(files),
        asked.kind,
        names,
        tuple(labels),
        tuple(groups) if group_column or by_volume else (),
        tuple(splits) if split_column else (),
        tuple(decided),
        tuple(skipped),
    )


def read_splits(path: Path) -> dict[str, str]:
    """Return the split of each file that a table with the columns file and split says."""
    columns, rows = _read(path)
    for name in ("file", "split"):
        if name not in columns:
            raise UserError(f"{path} has no column '{name}'; give the split.csv of a run.")
    said = {}
    for number, row in rows.items():
        try:
            if NO_CELL in row.values():
                raise UserError("has too many or too few cells")
            said[row["file"]] = _split(row, "split")
        except UserError as error:
            raise UserError(f"Row {number} of {path} {error}; correct it.") from None
    return said


def _require_text(path: Path, rows: dict[int, Row], asked: Asked) -> None:
    """Raise a UserError for a class whose name is no UTF-8; the name of a file may be any bytes."""
    for number, row in rows.items():
        try:
            "".join(row[name] for name in asked.columns).encode()
        except UnicodeEncodeError:
            raise UserError(
                f"Row {number} of {path} names a class that is not UTF-8; save it as UTF-8 CSV."
            ) from None


def _place(path: Path, file: str) -> str:
    """Return where a file of a table is, the same for all ways to write it."""
    if not file:
        raise UserError("names no file")
    place = os.path.normpath(path.parent / file)
    if not os.path.isfile(slice_of(place)[0]):
        shown = file if len(file) < MAX_SHOWN else f"{file[:MAX_SHOWN]}…"
        there = os.path.lexists(place)
        raise UserError(f"names {shown}, which is {'no file' if there else 'not there'}")
    return place


def _slices(place: str, file: str) -> list[str]:
    """Return the file, or a volume's slices; what is wrong with one is said when it is read."""
    try:
        return [file + name.removeprefix(place) for name in slices_of(place)]
    except BadPicture:
        return [file]


def _read(path: Path) -> tuple[list[str], dict[int, Row]]:
    """Return the names of the columns, and the rows by their numbers in a spreadsheet.

    A row of another length holds NO_CELL.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file; give a table as UTF-8 CSV.")
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            csv.field_size_limit(MAX_CELL)
            head = file.readline(MAX_CELL)
            if "\0" in head:
                raise csv.Error("it holds zero bytes")
            file.seek(0)
            reader = csv.reader(file, delimiter=_delimiter(path, head), strict=True)
            numbered = enumerate(reader, 1)
            lines = {k: line for k, line in numbered if any(cell.strip() for cell in line)}
    except FileNotFoundError:
        raise UserError(f"There is no table {path}; check the name.") from None
    except csv.Error as error:
        raise UserError(f"{path} is no readable table ({error}); save it as UTF-8 CSV.") from None
    if len(lines) < 2:
        raise UserError(f"{path} has no rows; a table has a line of names and one per picture.")
    columns = [name.strip() for name in lines.pop(min(lines))]
    if twice := [name for name, num in Counter(columns).items() if num > 1]:
        raise UserError(f"{path} has the column '{twice[0]}' twice; name them differently.")
    rows: dict[int, Row] = {}
    for number, line in lines.items():
        if len(line) == len(columns):
            rows[number] = dict(zip(columns, line, strict=True))
        else:
            rows[number] = dict.fromkeys(columns, NO_CELL)
    return columns, rows


def _delimiter(path: Path, head: str) -> str:
    """Return what stands between cells: a spreadsheet in some countries writes semicolons."""
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    return usual if usual in head else max(usual, ",", ";", "\t", key=head.count)


def _column(
    path: Path,
    columns: list[str],
    asked: str | None,
    what: str,
    usual: tuple[str, ...],
    decided: list[str],
) -> str | None:
    """Return the column that was asked for, or one with a usual name, which is said."""
    if asked is not None:
        if asked not in columns:
            raise unknown_name(f"column of {path}", asked, columns)
        return asked
    for name in columns:
        if name.lower() in usual:
            decided.append(f"The column '{name}' is the {what}.")
            return name
    return None


def _asked(
    path: Path, columns: list[str], rows: dict[int, Row], layout: Layout, decided: list[str]
) -> Asked:
    """Return what is asked of a picture, and in which columns the answer stands."""
    given = layout.class_from or layout.numbers_from
    if given is None:
        found = _column(path, columns, None, "class", CLASS_COLUMNS, decided)
        if found is None:
            raise UserError(
                f"{path} has no column for the class ({', '.join(columns)}); say which with "
                "--class-from, or with --numbers-from what is to be measured."
            )
        chosen: tuple[str, ...] = (found,)
    else:
        chosen = tuple(name.strip() for name in given.split(","))
        for name in chosen:
            _column(path, columns, name, "label", (), decided)
        if twice := [name for name, num in Counter(chosen).items() if num > 1]:
            raise UserError(f"The column '{twice[0]}' is asked for twice; name it once.")
    if layout.numbers_from:
        return Asked("numbers", chosen)
    if len(chosen) > 1:
        return Asked("several_labels", chosen)
    if any(BETWEEN in row[chosen[0]] for row in rows.values()):
        decided.append(f"The column '{chosen[0]}' names several classes, with {BETWEEN} between.")
        return Asked("several_labels", chosen, together=True)
    return Asked("one_label", chosen)


def _label(row: Row, asked: Asked) -> Label:
    """Return the class, the classes or the numbers of a row."""
    cells = [row[name] for name in asked.columns]
    if asked.together:
        return tuple(sorted({name.strip() for name in cells[0].split(BETWEEN)} - {""}))
    if asked.kind == "one_label":
        if not cells[0]:
            raise UserError(f"says nothing in the column {asked.columns[0]}")
        return cells[0]
    for name, cell in zip(asked.columns, cells, strict=True):
        if asked.kind == "numbers" and not _is_number(cell):
            raise UserError(f"has '{cell}' in the column {name}, which is no number")
        if asked.kind == "several_labels" and cell.lower() not in (*YES, *NO):
            raise UserError(f"has '{cell}' in the column {name}, which is neither 1 nor 0")
    if asked.kind == "numbers":
        return tuple(float(cell) for cell in cells)
    said = zip(asked.columns, cells, strict=True)
    return tuple(name for name, cell in said if cell.lower() in YES)


def _is_number(cell: str) -> bool:
    try:
        return abs(float(cell)) < LARGEST  # NaN is not
    except ValueError:
        return False


def _split(row: Row, column: str | None) -> str:
    if column is None:
        return ""
    said = row[column].strip()
    if said.lower() not in SPLITS:
        raise UserError(f"has '{said}' for its split, not train, validation or test")
    return SPLITS[said.lower()]
