"""The command line: one verb per job, each a function whose signature and docstring are its help.

capsnet train --model capsnet_small --data digits

torch is imported inside the verbs, so that `capsnet --help` answers at once. What only those who
keep this repository need is in capsnet/dev.
"""

import sys

from capsnet.cli import exporting, listing, measuring, reporting, tuning, using
from capsnet.cli.command import Command

COMMAND = Command(
    "capsnet",
    "Capsule networks: train, use, and look inside.",
    {
        "use": (
            using.train,
            tuning.tune,
            using.evaluate,
            reporting.report,
            using.predict,
            exporting.export,
            using.demo,
        ),
        "look": (using.figure, using.explore),
        "data and models": (listing.data, listing.models, listing.info),
        "measure": (measuring.bench, measuring.reproduce),
    },
)
VERBS = COMMAND.verbs


def main(args: list[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    return COMMAND.run(sys.argv[1:] if args is None else args)
