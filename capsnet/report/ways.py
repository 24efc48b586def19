"""Ways of answering the same pictures: the run's network, a CNN of its size, and the baselines.

ways = ways_of(runs, say); compare(ways[0].pooled, ways[1].pooled)
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from capsnet.data import Stream
from capsnet.measures.answered import Answered
from capsnet.measures.baselines import drawn_rows, fit_baselines, small_pixels
from capsnet.measures.calibrating import calibrate
from capsnet.measures.judged import Judged, by_group, judge, pool
from capsnet.report.runs import DoneRun, Runs, names_of
from capsnet.tasks import Batch, Calibration

BATCH = 512


@dataclass(frozen=True, eq=False)
class Way:
    """A way of answering, in each run: its calibrated answers, and how they were calibrated."""

    name: str
    title: str
    parts: tuple[Judged, ...]
    calibrations: tuple[Calibration, ...]

    @property
    def pooled(self) -> Judged:
        """The pictures of all runs together."""
        return pool(self.parts)

    @property
    def by_group(self) -> Judged | None:
        """One answer for each group, where that says more."""
        return by_group(self.pooled, self.calibrations)


def way_of(name: str, title: str, done: tuple[DoneRun, ...]) -> Way:
    """Return how the networks of runs answered."""
    rules = tuple(run.calibration for run in done)
    parts = tuple(judge(run.test, rule) for run, rule in zip(done, rules, strict=True))
    return Way(name, title, parts, rules)


def ways_of(runs: Runs, say: Callable[[str], None] = lambda text: None) -> tuple[Way, ...]:
    """Return the network first, then the CNN if there is one, then the baselines.

    Baselines are calibrated on the same validation pictures if the network is.
    """
    ways = [way_of("network", runs.done[0].model.name, runs.done)]
    if runs.cnns:
        ways.append(way_of("cnn", f"the CNN beside them ({runs.cnns[0].model.name})", runs.cnns))
    fitted: dict[int, list[tuple[str, str, Judged, Calibration]]] = {}
    known: dict[object, list[tuple[str, str, Judged, Calibration]]] = {}
    for number, run in enumerate(runs.done):
        # Runs that differ in their seed alone have the same pictures, and baselines have no seed.
        key = (run.data.train.split.files, run.test.files, run.config.num_samples)
        if key not in known or not run.data.train.split.files:
            known[key] = _baselines(run, say)
        fitted[number] = known[key]
    for rows in zip(*fitted.values(), strict=True):
        name, title = rows[0][:2]
        ways.append(Way(name, title, tuple(r[2] for r in rows), tuple(r[3] for r in rows)))
    return tuple(ways)


def _baselines(
    run: DoneRun, say: Callable[[str], None]
) -> list[tuple[str, str, Judged, Calibration]]:
    train, test = run.data.train, run.data.test
    validation = run.data.validation if run.card.calibration is not None else None
    pixels = pixels_of(train, drawn_rows(train.num_samples))
    baselines = fit_baselines(test.task, *pixels, progress=lambda title: say(f"fitting {title}"))
    tests = pixels_of(test)
    held = None if validation is None else pixels_of(validation)
    made = []
    for baseline in baselines:
        said = _answered(test, run.config.final_split, baseline.answer(tests[0]), tests[1])
        rule = Calibration()
        if held is not None and validation is not None:
            answers = baseline.answer(held[0])
            rule = calibrate(_answered(validation, "validation", answers, held[1]))
        made.append((baseline.name, baseline.title, judge(said, rule), rule))
    return made


def _answered(stream: Stream, prefix: str, answers: np.ndarray, labels: np.ndarray) -> Answered:
    return Answered(stream.task, answers, labels, *names_of(stream, prefix))


def pixels_of(stream: Stream, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures of a stream as small pixels [M, F], unaugmented, and their labels [M, …]."""
    rows = np.arange(stream.num_samples) if rows is None else rows
    pixels, labels = [], []
    for start in range(0, len(rows), BATCH):
        batch = take(stream, rows[start : start + BATCH])
        pixels.append(small_pixels(batch.images))
        labels.append(batch.labels.cpu().numpy())
    return np.concatenate(pixels), np.concatenate(labels)


def take(stream: Stream, rows: np.ndarray) -> Batch:
    """Return the pictures number `rows` of a stream as they are tested: unaugmented, in order."""
    chosen = torch.as_tensor(rows, device=stream.device)
    return stream.batch({name: x[chosen] for name, x in stream.plan(None).items()})
