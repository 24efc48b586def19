"""The storage of a study: what is refused, and that it is said in time."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import optuna
import pytest
from trials import SEARCH, TINY, WORDS

from capsnet.errors import UserError
from capsnet.training.config import TrainConfig
from capsnet.tuning import study as study_module
from capsnet.tuning.space import read_space
from capsnet.tuning.study import open_storage, open_study, shown

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


def opened(address, name="s", config=TINY, search=SEARCH):
    space = read_space(search, config)
    return open_study(open_storage(address, 60), name, config, space, address)


@pytest.fixture
def address(tmp_path):
    return f"sqlite:///{tmp_path / 'deep' / 'study {1}.db'}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("study.db", "is no address of a storage"),
        ("mysql://u@h/d", "'mysql' is no storage"),
        ("sqlite://", "in memory would be lost"),
        ("sqlite:///:memory:", "in memory would be lost"),
        ("postgresql://h:port/d", "is no address of a storage"),
    ],
)
def test_addresses_that_are_none(text, sentence, cli, tmp_path):
    done = cli("tune", *WORDS, "--out", tmp_path / "t", "--storage", text)
    assert done.status == 2 and sentence in done.err and "Traceback" not in done.err


def test_a_server_that_is_not_there(cli, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        where = f"postgresql://me:secret@127.0.0.1:{port}/db"
        done = cli("tune", *WORDS, "--out", tmp_path / "t", "--storage", where)
    assert done.status == 2 and "could not be used" in done.err and "secret" not in done.err
    assert done.err.count("\n") == 1


def test_a_server_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(study_module, "ANSWER_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(UserError, match="could not be used"):
            open_storage(f"postgresql://127.0.0.1:{silent.getsockname()[1]}/db", 60)
        assert time.monotonic() - began < 20


def test_a_file_that_is_no_study(tmp_path, address):
    path = tmp_path / "notes.db"
    path.write_text("no database at all" * 100)
    with pytest.raises(UserError, match="could not be used"):
        open_storage(f"sqlite:///{path}", 60)
    assert path.read_text().startswith("no database")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Could not write"):
        open_storage(f"sqlite:///{tmp_path / 'file' / 'study.db'}", 60)


def test_a_study_of_something_else_is_refused(address):
    opened(address).add_trial(optuna.create_trial(value=1.0))
    opened(address)
    other = TrainConfig(**{**vars(TINY), "data": "multidigits", "lr": 3e-3})
    with pytest.raises(UserError) as error:
        opened(address, config=other)
    assert "data: digits -> multidigits; lr: 0.001 -> 0.003" in str(error.value)
    with pytest.raises(UserError, match=r"search of lr: 0.001\.\.0.01:log -> None"):
        opened(address, search=SEARCH[1:])
    elsewhere = TrainConfig(**{**vars(TINY), "device": "cuda:1", "data_folder": Path("x")})
    opened(address, config=elsewhere)
    opened(address, name="another", config=other)


def test_a_study_without_trials_can_become_another(address):
    opened(address)
    opened(address, search=SEARCH[:1])


def test_a_study_of_another_program_is_refused(address):
    study = optuna.create_study(storage=open_storage(address, 60), study_name="s")
    study.add_trial(optuna.create_trial(value=1.0))
    with pytest.raises(UserError, match="not made by capsnet"):
        opened(address)


@pytest.mark.parametrize("attempt", range(3))
def test_workers_that_start_at_once_all_find_a_storage(attempt, tmp_path):
    where, together = f"sqlite:///{tmp_path / 'study.db'}", Barrier(8)

    def start(_):
        together.wait()
        return opened(where).study_name

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(start, range(8))) == ["s"] * 8


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
@pytest.mark.parametrize("attempt", range(3))
def test_a_waiting_trial_is_taken_by_one_worker(attempt, tmp_path):
    where, together = f"sqlite:///{tmp_path / 'study.db'}", Barrier(8)
    for _ in range(4):
        opened(where).enqueue_trial({})

    def take(_):
        study = opened(where)
        together.wait()
        return study.ask().number

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(take, range(8))) == list(range(8))


def test_passwords_are_not_shown():
    assert shown("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"


def test_a_worker_that_comes_between_is_no_stranger(address, monkeypatch):
    plain = optuna.Study.get_trials

    def slowly(study, **given):
        monkeypatch.setattr(optuna.Study, "get_trials", plain)
        opened(address).ask()  # another worker says what the study is of and begins a trial
        return plain(study, **given)

    monkeypatch.setattr(optuna.Study, "get_trials", slowly)
    opened(address)
