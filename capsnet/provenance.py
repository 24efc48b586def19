"""What a result depends on besides its settings: versions and the commit of the code."""

import platform
import subprocess
from pathlib import Path

import torch

import capsnet


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    return {
        "capsnet": capsnet.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def git_commit() -> str | None:
    """Return the commit of the code, marked if files were changed since; None without git."""
    package = Path(capsnet.__file__).parent
    try:
        _git(package, "ls-files", "--error-unmatch", "__init__.py")
        commit = _git(package, "rev-parse", "--short=12", "HEAD")
        changed = _git(package, "status", "--porcelain", "--untracked-files=no", "--", "*.py")
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("-changed" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
