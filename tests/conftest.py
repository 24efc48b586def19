"""What tests share: a small trained run, the command line, the built and installed wheel."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

# Tiny models gain nothing from threads, and processes that share two cores lose by them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from capsnet.files import cache_folder, locked
from capsnet.training.config import TrainConfig

# Below nohup, or in a script's background, signals are ignored, and so they would be by all that
# the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(getattr(signal, "SIGHUP", signal.SIGTERM), signal.SIG_DFL)

ROOT = Path(__file__).parent.parent
TINY = ("conv_channels=8", "primary_types=4", "decoder=(16,)")


class Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Run a verb in this process: cli("models", "--json") -> (status, out, err)."""
    from capsnet.cli import main

    return partial(run_verb, main, capsys)


@pytest.fixture
def dev(capsys):
    """The same for the maintainers' verbs: dev("report", "--check")."""
    from capsnet.dev.__main__ import main

    return partial(run_verb, main, capsys)


def run_verb(main, capsys, *args) -> Done:
    capsys.readouterr()
    try:
        status = main([str(a) for a in args])
    except SystemExit as leave:
        status = int(leave.code or 0)
    return Done(status, *capsys.readouterr())


@pytest.fixture(autouse=True, scope="session")
def a_cache_of_their_own(tmp_path_factory):
    """What tests read is not kept where the user's pictures and downloads are."""
    cache, real = tmp_path_factory.mktemp("cache"), cache_folder()
    for name in (
        "mnist",
        "fashion",
        "cifar10",
        "dsprites",
    ):  # what is there need not be fetched again
        if (real / name).is_dir():
            (cache / name).symlink_to(real / name, target_is_directory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAPSNET_CACHE", str(cache))
        yield


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch):
    """A machine that is busy makes work long that is short; tests of progress set this anew."""
    monkeypatch.setattr("capsnet.training.progress.QUIET_SECONDS", float("inf"))


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Make a folder once for all processes that share the tests: once("wheel", make) -> folder."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make_once(name, make) -> Path:
        folder = base / name
        with locked(base / f".{name}.lock"):
            if not (folder / ".made").exists():
                folder.mkdir(exist_ok=True)
                make(folder)
                (folder / ".made").touch()
        return folder

    return make_once


@pytest.fixture(scope="session")
def trained(once) -> Path:
    """The folder of a small CapsNet that reads most digits."""
    return once("trained", train_small) / "run"


def train_small(folder: Path) -> None:
    from capsnet.training.loop import train

    train(
        TrainConfig(
            model="capsnet_small",
            data="digits",
            out=folder / "run",
            options=TINY,
            num_samples=2000,
            epochs=4,
            batch_size=25,
            lr=3e-3,
            schedule="linear",
            device="cpu",
        )
    )


@pytest.fixture(scope="session")
def strange_runs(tmp_path_factory) -> Path:
    """A folder of two folds, each with a CNN, on pictures whose names are not to be trusted."""
    from strange import make_folds

    return make_folds(tmp_path_factory.mktemp("strange") / "folds")


@pytest.fixture(scope="session")
def tiny_in():
    """Make the config of a run in a folder that takes a fraction of a second."""

    def make(out, **changes) -> TrainConfig:
        settings = {
            "model": "capsnet_small",
            "data": "digits",
            "options": TINY,
            "num_samples": 60,
            "batch_size": 20,
            "epochs": 2,
            "device": "cpu",
            "out": out,
        }
        return TrainConfig(**{**settings, **changes})

    return make


@pytest.fixture
def tiny(tiny_in, tmp_path):
    """Make such a config in the test's own folder."""
    return lambda out="run", **changes: tiny_in(tmp_path / out, **changes)


@pytest.fixture(scope="session")
def wheel(once) -> Path:
    """The package as users get it, built from a clean copy of the files that git knows."""
    (built,) = once("wheel", build_wheel).glob("*.whl")
    return built


def build_wheel(folder: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
    if listed.returncode != 0:
        pytest.skip("needs git, to tell the package's files from others")
    for name in listed.stdout.split("\0"):
        if name.startswith("capsnet/") or name in ("pyproject.toml", "README.md", "LICENSE"):
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
    pip("wheel", "--no-deps", "--wheel-dir", folder, folder / "source")


@pytest.fixture(scope="session")
def installed(once, wheel) -> Path:
    """The folder that the wheel is installed in, and nothing else; to be put on PYTHONPATH."""
    options = ("--no-deps", "--no-index", "--upgrade", "--target")
    return once("installed", lambda folder: pip("install", *options, folder, wheel))


def pip(*arguments) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, encoding="utf-8", timeout=120
    )
    if "No matching distribution found" in done.stderr:
        pytest.skip("needs a package index, for what builds the wheel")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def pass_in_interpreter(request):
    """Run the `interpreted` tests of this file where Triton interprets its kernels on the CPU.

    That is a process of its own: the interpreter must be chosen before Triton is imported.
    """

    def run() -> None:
        from machine import CUDA, INTERPRETED

        if CUDA or INTERPRETED:
            pytest.skip("the GPU tests cover the same cases")
        pytest.importorskip("triton", reason="the kernels need Triton")
        command = [sys.executable, "-m", "pytest", str(request.path), "-k", "interpreted"]
        result = subprocess.run(
            [*command, "-p", "no:cacheprovider"],
            env=os.environ | {"TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]

    return run


@pytest.fixture
def at_step():
    """Do something right after the k-th forward pass in training: with at_step(k, do): train()."""
    from torch.nn.modules.module import register_module_forward_hook

    from capsnet.models import Classifier

    @contextmanager
    def context(k, do):
        count = 0

        def hook(module, arguments, output):
            nonlocal count
            if isinstance(module, Classifier) and module.training:
                count += 1
                if count == k:
                    do(module)

        handle = register_module_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()

    return context
