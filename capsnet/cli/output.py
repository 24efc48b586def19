"""What all verbs share: the exit statuses, and results for people or programs."""

import json as json_format
from typing import Any

EXIT_FAILED = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


def show(json: bool, facts: dict[str, Any], text: str) -> None:
    """Print facts as one line of JSON, or the text for people."""
    print(json_format.dumps(facts) if json else text)
