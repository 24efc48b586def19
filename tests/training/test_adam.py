"""Adam and the average of the weights against torch's Adam in fp64.

On a machine without a GPU the kernel runs in Triton's interpreter, in another process since the
interpreter must be chosen before Triton is imported. With a GPU: `pytest -m gpu`.
"""

from typing import NamedTuple

import pytest
import torch
from machine import CUDA, DEVICE, INTERPRETED, gpu, interpreted
from torch import Tensor

from capsnet.models.tensor_file import load_tensors
from capsnet.training import adam
from capsnet.training.adam import Adam
from capsnet.training.checkpoint import CHECKPOINT, Position, load_checkpoint, save_checkpoint
from capsnet.training.setup import build_model, open_stream
from capsnet.training.step import TrainStep, epoch_plan

STEPS = 20
SHAPES = [(1,), (7,), (1000,), (5000,), (5, 3, 4, 2), (64, 16, 3, 3), (6, 1, 5, 5), (2048,), ()]
MANY = [(3,)] * adam.MAX_TENSORS + [(2100,), (2,)]  # more than one launch takes


class Outcome(NamedTuple):
    p: list[Tensor]
    exp_avg: list[Tensor]
    exp_avg_sq: list[Tensor]
    average: list[Tensor]
    step: list[Tensor]


class Problem:
    """Parameters, 20 gradients for each of them, learning rates and weights of the average."""

    def __init__(
        self, shapes: list[tuple[int, ...]], averaged: bool, decay: float, device: str = DEVICE
    ):
        draw = torch.Generator().manual_seed(len(shapes))
        self.averaged, self.decay, self.device = averaged, decay, device
        self.start = [torch.randn(shape, generator=draw).to(device) for shape in shapes]
        sizes = 10.0 ** torch.randint(-12, 3, (STEPS, len(shapes)), generator=draw)
        self.gradients = [
            [(x * torch.randn(shape, generator=draw)).to(device) for x, shape in zip(row, shapes)]  # noqa: B905
            for row in sizes.tolist()
        ]
        self.gradients[0][0].zero_()
        self.rates = [1e-2 * 0.8**k for k in range(STEPS)]
        self.weights = [max(0.01, 1 - k / (k + 5)) for k in range(STEPS)]

    def parameters(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """As a model on a GPU has them: those of four dimensions channels-last."""
        formats = {4: torch.channels_last}
        return [
            x.to(dtype, memory_format=formats.get(x.dim(), torch.contiguous_format), copy=True)
            .requires_grad_()
            for x in self.start
        ]  # fmt: skip

    def by_torch(self, dtype: torch.dtype, **options) -> Outcome:
        params = self.parameters(dtype)
        average = [p.detach().clone() for p in params] if self.averaged else []
        lr, weight = (torch.ones((), dtype=dtype, device=self.device) for _ in range(2))
        optimizer = torch.optim.AdamW(params, lr, weight_decay=self.decay, **options)
        for k in range(STEPS):
            lr.fill_(torch.tensor(self.rates[k]))
            weight.fill_(torch.tensor(self.weights[k]))
            for p, g in zip(params, self.gradients[k], strict=True):
                p.grad = torch.empty_like(p).copy_(g)
            optimizer.step()
            for mean, p in zip(average, params, strict=False):
                mean.lerp_(p.detach(), weight)
        return outcome(params, optimizer, average)

    def by_ours(self, graph: bool = False) -> Outcome:
        params = self.parameters()
        average = [p.detach().clone() for p in params] if self.averaged else []
        lr, weight = torch.ones((), device=self.device), torch.ones((), device=self.device)
        optimizer = Adam(params, lr, average, weight, self.decay)
        given = [torch.empty_like(g) for g in self.gradients[0]]

        def step() -> None:
            optimizer.zero_grad()
            # Autograd brings these gradients, which are contiguous, to the parameter's layout.
            sum((p * g).sum() for p, g in zip(params, given, strict=True)).backward()
            optimizer.step()

        replay = None
        for k in range(STEPS):
            lr.fill_(self.rates[k])
            weight.fill_(self.weights[k])
            for x, g in zip(given, self.gradients[k], strict=True):
                x.copy_(g)
            if replay is not None:
                replay.replay()
                continue
            side = torch.cuda.Stream() if graph else None
            if graph:
                side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            if graph:
                torch.cuda.current_stream().wait_stream(side)
            if graph and k == 2:
                replay = torch.cuda.CUDAGraph()
                with torch.cuda.graph(replay):
                    step()
        return outcome(params, optimizer, average)


def outcome(params, optimizer, average) -> Outcome:
    state = [optimizer.state[p] for p in params]
    kept = ([s[name] for s in state] for name in ("exp_avg", "exp_avg_sq"))
    return Outcome([p.detach() for p in params], *kept, average, [s["step"] for s in state])


def equal(a: Outcome, b: Outcome) -> bool:
    return all(len(x) == len(y) and all(map(torch.equal, x, y)) for x, y in zip(a, b, strict=True))


@pytest.fixture
def kernel(monkeypatch) -> None:
    """Let Adam take the kernel in the interpreter too; on a GPU it does by itself."""
    if INTERPRETED:
        monkeypatch.setattr(adam, "_has_kernel", lambda params: True)


def check(shapes: list[tuple[int, ...]], averaged: bool, decay: float) -> None:
    problem = Problem(shapes, averaged, decay)
    # On a CPU, where 1 - beta^t is in double precision too.
    truth = Problem(shapes, averaged, decay, "cpu").by_torch(torch.float64, foreach=False)
    usual = problem.by_torch(torch.float32, fused=True, capturable=CUDA)
    ours = problem.by_ours()
    assert len(ours.average) == averaged * len(shapes)
    assert all(step.item() == STEPS and step.dtype == torch.float32 for step in ours.step)
    for name, fast, plain, true in zip(Outcome._fields, ours, usual, truth, strict=True):
        for f, u, t in zip(fast, plain, true, strict=True):
            assert f.shape == t.shape and f.stride() == u.stride()
            error, allowed = ((x.cpu().double() - t).abs().max().item() for x in (f, u))
            rounding = 2 * torch.finfo(torch.float32).eps * t.abs().max().item()
            assert error <= 2 * allowed + rounding, f"{name} {tuple(t.shape)}: {error} > {allowed}"


def check_use() -> None:
    """A weight of one, no gradient, NaN, and another layout."""
    p, alone, broken = (torch.randn(3000, device=DEVICE).requires_grad_() for _ in range(3))
    params = [p, alone, broken]
    before = [x.detach().clone() for x in params]
    average = [torch.randn(3000, device=DEVICE) for _ in range(2)] + [before[2].clone()]
    kept = average[1].clone()
    one = torch.ones((), device=DEVICE)
    optimizer = Adam(params, 0.1 * one, average, one)
    p.grad, broken.grad = torch.randn_like(p), torch.zeros_like(p)
    broken.grad[2999] = torch.nan
    optimizer.step()
    assert torch.equal(average[0], p) and not torch.equal(p, before[0])
    assert torch.equal(alone, before[1]) and torch.equal(average[1], kept)
    assert [optimizer.state[x]["step"].item() for x in params] == [1, 0, 1]
    assert torch.equal(broken[:2999], before[2][:2999]) and broken[2999].isnan()
    optimizer.zero_grad()
    assert p.grad is None
    p.grad = torch.randn(2, 3000, device=DEVICE).T.contiguous().T[0]
    with pytest.raises(AssertionError):
        optimizer.step()


def steps(config, tmp_path, count: int, resume: bool, by_kernel: bool) -> TrainStep:
    """Run a few training steps, from where a checkpoint is if asked, and write a checkpoint."""
    stream = open_stream(config, "train", torch.device(DEVICE))
    torch.manual_seed(0)
    step = TrainStep(build_model(config, stream).to(DEVICE), stream, config, torch.float32)
    step.optimizer.has_kernel = by_kernel
    done = load_checkpoint(tmp_path, step, config).step if resume else 0
    plan = epoch_plan(stream, 0, 0, 80)
    for k in range(done, done + count):
        step({name: x[10 * k : 10 * (k + 1)] for name, x in plan.items()}, 1e-2, 0.5)
    save_checkpoint(tmp_path, step, config, Position(step=done + count))
    return step


def check_checkpoint(config, folder) -> None:
    """Go on from a checkpoint, our own and one of torch's Adam, as if there had been none."""
    for name in ("whole", "parts", "torch"):
        (folder / name).mkdir()
    whole = steps(config, folder / "whole", 4, resume=False, by_kernel=True)
    steps(config, folder / "parts", 2, resume=False, by_kernel=True)
    parts = steps(config, folder / "parts", 2, resume=True, by_kernel=True)
    steps(config, folder / "torch", 2, resume=False, by_kernel=False)
    other, _ = load_tensors(folder / "torch" / CHECKPOINT)
    steps(config, folder / "torch", 2, resume=True, by_kernel=True)
    files = [load_tensors(folder / name / CHECKPOINT)[0] for name in ("whole", "parts", "torch")]
    layout = {name: (x.shape, x.dtype) for name, x in other.items()}
    assert any(name.startswith("average.") for name in layout)
    for tensors in files:
        assert {name: (x.shape, x.dtype) for name, x in tensors.items()} == layout
        assert all(x.item() == 4 for name, x in tensors.items() if name.startswith("adam.step."))
    if not CUDA:  # gradients of the library are not the same from run to run there
        pairs = zip(whole.params + whole.average, parts.params + parts.average, strict=True)
        assert all(torch.equal(x, y) for x, y in pairs)
    for name, x in files[2].items():
        if name.startswith(("model.", "average.")):
            assert (x - files[0][name]).norm() < 0.01 * x.norm()


@pytest.mark.parametrize("averaged, decay", [(False, 0.0), (True, 0.0), (True, 0.1)])
def test_without_the_kernel_it_is_torchs_adam_bit_for_bit(averaged, decay):
    problem = Problem(SHAPES, averaged, decay, "cpu")
    assert equal(problem.by_ours(), problem.by_torch(torch.float32, fused=True))


def test_without_a_gradient_weights_and_average_stay():
    p, mean, one = torch.ones(3, requires_grad=True), torch.zeros(3), torch.ones(())
    Adam([p], one, [mean], one).step()
    assert torch.equal(p, torch.ones(3)) and torch.equal(mean, torch.zeros(3))


@pytest.mark.long
def test_in_interpreter(pass_in_interpreter) -> None:
    pass_in_interpreter()


@interpreted
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("shapes", [SHAPES, MANY], ids=["shapes", "many"])
def test_interpreted_equals_truth(shapes, averaged: bool, kernel) -> None:
    check(shapes, averaged, decay=averaged * 0.1)


@interpreted
def test_interpreted_use(kernel) -> None:
    check_use()


@interpreted
def test_interpreted_checkpoint(tiny, tmp_path, kernel) -> None:
    check_checkpoint(tiny(averaging=0.9), tmp_path)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("shapes", [[*SHAPES, (300, 100, 9, 9)], MANY], ids=["shapes", "many"])
def test_on_gpu_equals_truth(shapes, averaged: bool) -> None:
    check(shapes, averaged, decay=averaged * 0.1)


@pytest.mark.gpu
@gpu
def test_on_gpu_use_and_checkpoint(tiny, tmp_path) -> None:
    check_use()
    check_checkpoint(tiny(averaging=0.9, device="cuda"), tmp_path)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("averaged", [False, True])
def test_on_gpu_replayed_is_eager(averaged: bool) -> None:
    problem = Problem(SHAPES, averaged, decay=averaged * 0.1)
    eager = problem.by_ours()
    assert equal(problem.by_ours(graph=True), eager)
    assert equal(problem.by_ours(), eager)
