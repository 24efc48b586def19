"""Training on a GPU: `pytest -m gpu`."""

import numpy as np
import pytest
import torch
from torch import Tensor

from capsnet.data import Augment, ImageStream, Split, ahead, cut, open_data
from capsnet.data.splits.mapped import Mapped
from capsnet.data.splits.room import fits, free_memory
from capsnet.models import create_model
from capsnet.training import adam
from capsnet.training.config import TrainConfig
from capsnet.training.evaluation import answer
from capsnet.training.loop import train
from capsnet.training.step import WARM_UP, TrainStep, epoch_plan

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


@pytest.fixture
def places(tmp_path):
    """The same digits on the GPU, and on the disk; more than two buffers hold."""
    digits = open_data("digits", "train").split
    np.save(tmp_path / "images.npy", digits.images[:].numpy())
    array = np.load(tmp_path / "images.npy", mmap_mode="r")
    mapped = Split(Mapped(array, np.arange(len(digits))), digits.labels, digits.task)
    return [ImageStream(split.to("cuda"), Augment(shift=2)) for split in (digits, mapped)]


def test_every_part_read_ahead_is_what_it_should_be_however_late_it_is_used(places):
    held, mapped = places
    plan = epoch_plan(mapped, 0, 0, 4000)
    parts = [*cut(3000, 37), *cut(4000, 500, first=3000)]
    busy = torch.rand(4096, 4096, device="cuda")
    seen = []
    for k, part in enumerate(ahead(mapped, plan, parts)):
        assert part["images"].is_cuda
        if k % 3 == 0:  # the device lags behind, so that buffers would be overwritten too early
            for _ in range(20):
                busy = (busy @ busy).tanh()
        seen.append(part["images"].clone())
    expected = torch.cat([held.split.images[plan["index"][part]] for part in parts])
    assert torch.equal(torch.cat(seen), expected)


def test_the_device_lags_behind_without_images_piling_up(places):
    mapped = places[1]
    plan, parts = epoch_plan(mapped, 0, 0, 4000), cut(4000, 20)
    busy, most = torch.rand(4096, 4096, device="cuda"), []
    for _ in ahead(mapped, plan, parts):
        busy = (busy @ busy).tanh()
        most.append(torch.cuda.memory_allocated())
    assert max(most[5:]) == min(most[5:])


@pytest.mark.parametrize("graph", [False, True])
def test_a_step_on_images_from_the_disk_is_the_step(places, graph):
    curves = []
    for stream in places:
        torch.manual_seed(0)
        model = create_model("capsnet_small").to("cuda")
        step = TrainStep(model, stream, TrainConfig(), torch.float32, graph)
        plan, curve = epoch_plan(stream, 0, 0, STEPS * 64), []
        for part in ahead(stream, plan, cut(STEPS * 64, 64)):
            step(part, 1e-3, 1.0)
            curve.append(step.sums_so_far()[0])
            step.sums.zero_()
        assert (step.graph is not None) == graph
        curves.append((curve, answer(model, stream).answers))
    (held, said), (mapped, same) = curves
    torch.testing.assert_close(torch.tensor(mapped), torch.tensor(held), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(same, said, rtol=0.05, atol=0.02)


def test_images_are_loaded_onto_the_device_and_its_free_memory_is_known(places):
    held, mapped = (stream.split.images for stream in places)
    assert mapped.load().is_cuda and torch.equal(mapped.load(), held)
    free = free_memory(torch.device("cuda"))
    assert 0 < free <= torch.cuda.get_device_properties(0).total_memory
    assert fits(free // 4, torch.device("cuda")) and not fits(free, torch.device("cuda"))


def test_a_run_on_pictures_that_stay_on_the_disk(tmp_path):
    from PIL import Image

    digits = open_data("digits", "train").split
    for k in range(200):
        folder = tmp_path / "own" / str(int(digits.labels[k]) % 2)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(digits.images[k : k + 1][0, 0].numpy()).save(folder / f"{k}.png")
    usual = {"model": "capsnet_modern_small", "data": str(tmp_path / "own"), "epochs": 3}
    memory, disk = (
        train(TrainConfig(**usual, device="cuda", images_in=x, baseline="none", out=tmp_path / x))
        for x in ("memory", "disk")
    )
    assert disk.plan.bytes_on_disk > 0
    losses = [torch.tensor([x.loss for x in run.history]) for run in (memory, disk)]
    torch.testing.assert_close(*losses, rtol=0.02, atol=1e-3)
