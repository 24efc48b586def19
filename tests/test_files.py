import os
import subprocess
import sys
from pathlib import Path

import pytest

from capsnet.errors import UserError, unknown_name
from capsnet.files import lock_of, locked, whole_file, write_text

ROOT = Path(__file__).parent.parent
# A process that holds a lock until it is killed.
HOLDER = """
import sys, time
from pathlib import Path
from capsnet.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


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


def test_lock_is_free_when_its_holder_is_killed(tmp_path):
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "held\n"
            with locked(path, wait=False) as held:
                assert not held
        finally:
            process.kill()
    with locked(path, wait=False) as held:
        assert held


def test_failure_in_the_block_frees_the_lock(tmp_path):
    with pytest.raises(OSError, match="of the block"), locked(tmp_path / "lock"):
        raise OSError("of the block")
    with locked(tmp_path / "lock", wait=False) as held:
        assert held


def test_lock_that_cannot_be_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "lock", tmp_path / "folder"):
        with pytest.raises(UserError, match=r"Could not write .*choose a folder"), locked(path):
            pass


def test_lock_of_results_is_hidden_beside_them_and_ignored_by_git():
    lock = lock_of(ROOT / "results" / "table1.jsonl")
    assert lock == ROOT / "results" / ".table1.jsonl.lock"
    if not (ROOT / ".git").exists():
        pytest.skip("no git here")
    subprocess.run(["git", "check-ignore", "-q", lock], cwd=ROOT, check=True)


def test_nearest_name_or_all_of_them():
    assert "did you mean 'mnist'?" in str(unknown_name("data set", "mnsit", ["mnist", "digits"]))
    assert "choose one of: digits, mnist." in str(unknown_name("x", "zzz", ["mnist", "digits"]))
