"""What may be wrong with pictures, each as one finding: leaks, doubles, uneven classes, lost depth.

findings = find_all(stored, splits, alike); findings[0].weight, findings[0].sentence
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from capsnet.pictures.alike import Alike
from capsnet.pictures.layout import Listing
from capsnet.pictures.store import Stored

SHOWN = 3  # examples in a sentence
FEW = 20  # pictures of a class in training, below which little can be learnt
UNEVEN = 5  # times as many pictures in the largest class as in the smallest
NARROW = 0.1  # share of the window that nearly all values lie in

Weight = Literal["leak", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing found: how much it matters, a sentence, and the files it is about."""

    weight: Weight
    kind: str
    sentence: str
    files: tuple[str, ...] = ()


def find_all(stored: Stored, splits: Sequence[str], alike: Alike) -> tuple[Finding, ...]:
    """Return all that is found in pictures that have been read and parted."""
    return (
        *_groups(stored.listing, splits),
        *_doubles(stored.listing, splits, alike),
        *_balance(stored.listing, splits),
        *_forms(stored),
    )


def count_classes(listing: Listing, rows: Sequence[int]) -> dict[str, int]:
    """Return how many of these pictures show each class; of numbers, how many there are."""
    if listing.kind == "numbers":
        return {"pictures": len(rows)}
    found: Counter[str] = Counter()
    for row in rows:
        label = listing.labels[row]
        found.update([label] if isinstance(label, str) else map(str, label))
    return {name: found[name] for name in listing.names}


def _groups(listing: Listing, splits: Sequence[str]) -> list[Finding]:
    found: list[Finding] = []
    where: dict[str, set[str]] = defaultdict(set)
    classes: dict[str, set[object]] = defaultdict(set)
    for group, split, label in zip(listing.groups, splits, listing.labels, strict=False):
        where[group].add(split)
        classes[group].add(label)
    torn = [group for group, parts in where.items() if len(parts) > 1]
    if torn:
        found.append(
            Finding(
                "leak",
                "groups in two splits",
                f"{_some(len(torn), 'group is', 'groups are')} in more than one split "
                f"({_few(torn)}): what is learnt of them in training is tested.",
                tuple(torn),
            )
        )
    several = [group for group, kinds in classes.items() if len(kinds) > 1]
    if several and listing.kind == "one_label":
        found.append(
            Finding(
                "note",
                "groups in two classes",
                f"{_some(len(several), 'group has', 'groups have')} pictures in two classes "
                f"({_few(several)}); if the numbers of groups begin anew in every class, name "
                "both folders, as in --group-from 1,2.",
                tuple(several),
            )
        )
    return found


def _doubles(listing: Listing, splits: Sequence[str], alike: Alike) -> list[Finding]:
    found: list[Finding] = []
    kinds = (("same", alike.same, "the same"), ("near", alike.near, "nearly the same"))
    for kind, pairs, words in kinds:
        across = [(a, b) for a, b in pairs.tolist() if splits[a] != splits[b]]
        within = len(pairs) - len(across)
        if across:
            shown = _few([f"{listing.files[a]} = {listing.files[b]}" for a, b in across])
            names = tuple(listing.files[k] for pair in across for k in pair)
            sentence = f"{_some(len(across), 'pair', 'pairs')} of {words} picture in two splits"
            found.append(Finding("leak", f"{kind} in two splits", f"{sentence} ({shown}).", names))
        if within:
            shown = _few([f"{listing.files[a]} = {listing.files[b]}" for a, b in pairs.tolist()])
            sentence = f"{_some(within, 'pair', 'pairs')} of {words} picture in one split ({shown})"
            found.append(Finding("note", f"{kind} in one split", f"{sentence}."))
        if listing.kind == "one_label":
            odd = [(a, b) for a, b in pairs.tolist() if listing.labels[a] != listing.labels[b]]
            if odd:
                shown = _few([f"{listing.files[a]} = {listing.files[b]}" for a, b in odd])
                sentence = f"{_some(len(odd), 'pair', 'pairs')} of {words} picture in two classes"
                found.append(Finding("warning", f"{kind} in two classes", f"{sentence} ({shown})."))
    if len(alike.flat):
        flat = [listing.files[k] for k in alike.flat.tolist()]
        some = _some(len(flat), "picture is", "pictures are")
        found.append(Finding("note", "flat", f"{some} of one grey all over ({_few(flat)})."))
    return found


def _balance(listing: Listing, splits: Sequence[str]) -> list[Finding]:
    found: list[Finding] = []
    rows = [k for k, split in enumerate(splits) if split == "train"]
    if listing.kind == "numbers":
        return found
    counts = count_classes(listing, rows)
    least, most = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
    if counts[most] > UNEVEN * max(1, counts[least]):
        found.append(
            Finding(
                "warning",
                "uneven classes",
                f"The classes are uneven: {counts[most]:,} of {most} and {counts[least]:,} of "
                f"{least} in training; --balance evens them out.",
            )
        )
    if counts[least] < FEW:
        found.append(
            Finding(
                "warning",
                "few pictures",
                f"Training has only {counts[least]} pictures of {least}; expect little, and trust "
                "the intervals in the report.",
            )
        )
    return found


def _forms(stored: Stored) -> list[Finding]:
    forms = stored.forms
    found: list[Finding] = []
    sides = sorted((max(f.width, f.height), f) for f in forms)
    (_, small), (_, large) = sides[0], sides[-1]
    sizes = f"{small.width}×{small.height}"
    if large[:2] != small[:2]:
        sizes += f" to {large.width}×{large.height}"
    depths = sorted(Counter(f.bits for f in forms).items())
    bits = ", ".join(f"{num:,} of {depth} bits" for depth, num in depths)
    grey = sum(f.channels == 1 for f in forms)
    colour = f"{grey:,} grey and {len(forms) - grey:,} in colour"
    kinds = {len(forms): "all grey", 0: "all in colour"}.get(grey, colour)
    sentence = f"Pictures are {sizes}, {kinds}, {bits}; they become {stored.reading}."
    found.append(Finding("note", "sizes", sentence))
    cut = sum(f.bits > 8 for f in forms)
    if cut and stored.values is None:
        found.append(
            Finding(
                "warning",
                "depth lost",
                f"{_some(cut, 'picture in colour has', 'pictures in colour have')} 16 bits, of "
                "which 8 are kept; store their channels as .npy to keep all.",
            )
        )
    stacks = sum(f.frames > 1 for f in forms)
    if stacks:
        found.append(
            Finding(
                "warning",
                "several frames",
                f"{_some(stacks, 'file holds', 'files hold')} several pictures, of which the first "
                "is read.",
            )
        )
    if stored.reading.window is not None:
        sample = stored.images[:: max(1, len(stored.images) // 200)]
        low, high = np.percentile(sample, (1, 99)) / stored.reading.white
        black, white = stored.reading.window
        if high - low < NARROW:
            ends = [black + share * (white - black) for share in (low, high)]
            found.append(
                Finding(
                    "warning",
                    "narrow values",
                    f"Nearly all values lie in {100 * (high - low):.0f} % of the window; set it "
                    f"with --window {ends[0]:.4g} {ends[1]:.4g}.",
                )
            )
    return found


def _some(num: int, one: str, many: str) -> str:
    return f"{num:,} {one if num == 1 else many}"


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(name.replace("\n", "\\n") for name in names[:SHOWN])
    return shown + (", …" if len(names) > SHOWN else "")
