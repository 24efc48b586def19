"""Which pictures a report shows: the most wrong and the least sure, in turn from every class.

wrong, unsure = shown_pictures(runs, way.parts); wrong[0].file, wrong[0].image
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from capsnet.measures.judged import Judged
from capsnet.models import Model
from capsnet.report.images import picture_url
from capsnet.report.runs import DoneRun, Runs
from capsnet.report.ways import take
from capsnet.tasks import Batch, Labels, OneLabel

MOST_SHOWN = 12  # of the most wrong, and as many of the least sure


@dataclass(frozen=True)
class Shown:
    """A picture with what is true and what was said of it; the pictures as addresses."""

    file: str
    group: str
    run: str
    truth: str
    said: str
    confidence: float | None  # in what was said; None for numbers
    worth: float | None  # the probability of what is true, or how far a number is off
    image: str
    drawn: str | None  # what the network draws back, if it can

    def to_json(self) -> dict[str, Any]:
        """Return what is told of the picture, without the picture."""
        return {k: x for k, x in vars(self).items() if k not in ("image", "drawn")}


def shown_pictures(
    runs: Runs, parts: Sequence[Judged]
) -> tuple[tuple[Shown, ...], tuple[Shown, ...]]:
    """Return the most wrong pictures, and the least sure of the others; both at most twelve."""
    places = [(r, m) for r, part in enumerate(parts) for m in range(len(part))]
    wrong = np.concatenate([part.wrong for part in parts])
    kinds = np.concatenate([_kinds(part) for part in parts])
    off = np.concatenate([_off(part) for part in parts])
    is_numbers = not isinstance(parts[0].task, Labels)
    first = _in_turn(np.flatnonzero(wrong | is_numbers), kinds, off)
    rest = np.array([], dtype=int)
    if not is_numbers:
        doubt = np.concatenate([_doubt(part) for part in parts])
        rest = _in_turn(np.setdiff1d(np.arange(len(places)), first), kinds, doubt)
    both = (_show(runs, parts, [places[k] for k in rows]) for rows in (first, rest))
    wrong_ones, unsure = both
    return wrong_ones, unsure


def describe_truth(judged: Judged, row: int) -> tuple[str, str]:
    """Return in words what is true of a row, and what was said."""
    if not isinstance(judged.task, Labels):
        decide = judged.task.decide
        both = (judged.truth[row], judged.answers[row])
        true, said = (decide(torch.from_numpy(numbers)) for numbers in both)
        return true, said
    tables = (judged.truth[row], judged.said[row])
    true, said = (
        ", ".join(judged.task.names[k] for k in np.flatnonzero(marks)) or "none" for marks in tables
    )
    return true, said


def confidence_of(judged: Judged) -> np.ndarray:
    """Return how sure each answer is [M]: the least probability of a mark that was set or not."""
    sure = np.where(judged.said > 0, judged.answers, 1 - judged.answers)
    if judged.one_label:
        return (judged.answers * judged.said).sum(axis=1)
    return sure.min(axis=1)


def _kinds(judged: Judged) -> np.ndarray:
    if isinstance(judged.task, Labels):
        return judged.truth.argmax(axis=1)
    return np.zeros(len(judged), dtype=int)


def _off(judged: Judged) -> np.ndarray:
    """Return how wrong each answer is: more is worse."""
    if not isinstance(judged.task, Labels):
        span = np.ptp(judged.truth, axis=0)
        return (np.abs(judged.answers - judged.truth) / np.where(span > 0, span, 1)).mean(axis=1)
    if judged.one_label:
        return 1 - (judged.answers * judged.truth).sum(axis=1)
    return np.abs(judged.answers - judged.truth).max(axis=1)


def _doubt(judged: Judged) -> np.ndarray:
    """Return how unsure each answer is: more is less sure."""
    if judged.one_label and len(judged.task.names) > 1:
        two = np.sort(judged.answers, axis=1)[:, -2:]
        return two[:, 0] - two[:, 1]
    return -confidence_of(judged)


def _in_turn(rows: np.ndarray, kinds: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Return at most twelve rows, the largest first, each class in its turn."""
    ordered = rows[np.argsort(-worth[rows], kind="stable")]
    turn = np.zeros(len(ordered), dtype=int)
    counts: dict[int, int] = {}
    for place, kind in enumerate(kinds[ordered].tolist()):
        turn[place] = counts[kind] = counts.get(kind, -1) + 1
    chosen = ordered[np.argsort(turn, kind="stable")][:MOST_SHOWN]
    return chosen[np.argsort(-worth[chosen], kind="stable")]


def rows_in_stream(run: DoneRun, rows: Sequence[int]) -> np.ndarray:
    """Return where rows of the answers stand in the data: by their file, where they have one."""
    files = run.data.test.split.files
    if len(files) != run.data.test.num_samples or files == run.test.files:
        return np.asarray(rows)
    where = {file: k for k, file in enumerate(files)}
    return np.array([where[run.test.files[row]] for row in rows])


@torch.inference_mode()
def drawn_back(model: Model, batch: Batch) -> torch.Tensor | None:
    """Return what the network draws of images [N, C, H, W]: of the class it says, or in all."""
    artist = model.draws
    if artist is None:
        return None
    v = model(batch.images).v
    return artist.reconstruct(v) if isinstance(model.task, OneLabel) else artist.draw(v)


def _show(
    runs: Runs, parts: Sequence[Judged], places: Sequence[tuple[int, int]]
) -> tuple[Shown, ...]:
    found: dict[tuple[int, int], Shown] = {}
    for r in sorted({r for r, _ in places}):
        run, judged = runs.done[r], parts[r]
        rows = [m for k, m in places if k == r]
        batch = take(run.data.test, rows_in_stream(run, rows))
        pictures = drawn_back(run.model, batch)
        sure, off = confidence_of(judged), _off(judged)
        is_labels = isinstance(judged.task, Labels)
        for n, m in enumerate(rows):
            found[r, m] = Shown(
                judged.files[m],
                judged.groups[m] if judged.groups[m] != judged.files[m] else "",
                run.name,
                *describe_truth(judged, m),
                float(sure[m]) if is_labels else None,
                float(1 - off[m]) if is_labels else float(off[m]),
                picture_url(batch.images[n]),
                None if pictures is None else picture_url(pictures[n]),
            )
    return tuple(found[place] for place in places)
