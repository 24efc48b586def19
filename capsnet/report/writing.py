"""Writing a report: the page, its numbers as JSON, and a table of every prediction.

written = write_report(Path("runs/scans")); written.page, written.summary
"""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capsnet.errors import UserError
from capsnet.files import write_text
from capsnet.report.content import Content, gather
from capsnet.report.render import render
from capsnet.report.runs import open_runs


@dataclass(frozen=True)
class Written:
    """Where a report is, and the sentences it begins with."""

    page: Path
    numbers: Path
    table: Path
    summary: tuple[str, ...]
    verdict: str
    unfinished: tuple[str, ...] = ()  # runs that are left out

    def to_json(self) -> dict[str, Any]:
        """Return the paths and the summary as plain JSON values."""
        return {
            "page": str(self.page),
            "numbers": str(self.numbers),
            "table": str(self.table),
            "summary": list(self.summary),
            "verdict": self.verdict,
            "unfinished": list(self.unfinished),
        }

    def __str__(self) -> str:
        beside = f"Its numbers are in {self.numbers}, every prediction in {self.table}."
        left = ", ".join(self.unfinished)
        left_out = [f"Not finished, and left out: {left}; --resume makes them."] if left else []
        return "\n".join([*self.summary, *left_out, f"Wrote {self.page}. {beside}"])


def write_report(
    run: Path, out: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> Written:
    """Write the report of a run, or of a folder of folds and seeds.

    Args:
        run: The folder of a finished run, or one that holds such folders.
        out: The page; by default report.html in the folder. report.json and predictions.csv, or
            what --out calls them (NAME.json, NAME-predictions.csv), are written beside it.
        say: Called with what is done next.

    Returns:
        The paths, and the summary.
    """
    page = out or run / "report.html"
    if page.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"The report is a page; choose a name that ends in .html, not {page}.")
    content = gather(open_runs(run, say), say)
    say("writing the page")
    numbers = page.with_suffix(".json")
    table = page.with_name("predictions.csv" if out is None else f"{page.stem}-predictions.csv")
    text = table_text(content)
    write_text(table, text)
    write_text(numbers, json.dumps(content.to_json(), indent=1))
    write_text(page, render(content, text))
    told, unfinished = content.summary, content.runs.unfinished
    return Written(page, numbers, table, told.sentences, told.verdict, unfinished)


def table_text(content: Content) -> str:
    """Return every prediction as CSV; bytes of a file name that are no text are written out."""
    kept = io.StringIO(newline="")
    writer = csv.writer(kept, lineterminator="\n")
    writer.writerow(content.header)
    writer.writerows(content.rows)
    return kept.getvalue().encode("utf-8", "backslashreplace").decode("utf-8")
