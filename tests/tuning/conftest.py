"""What tests of tuning share: tiny trials, workers as processes, storages of both kinds."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Process:
    """A worker in a process of its own; its messages are read line by line."""

    popen: subprocess.Popen

    def wait_for(self, start: str) -> str:
        """Return the next message that begins so."""
        told = []
        for line in self.popen.stderr:
            told.append(line)
            if line.startswith(start):
                return line
        raise AssertionError("".join(told))

    def end(self) -> tuple[int, str, str]:
        """Return the exit status and what was said until the end."""
        out, err = self.popen.communicate(timeout=300)
        return self.popen.returncode, out, err


@pytest.fixture
def worker():
    """Start workers: worker("--trials", 5, …) -> Process; none outlives the test."""
    started = []

    def start(*arguments) -> Process:
        command = [sys.executable, "-m", "capsnet", "tune", *map(str, arguments)]
        popen = subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        started.append(popen)
        return Process(popen)

    yield start
    for popen in started:
        popen.kill()
        popen.wait()
        popen.stdout.close()
        popen.stderr.close()


def binary(name: str) -> str | None:
    """Return a program of PostgreSQL, which Debian keeps out of the way."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *map(str, places)]))


@pytest.fixture(scope="session")
def postgres():
    """The address of a PostgreSQL of our own, on a socket in a folder of its own."""
    if binary("initdb") is None:
        reason = "NO POSTGRESQL TEST WAS RUN: 'apt-get install postgresql' on Debian."
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the name of a socket may not be long
    other = []
    if os.geteuid() == 0:  # which PostgreSQL does not run as
        shutil.chown(folder, "postgres", "postgres")
        other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    init = [binary("initdb"), "-D", folder / "data", "-U", "postgres", "--auth=trust", "--no-sync"]
    subprocess.run([*other, *init], check=True, capture_output=True, timeout=120, cwd=folder)
    serve = [binary("postgres"), "-D", folder / "data", "-k", folder, "-h", "", "-F"]
    server = subprocess.Popen(
        [*other, *serve], stderr=subprocess.PIPE, encoding="utf-8", cwd=folder
    )
    try:
        told = []
        for line in server.stderr:
            told.append(line)
            if "ready to accept connections" in line:
                break
        else:
            pytest.fail("".join(told))
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)
