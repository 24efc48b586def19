"""What the data of a report's runs is, and whether the test pictures were seen in training.

facts = data_facts(runs); facts.shared_groups, facts.copies
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from capsnet.data import Split, Stream, cut
from capsnet.pictures.alike import flat_rows
from capsnet.report.runs import Runs

MOST_NAMES = 5
BATCH = 256


@dataclass(frozen=True)
class SplitFacts:
    """How many pictures, groups (None: no groups are known) and of each class a split has."""

    name: str
    num: int
    num_groups: int | None
    by_class: tuple[int, ...]  # empty for numbers


@dataclass(frozen=True)
class Checked:
    """What the check of the pictures said, over all runs; empty where there was none.

    findings: the weight of each ("leak", "warning", …), and its sentence.
    """

    decided: tuple[str, ...] = ()
    findings: tuple[tuple[str, str], ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def leaks(self) -> tuple[str, ...]:
        """The sentences that say that test pictures are known from training."""
        return tuple(sentence for weight, sentence in self.findings if weight == "leak")


@dataclass(frozen=True)
class DataFacts:
    """The data of the runs; leaks are counted over all runs, the splits are those of the first."""

    name: str
    becomes: str  # what a picture becomes
    classes: tuple[str, ...]
    splits: tuple[SplitFacts, ...]
    num_tested: int  # test pictures of all runs
    in_shared_groups: int | None  # of them, of a group that is also in training; None: no groups
    shared_groups: tuple[str, ...]  # the first few of these
    copies: int  # of them, with the very pixels of a training picture
    copied: tuple[str, ...]  # the first few of these
    checked: "Checked"

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain JSON values."""
        return asdict(self)


def data_facts(runs: Runs) -> DataFacts:
    """Return the counts of classes and groups, and what training and test have in common."""
    first = runs.done[0]
    named = {
        "train": first.data.train,
        "validation": first.data.validation,
        first.config.final_split: first.data.test,
    }
    splits = tuple(_facts(name, stream) for name, stream in named.items() if stream is not None)
    shared: list[str] = []
    copied: list[str] = []
    in_shared, tested, grouped = 0, 0, False
    for run in runs.done:
        train, test = run.data.train.split, run.data.test.split
        tested += len(run.test)
        if train.groups and test.groups and test.groups != test.files:
            grouped = True
            known = set(train.groups)
            seen = [group for group in test.groups if group in known]
            in_shared, shared = in_shared + len(seen), shared + seen
        prints = set(_prints(train)) - {None}
        names = test.files or tuple(f"picture {k}" for k in range(len(test)))
        pairs = zip(names, _prints(test), strict=True)
        copied += [name for name, mark in pairs if mark in prints]
    channels, height, width = first.data.test.image_shape
    kind = {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")
    reading = first.card.reading
    return DataFacts(
        first.config.data,
        f"{height}×{width} {kind}" if reading is None else str(reading),
        first.test.task.names,
        splits,
        tested,
        in_shared if grouped else None,
        _few(shared),
        len(copied),
        _few(copied),
        checked_of([run.checked for run in runs.done]),
    )


def checked_of(found: Sequence[dict[str, Any]]) -> Checked:
    """Return what the checks of several runs, each a data.json, said; the same is said once."""
    decided = [str(x) for each in found for x in each.get("decided", ())]
    findings = [
        (str(x.get("weight", "")), str(x.get("sentence", "")))
        for each in found
        for x in each.get("findings", ())
    ]
    skipped = [str(x) for each in found for x in each.get("skipped", ())]
    return Checked(*(tuple(dict.fromkeys(x)) for x in (decided, findings, skipped)))  # type: ignore[arg-type]


def _facts(name: str, stream: Stream) -> SplitFacts:
    split, num = stream.split, stream.num_samples
    plain = stream.task == split.task and num == len(split)
    has_groups = len(split.groups) == num and split.groups != split.files
    return SplitFacts(
        name,
        num,
        len(set(split.groups)) if has_groups else None,
        split.label_counts() if plain else (),
    )


def _prints(split: Split) -> Iterator[bytes | None]:
    """Yield what tells pictures apart: a digest of each one's pixels; None for flat ones.

    A black slice is no copy of another one, as in the check of the data.
    """
    for part in cut(len(split), BATCH):  # they may lie on the disk, and be more than memory holds
        images = split.images[part].cpu().contiguous().numpy()
        for image, flat in zip(images, flat_rows(images, split.white).tolist(), strict=True):
            yield None if flat else blake2b(image.tobytes(), digest_size=16).digest()


def _few(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))[:MOST_NAMES]
