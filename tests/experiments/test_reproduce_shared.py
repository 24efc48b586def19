"""Several processes that make the runs of one experiment."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from threading import Thread

import pytest
from damage import flipped

from capsnet.errors import UserError
from capsnet.experiments.runner import run
from capsnet.experiments.runner.records import Record, append, read
from capsnet.experiments.runner.run import Summary, reproduce
from capsnet.files import lock_of, locked
from capsnet.lines import sealed

# Two processes that start at the same moment, when what is slow to import is there already.
TWO = """
import os, sys, torch._dynamo
from capsnet.cli import main
from capsnet.experiments.runner import run
real = run.train_one
def train(config):
    os.write(1, f"{config.folder.name}\\n".encode())
    return real(config)
run.train_one = train
other = os.fork()
status = main(sys.argv[1:])
if other:
    status = status or os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])
sys.exit(status)
"""
# A process that never ends the first run it takes.
STUCK = """
import sys, time
from capsnet.cli import main
from capsnet.experiments.runner import run
def train(config):
    print("training", flush=True)
    time.sleep(600)
run.train_one = train
main(sys.argv[1:])
"""
RECORD = Record("table1", "a row", 0, {}, {}, None, "cpu", {}, 1.0, "2017-10-26")


@pytest.fixture
def command(tmp_path):
    """The words of a small experiment of four runs, in the test's own folders."""
    words = ["reproduce", "scrambled", "--smoke", "--seeds", "2", "--device", "cpu"]
    return [*words, "--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]


def test_two_processes_make_every_run_once(command, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TWO, *command, "--json"], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    everything = [("CNN", 0), ("CNN", 1), ("CapsNet", 0), ("CapsNet", 1)]
    # The two may write at once, and then a line's end comes after the other's line.
    lines = [x for x in done.stdout.replace("}{", "}\n{").splitlines() if x]
    trained = [line for line in lines if not line.startswith("{")]
    assert len(trained) == len(set(trained)) == 4
    text = (tmp_path / "results" / "scrambled.jsonl").read_text()
    assert text.endswith("\n")
    assert sorted((x["row"], x["seed"]) for x in map(json.loads, text.splitlines())) == everything
    counts = [json.loads(line) for line in lines if line.startswith("{")]
    assert len(counts) == 2 and sum(x["made"] for x in counts) == 4
    for x in counts:
        assert x["made"] + x["found"] + x["left"] == 4
        assert x["elsewhere"] == x["left"] <= 1  # what the other is still making


def test_killed_process_leaves_its_run_to_others(command, cli):
    one_run = [*command, "--rows", "CapsNet", "--seeds", "1"]
    with subprocess.Popen(
        [sys.executable, "-c", STUCK, *command], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "training\n"
            done = cli(*one_run)
        finally:
            process.kill()
    assert done.status == 0
    assert done.out == (
        "scrambled: 0 made, 0 found made already, 1 left, which other processes are making.\n"
    )
    assert cli(*one_run).out == "scrambled: 1 made, 0 found made already, 0 left.\n"


def test_run_made_while_the_results_were_read_is_not_made_again(tmp_path, monkeypatch):
    here = {"runs": tmp_path / "runs", "device": "cpu", "smoke": True, "rows": ("CNN",)}
    reproduce("scrambled", seeds=1, results=tmp_path / "other", **here)
    (record,) = read(tmp_path / "other", "scrambled")
    real = run.locked

    def locked_late(path, wait):
        if not (tmp_path / "results").exists():  # another process ends the run just before
            append(tmp_path / "results", record)
        return real(path, wait)

    monkeypatch.setattr(run, "locked", locked_late)
    done = reproduce("scrambled", seeds=1, results=tmp_path / "results", **here)
    assert done == Summary(0, 1, 0)


def test_lock_is_of_one_holder(tmp_path):
    path = tmp_path / "a" / "lock"
    with locked(path) as first, locked(path, wait=False) as second:
        assert first and not second
    with locked(path, wait=False) as third:
        assert third


def test_writer_waits_for_another(tmp_path):
    path = tmp_path / "table1.jsonl"
    writer = Thread(target=append, args=(tmp_path, RECORD))
    with locked(lock_of(path)):
        path.write_text("half")
        writer.start()
        writer.join(0.2)
        assert writer.is_alive() and path.read_text() == "half"
        path.write_text("half a line that its writer did not live to end")
    writer.join()
    assert path.read_text() == sealed(asdict(RECORD)) + "\n"
    assert read(tmp_path, "table1") == [RECORD]


def test_half_a_line_is_no_result_and_is_said(tmp_path, capsys):
    append(tmp_path, RECORD)
    path = tmp_path / "table1.jsonl"
    path.write_text(path.read_text() + '{"experiment": "tab')
    assert read(tmp_path, "table1") == [RECORD]
    assert "The last line of" in capsys.readouterr().err
    append(tmp_path, RECORD)
    assert read(tmp_path, "table1") == [RECORD, RECORD]


def test_line_that_lacks_only_its_end_is_a_result(tmp_path):
    path = tmp_path / "table1.jsonl"
    path.write_text(json.dumps(asdict(RECORD)))
    assert read(tmp_path, "table1") == [RECORD]
    append(tmp_path, RECORD)
    assert read(tmp_path, "table1") == [RECORD, RECORD]


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"{}",
        b"5",
        json.dumps(asdict(replace(RECORD, config=5))).encode(),
        json.dumps(asdict(replace(RECORD, result=None))).encode(),
    ],
)
def test_other_lines_are_a_sentence(line, tmp_path):
    (tmp_path / "table1.jsonl").write_bytes(line + b"\n")
    with pytest.raises(UserError, match=r"Line 1 of .* is not a result"):
        read(tmp_path, "table1")


def test_no_changed_bit_of_a_line_passes(tmp_path, capsys):
    append(tmp_path, RECORD)
    append(tmp_path, replace(RECORD, seed=1))
    path = tmp_path / "table1.jsonl"
    whole = path.read_bytes()
    for place in range(8 * len(whole)):
        path.write_bytes(flipped(whole, place))
        try:
            read(tmp_path, "table1")
        except UserError:
            continue
        # The end of the last line alone: then it is left out, and that is said.
        assert place >= 8 * (len(whole) - 1) and "is cut short" in capsys.readouterr().err


def test_no_cut_within_a_line_passes(tmp_path, capsys):
    append(tmp_path, RECORD)
    whole = (tmp_path / "table1.jsonl").read_bytes()
    for cut in range(1, len(whole) - 1):
        (tmp_path / "table1.jsonl").write_bytes(whole[:cut])
        assert read(tmp_path, "table1") == []
        assert "is cut short" in capsys.readouterr().err


def test_a_line_that_lost_its_digest_is_refused_and_an_old_one_is_not(tmp_path):
    path, old = tmp_path / "table1.jsonl", json.dumps(asdict(RECORD)) + "\n"
    path.write_text(old)
    append(tmp_path, RECORD)
    assert read(tmp_path, "table1") == [RECORD, RECORD]
    path.write_text(path.read_text() + old)
    with pytest.raises(UserError, match=r"Line 3 of .* has no digest"):
        read(tmp_path, "table1")


def test_folder_in_the_place_of_results_is_a_sentence(tmp_path):
    (tmp_path / "table1.jsonl").mkdir()
    with pytest.raises(UserError, match="Could not read"):
        read(tmp_path, "table1")
