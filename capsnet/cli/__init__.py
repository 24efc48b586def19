"""The command line: one verb per job, each a function whose signature and docstring are its help.

capsnet train --model capsnet_small --data digits

torch is imported inside the verbs, so that `capsnet --help` answers at once.
"""

import errno
import os
import sys
from io import TextIOWrapper

import tyro

from capsnet import __version__
from capsnet.cli import listing, research, using
from capsnet.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USER_ERROR
from capsnet.errors import UserError, unknown_name

VERBS = {
    verb.__name__: verb
    for verb in (
        using.train,
        using.evaluate,
        using.predict,
        using.figure,
        using.demo,
        using.explore,
        listing.data,
        listing.models,
        listing.info,
        research.bench,
        research.reproduce,
        research.report,
        research.ship,
    )
}


def main(args: list[str] | None = None) -> int:
    """Run one verb and return the exit status; a user's mistake is one sentence and status 2."""
    args = sys.argv[1:] if args is None else args
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # the name of a file may be no text
    if not args or args[0] in ("-h", "--help"):
        print(overview())
        return 0 if args else EXIT_USER_ERROR
    if args[0] == "--version":
        print(f"capsnet {__version__}")
        return 0
    try:
        if args[0] not in VERBS:
            raise unknown_name("verb", args[0], VERBS)
        status = tyro.cli(VERBS[args[0]], args=args[1:], prog=f"capsnet {args[0]}")
        if sys.stdout is not None:  # it is None if whoever started us closed it
            sys.stdout.flush()
        return status
    except UserError as error:
        print(f"capsnet: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(
            "capsnet: There is not enough memory; use a smaller batch, image or model.",
            file=sys.stderr,
        )
        return EXIT_USER_ERROR
    except BrokenPipeError:
        drop_output()  # whoever read it has seen enough
        return EXIT_FAILED
    except OSError as error:
        if error.errno == errno.ENOSPC and error.filename is None:  # files of ours are UserErrors
            drop_output()
            print("capsnet: The disk that the output goes to is full; free some.", file=sys.stderr)
            return EXIT_USER_ERROR
        if error.filename is None:
            raise
        print(
            f"capsnet: Could not use {error.filename}: {error.strerror}; check the name, and "
            "whether it is open to you.",
            file=sys.stderr,
        )
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("capsnet: stopped.", file=sys.stderr)
        return EXIT_INTERRUPTED


def drop_output() -> None:
    """Let what is still to be written vanish, so that Python does not fail on it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Return whether memory ran out; torch says so in the text of a RuntimeError."""
    return isinstance(error, MemoryError) or any(
        words in str(error) for words in ("out of memory", "can't allocate memory")
    )


def overview() -> str:
    """Return the text of `capsnet --help`."""
    verbs = [f"  {name:<10} {(verb.__doc__ or '').splitlines()[0]}" for name, verb in VERBS.items()]
    head = "usage: capsnet VERB [options]   ('capsnet VERB --help' explains a verb)"
    return "\n".join([head, "", "Capsule networks: train, use, and look inside.", "", *verbs])
