"""Tables and plots of the results, written into the pages that ask for them.

A page asks by <!-- results:NAME --> and <!-- /results:NAME -->; what stands between is replaced.
NAME is an experiment, short/NAME for its errors alone, bench/KIND/gpu or bench/KIND/cpu for the
last `capsnet bench KIND`, bench/scaling for what many GPUs would take, or front for the few
numbers of the front page.
docs/results.md and docs/model_cards.md are written whole. No number in them is typed by hand.

stale = report(Path("results"), Path("."), check=True)
"""

import hashlib
import inspect
import json
import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image, UnidentifiedImageError

from capsnet.bench.report import bench_block, last_benches
from capsnet.bench.scaling import scaling_block
from capsnet.errors import UserError, unknown_name
from capsnet.experiments.catalogue import EXPERIMENTS
from capsnet.experiments.drawings import DRAWINGS
from capsnet.experiments.pages import markdown
from capsnet.experiments.pages.cards import PAGE, cards_page
from capsnet.experiments.pages.front import front_block
from capsnet.experiments.runner.experiment import Experiment
from capsnet.experiments.runner.records import Record, Results, complete, current, read, values
from capsnet.experiments.statistics import mean_std
from capsnet.figures.speed import draw_speed
from capsnet.files import whole_file, write_text

FIGURES = Path("docs/figures")
SHORT = "short/"
SOURCE = "Source"  # key in a PNG: digest of what it was drawn from, and by
_BLOCK = re.compile(r"(<!-- results:(\S+) -->[ \t]*\n).*?(<!-- /results:\2 -->)", re.DOTALL)
_START = re.compile(r"<!-- results:(\S+) -->")


def report(results_folder: Path, root: Path, check: bool = False) -> list[Path]:
    """Bring all pages and plots up to date; return those that were not. check: change nothing."""
    for folder in (results_folder, root):
        if not folder.is_dir():
            raise UserError(f"There is no folder {folder}; choose one that is there.")
    results = {name: read(results_folder, name) for name in EXPERIMENTS}
    benches = last_benches(results_folder)
    stale = []
    for name, (source, draw) in wanted_plots(results, benches).items():
        path = root / FIGURES / f"{name}.png"
        if source_of(path) != source:
            stale.append(path)
            if not check:
                save_plot(draw(), path, source)
    blocks = {name: bench_block(result) for name, result in benches.items()}
    if "bench/step/gpu" in benches:
        blocks["bench/scaling"] = scaling_block(benches["bench/step/gpu"])
    full = {name: [complete(r) for r in records] for name, records in results.items()}
    blocks["front"] = front_block(full, benches.get("bench/step/gpu"))
    for path, text in wanted_pages(full, blocks, root).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                write_text(path, text)
    return stale


def wanted_plots(
    results: Results, benches: dict[str, dict[str, Any]]
) -> dict[str, tuple[str, Callable[[], Figure]]]:
    """Return for every plot that can be drawn the digest of its source, and how to draw it."""
    plots: dict[str, tuple[str, Callable[[], Figure]]] = {}
    for name, experiment in EXPERIMENTS.items():
        if experiment.plot and results[name]:
            source = digest([asdict(r) for r in results[name]], experiment.plot)
            plots[name] = (source, partial(experiment.plot, results))
    speed = benches.get("bench/routing/gpu")
    if speed is not None:
        plots["routing-speed"] = (digest(speed, draw_speed), partial(draw_speed, speed))
    return plots


def wanted_pages(results: Results, benches: dict[str, str], root: Path) -> dict[Path, str]:
    """Return what every page should read."""
    docs = root / "docs"
    whole = {
        docs / "results.md": results_page(results, root),
        root / PAGE: cards_page(),
    }
    for path in (root / "README.md", *sorted(docs.rglob("*.md"))):
        if path.exists() and path not in whole:
            text = path.read_text(encoding="utf-8")
            if _START.search(text):
                whole[path] = fill(path, text, results, benches, root)
    return whole


def fill(path: Path, text: str, results: Results, benches: dict[str, str], root: Path) -> str:
    """Return a page with its blocks renewed."""
    started = _START.findall(text)
    for name in started:
        known = name.removeprefix(SHORT) in EXPERIMENTS or name.startswith("bench/")
        if not known and name not in benches:
            raise unknown_name(f"experiment in {path}", name, EXPERIMENTS)
    for name in Counter(started) - Counter(match[2] for match in _BLOCK.finditer(text)):
        raise UserError(
            f"{path} has no whole block results:{name}; put <!-- results:{name} --> and "
            f"<!-- /results:{name} --> each on a line of its own."
        )

    def renew(match: re.Match[str]) -> str:
        name = match[2]
        if name.startswith(SHORT):
            new = short_block(EXPERIMENTS[name.removeprefix(SHORT)], results)
        elif name in EXPERIMENTS:
            new = block(EXPERIMENTS[name], results, path, root)
        else:
            new = benches.get(name, f"No run of {name} yet.")
        return f"{match[1]}{new}\n{match[3]}"

    return _BLOCK.sub(renew, text)


def block(experiment: Experiment, results: Results, page: Path, root: Path) -> str:
    """Return table, verdicts and plot of an experiment."""
    if not results[experiment.name]:
        return f"No runs yet; `capsnet reproduce {experiment.name}` makes them."
    text = experiment.table(results)
    if experiment.plot:
        text += f"\n\n{picture(experiment.name, experiment.title, page, root)}"
    return text


def short_block(experiment: Experiment, results: Results) -> str:
    """Return the first number of every row that has runs."""
    rows = current(results[experiment.name])
    heading, key = next(iter(experiment.columns.items()))
    shown = [row for row in experiment.recipes(0) if row in rows]
    body = [[row, mean_std(values(rows[row], key))] for row in shown]
    return markdown.table((experiment.title, heading), body)


def picture(name: str, title: str, page: Path, root: Path) -> str:
    """Return the link to a figure from a page."""
    link = os.path.relpath(root / FIGURES / f"{name}.png", page.parent)
    return f"![{title}]({Path(link).as_posix()})"


def results_page(results: Results, root: Path) -> str:
    """Return the page with everything: blocks, figures, and every single run."""
    page = root / "docs" / "results.md"
    parts = [
        "# Results",
        "Written by `python -m capsnet.dev report` from results/*.jsonl; do not edit. Final or "
        "averaged weights, every recorded run listed. The test set is read at the end of a run; "
        "runs that choose a recipe read held-out training images instead (exceptions: log.md).",
    ]
    for name, experiment in EXPERIMENTS.items():
        parts += [f"## {experiment.title}", block(experiment, results, page, root)]
        if results[name]:
            parts += ["All runs:", runs_table(experiment, results[name])]
    for name, drawing in DRAWINGS.items():
        if (root / FIGURES / f"{name}.png").exists():
            parts += [f"## {drawing.caption}", picture(name, drawing.caption, page, root)]
    return "\n\n".join(parts) + "\n"


def runs_table(experiment: Experiment, records: list[Record]) -> str:
    """Return a line for every run; those with other settings than the row's last are marked."""
    in_use = [r for runs in current(records).values() for r in runs]
    rows = []
    for r in sorted(records, key=lambda r: (r.row, r.seed)):
        numbers = [r.result.get(key) for key in experiment.columns.values()]
        rows.append(
            [
                r.row + ("" if r in in_use else " (superseded)"),
                str(r.seed),
                *("–" if x is None else f"{x:.4g}" for x in numbers),
                "diverged" if "diverged" in r.result else str(r.result.get("epochs", "–")),
                f"{r.result.get('seconds', r.seconds):.0f}",
                r.device,
                r.commit or "–",
                r.date[:10],
            ]
        )
    tail = ("epochs", "seconds of training", "device", "commit", "date")
    return markdown.table(("row", "seed", *experiment.columns, *tail), rows)


def digest(shown: object, draw: Callable[..., Figure]) -> str:
    """Return a digest of what a plot shows and of the function that draws it."""
    text = json.dumps(shown, sort_keys=True) + inspect.getsource(getattr(draw, "func", draw))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def save_plot(figure: Figure, path: Path, source: str) -> None:
    """Write a plot with the digest of what it shows."""
    with whole_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={SOURCE: source})


def source_of(path: Path) -> str | None:
    """Return the digest that a plot was drawn from, if there is one."""
    try:
        with Image.open(path) as image:
            return image.info.get(SOURCE)
    except (FileNotFoundError, UnidentifiedImageError):
        return None
