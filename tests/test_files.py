import os

import pytest

from capsnet.errors import UserError, unknown_name
from capsnet.files import whole_file, write_text


def test_file_appears_whole_with_its_folders(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_text(path, "all of it")
    assert path.read_text() == "all of it" and os.listdir(path.parent) == ["b.txt"]


def test_failed_writing_keeps_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "before")
    with pytest.raises(RuntimeError), whole_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["a.txt"]


def test_failure_of_the_disk_is_a_sentence(tmp_path):
    refused = pytest.raises(UserError, match=r"Could not write .*: No space left")
    with refused, whole_file(tmp_path / "a.txt"), open("/dev/full", "w") as full:
        full.write("x")
    assert os.listdir(tmp_path) == []


def test_nearest_name_or_all_of_them():
    assert "did you mean 'mnist'?" in str(unknown_name("data set", "mnsit", ["mnist", "digits"]))
    assert "choose one of: digits, mnist." in str(unknown_name("x", "zzz", ["mnist", "digits"]))
