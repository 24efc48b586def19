"""A command of several verbs: its overview, and how a verb of it runs and fails.

status = Command("capsnet", "What it is for.", {"use": (train, predict)}).run(["train", "--help"])
"""

import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper

from capsnet import __version__
from capsnet.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USER_ERROR
from capsnet.cli.parsing import Verb, call
from capsnet.errors import UserError, unknown_name

HELP = ("-h", "--help", "help")


@dataclass(frozen=True)
class Command:
    """A program name, what it is for, and its verbs under headings."""

    prog: str
    about: str
    groups: Mapping[str, Sequence[Verb]]
    verbs: dict[str, Verb] = field(init=False)

    def __post_init__(self) -> None:
        verbs = {verb.__name__: verb for group in self.groups.values() for verb in group}
        object.__setattr__(self, "verbs", verbs)

    def overview(self) -> str:
        """Return the text of `--help`."""
        lines = [
            f"usage: {self.prog} VERB [options]   ('{self.prog} VERB --help' explains a verb)",
            "",
            self.about,
        ]
        for heading, verbs in self.groups.items():
            lines += ["", f"{heading}:"]
            lines += [f"  {v.__name__:<10} {(v.__doc__ or '').splitlines()[0]}" for v in verbs]
        return "\n".join(lines)

    def run(self, words: Sequence[str]) -> int:
        """Run one verb and return the exit status; a user's mistake is one sentence, status 2."""
        return guarded(lambda: self._run(words), words)

    def _run(self, words: Sequence[str]) -> int:
        if len(words) > 1 and words[0] == "help":
            words = [words[1], "--help"]
        if not words or words[0] in HELP:
            print(self.overview())
            return 0 if words else EXIT_USER_ERROR
        name, *rest = words
        if name == "--version":
            print(f"capsnet {__version__}")
            return 0
        if name not in self.verbs:
            raise unknown_name("verb", name, self.verbs)
        return call(self.verbs[name], rest, f"{self.prog} {name}")


def say(sentence: str) -> None:
    """Print what went wrong."""
    print(f"capsnet: {sentence}", file=sys.stderr)


def guarded(
    work: Callable[[], int], words: Sequence[str] = (), tell: Callable[[str], None] = say
) -> int:
    """Return the status of the work; what a user can mend is one sentence and a status of its own.

    words: those of the command line; tell: takes the sentence.
    """

    def fail(sentence: str) -> int:
        tell(sentence)
        return EXIT_USER_ERROR

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # the name of a file may be no text
    try:
        status = work()
        if sys.stdout is not None:  # it is None if whoever started us closed it
            sys.stdout.flush()
        return status
    except UserError as error:
        return fail(f"{error}{_plugin_hint(str(error), words)}")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return fail("There is not enough memory; use a smaller batch, image or model.")
    except BrokenPipeError:
        drop_output()  # whoever read it has seen enough
        return EXIT_FAILED
    except OSError as error:
        if error.errno == errno.ENOSPC and error.filename is None:  # ours are UserErrors
            drop_output()
            return fail("The disk that the output goes to is full; free some.")
        if error.filename is None:
            raise
        return fail(
            f"Could not use {error.filename}: {error.strerror}; check the name, and whether "
            "it is open to you."
        )
    except KeyboardInterrupt:
        tell("stopped.")
        return EXIT_INTERRUPTED


def _plugin_hint(sentence: str, words: Sequence[str]) -> str:
    """Return what to try when a name is unknown, which may be one that a plugin registers."""
    unknown = sentence.startswith(("There is no model called", "There is no data set called"))
    if not unknown or "--plugin" in words:
        return ""
    return " If it is one of your own, name the Python file that registers it with --plugin."


def drop_output() -> None:
    """Let what is still to be written vanish, so that Python does not fail on it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Return whether memory ran out; torch says so in the text of a RuntimeError."""
    return isinstance(error, MemoryError) or any(
        words in str(error) for words in ("out of memory", "can't allocate memory")
    )
