"""`python -m capsnet.dev VERB`: the maintainers' command line, which fails as the users' does."""

import sys

from capsnet.cli.command import Command
from capsnet.cli.measuring import reproduce
from capsnet.dev.packages import licences, sbom
from capsnet.dev.publishing import report, ship

COMMAND = Command(
    "python -m capsnet.dev",
    "For those who keep this repository: make runs, write pages, ship weights.",
    {"make": (reproduce,), "publish": (report, ship), "tell": (licences, sbom)},
)


def main(args: list[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    return COMMAND.run(sys.argv[1:] if args is None else args)


if __name__ == "__main__":
    sys.exit(main())
