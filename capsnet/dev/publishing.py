"""Verbs that publish what was measured: report, ship."""

from pathlib import Path

from capsnet.cli.output import EXIT_FAILED


def report(results: Path = Path("results"), root: Path = Path("."), check: bool = False) -> int:
    """Write the tables and plots of all results into README and docs.

    Example: python -m capsnet.dev report --check

    Args:
        results: Folder of the results.
        root: Folder with README.md and docs.
        check: Change nothing; say which pages disagree with the results.
    """
    from capsnet.experiments.pages.report import report as run
    from capsnet.training.progress import WorkProgress

    with WorkProgress("comparing pages" if check else "writing pages"):
        stale = run(results, root, check)
    for path in stale:
        print(f"{path} {'disagrees with the results' if check else 'is new'}.")
    if not stale:
        print("All pages agree with the results.")
    return EXIT_FAILED if check and stale else 0


def ship(run: Path, name: str, root: Path = Path(".")) -> int:
    """Put the weights of a finished run into the package, in half precision, with a card.

    Example: python -m capsnet.dev ship --run runs/capsnet_small-digits-seed0 --name capsnet_small

    Args:
        run: Folder of the run.
        name: Name of the model whose weights they become.
        root: Folder with docs, where the page of cards is written.
    """
    from capsnet.experiments.pages.cards import ship as write

    print(f"Wrote {write(run, name, root)}.")
    return 0
