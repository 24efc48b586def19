"""The one exception a user can cause: its text is a sentence that says what to do.

with needs("Figures need matplotlib", extra="figures"): import matplotlib
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


class UserError(ValueError):
    """A mistake the user can mend; the command line prints it and exits with status 2."""


class MissingExtra(UserError, ImportError):
    """A package of an extra is not installed; an ImportError to whoever tries imports."""


@contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Turn a failed import in the block into a sentence that says how to install the extra."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(f"{what}; run: pip install 'capsnet[{extra}]'.") from error


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name that is not in `known`, with the nearest match."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'?" if close else f"choose one of: {', '.join(known)}."
    return UserError(f"There is no {kind} called '{name}'; {hint}")


def require(found: T | None, sentence: str) -> T:
    """Return what was found; a UserError with the sentence if nothing was."""
    if found is None:
        raise UserError(sentence)
    return found
