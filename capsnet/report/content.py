"""Everything a report says, computed once: the page and report.json are two ways of writing it.

content = gather(runs, say); content.metrics.scores["accuracy"]; content.to_json()
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from capsnet.measures.comparing import Spread, compare, over_runs
from capsnet.measures.curves import Curves, Tenth, curves_of, tenths
from capsnet.measures.judged import Judged, judge, pool
from capsnet.measures.metrics import Metrics, measure
from capsnet.measures.scores import scores_of
from capsnet.measures.values import values
from capsnet.report.drawing import DecoderTest, Dimensions, decoder_test, dimensions_of
from capsnet.report.facts import DataFacts, data_facts
from capsnet.report.runs import DoneRun, Runs
from capsnet.report.shown import Shown, confidence_of, describe_truth, shown_pictures
from capsnet.report.summary import Compared, Summary, summarise
from capsnet.report.ways import ways_of
from capsnet.tasks import Calibration, Labels, Task

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Content:
    """What a report says; None and empty where a run has no such thing."""

    runs: Runs
    task: Task
    judged: Judged  # the network's answers to the test pictures of all runs
    summary: Summary
    facts: DataFacts
    metrics: Metrics
    group_metrics: Metrics | None
    curves: Curves | None
    uncalibrated: tuple[Tenth, ...]
    spread: dict[str, Spread]  # over runs, if there are several
    compared: tuple[Compared, ...]
    wrong: tuple[Shown, ...]
    unsure: tuple[Shown, ...]
    decoder: DecoderTest | None
    dimensions: Dimensions | None
    header: tuple[str, ...]  # of the table of predictions
    rows: tuple[tuple[str, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the same numbers as the page, as plain JSON values."""
        return {
            "summary": list(self.summary.sentences),
            "verdict": self.summary.verdict,
            "leaks": self.summary.leaks,
            "task": self.task.to_json(),
            "data": self.facts.to_json(),
            "pictures": self.metrics.to_json(),
            "groups": None if self.group_metrics is None else self.group_metrics.to_json(),
            "over_runs": {name: x.to_json() for name, x in self.spread.items()},
            "baselines": [x.to_json() for x in self.compared],
            "curves": None if self.curves is None else self.curves.to_json(),
            "most_wrong": [x.to_json() for x in self.wrong],
            "least_sure": [x.to_json() for x in self.unsure],
            "decoder": None if self.decoder is None else self.decoder.to_json(),
            "dimensions": None if self.dimensions is None else self.dimensions.to_json(),
            "runs": [run_facts(run) for run in self.runs.done],
            "unfinished": list(self.runs.unfinished),
        }


def gather(runs: Runs, say: Say = lambda text: None) -> Content:
    """Compute everything that a report says of runs; say: called with what is done next."""
    first = runs.done[0]
    network, *others = ways_of(runs, say)
    say("looking for leaks")
    facts = data_facts(runs)
    say("resampling for intervals")
    pooled, grouped = network.pooled, network.by_group
    metrics = measure(pooled)
    compared = []
    for way in others:
        say(f"comparing with {way.title}")
        theirs = way.pooled
        scores = values(theirs, scores_of(theirs.task))
        compared.append(Compared(way.name, way.title, scores, compare(pooled, theirs)))
    say("drawing pictures")
    wrong, unsure = shown_pictures(runs, network.parts)
    is_capsules = first.model.traced is not None or first.model.draws is not None
    subject = "The capsules" if is_capsules else "The network"
    return Content(
        runs,
        first.test.task,
        pooled,
        summarise(first.test.task, subject, metrics, compared, facts),
        facts,
        metrics,
        None if grouped is None else measure(grouped),
        curves_of(pooled),
        _uncalibrated(runs),
        over_runs(network.parts) if len(runs.done) > 1 else {},
        tuple(compared),
        wrong,
        unsure,
        decoder_test(first, network.parts[0]),
        dimensions_of(first, network.parts[0]),
        *predictions(runs, network.parts),
    )


def run_facts(run: DoneRun) -> dict[str, Any]:
    """Return how a run was made: settings, versions, device, times, its result as it was told."""
    result = {name: x for name, x in run.card.result.items() if name not in ("wrong", "folder")}
    return {
        "name": run.name or run.folder.name,
        "config": run.config.to_json(),
        "versions": run.card.versions,
        "result": result,
        "calibration": run.calibration.to_json(),
        "epochs": [epoch.to_json(run.test.task.metric) for epoch in run.history],
    }


def predictions(
    runs: Runs, parts: tuple[Judged, ...]
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the header and the rows of the table of every prediction, validation ones first."""
    task = parts[0].task
    several = len(runs.done) > 1
    header = ("file", "group", "split", *(("run",) if several else ()))
    header += ("truth", "prediction", "confidence", *task.names)
    if not isinstance(task, Labels):
        header += tuple(f"true {name}" for name in task.names)
    rows: list[tuple[str, ...]] = []
    for run, part in zip(runs.done, parts, strict=True):
        middle = (run.name,) if several else ()
        if run.validation is not None:
            rows += _rows(judge(run.validation, run.calibration), "validation", middle)
        rows += _rows(part, run.config.final_split, middle)
    return header, tuple(rows)


def _rows(judged: Judged, split: str, middle: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    is_labels = isinstance(judged.task, Labels)
    sure = confidence_of(judged) if is_labels else np.zeros(len(judged))
    for k in range(len(judged)):
        confidence = f"{sure[k]:.6g}" if is_labels else ""
        numbers = (f"{x:.6g}" for x in judged.answers[k])
        place = (judged.files[k], judged.groups[k], split, *middle)
        true = () if is_labels else tuple(f"{x:.6g}" for x in judged.truth[k])
        yield (*place, *describe_truth(judged, k), confidence, *numbers, *true)


def _uncalibrated(runs: Runs) -> tuple[Tenth, ...]:
    """Return the calibration curve without temperatures, if any run has one."""
    if not isinstance(runs.done[0].test.task, Labels):
        return ()
    if all(run.calibration.temperature == 1 for run in runs.done):
        return ()
    return tenths(pool([judge(run.test, Calibration()) for run in runs.done]))
