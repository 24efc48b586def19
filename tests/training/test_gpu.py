"""Training on a GPU: `pytest -m gpu`."""

import pytest
import torch
from torch import Tensor

from capsnet.data import Augment, open_data
from capsnet.models import create_model
from capsnet.training import adam
from capsnet.training.config import TrainConfig
from capsnet.training.loop import epoch_plan, train
from capsnet.training.step import WARM_UP, TrainStep

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
STEPS = 25


def losses(backend: str, precision: torch.dtype, graph: bool) -> list[float]:
    torch.manual_seed(0)
    stream = open_data("digits", "train", augment=Augment(shift=2), device="cuda")
    model = create_model("capsnet_mnist", backend=backend).to("cuda")
    step = TrainStep(model, stream, TrainConfig(), precision, graph)
    plan = epoch_plan(stream, 0, 0, STEPS * 64)
    curve = []
    for k in range(STEPS):
        step({name: x[64 * k : 64 * (k + 1)] for name, x in plan.items()}, 1e-3, 1.0)
        curve.append(step.sums_so_far()[0])
        step.sums.zero_()
    assert step.steady and (step.graph is not None) == graph
    return curve


def distance(curve: list[float], truth: list[float]) -> float:
    return max(abs(x - y) / y for x, y in zip(curve, truth, strict=True))


def test_fused_and_stored_votes_follow_one_loss_curve():
    fused, stored = (
        losses(backend, torch.float32, graph=False) for backend in ("auto", "reference")
    )
    assert fused[-1] < 0.7 * fused[0]
    assert distance(fused, stored) < 0.05


def test_in_bf16_the_fused_curve_strays_no_further_than_that_of_stored_votes():
    truth = losses("reference", torch.float32, graph=False)
    fused, stored = (
        losses(backend, torch.bfloat16, graph=False) for backend in ("auto", "reference")
    )
    assert distance(fused, truth) < max(0.05, 2 * distance(stored, truth))


def test_replayed_step_is_the_step():
    eager, replayed = (losses("auto", torch.bfloat16, graph) for graph in (False, True))
    assert len(eager) > WARM_UP
    torch.testing.assert_close(torch.tensor(replayed), torch.tensor(eager), rtol=1e-3, atol=1e-4)


def test_weights_and_average_of_our_adam_follow_torchs(monkeypatch):
    def run(by_kernel: bool) -> tuple[TrainStep, list[Tensor]]:
        monkeypatch.setattr(adam, "TRITON", by_kernel)
        torch.manual_seed(0)
        stream = open_data("digits", "train", augment=Augment(shift=2), device="cuda")
        model = create_model("capsnet_mnist").to("cuda")
        step = TrainStep(model, stream, TrainConfig(averaging=0.9), torch.float32)
        plan = epoch_plan(stream, 0, 0, 10 * 64)
        start = [p.detach().clone() for p in step.params]
        for k in range(10):
            step({name: x[64 * k : 64 * (k + 1)] for name, x in plan.items()}, 1e-4, 1 / (k + 1))
        assert step.graph is not None and step.optimizer.has_kernel == by_kernel
        ends = zip([*step.params, *step.average], start * 2, strict=True)
        return step, [(p - before).detach() for p, before in ends]

    (ours, moved), (_, expected) = run(True), run(False)
    assert all(ours.optimizer.state[p]["step"].item() == 10 for p in ours.params)
    for x, y in zip(moved, expected, strict=True):
        assert (x - y).norm() < 0.05 * y.norm()


def test_interrupted_run_goes_on_to_the_same_result(tiny, ctrl_c):
    whole = train(tiny("whole", device="cuda", model="capsnet_small", options=(), epochs=3))
    with ctrl_c(2):
        train(tiny("parts", device="cuda", model="capsnet_small", options=(), epochs=3))
    resumed = train(
        tiny("parts", device="cuda", model="capsnet_small", options=(), epochs=3, resume=True)
    )
    assert resumed.result.num_wrong == whole.result.num_wrong
