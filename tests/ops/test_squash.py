"""Squash against its laws, and the kernels against the fp64 truth: values and gradients.

On a machine without a GPU the kernels run in Triton's interpreter, in another process since the
interpreter must be chosen before Triton is imported. With a GPU: `pytest -m gpu`.
"""

from importlib import import_module
from itertools import product

import pytest
import torch
from machine import DEVICE, HALF, INTERPRETED, gpu, interpreted
from torch import Tensor
from torch._subclasses import FakeTensorMode

from capsnet.errors import UserError
from capsnet.ops import exponential_squash, squash

plain = import_module("capsnet.ops.squash")  # capsnet.ops.squash itself is the function


@pytest.mark.parametrize("dim", [-1, 1])
def test_gradient_is_exact(dim):
    s = torch.randn(3, 5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: squash(x, dim), s)


def test_length_is_below_one_and_direction_kept():
    s = torch.randn(50, 8, dtype=torch.float64) * torch.logspace(-6, 3, 50)[:, None]
    v = squash(s)
    length, before = v.norm(dim=1), s.norm(dim=1)
    assert (length < 1).all()
    torch.testing.assert_close(length, before**2 / (1 + before**2))
    torch.testing.assert_close(v / length[:, None], s / before[:, None])


def test_longer_stays_longer():
    lengths = squash(torch.linspace(0, 50, 101)[:, None]).flatten()
    assert (lengths.diff() > 0).all()


def test_by_hand():
    # |(3, 4)| = 5, so the length becomes 25/26 along (3/5, 4/5).
    v = squash(torch.tensor([3.0, 4.0]))
    torch.testing.assert_close(v, torch.tensor([15 / 26, 20 / 26]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_zero_has_value_and_gradient_zero(dtype):
    s = torch.zeros(2, 3, dtype=dtype)
    s[1] = 1.0
    s.requires_grad_()
    v = squash(s)
    v.sum().backward()
    assert v.dtype == s.grad.dtype == dtype
    assert (v[0] == 0).all() and (s.grad[0] == 0).all()
    assert (v[1] != 0).all() and s.grad.isfinite().all()


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (torch.float16, 6e4),
        *((torch.bfloat16, size) for size in (1e18, 1e20, 3e38)),
        *((torch.float32, size) for size in (1e14, 1e18, 1e20, 3e38)),
        *((torch.float64, size) for size in (1e14, 1e18, 1e100, 1e160, 1e300)),
    ],
)
def test_huge_vectors_become_unit_vectors(dtype, size):
    s = torch.tensor([[size, 0.0], [-size, size]], dtype=dtype, requires_grad=True)
    v = squash(s)
    expected = torch.tensor([[1.0, 0.0], [-(0.5**0.5), 0.5**0.5]], dtype=dtype)
    torch.testing.assert_close(v, expected)
    v[:, 1].sum().backward()
    # d(unit vector) = (1 - unit unit^T) ds / |s|: of the second component, (0, 1) and (1, 1) / 2.
    slope = torch.tensor([[0.0, 1.0], [0.5**1.5, 0.5**1.5]], dtype=torch.float64) / size
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(s.grad.double(), slope, rtol=8 * eps, atol=8 * eps / size)


def test_gradient_of_the_gradient_is_exact():
    s = torch.randn(3, 5, dtype=torch.float64)
    s[0] *= 1e-3
    assert torch.autograd.gradgradcheck(squash, s.requires_grad_())
    assert torch.autograd.gradgradcheck(lambda x: squash(x * 2.0**52), s)


def test_gradient_of_the_gradient_is_zero_at_zero():
    s = torch.zeros(2, 3, requires_grad=True)
    (ds,) = torch.autograd.grad(squash(s).sum(), s, create_graph=True)
    assert (torch.autograd.grad(ds.sum(), s)[0] == 0).all()


def test_gradient_by_formula_is_that_of_autograd():
    draw = torch.Generator().manual_seed(0)
    s, dv = torch.randn(2, 50, 7, generator=draw, dtype=torch.float64)
    s *= torch.logspace(-100, 300, 50, dtype=torch.float64)[:, None]
    s[0] = 0
    expected = run(plain.squash_plain, s, dv)[1]
    for shape in ((50, 7), (5, 10, 7)):
        found = plain.squash_gradient(s.view(shape), dv.view(shape))
        torch.testing.assert_close(found, expected.view(shape), rtol=1e-9, atol=0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,), (2, 0, 3), (2, 3, 0)])
def test_nothing_is_squashed_to_nothing(shape):
    s = torch.zeros(shape, requires_grad=True)
    v = squash(s)
    v.sum().backward()
    assert v.shape == s.grad.shape == shape
    assert plain.squash_gradient(s.detach(), v.detach()).shape == shape


@pytest.mark.parametrize("function", [squash, exponential_squash])
def test_whole_numbers_are_not_squashed_to_zero(function):
    with pytest.raises(UserError, match="int64 cannot be squashed; give floating-point"):
        function(torch.tensor([3, 4]))


def test_transforms_exports_and_traces():
    s = torch.randn(3, 4, 5)
    v = squash(s)
    torch.testing.assert_close(torch.func.vmap(squash)(s), v)
    (expected,) = torch.autograd.grad(squash(s.requires_grad_()).sum(), s)
    s = s.detach()
    torch.testing.assert_close(torch.func.grad(lambda x: squash(x).sum())(s), expected)
    by_row = torch.func.vmap(torch.func.jacrev(squash))(s[0])
    torch.testing.assert_close(by_row.sum(dim=1), expected[0])
    torch.testing.assert_close(torch.jit.trace(squash, s)(s[:2]), v[:2])


def test_dim_is_the_one_that_is_squashed():
    s = torch.randn(2, 3, 4)
    torch.testing.assert_close(squash(s, 1), squash(s.movedim(1, -1)).movedim(-1, 1))


@pytest.fixture
def kernels(monkeypatch) -> None:
    """Let `squash` take the kernels in the interpreter too; on a GPU it does by itself."""
    if INTERPRETED:
        monkeypatch.setattr(plain, "_has_kernels", lambda s, dim: True)


def inputs(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """s of every length that `dtype` has, from zero to components at its largest; and dv."""
    draw = torch.Generator().manual_seed(sum(shape))
    kind = torch.finfo(dtype)
    s = torch.randn(shape, generator=draw, dtype=torch.float64)
    low, high = torch.tensor([kind.smallest_normal * kind.eps, kind.max]).double().log10()
    power = low + (high - low) * torch.rand(shape[:-1], generator=draw, dtype=torch.float64)
    power[::2] = 3 * torch.rand(power[::2].shape, generator=draw, dtype=torch.float64) - 2
    s = (s * 10 ** power[..., None]).clamp(-kind.max, kind.max).flatten(0, -2)
    s[0], s[1:2], s[2:3] = 0, kind.max, kind.smallest_normal * kind.eps
    dv = torch.randn(shape, generator=draw)
    return s.view(shape).to(DEVICE, dtype), dv.to(DEVICE, dtype)


def run(function, s: Tensor, dv: Tensor) -> tuple[Tensor, Tensor]:
    s = s.detach().clone().requires_grad_()
    v = function(s)
    return v.detach(), torch.autograd.grad(v, s, dv)[0]


def check(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    s, dv = inputs(shape, dtype)
    truth = run(plain.squash_plain, s.double(), dv.double())
    usual = run(plain.squash_plain, s, dv)
    fast = run(squash, s, dv)
    assert (fast[0].flatten(0, -2)[0] == 0).all() and (fast[1].flatten(0, -2)[0] == 0).all()
    # Errors are relative to the row's v, and to f |dv|, of which ds can be a small difference.
    length = s.double().norm(dim=-1, keepdim=True)
    sizes = (truth[0], length / (1 + length**2) * dv.double().norm(dim=-1, keepdim=True))
    kind, wide = torch.finfo(dtype), torch.finfo(torch.float32)
    tiny = max(kind.smallest_normal * kind.eps, wide.smallest_normal)
    # |s|^2 of a short fp32 vector leaves fp32 in the plain version: no error to allow.
    sane = (length > 1e-15).expand_as(s)
    for name, f, u, t, size in zip(("v", "ds"), fast, usual, truth, sizes, strict=True):
        assert f.dtype == dtype and f.shape == t.shape and f.isfinite().all()
        row = size.abs().amax(-1, keepdim=True).clamp(min=tiny)
        error, usual_error = (((x.double() - t).abs() - tiny).clamp(min=0) / row for x in (f, u))
        normal = (length >= wide.smallest_normal).expand_as(s)  # below, ds only has to be finite
        error, allowed = error[normal].max().item(), usual_error[sane].max().item()
        assert error <= 2 * allowed + 8 * wide.eps, f"{name}: {error} > {allowed}"


def check_use() -> None:
    """Layouts, autocast, NaN, and registration of the operators as torch.compile relies on it."""
    from capsnet.ops.squash.fused import squash_backward, squash_forward

    s, dv = inputs((4, 5, 8), torch.float32)
    v, ds = run(squash, s, dv)
    strided = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in (s, dv)]
    for got, expected in zip(run(squash, *strided), (v, ds), strict=True):
        assert torch.equal(got, expected) and got.shape == expected.shape
    one = torch.ones((), device=DEVICE).expand(4, 5, 8)
    assert torch.equal(run(squash, s, one)[1], run(squash, s, one.contiguous())[1])
    shifted = torch.cat([s.new_zeros(1), s.flatten()])[1:].view_as(s)  # not aligned to 16 bytes
    assert torch.equal(squash(shifted), v)
    with torch.autocast(DEVICE, HALF):
        assert torch.equal(squash(s), v)

    for bad in (torch.nan, torch.inf):
        broken = torch.ones(3, 8, device=DEVICE)
        broken[1, 2] = bad
        for x in run(squash, broken, torch.ones_like(broken)):
            assert x[1].isnan().any() and x[::2].isfinite().all()

    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(squash_forward, (s.requires_grad_(),), test_utils=tests)
    torch.library.opcheck(squash_backward, (dv, strided[0]), test_utils=tests)


def check_second_gradient() -> None:
    """The kernels' gradient of a gradient is that of the plain version, whatever is asked for."""
    s = torch.randn(2, 8, device=DEVICE)
    s[0] = 0
    results = []
    for function in (squash, plain.squash_plain):
        x = s.clone().requires_grad_()
        loss = function(x).sum()
        (ds,) = torch.autograd.grad(loss, x, create_graph=True)
        results.append((ds, *torch.autograd.grad(loss + ds.square().sum(), x)))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


def check_compiled(backend: str) -> None:
    s, dv = (x.to(DEVICE, HALF) for x in torch.randn(2, 3, 5, 8))
    s[0, 0] = 0
    compiled = torch.compile(squash, fullgraph=True, backend=backend)
    for got, expected in zip(run(compiled, s, dv), run(squash, s, dv), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.long
def test_in_interpreter(pass_in_interpreter) -> None:
    pass_in_interpreter()


SIZES = [1, 2, 3, 8, 16, 32]


@interpreted
@pytest.mark.parametrize(("D", "dtype"), [*product(SIZES, (torch.float32, torch.float16))])
def test_interpreted_equals_truth(D: int, dtype: torch.dtype, kernels) -> None:
    check((3, 1367, D), dtype)


@interpreted
def test_interpreted_few_vectors(kernels) -> None:
    check((6, 8), torch.float32)


@interpreted
def test_interpreted_use(kernels) -> None:
    check_use()
    check_second_gradient()
    check_compiled("aot_eager")


@pytest.mark.skipif(not plain.TRITON, reason="the kernels need Triton")
def test_kernels_are_for_short_last_dimensions_on_the_gpu(monkeypatch) -> None:
    capability = (8, 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)

    def fits(*shape: int, dim: int = -1, dtype=torch.float32, device="cuda") -> bool:
        with FakeTensorMode():
            return plain._has_kernels(torch.empty(shape, dtype=dtype, device=device), dim)

    assert fits(2, 3, 32) and fits(2, 3, 8, dim=2) and fits(5)
    assert fits(2, 8, dtype=torch.bfloat16) and fits(2, 8, dtype=torch.float16)
    assert not fits(2, 8, device="cpu") and not fits(2, 8, dtype=torch.float64)
    assert not fits(2, 8, dim=0) and not fits(2, 33) and not fits(0, 8) and not fits()
    capability = (7, 5)
    assert not fits(2, 8)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        *product(
            [*((3, 1367, D) for D in SIZES), (6, 8), (128, 1152, 8), (1024, 1152, 8)],
            (torch.float32, torch.bfloat16, torch.float16),
        ),
        ((512, 3200, 8), torch.bfloat16),
    ],
    ids=str,
)
def test_equals_truth(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    check(shape, dtype)


@pytest.mark.gpu
@gpu
def test_use_on_the_gpu() -> None:
    check_use()
    check_second_gradient()


@pytest.mark.gpu
@gpu
def test_compiles_without_a_graph_break() -> None:
    check_compiled("inductor")


@pytest.mark.gpu
@gpu
def test_is_one_kernel_each_way() -> None:
    s, dv = inputs((16, 1152, 8), torch.bfloat16)
    s.requires_grad_()
    torch.autograd.grad(squash(s), s, dv)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        torch.autograd.grad(squash(s), s, dv)
        torch.cuda.synchronize()
    on_device = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    names = [event.name for event in on_device if "Sync" not in event.name]
    assert names == ["forward_pass", "backward_pass"]


@pytest.mark.gpu
@gpu
def test_captures_into_a_cuda_graph() -> None:
    s, dv = inputs((16, 40, 8), torch.bfloat16)
    s.requires_grad_()

    def step() -> tuple[Tensor, Tensor]:
        v = squash(s)
        return v, torch.autograd.grad(v, s, dv)[0]

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        s.copy_(torch.randn_like(s))
    graph.replay()
    for expected, got in zip(step(), captured, strict=True):
        assert torch.equal(expected, got)


@pytest.mark.gpu
@gpu
def test_more_numbers_than_32_bits_count() -> None:
    if torch.cuda.mem_get_info()[0] < 24 << 30:
        pytest.skip("needs 24 GiB of GPU memory")
    s = torch.empty(2**28 + 5, 8, device=DEVICE, dtype=torch.bfloat16).normal_()
    for whole, end in zip(run(squash, s, s), run(squash, s[-300:], s[-300:]), strict=True):
        assert torch.equal(whole[-300:], end)
