"""What a network that draws has learned: more than the mean image, and what each dimension does.

test = decoder_test(run, judged); test.verdict; dimensions_of(run, judged).effects
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capsnet.measures.baselines import drawn_rows
from capsnet.measures.judged import Judged, truth_table
from capsnet.measures.resampling import Estimate, interval, resamples
from capsnet.measures.weighted import means
from capsnet.report.images import picture_url, strips_url
from capsnet.report.runs import DoneRun
from capsnet.report.shown import rows_in_stream
from capsnet.report.ways import take
from capsnet.tasks import OneLabel

MOST_DRAWN = 200  # test pictures that are drawn back
MOST_MEANT = 5000  # training pictures that means are taken of
MOST_CLASSES = 6
STEPS = (-0.25, -0.125, 0.0, 0.125, 0.25)  # the paper's range
BATCH = 256


@dataclass(frozen=True)
class DecoderTest:
    """Squared error per pixel of what is drawn, and of means of training pictures in its place."""

    num: int  # test pictures, balanced over the classes
    drawn: float
    class_mean: float | None  # None: a picture has no single class
    overall_mean: float
    less_than_mean: Estimate  # overall_mean - drawn, with an interval over groups
    less_than_class_mean: Estimate | None
    pictures: tuple[str, str, str]  # one test picture, what is drawn of it, the mean; as addresses

    @property
    def verdict(self) -> str:
        """One sentence on whether the decoder learned more than the mean image."""
        if self.less_than_mean.low is None:
            return "Pictures of one group cannot tell whether the decoder learned more than a mean."
        if self.less_than_mean.low <= 0:
            return "The decoder has learned no more than the mean of the training pictures."
        finer = self.less_than_class_mean
        if finer is None:
            return "The decoder has learned more than the mean of the training pictures."
        if finer.low is None or finer.low <= 0:
            return (
                "The decoder tells the classes apart, but draws a picture no better than the mean "
                "of its class would."
            )
        return "The decoder has learned more than the mean image of each class."

    def to_json(self) -> dict[str, Any]:
        """Return the numbers and the verdict."""
        facts = asdict(self) | {"verdict": self.verdict}
        del facts["pictures"]
        return facts


@dataclass(frozen=True)
class Strip:
    """One picture, and a sheet of what is drawn when each dimension is changed in steps."""

    name: str
    file: str
    image: str
    sheet: str
    cell: tuple[int, int]  # width and height of a drawing in the sheet


@dataclass(frozen=True)
class Dimensions:
    """What each dimension of the capsules does, on a picture of each class."""

    steps: tuple[float, ...]
    effects: tuple[float, ...]  # mean change of a pixel, of white, between the ends of the steps
    strips: tuple[Strip, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers, and which pictures were used."""
        files = [{"class": strip.name, "file": strip.file} for strip in self.strips]
        return {"steps": self.steps, "effects": self.effects, "pictures": files}


@torch.inference_mode()
def decoder_test(run: DoneRun, judged: Judged) -> DecoderTest | None:
    """Compare what is drawn of test pictures with means of the training pictures; None: no decoder.

    The capsule of the true class draws, as in training, and is compared with that class's mean.
    """
    artist = run.model.draws
    if artist is None:
        return None
    one = isinstance(judged.task, OneLabel)
    rows = balanced(judged, MOST_DRAWN)
    mean, of_class = _means(run, one)
    errors: list[list[Tensor]] = [[], [], []]
    pictures = None
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        images = take(run.data.test, rows_in_stream(run, part.tolist())).images
        v = run.model(images).v
        kinds = torch.from_numpy(judged.truth[part].argmax(axis=1))
        drawn = artist.reconstruct(v, kinds) if one else artist.draw(v)
        guesses = [drawn, mean.expand_as(images)]
        if of_class is not None:
            guesses.append(of_class[kinds])
        for kept, guess in zip(errors, guesses, strict=False):
            kept.append((guess - images).square().flatten(1).mean(dim=1))
        if pictures is None:
            shown = (images[0], drawn[0], guesses[-1][0])
            pictures = (picture_url(shown[0]), picture_url(shown[1]), picture_url(shown[2]))
    assert pictures is not None
    found = [torch.cat(kept).double().numpy() if kept else None for kept in errors]
    groups = tuple(judged.groups[k] for k in rows)
    drawn_error, mean_error, class_error = found
    assert drawn_error is not None and mean_error is not None
    less = _difference(groups, mean_error - drawn_error)
    finer = None if class_error is None else _difference(groups, class_error - drawn_error)
    return DecoderTest(
        len(rows),
        float(drawn_error.mean()),
        None if class_error is None else float(class_error.mean()),
        float(mean_error.mean()),
        less,
        finer,
        pictures,
    )


@torch.inference_mode()
def dimensions_of(run: DoneRun, judged: Judged) -> Dimensions | None:
    """Change each dimension of the winning capsule of one picture per class; None: no decoder."""
    artist = run.model.draws
    if artist is None:
        return None
    rows = typical(judged, MOST_CLASSES)
    images = take(run.data.test, rows_in_stream(run, rows.tolist())).images
    v = run.model(images).v
    E = v.shape[2]
    strips, effects = [], []
    for n, row in enumerate(rows.tolist()):
        which = int(judged.truth[row].argmax()) if judged.one_label else int(_longest(v[n]))
        tweaked = v[n].repeat(E, len(STEPS), 1, 1)
        for e in range(E):
            tweaked[e, :, which, e] += torch.tensor(STEPS)
        drawn = artist.reconstruct(tweaked.flatten(0, 1), which).unflatten(0, (E, len(STEPS)))
        effects.append((drawn[:, -1] - drawn[:, 0]).abs().flatten(1).mean(dim=1))
        sheet, width, height = strips_url(drawn)
        name = judged.task.names[which]
        file = judged.files[row]
        strips.append(Strip(name, file, picture_url(images[n]), sheet, (width, height)))
    effect = torch.stack(effects).mean(dim=0)
    return Dimensions(STEPS, tuple(effect.tolist()), tuple(strips))


def balanced(judged: Judged, num: int) -> np.ndarray:
    """Return at most so many rows, in turn from each class; without classes spread evenly."""
    if not judged.one_label:
        return np.unique(np.linspace(0, len(judged) - 1, min(num, len(judged))).astype(int))
    kinds, turn = judged.truth.argmax(axis=1), np.zeros(len(judged))
    for k in range(judged.truth.shape[1]):
        rows = np.flatnonzero(kinds == k)
        turn[np.random.default_rng(0).permutation(rows)] = np.arange(len(rows))
    return np.lexsort((kinds, turn))[:num]


def typical(judged: Judged, num: int) -> np.ndarray:
    """Return one row of each class, at most so many: of the right ones, one of middling answer."""
    if not judged.one_label:
        return balanced(judged, num)
    chosen, kinds = [], judged.truth.argmax(axis=1)
    worth = (judged.answers * judged.truth).sum(axis=1)
    for k in np.unique(kinds)[:num]:
        rows = np.flatnonzero(kinds == k)
        right = rows[~judged.wrong[rows]]
        rows = right if len(right) else rows
        chosen.append(rows[np.argsort(worth[rows], kind="stable")[len(rows) // 2]])
    return np.array(chosen)


def _longest(v: Tensor) -> Tensor:
    return torch.linalg.vector_norm(v, dim=-1).argmax()


def _means(run: DoneRun, by_class: bool) -> tuple[Tensor, Tensor | None]:
    """Return the mean training picture [C, H, W], and that of each class [J, C, H, W]."""
    stream, num_classes = run.data.train, len(run.test.task.names)
    rows = drawn_rows(stream.num_samples)[:: max(1, stream.num_samples // MOST_MEANT)]
    sums = torch.zeros(num_classes, *stream.image_shape)
    total, counts = torch.zeros(stream.image_shape), torch.zeros(num_classes)
    for start in range(0, len(rows), BATCH):
        batch = take(stream, rows[start : start + BATCH])
        total += batch.images.sum(dim=0)
        if by_class:
            table = torch.from_numpy(truth_table(stream.task, batch.labels.numpy())).float()
            sums += torch.einsum("nj,nchw->jchw", table, batch.images)
            counts += table.sum(dim=0)
    mean = total / len(rows)
    if not by_class:
        return mean, None
    known = counts[:, None, None, None]
    return mean, torch.where(known > 0, sums / known.clamp(min=1), mean)


def _difference(groups: tuple[str, ...], values: np.ndarray) -> Estimate:
    draws = [means(weights, values) for weights in resamples(groups, 1000)]
    found = interval(float(values.mean()), np.concatenate(draws), len(set(groups)))
    assert found is not None
    return found
