"""Markdown from records: tables, and the recipes behind them."""

from collections.abc import Iterable, Sequence

from capsnet.experiments.recipes import in_words
from capsnet.experiments.runner.records import Record


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of text."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def bullets(sentences: Iterable[str]) -> str:
    """Return a list."""
    return "\n".join(f"- {sentence}" for sentence in sentences)


def recipes(rows: dict[str, list[Record]]) -> str:
    """Return the recipe of each row in words, rows that share one together; and who diverged."""
    by_recipe: dict[str, list[str]] = {}
    for row, records in rows.items():
        by_recipe.setdefault(in_words(records[-1].config), []).append(row)
    lines = [f"Recipe of {'; '.join(names)}: {text}." for text, names in by_recipe.items()]
    for row, records in rows.items():
        count = sum("diverged" in r.result for r in records)
        if count:
            lines.append(f"{row}: {count} of {len(records)} runs diverged and have no number.")
    made = [r for records in rows.values() for r in records]
    machines = ", ".join(sorted({r.device for r in made}))
    types = ", ".join(sorted({r.result["precision"] for r in made if "precision" in r.result}))
    where = f"{machines} in {types}" if types else machines
    lines.append(f"Made on {where}; mean ± standard deviation (number of runs).")
    return bullets(lines)
