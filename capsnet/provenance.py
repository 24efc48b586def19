"""What a result depends on besides its settings: the machine, versions, the code's commit."""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import capsnet


def machine(device: torch.device) -> dict[str, Any]:
    """Return device, versions and date for a result."""
    return {
        "device": device_name(device),
        "versions": versions(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or cpu."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def versions() -> dict[str, str | None]:
    """Return the versions that a result depends on."""
    return {
        "capsnet": capsnet.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
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
        ["git", *arguments], cwd=folder, capture_output=True, encoding="utf-8", check=True
    )
    return done.stdout.strip()
