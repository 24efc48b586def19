"""What all verbs share: the exit statuses, and results for people or programs or as PNG."""

import json as json_format
from pathlib import Path
from typing import Any

from capsnet.errors import UserError

EXIT_FAILED = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


def show(json: bool, facts: dict[str, Any], text: str) -> None:
    """Print facts as one line of JSON, or the text for people."""
    print(json_format.dumps(facts) if json else text)


def check_png(path: Path) -> None:
    """Raise a UserError for a figure's file that is not called .png."""
    if path.suffix.lower() != ".png":
        raise UserError(f"Figures are PNG files; choose a name that ends in .png, not {path}.")
