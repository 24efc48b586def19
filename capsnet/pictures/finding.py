"""The pictures below a folder, and what the folders around each say of it.

ROOT/CLASS/*.png, or ROOT/train/CLASS/… beside val and test; deeper folders have to be explained.

listing = list_folder(Path("scans"), Layout(class_from="1", group_from="2"))
"""

import os
import re
from pathlib import Path

from capsnet.errors import UserError
from capsnet.pictures.decoding import SUFFIXES, BadPicture, is_picture, slice_of, slices_of
from capsnet.pictures.layout import NO_GROUPS, Layout, Listing

SPLITS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}
NUMBERS = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})*")  # of folders
JUNK = ("thumbs.db", "desktop.ini")  # left in folders by Windows


def list_folder(root: Path, layout: Layout) -> Listing:
    """Return all pictures below a folder; a UserError says what is not clear."""
    for name in ("numbers_from", "file_from"):
        if getattr(layout, name) is not None:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} names columns of a table; give the table with --data.")
    found, odd, empty = walk(root)
    own_splits = _top_splits(root, found)
    depth = 1 if own_splits else 0  # the folders of splits are not counted
    skipped: list[str] = []
    bad = [x for x in odd if x.count("/") > depth or is_picture(x)]
    if bad and not layout.skip_bad:
        raise UserError(
            f"{_shown(root, bad[0])} is no picture that can be read ({_kinds()}); remove it, or "
            "leave such files out with --skip-bad."
        )
    skipped += [f"{_shown(root, x)} is no picture." for x in bad]
    if empty and not found:
        raise UserError(f"{root} holds no pictures ({_kinds()}); give another folder.")
    class_part = layout.class_from or "1"
    files = _with_slices(root, found, layout, skipped)
    inner = [f.split("/")[depth:-1] for f in files]
    _require_clear(root, files, inner, layout, class_part)
    _require_filled(root, empty, depth, class_part)
    decided = []
    labels = [part_of(root, f, folders, class_part, "class") for f, folders in _pairs(files, inner)]
    if layout.class_from is None and labels:
        decided.append("The class of a picture is its folder.")
    groups: list[str] = []
    volumes = [slice_of(f)[0] for f in files]
    if layout.group_from not in (None, NO_GROUPS):
        assert layout.group_from is not None
        groups = [
            part_of(root, f, folders, layout.group_from, "group")
            for f, folders in _pairs(files, inner)
        ]
    elif volumes != files:
        groups = volumes
        decided.append("The slices of a volume are one group.")
    splits: list[str] = []
    if own_splits:
        splits = [SPLITS[f.split("/")[0].lower()] for f in files]
        decided.append(f"The split is taken from the folders {', '.join(sorted(own_splits))}.")
    names = tuple(sorted(set(labels)))
    if len(names) < 2:
        raise UserError(
            f"{root} needs pictures of two or more classes, but has {len(names)}; lay it out as "
            f"{root}/CLASS/picture.png, or say with --class-from which folder is the class."
        )
    return Listing(
        root,
        tuple(files),
        "one_label",
        names,
        tuple(labels),
        tuple(groups),
        tuple(splits),
        tuple(decided),
        tuple(skipped),
    )


def walk(root: Path) -> tuple[list[str], list[str], list[str]]:
    """Return the pictures, the other files, and the folders without either, relative to the root.

    Links are followed, once: a folder that has been seen is not entered again. Hidden files and
    what Windows leaves in folders are passed over.
    """
    found: list[str] = []
    odd: list[str] = []
    empty: list[str] = []
    seen = set()
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            where = os.stat(os.path.join(root, prefix))
            if (where.st_dev, where.st_ino) in seen:
                continue
            seen.add((where.st_dev, where.st_ino))
            with os.scandir(os.path.join(root, prefix)) as entries:
                inside = [x for x in entries if not x.name.startswith(".")]
        except OSError as error:
            shown = _shown(root, prefix)
            raise UserError(
                f"Could not look into {shown}: {error.strerror}; ask its owner, or move it away."
            ) from None
        folders = [x.name for x in inside if x.is_dir()]
        others = [x for x in inside if not x.is_dir() and x.name.lower() not in JUNK]
        if not folders and not others:
            empty.append(prefix.rstrip("/") or ".")
        for entry in others:
            fine = is_picture(entry.name) and entry.is_file()
            (found if fine else odd).append(prefix + entry.name)
        waiting += [f"{prefix}{name}/" for name in sorted(folders, reverse=True)]
    return sorted(found), sorted(odd), empty


def part_of(root: Path, file: str, folders: list[str], part: str, what: str) -> str:
    """Return the folder(s) of a picture that a number says, or what a pattern finds in its path."""
    if NUMBERS.fullmatch(part):
        numbers = [int(x) for x in part.split(",")]
        if min(numbers) < 1 or max(numbers) > len(folders):
            raise UserError(
                f"{_shown(root, file)} lies {len(folders)} folders deep, so that it has no folder "
                f"{part} for its {what}; give another --{what}-from, or move it."
            )
        return "/".join(folders[k - 1] for k in numbers)
    try:
        pattern = re.compile(part)
    except re.error as error:
        raise UserError(f"--{what}-from '{part}' is no pattern ({error}); correct it.") from None
    if pattern.groups != 1:
        raise UserError(
            f"--{what}-from '{part}' is neither the number of a folder, such as 2, nor a pattern "
            "with one group in parentheses, such as '([^/]+)_[0-9]+'; give one of these."
        )
    match = pattern.search(file)
    if match is None or match[1] is None:
        raise UserError(
            f"The pattern of --{what}-from does not match {_shown(root, file)}; correct it, or "
            "move the picture elsewhere."
        )
    return match[1]


def _top_splits(root: Path, found: list[str]) -> set[str]:
    """Return the names of the folders of splits, if the root holds these and no others."""
    tops = {f.split("/")[0] for f in found if "/" in f}
    own = {top for top in tops if top.lower() in SPLITS}
    if "train" not in {SPLITS[top.lower()] for top in own}:
        return set()
    if others := tops - own:
        unused = ", ".join(sorted(others))
        if len(own) == 1:  # a class may well be called train
            return set()
        raise UserError(
            f"{root} holds {' and '.join(sorted(own))}, and beside them {unused}, which would not "
            "be used; move it elsewhere, or its pictures into train."
        )
    return own


def _require_clear(
    root: Path, files: list[str], inner: list[list[str]], layout: Layout, class_part: str
) -> None:
    """Raise a UserError if a picture has no folder, or folders that nobody has explained."""
    for file, folders in zip(files, inner, strict=True):
        if not folders and NUMBERS.fullmatch(class_part):
            raise UserError(
                f"{_shown(root, file)} lies in no class folder; lay the pictures out as "
                f"{root}/CLASS/picture.png, or name them in a table."
            )
    numbered = NUMBERS.fullmatch(class_part)
    used = [int(x) for x in class_part.split(",")] if numbered else [1]
    deep = next((k for k, folders in enumerate(inner) if len(folders) > max(used)), None)
    if deep is not None and layout.group_from is None:
        raise UserError(
            f"{_shown(root, files[deep])} lies deeper than its class; say which folder is the "
            "class and which says of whom the pictures are, e.g. --class-from 1 --group-from 2, "
            "or --group-from none if every picture stands alone."
        )


def _require_filled(root: Path, empty: list[str], depth: int, class_part: str) -> None:
    if class_part != "1":
        return
    for folder in empty:
        if folder != "." and folder.count("/") == depth:
            raise UserError(
                f"The class folder {root / folder} is empty; add pictures or remove it."
            )


def _with_slices(root: Path, found: list[str], layout: Layout, skipped: list[str]) -> list[str]:
    """Return the files, a volume as its slices; volumes that cannot be read are skipped."""
    files = []
    for file in found:
        whole = str(root / file)
        try:
            files += [file + name.removeprefix(whole) for name in slices_of(whole)]
        except BadPicture as error:
            if not layout.skip_bad:
                raise UserError(f"{error} (Leave such files out with --skip-bad.)") from None
            skipped.append(str(error))
    return files


def _pairs(files: list[str], inner: list[list[str]]) -> list[tuple[str, list[str]]]:
    return list(zip(files, inner, strict=True))


def _shown(root: Path, file: str) -> str:
    return str(root / file).replace("\n", "\\n")


def _kinds() -> str:
    return ", ".join(x[1:] for x in SUFFIXES if x != ".jpeg")
