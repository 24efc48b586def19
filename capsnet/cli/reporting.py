"""The verb that tells what a run is worth: report."""

from pathlib import Path

from tyro.conf import Positional

from capsnet.cli.output import show


def report(
    run: Positional[Path],
    out: Path | None = None,
    plugin: tuple[Path, ...] = (),
    json: bool = False,
) -> int:
    """Write a page on what a run is worth: scores with intervals, baselines, wrong pictures.

    Example: capsnet report runs/capsnet_small-digits-seed0

    Args:
        run: Folder of a finished run, or one that holds folds and seeds.
        out: The page; by default report.html in the folder, with report.json and predictions.csv.
        plugin: Python files of yours that register models or data.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.plugins import load_plugins
    from capsnet.report.writing import write_report
    from capsnet.training.progress import WorkProgress

    load_plugins(plugin)
    with WorkProgress("making the report") as progress:
        written = write_report(run, out, lambda doing: progress(0, now=doing))
    show(json, written.to_json(), str(written))
    return 0
