"""What is searched: ranges are read as they are written, and cannot leave what a setting may be."""

from dataclasses import replace
from typing import Literal, get_type_hints

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsnet.errors import UserError
from capsnet.options import OneOf, Search
from capsnet.training.config import TrainConfig
from capsnet.tuning.space import (
    HOW,
    NAMES,
    all_words,
    declared,
    read_range,
    read_space,
    starting_point,
    suggest,
    with_values,
)

CONFIG = TrainConfig(model="capsnet_small", data="digits")
NUMBERS = {int: st.integers(-(10**9), 10**9), float: st.floats(-1e9, 1e9)}


@pytest.mark.parametrize("kind", [int, float])
@given(data=st.data())
def test_a_range_is_read_as_it_is_written(kind, data):
    low, high = sorted(data.draw(st.tuples(NUMBERS[kind], NUMBERS[kind]).filter(unequal)))
    log = low > 0 and data.draw(st.booleans())
    assert read_range("x", str(Search(low, high, log)), kind) == Search(low, high, log)
    assert read_range("x", str(Search(low, high, log))) == Search(low, high, log)


def unequal(pair):
    return pair[0] != pair[1]


@pytest.mark.parametrize("kind", [int, float, str])
@given(data=st.data())
def test_choices_are_read_as_they_are_written(kind, data):
    words = st.from_regex(r"[a-z_]{1,9}", fullmatch=True)
    choices = data.draw(st.lists(NUMBERS.get(kind, words), min_size=2, unique=True).map(tuple))
    assert read_range("x", str(OneOf(choices)), kind) == OneOf(choices)


def test_choices_may_hold_brackets():
    found = read_range("options.decoder", "(),(16, 32),[8]", tuple[int, ...])
    assert found == OneOf(("()", "(16, 32)", "[8]"))


def test_what_is_declared_can_be_and_holds_the_default():
    """Every range beside a setting is one that the setting takes, and one that starts inside."""
    hints = get_type_hints(TrainConfig, include_extras=True)
    names = [name for name in NAMES if declared(hints[name]) is not None]
    assert len(names) > 10
    for name in names:
        config = replace(CONFIG, crop=0.1) if name == "contrast" else CONFIG
        space = read_space((name,), config)
        usual = getattr(TrainConfig, name)
        assert usual is None or starting_point(config, space) == {name: usual}


def test_by_default_how_it_is_trained_is_searched_unless_it_is_given():
    usual = read_space((), CONFIG)
    assert list(usual) == ["lr", "warmup_steps", "averaging", "weight_decay"] and {*usual} < {*HOW}
    given_lr = TrainConfig(model="capsnet_small", data="digits", lr=3e-3)
    assert {*usual} - {*read_space((), given_lr)} == {"lr"}
    more = read_space(("default", "rotate", "lr=0.1,0.2"), CONFIG)
    assert {*more} == {*usual, "rotate"} and more["lr"] == OneOf((0.1, 0.2))


def test_a_name_alone_means_what_is_declared_or_all_words():
    space = read_space(("rotate", "schedule", "options.num_iters", "options.leaky"), CONFIG)
    assert space == {
        "rotate": Search(0.0, 20.0),
        "schedule": OneOf(("paper", "linear", "cosine", "constant")),
        "options.num_iters": Search(1, 5),
        "options.leaky": OneOf((False, True)),
    }
    assert all_words(Literal["a", "b"] | None) == OneOf(("a", "b"))


def test_options_of_the_model_replace_those_given():
    config = TrainConfig(model="capsnet_small", options=("leaky=True", "num_iters=1"))
    found = with_values(config, {"options.num_iters": 4, "lr": 0.1})
    assert found.options == ("leaky=True", "num_iters=4") and found.lr == 0.1
    space = read_space(("options.num_iters", "options.decoder=(),(512, 1024)"), config)
    assert starting_point(config, space)["options.num_iters"] == 1


def test_a_start_outside_of_the_range_is_left_out():
    space = read_space(("lr=1e-2..1e-1", "batch_size=8,16", "rotate=5..10"), CONFIG)
    assert starting_point(CONFIG, space) == {}


def test_what_is_left_to_choose_starts_from_what_named_data_gets():
    space = read_space(("batch_size=32,128", "epochs=10..60", "shift"), CONFIG)
    assert starting_point(CONFIG, space) == {"batch_size": 128, "epochs": 50, "shift": 2}


def test_data_that_moves_by_its_own_rules_has_no_shift_to_search():
    with pytest.raises(UserError, match="multidigits moves its images by its own rules"):
        read_space(("shift",), TrainConfig(model="capsnet_small", data="multidigits"))


def test_a_contrast_alone_changes_nothing_to_be_searched():
    with pytest.raises(UserError, match="contrast needs rotate"):
        read_space(("contrast",), CONFIG)
    for beside in ("rotate=0..15", "crop"):
        assert len(read_space(("contrast", beside), CONFIG)) == 2


def test_trials_stay_within_what_is_searched():
    space = read_space(
        ("lr=1e-4..1e-2:log", "warmup_steps=3..5", "flip=none,both", "batch_size=8..64:log"), CONFIG
    )
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(40):
        trial = study.ask()
        values = {name: suggest(trial, name, tried) for name, tried in space.items()}
        config = with_values(CONFIG, values)
        config.check()
        assert 1e-4 <= config.lr <= 1e-2 and config.warmup_steps in (3, 4, 5)
        assert config.flip in ("none", "both") and 8 <= config.batch_size <= 64


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lrr", "did you mean 'lr'"),
        ("weight-decy=0..1", "did you mean 'weight_decay'"),
        ("options.num_iter=1..2", "did you mean 'num_iters'"),
        ("options.num_iters=0..3", "num_iters must be at least 1, not 0"),
        ("options.num_classes=1,2", "leave num_classes out"),
        ("seed", "seed cannot be searched"),
        ("data=digits,mnist", "data cannot be searched"),
        ("epochs", "Say what to try of epochs"),
        ("lr=", "lr must be a number, not ''"),
        ("lr=1", "two or more"),
        ("lr=1,1", "two or more"),
        ("lr=2..1", "must rise"),
        ("lr=0..1:log", "begins above 0"),
        ("lr=1..2:lin", "':log', not in ':lin'"),
        ("lr=1..nan", "no range of numbers"),
        ("lr=0..1", "lr must be greater than 0"),
        ("rotate=-1..3", "rotate must be at least 0"),
        ("batch_size=1.5..3", "whole number, not '1.5'"),
        ("schedule=paper,cosin", "did you mean 'cosine'"),
        ("schedule=1..2", "no range of numbers"),
        ("model=capsnet_small,cnn_smal", "did you mean 'cnn_small'"),
    ],
)
def test_what_cannot_be_searched_is_said(text, sentence):
    with pytest.raises(UserError) as error:
        read_space((text,), CONFIG)
    assert sentence in str(error.value)


def test_a_setting_is_searched_once():
    with pytest.raises(UserError, match="searched twice"):
        read_space(("lr", "lr=1,2"), CONFIG)


def test_something_is_left_to_search():
    given_all = TrainConfig(lr=0.1, warmup_steps=1, averaging=0.5, weight_decay=0.1)
    with pytest.raises(UserError, match="use --search"):
        read_space((), given_all)
