"""What `capsnet predict` prints and writes."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from capsnet.cli.output import show
from capsnet.errors import UserError

MAX_NAMED = 20  # files that could not be read, and are named


def predict_files(
    places: Sequence[Path],
    weights: str,
    how: dict[str, Any],
    csv: Path | None,
    skip_bad: bool,
    plugin: Sequence[Path],
    json: bool,
) -> int:
    """Ask a model about files and folders; print the answers, or write a table and say so."""
    from capsnet.files import whole_file
    from capsnet.plugins import load_plugins
    from capsnet.prediction import predict
    from capsnet.prediction.answer import as_csv, summary
    from capsnet.prediction.seeing import pictures_in
    from capsnet.training.distributed.world import gathered, leads
    from capsnet.training.progress import WorkProgress

    load_plugins(plugin)
    files = pictures_in(places)
    bad: dict[Path, str] = {}

    def leave_out(file: Path, error: UserError) -> None:
        bad[file] = str(error)

    with ExitStack() as stack:
        # Opened first: that it cannot be written is better said before the work than after it.
        table = stack.enter_context(whole_file(csv)) if csv is not None and leads() else None
        with WorkProgress("predicting", len(files), "pictures") as progress:
            answers = predict(
                files, weights, progress=progress, on_bad=leave_out if skip_bad else None, **how
            )
        bad = {file: why for part in gathered(bad) for file, why in part.items()}
        if not answers:
            raise UserError(f"None of the {len(files):,} files can be read; give other pictures.")
        if table is not None:
            table.write_text(as_csv(answers), encoding="utf-8", newline="\n")
    for sentence in list(bad.values())[:MAX_NAMED]:
        print(f"left out: {sentence}", file=sys.stderr)
    if bad:
        print(f"{len(bad):,} of {len(files):,} files were left out.", file=sys.stderr)
    facts = {
        "predictions": [answer.to_json() for answer in answers],
        "skipped": [{"file": str(file), "why": why} for file, why in bad.items()],
    }
    told = "\n".join(map(str, answers)) if csv is None else f"Wrote {csv}: {summary(answers)}."
    show(json, facts, told)
    return 0
