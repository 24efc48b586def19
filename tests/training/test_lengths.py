"""Do primary capsules keep their lengths, and is it said when they do not?"""

import json

import pytest
import torch

from capsnet.training.config import TrainConfig
from capsnet.training.loop import train
from capsnet.training.schedule import learning_rate
from capsnet.training.setup import build_model, open_stream
from capsnet.training.step import TrainStep, epoch_plan


@pytest.mark.parametrize(("warmup_steps", "saturated"), [(TrainConfig.warmup_steps, 0), (0, 1)])
def test_the_warm_up_keeps_the_lengths_of_primary_capsules(warmup_steps, saturated):
    config = TrainConfig(data="digits", batch_size=16, warmup_steps=warmup_steps)
    cpu = torch.device("cpu")
    stream = open_stream(config, "train", cpu)
    torch.manual_seed(0)
    model = build_model(config, stream)
    step = TrainStep(model, stream, config, torch.float32)
    plan = epoch_plan(stream, 0, 0, 12 * 16)
    for k in range(12):
        batch = {name: x[16 * k : 16 * (k + 1)] for name, x in plan.items()}
        step(batch, learning_rate(config, k, 1000), 1.0)
    u = model.primary(stream.batch(batch).images)
    share = (torch.linalg.vector_norm(u, dim=-1) > 0.95).double().mean()
    assert share == pytest.approx(saturated, abs=0.1)


@pytest.mark.parametrize("saturated", [False, True])
def test_capsules_that_lost_their_lengths_are_reported(saturated, tiny, capfd, at_step):
    def lengthen(model):
        with torch.no_grad():
            model.primary_caps.conv.bias.fill_(1e3 if saturated else 0)

    config = tiny(epochs=2, averaging=0.0)
    with at_step(2, lengthen):
        train(config)
    lines = (config.folder / "log.jsonl").read_text().splitlines()
    lengths = [json.loads(line)["primary_length"] for line in lines]
    assert (min(lengths) > 0.99) == saturated and max(lengths) <= 1
    assert capfd.readouterr().err.count("--warmup-steps") == saturated
