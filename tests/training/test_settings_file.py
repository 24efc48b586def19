"""Settings in a file: what is written is read and trained, options given beside it win."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsnet.errors import UserError
from capsnet.training.config import TrainConfig
from capsnet.training.outcome import Interrupted
from capsnet.training.settings_file import changed, read_settings, words_of, write_settings

CONFIGS = st.builds(
    TrainConfig,
    model=st.sampled_from(["auto", "capsnet_small"]),
    options=st.lists(st.sampled_from(["a=1", "decoder=(16,)", "b=x y"]), unique=True).map(tuple),
    plugin=st.lists(st.sampled_from([Path("a.py"), Path("b/c d.py")])).map(tuple),
    lr=st.floats(1e-6, 1e3),
    epochs=st.none() | st.integers(1, 10**6),
    freeze=st.booleans(),
    schedule=st.sampled_from(["paper", "cosine"]),
    data_folder=st.none() | st.just(Path("some/where")),
)


@pytest.fixture
def asked(cli, monkeypatch):
    """Return the config that a command line would train."""
    seen = []

    def train(config):
        seen.append(config)
        return Interrupted(Path("x"))

    monkeypatch.setattr("capsnet.training.loop.train", train)

    def ask(*words):
        done = cli("train", *words)
        assert done.status == 130, done.err
        return seen.pop()

    return ask


@given(config=CONFIGS)
def test_what_is_written_is_read(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("settings") / "a.json"
    write_settings(path, config)
    assert TrainConfig(**read_settings(path)) == config


def test_words_say_what_is_not_at_its_default(asked):
    config = TrainConfig(
        data="digits", options=("a=1", "b=(2, 3)"), lr=3e-4, freeze=True, plugin=(Path("a.py"),)
    )
    assert asked(*words_of(changed(config))) == config


def test_options_given_beside_a_file_win(asked, tmp_path):
    path = tmp_path / "a.json"
    write_settings(path, TrainConfig(data="digits", lr=0.1, options=("a=1", "b=2"), epochs=7))
    assert asked("--config", path) == TrainConfig(
        data="digits", lr=0.1, options=("a=1", "b=2"), epochs=7
    )
    usual = TrainConfig.lr  # a default that is given wins too
    found = asked("--lr", usual, f"--config={path}", "--options", "c=3")
    assert found == TrainConfig(data="digits", lr=usual, options=("c=3",), epochs=7)


def test_each_run_has_its_own_folder(tmp_path):
    path = tmp_path / "a.json"
    write_settings(path, TrainConfig(data="digits", out=Path("runs/a"), resume=True))
    assert json.loads(path.read_text()) == {"model": "capsnet_mnist", "data": "digits"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"lrr": 1}', "did you mean 'lr'"),
        ('{"lr": "fast"}', "must be a number, not 'fast'"),
        ('{"lr": 0}', "greater than 0"),
        ('{"schedule": "cosin"}', "did you mean 'cosine'"),
        ('{"options": "num_iters=1"}', "must be a list in [ ], not 'num_iters=1'"),
        ('{"epochs": 1.5}', "whole number"),
        ('{"lr": NaN}', "lr in"),
        ("{", "is no JSON"),
        ("[1]", "holds no settings"),
        ("\xff", "is no JSON"),
    ],
)
def test_mistakes_in_a_file_end_in_a_sentence(text, sentence, cli, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode("latin-1"))
    done = cli("train", "--config", path)
    assert done.status == 2 and done.err.count("\n") == 1
    assert sentence in done.err


def test_a_mark_that_an_editor_puts_before_the_text_is_no_part_of_it(tmp_path):
    (tmp_path / "a.json").write_text('{"lr": 0.003}', encoding="utf-8-sig")
    assert read_settings(tmp_path / "a.json") == {"lr": 0.003}


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="Could not read"):
        read_settings(tmp_path / "none.json")
