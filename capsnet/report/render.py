"""The page: the content of a report in one HTML file that asks nothing of any other.

html = render(content, table)
"""

import base64
import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import capsnet
from capsnet.measures.curves import Curve
from capsnet.measures.scores import SCORES, class_scores_of, main_scores, scores_of
from capsnet.report import charts
from capsnet.report.charts import Line
from capsnet.report.content import Content
from capsnet.report.summary import between, number, signed
from capsnet.tasks import Labels, Numbers
from capsnet.training.config import TrainConfig
from capsnet.training.settings_file import changed, words_of

FOLDER = Path(__file__).parent / "page"
STYLE = FOLDER / "page.css"
MOST_CURVES = charts.NUM_COLOURS
MOST_POINTS = 1000  # of a scatter plot
LARGEST_LINK = 2_000_000  # bytes of a table that is put inside the page


@dataclass(frozen=True)
class Chart:
    """A chart with its heading, and the names of its lines by colour."""

    title: str
    svg: str
    legend: tuple[tuple[int, str], ...] = ()
    note: str = ""


def render(content: Content, table: str) -> str:
    """Return the page; table: the text of predictions.csv, which it offers if it is small."""
    pages = templates(FOLDER)
    pages.filters |= {"signed": signed, "share": share}
    pages.globals |= {"between": between, "bar": charts.bar, "SCORES": SCORES}
    style = STYLE.read_text(encoding="utf-8")
    return pages.get_template("page.html").render(
        c=content,
        style=style,
        policy=policy(style),
        title=f"{content.runs.done[0].model.name} on {visible(content.facts.name)}",
        of_all=scores_of(content.task),
        of_classes=class_scores_of(content.task),
        main=main_scores(content.task)[0],
        is_numbers=isinstance(content.task, Numbers),
        curves=_curves(content),
        learning=_learning(content),
        reach=_reach(content),
        command=command_of_all([run.config for run in content.runs.done], content.runs.folder),
        made_by=f"capsnet {capsnet.__version__}",
        link=_link(table),
    )


def templates(*folders: Path) -> Environment:
    """Return the templates in folders of pages."""
    pages = Environment(
        loader=FileSystemLoader(folders, encoding="utf-8"),
        autoescape=True,  # names of classes and files are other people's text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"number": number, "visible": visible}
    return pages


def policy(style: str) -> str:
    """Return what a page may load: its own style, by its digest, and pictures inside it."""
    found = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{found}'"


def visible(text: object) -> str:
    """Return a name with what cannot be seen in it, such as a line break, written out."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text)
    )


def share(part: float, whole: float) -> int:
    """Return in tenths how much of the whole a part is."""
    return round(10 * part / whole) if whole else 0


def command_of(config: TrainConfig) -> str:
    """Return the command that makes such a run."""
    given = {name: x for name, x in changed(config).items() if name != "resume"}
    words = ["capsnet", "train", *words_of(given)]
    return visible(shlex.join(words))


def command_of_all(configs: Sequence[TrainConfig], folder: Path) -> str:
    """Return the command that made all runs in a folder, of folds and seeds."""
    config = configs[0]
    if len(configs) > 1:
        seeds = [each.seed for each in configs]
        num = max(seeds) - min(seeds) + 1
        config = replace(config, fold=TrainConfig.fold, seed=min(seeds), seeds=num, out=folder)
    return command_of(config)


def _curves(content: Content) -> list[Chart]:
    if content.curves is None:
        return _scatter(content)
    aucs = {part.name: part.scores.get("auc") for part in content.metrics.parts}
    found = content.curves

    def hardest(curves: tuple[Curve, ...]) -> list[Curve]:
        order = sorted(curves, key=lambda curve: x.value if (x := aucs[curve.name]) else 0.0)
        chosen = {curve.name for curve in order[:MOST_CURVES]}
        return [curve for curve in curves if curve.name in chosen]

    shown = []
    note = f"The {MOST_CURVES} hardest classes." if len(found.roc) > MOST_CURVES else ""
    kinds = (
        ("ROC", found.roc, "false alarms (1 − specificity)", "found (sensitivity)", True),
        ("Precision and recall", found.pr, "found (recall)", "right (precision)", False),
    )
    for title, curves, x, y, diagonal in kinds:
        lines = [Line(c.name, c.x, c.y, k) for k, c in enumerate(hardest(curves))]
        if lines:
            svg = charts.lines(lines, x, y, f"{title} of each class", diagonal=diagonal)
            legend = tuple((line.colour, line.name) for line in lines)
            shown.append(Chart(title, svg, legend, note))
    ece = content.metrics.scores.get("ece")
    told = "" if ece is None else f"Calibration error {number(ece.value)}{between(ece)}. "
    before = "Dashed: before the temperature was set." if content.uncalibrated else ""
    label = "Calibration: probability given against how often it came true"
    svg = charts.calibration(found.calibration, content.uncalibrated, label)
    shown.append(Chart("Calibration", svg, (), told + before))
    return shown


def _scatter(content: Content) -> list[Chart]:
    shown, judged, task = [], content.judged, content.task
    rows = np.unique(np.linspace(0, len(judged) - 1, min(len(judged), MOST_POINTS)).astype(int))
    units = task.units if isinstance(task, Numbers) else ("",) * len(task.names)
    for k, (name, unit) in enumerate(zip(task.names, units, strict=True)):
        true, said = judged.truth[rows, k].tolist(), judged.answers[rows, k].tolist()
        label = f"{visible(name)}: answered against true"
        shown.append(Chart(name, charts.scatter(true, said, visible(unit), label)))
    return shown


def _learning(content: Content) -> list[Chart]:
    runs = [run for run in content.runs.done if run.history]
    if not runs:
        return []
    percent = isinstance(content.task, Labels)
    loss, train, held = [], [], []
    for run in runs:
        epochs = [epoch.epoch for epoch in run.history]
        loss.append(Line("training", epochs, [epoch.loss for epoch in run.history], 0))
        train.append(Line("training", epochs, [epoch.train for epoch in run.history], 0))
        known = [(e.epoch, e.validation) for e in run.history if e.validation is not None]
        if known:
            held.append(Line("validation", [e for e, _ in known], [x for _, x in known], 1))
    title = "Error in per cent" if percent else "Mean absolute error"
    legend = ((0, "training"), *(((1, "validation"),) if held else ()))
    note = "" if held else "No pictures were held out for validation."
    errors = charts.lines([*train, *held], "epoch", title.lower(), f"{title} by epoch", unit=False)
    losses = charts.lines(loss, "epoch", "loss", "Loss by epoch", unit=False)
    return [Chart(title, errors, legend, note), Chart("Loss", losses, ((0, "training"),))]


def _reach(content: Content) -> float:
    """Return how far the bars of differences reach to either side of zero.

    That to the majority is mostly so large that all others would vanish: its bar is cut off.
    """
    ends = [
        abs(x)
        for compared in [x for x in content.compared if x.name != "majority"] or content.compared
        for d in compared.differences
        for x in (d.difference.low, d.difference.value, d.difference.high)
        if x is not None
    ]
    return max(ends, default=1.0) * 1.1 or 1.0


def _link(table: str) -> str | None:
    data = table.encode()
    if len(data) > LARGEST_LINK:
        return None
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(data).decode('ascii')}"
