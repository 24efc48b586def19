import gzip
import socket
import time
from dataclasses import replace

import pytest
from sources_made import FILES, archive_of, give, give_archive, md5, put

from capsnet.data.sources.fetching import NoAnswer, download
from capsnet.data.sources.known import CIFAR10, DSPRITES, FASHION, MNIST
from capsnet.data.sources.locate import MissingFile, Source, WrongFile, locate
from capsnet.errors import UserError


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
