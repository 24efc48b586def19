"""Fetching that never waits for the dead: what brings no byte for a few seconds is given up.

Time-outs of sockets do not bound name look-ups or hosts with many addresses, so the download runs
beside us and we watch whether its folder grows.

Usage: download("https://host/file.gz", folder / "file.gz")
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

PATIENCE = 4.0


class NoAnswer(OSError):
    """A host that cannot be reached or has fallen silent."""


def finishes(running: Callable[[], bool], folder: Path, patience: float) -> bool:
    """Wait while `running` and `folder` grows; False if it stood still for `patience` seconds."""
    size, since = -1, time.monotonic()
    while running():
        grown = _size(folder)
        if grown != size:
            size, since = grown, time.monotonic()
        elif time.monotonic() - since > patience:
            return False
        time.sleep(0.02)
    return True


def _size(folder: Path) -> int:
    total = 0
    for where, _, names in os.walk(folder):  # which goes on where a folder vanishes meanwhile
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(where, name)).st_size
    return total


def download(url: str, target: Path, patience: float = PATIENCE) -> None:
    """Download `url` to the file `target`, or raise NoAnswer (silence) or OSError (a refusal)."""
    import pooch
    import requests

    host = urlsplit(url).netloc
    failures: list[Exception] = []

    def work() -> None:
        try:
            pooch.HTTPDownloader(timeout=patience)(url, str(target), None)
        except Exception as error:
            failures.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    if not finishes(worker.is_alive, target.parent, patience):
        raise NoAnswer(f"{host} does not answer")
    if failures and isinstance(failures[0], requests.HTTPError):
        raise OSError(f"{host} refuses {target.name} ({failures[0]})")
    if failures:
        raise NoAnswer(f"{host} cannot be reached")


def run_watched(command: list[str], folder: Path, patience: float, failure: str) -> None:
    """Run a program that downloads into `folder`, where its scratch space lies too.

    NoAnswer if the folder stands still for `patience` seconds; OSError with `failure` and the last
    line the program wrote if it fails. However it ends, the program is gone.
    """
    with (folder / "log").open("w+b") as log:
        process = subprocess.Popen(
            command,
            env=os.environ | {"TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            if not finishes(lambda: process.poll() is None, folder, patience):
                raise NoAnswer("the package index does not answer")
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines() or ["no message"]
            raise OSError(f"{failure}: {lines[-1]}")
