import math
from itertools import pairwise

import pytest

from capsnet.errors import UserError
from capsnet.training.config import SettledConfig, TrainConfig, differences
from capsnet.training.schedule import average_weight, learning_rate


def test_paper_decays_continuously_down_to_a_floor():
    config = TrainConfig(lr=1e-3, warmup_steps=0)
    assert learning_rate(config, 0, 10) == 1e-3
    assert learning_rate(config, 2000, 10) == pytest.approx(1e-3 * 0.96)
    assert learning_rate(config, 1000, 10) == pytest.approx(1e-3 * 0.96**0.5)
    assert learning_rate(config, 10**7, 10) == 1e-6
    fast = TrainConfig(lr=1.0, lr_decay=0.5, lr_decay_steps=3, warmup_steps=0)
    assert learning_rate(fast, 6, 10) == pytest.approx(0.25)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_linear_and_cosine_end_at_zero(schedule):
    config = TrainConfig(lr=2.0, schedule=schedule, warmup_steps=0)
    rates = [learning_rate(config, k, 100) for k in range(101)]
    assert rates[0] == 2.0 and rates[100] == pytest.approx(0, abs=1e-12)
    assert rates[50] == pytest.approx(1.0)
    assert all(a > b for a, b in pairwise(rates))
    quarter = {"linear": 1.5, "cosine": 1 + math.cos(math.pi / 4)}[schedule]
    assert rates[25] == pytest.approx(quarter)


def test_constant_is_constant():
    config = TrainConfig(lr=0.1, schedule="constant", warmup_steps=0)
    assert {learning_rate(config, k, 9) for k in range(9)} == {0.1}


@pytest.mark.parametrize("schedule", ["paper", "linear", "cosine", "constant"])
def test_the_rate_rises_evenly_in_the_first_steps_and_then_follows_the_schedule(schedule):
    config = TrainConfig(schedule=schedule, warmup_steps=9)
    plain = TrainConfig(schedule=schedule, warmup_steps=0)
    share = [learning_rate(config, k, 100) / learning_rate(plain, k, 100) for k in range(100)]
    assert share[:10] == pytest.approx([(k + 1) / 10 for k in range(10)])
    assert share[10:] == [1.0] * 90
    short = [learning_rate(config, k, 8) / learning_rate(plain, k, 8) for k in range(8)]
    assert short == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1])


def test_average_forgets_the_untrained_weights():
    config = TrainConfig(averaging=0.99)
    shares = [average_weight(config, k) for k in range(3000)]
    assert shares[0] == 1 and shares[-1] == pytest.approx(0.01)
    assert all(a >= b for a, b in pairwise(shares))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"lr": 0.0},
        {"lr": float("nan")},
        {"lr_decay": 0.0},
        {"lr_decay_steps": 0},
        {"warmup_steps": -1},
        {"averaging": 1.0},
        {"reconstruction_weight": -1.0},
        {"holdout": -1},
    ],
    ids=str,
)
def test_impossible_settings_are_sentences(wrong):
    with pytest.raises(UserError, match=next(iter(wrong)).replace("_", "-")):
        TrainConfig(**wrong).check()


def test_config_is_frozen_and_plain_json():
    import json
    from dataclasses import FrozenInstanceError
    from pathlib import Path

    config = TrainConfig(out=Path("a/b"), options=("leaky=True",))
    assert json.loads(json.dumps(config.to_json()))["out"] == "a/b"
    with pytest.raises(FrozenInstanceError):
        config.lr = 1.0
    assert differences(config, json.loads(json.dumps(config.to_json()))) == []
    assert differences(config, {**config.to_json(), "lr": 5.0}) == ["lr: 5.0 -> 0.001"]
    assert differences(config, {**config.to_json(), "device": "cuda"}) == []


def test_a_folder_is_the_same_however_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("scans", "others"):
        (tmp_path / name).mkdir()
    saved = SettledConfig(data="scans").to_json()
    for data in ("scans/", "./scans", "folder:scans"):
        assert differences(SettledConfig(data=data), saved) == []
    assert differences(SettledConfig(data="others"), saved) == ["data: scans -> others"]
