"""What a loss sees of the run: the steps done, also after a stop and in a captured graph."""

import pytest
import torch
from machine import CUDA, gpu

from capsnet.models import CapsNet, register_model, registry
from capsnet.training.loop import train

SEEN: list[tuple[float, float]] = []


class Watcher(CapsNet):
    """Notes how far the run is."""

    def loss(self, output, batch, progress):
        if not CUDA:
            SEEN.append((progress.step.item(), progress.epoch.item()))
        return super().loss(output, batch, progress) + 0 * progress.share


@pytest.fixture
def watcher(monkeypatch):
    monkeypatch.setattr(registry, "_MODELS", {**registry._MODELS})
    small = {"conv_channels": 8, "conv_stride": 2, "primary_types": 4, "decoder": ()}
    register_model("watcher", **small)(Watcher)


@pytest.mark.skipif(CUDA, reason="a captured step is not seen from Python")
def test_every_step_is_counted_once_also_after_a_stop(tiny, ctrl_c, watcher):
    SEEN.clear()
    config = {"model": "watcher", "options": ()}
    with ctrl_c(4):
        train(tiny(**config))
    train(tiny(**config, resume=True))
    assert [(float(step), float(step // 3)) for step in range(6)] == SEEN


@gpu
def test_a_captured_step_counts(tiny):
    from capsnet.training.setup import build_model, open_stream
    from capsnet.training.step import TrainStep, epoch_plan

    config = tiny(device="cuda")
    stream = open_stream(config, "train", torch.device("cuda"))
    step = TrainStep(build_model(config, stream).cuda(), stream, config, torch.float32)
    plan = {k: x[:20] for k, x in epoch_plan(stream, 0, 0, 60).items()}
    for done in range(8):
        assert step.progress.step.item() == done
        step(plan, 1e-3, 1.0, done)
    step(plan, 1e-3, 1.0, 100)
    assert step.progress.step.item() == 101
