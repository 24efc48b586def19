"""Dynamic routing on the GPU in Triton: exact, with all gradients, and the votes are never formed.

v = route_fused(u, W, 3, None, "full", False)

Two operators, forward and backward, each a short sequence of kernels (kernels_fwd.py,
kernels_bwd.py); the algebra is in README.md of this folder. Every sum has a fixed order, so
results are the same from run to run.
"""

import math
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from capsnet.ops.dynamic import kernels_bwd, kernels_fwd
from capsnet.ops.dynamic.reference import route_reference
from capsnet.ops.gpu import INTERPRETED, processors
from capsnet.ops.plain import needs_plain_backward, plain_gradients

MAX_SIZE = 32  # of a capsule, D or E: above it a tile does not fit the registers.
HELD = 160  # numbers of s, parents times EP, that one program can hold for a sample.
COLUMNS = 64  # of a tile: DP * BI.
MAX_SPLITS = 64  # of the capsules i, whose parts the small kernels add up.
ROWS = 8  # (n, j) of one program of the small kernels.
SHARED_MEMORY = {torch.float32: 184_320, torch.bfloat16: 120_000, torch.float16: 120_000}  # needed


class Tile(NamedTuple):
    """How one kernel is launched; the numbers are measured (README.md)."""

    BN: int  # samples
    num_warps: int
    num_stages: int
    maxnreg: int | None = None
    programs: int = 1  # per multiprocessor, for kernels that split the capsules i


TILES = {
    "first": Tile(64, 4, 2, programs=4),
    "sum": Tile(32, 2, 2, programs=3),
    "lse": Tile(64, 4, 3, 168),
    "delta": Tile(64, 4, 4, 128),
    "dstate": Tile(64, 4, 2, 168, programs=3),
    "du": Tile(64, 4, 3, 168),
    "dw": Tile(16, 2, 3, 168),
}
TILES_FP32 = {
    "first": Tile(32, 2, 1, programs=3),
    "sum": Tile(32, 2, 1, programs=3),
    "lse": Tile(32, 2, 2),
    "delta": Tile(32, 2, 2),
    "dstate": Tile(64, 4, 1, programs=3),
    "du": Tile(64, 4, 1),
    "dw": Tile(16, 1, 1),
}


class Layout(NamedTuple):
    """Padded sizes; see kernels_fwd.py."""

    groups: int  # of parents, each held by one program
    JP: int
    EP: int
    DP: int
    BI: int  # capsules per tile
    blocks: int  # tiles that cover I


def why_not_fused(u: Tensor, W: Tensor) -> str | None:
    """Return why `route_fused` cannot run on these tensors; None if it can."""
    if u.dtype not in SHARED_MEMORY:
        return f"takes fp32, bf16 and fp16, and u is {u.dtype}"
    if max(W.shape[2:]) > MAX_SIZE:
        return f"takes capsules of at most {MAX_SIZE} numbers, and W is {tuple(W.shape)}"
    if u.device != W.device:
        return f"needs u and W on one device, and they are on {u.device} and {W.device}"
    if INTERPRETED or _shared_memory(u.device) >= SHARED_MEMORY[u.dtype]:
        return None
    return "needs a GPU with more shared memory, such as an A100 or an H100"


def route_fused(
    u: Tensor, W: Tensor, num_iters: int, bias: Tensor | None, gradient: str, leaky: bool
) -> Tensor:
    """Return v [N, J, E] of u [N, I, D] and W [I, J, E, D] in the dtype of u.

    Products are taken in the dtype of u (under autocast: in autocast's) with fp32 sums; for fp32
    input they keep fp32 accuracy.
    """
    if torch.is_autocast_enabled(u.device.type):
        u = u.to(torch.get_autocast_dtype(u.device.type))
    return route_forward(u, W, bias, num_iters, gradient == "full", leaky)[0]


@torch.library.custom_op("capsnet::route_forward", mutates_args=())
def route_forward(
    u: Tensor, W: Tensor, bias: Tensor | None, num_iters: int, full: bool, leaky: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return v, and for the backward pass W packed, the states A, the sums S and lse."""
    lay = _layout(W.shape)
    run = _Launch(u, W.shape, lay)
    u = u.contiguous()
    bias = None if bias is None else bias.contiguous()
    w = _pack(W, lay, u.dtype)
    v, A, S, lse = _outputs(u, W, num_iters, lay)
    part = run.part(u, max(run.splits(name, lay.groups)[0] for name in ("first", "sum")))
    with torch.cuda.device_of(u):
        for t in range(num_iters):
            name = "sum" if t else "first"
            lse_t = lse[t - 1] if t else lse
            if t and lay.groups > 1:
                kernels_fwd.lse_pass[(run.tiles("lse"), lay.blocks)](
                    u, w, A[t], lse_t, run.N, run.I, run.J, LEAKY=leaky, **run.options("lse")
                )
            splits, per_split = run.splits(name, lay.groups)
            kernels_fwd.sum_pass[(run.tiles(name), lay.groups, splits)](
                u, w, A[t], lse_t, part, run.N, run.I, run.J, lay.blocks, per_split,
                FIRST=t == 0, LEAKY=leaky, GROUPS=lay.groups, **run.options(name),
            )  # fmt: skip
            kernels_fwd.update_pass[run.row_grid](
                part, bias, S, A, v, run.rows, splits, t, run.J,
                LAST=t == num_iters - 1, **run.row_options,
            )  # fmt: skip
    return v, w, A, S, lse


@route_forward.register_fake
def _(
    u: Tensor, W: Tensor, bias: Tensor | None, num_iters: int, full: bool, leaky: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    lay = _layout(W.shape)
    v, A, S, lse = _outputs(u, W, num_iters, lay)
    return v, u.new_empty(lay.blocks, lay.JP, lay.EP, COLUMNS), A, S, lse


@torch.library.custom_op("capsnet::route_backward", mutates_args=())
def route_backward(
    dv: Tensor,
    u: Tensor,
    w: Tensor,
    A: Tensor,
    S: Tensor,
    lse: Tensor,
    W_shape: list[int],
    W_dtype: torch.dtype,
    full: bool,
    leaky: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return du, dW and, for dbias, the gradients at s of each sample added up over iterations."""
    lay = _layout(W_shape)
    run = _Launch(u, W_shape, lay)
    u, dv = u.contiguous(), dv.contiguous()
    R = len(S)
    first = 0 if full else R - 1
    pair = A.new_empty(R, 2, *A.shape[1:])
    dsum, dstate, delta = torch.empty_like(S[0]), torch.empty_like(S[0]), torch.empty_like(lse)
    groups = lay.groups * run.halves
    splits, per_split = run.splits("dstate", groups)
    part = run.part(u, splits)
    with torch.cuda.device_of(u):
        for t in reversed(range(first, R)):
            kernels_bwd.squash_backward_pass[run.row_grid](
                part, dv, S, A, dstate, dsum, pair, run.rows, splits, t, run.J,
                1.0 if t else 1 / (run.J + leaky), LAST=t == R - 1, **run.row_options,
            )  # fmt: skip
            if t == first:
                break
            kernels_bwd.delta_pass[(run.tiles("delta"), lay.blocks)](
                u, w, pair[t], lse[t - 1], delta[t - 1], run.N, run.I, run.J,
                **run.options("delta"),
            )  # fmt: skip
            kernels_bwd.dstate_pass[(run.tiles("dstate"), groups, splits)](
                u, w, pair[t], lse[t - 1], delta[t - 1], part, run.N, run.I,
                lay.blocks, per_split, GROUPS=groups, **run.options("dstate"),
            )  # fmt: skip
        del part
        # u transposed is needed for dW only, du is written after it: they share their memory.
        room = u.new_empty(max(u.numel(), lay.blocks * COLUMNS * run.N))
        kernels_bwd.transpose_pass[(triton.cdiv(run.N, COLUMNS), lay.blocks)](
            u, room, run.N, run.I, D=run.D, DP=lay.DP, BI=lay.BI, BN=COLUMNS
        )
        dW = u.new_empty(W_shape, dtype=W_dtype)
        NB = run.tile["dw"].num_warps
        kernels_bwd.dw_pass[(triton.cdiv(lay.blocks, NB), run.J)](
            room, w, pair, lse, delta, dW, run.N, run.I, run.J, lay.blocks, run.rows * lay.EP,
            E=run.E, NB=NB, R=R, FIRST=first, FULL=full, **run.options("dw"),
        )  # fmt: skip
        du = room[: u.numel()].view(u.shape)
        kernels_bwd.du_pass[(run.tiles("du"), lay.blocks)](
            u, w, pair, lse, delta, du, run.N, run.I, run.J, run.rows * lay.EP,
            R=R, FIRST=first, FULL=full, **run.options("du"),
        )  # fmt: skip
    return du, dW, dsum


@route_backward.register_fake
def _(
    dv: Tensor,
    u: Tensor,
    w: Tensor,
    A: Tensor,
    S: Tensor,
    lse: Tensor,
    W_shape: list[int],
    W_dtype: torch.dtype,
    full: bool,
    leaky: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    dW = u.new_empty(W_shape, dtype=W_dtype)
    return torch.empty_like(u, memory_format=torch.contiguous_format), dW, torch.empty_like(S[0])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    u, W, bias, ctx.num_iters, ctx.full, ctx.leaky = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(u, W, bias, *output[1:])


def _backward(ctx: Any, dv: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if dv is None:
        return (None,) * 6
    u, W, bias, *saved = ctx.saved_tensors
    if needs_plain_backward():

        def route(u: Tensor, W: Tensor, bias: Tensor | None) -> Tensor:
            gradient = "full" if ctx.full else "last"
            v = route_reference(u.float(), W, ctx.num_iters, bias, gradient, ctx.leaky)
            return v.to(u.dtype)

        found = plain_gradients(route, (u, W, bias), ctx.needs_input_grad[:3], dv)
        return *found, None, None, None
    J, E = W.shape[1:3]
    du, dW, dsum = route_backward(dv, u, *saved, list(W.shape), W.dtype, ctx.full, ctx.leaky)
    dbias = None if bias is None else dsum[:, :J, :E].sum(0).to(bias.dtype)
    return du, dW, dbias, None, None, None


route_forward.register_autograd(_backward, setup_context=_save)


class _Launch:
    """Sizes, grids and constants of the kernels of one call."""

    def __init__(self, u: Tensor, W_shape: Any, lay: Layout) -> None:
        self.N, self.I, self.D = u.shape
        self.J, self.E = W_shape[1:3]
        self.lay = lay
        self.rows = self.N * lay.JP
        self.row_grid = (triton.cdiv(self.rows, ROWS),)
        self.row_options = {"E": self.E, "JP": lay.JP, "EP": lay.EP, "BR": ROWS, "num_warps": 1}
        self.wide = u.dtype == torch.float32
        self.tile = TILES_FP32 if self.wide else TILES
        self.processors = processors(u.device)
        # dstate_pass needs more registers: with half the parents a third program fits.
        parents = lay.JP // lay.groups
        self.halves = 2 if parents % 2 == 0 and parents * lay.EP > HELD // 2 else 1

    def tiles(self, name: str) -> int:
        """Return how many tiles of samples a kernel has."""
        return triton.cdiv(self.N, self.tile[name].BN)

    def splits(self, name: str, groups: int) -> tuple[int, int]:
        """Return into how many ranges the blocks of i are split to fill the chip, and the size."""
        wanted = self.processors * self.tile[name].programs // (self.tiles(name) * groups)
        per_split = triton.cdiv(self.lay.blocks, min(max(1, wanted), MAX_SPLITS))
        return triton.cdiv(self.lay.blocks, per_split), per_split

    def part(self, u: Tensor, splits: int) -> Tensor:
        """Return room for the partial sums of the splits."""
        return u.new_empty(splits, self.N, self.lay.JP, self.lay.EP, dtype=torch.float32)

    def options(self, name: str) -> dict[str, Any]:
        """Return the constants of a kernel over tiles."""
        tile, lay = self.tile[name], self.lay
        return {
            "BN": tile.BN, "D": self.D, "JP": lay.JP, "EP": lay.EP, "DP": lay.DP, "BI": lay.BI,
            "PRECISION": "tf32x3" if self.wide else "tf32",
            "num_warps": tile.num_warps, "num_stages": tile.num_stages, "maxnreg": tile.maxnreg,
        }  # fmt: skip


@torch.compiler.assume_constant_result
def _shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory a program may have; 0 where bf16 is not native."""
    if torch.cuda.get_device_capability(device) < (8, 0):
        return 0
    properties = triton.runtime.driver.active.utils.get_device_properties(device.index)
    return int(properties["max_shared_mem"])


def _layout(W_shape: Any) -> Layout:
    I, J, E, D = W_shape
    EP = max(16, triton.next_power_of_2(E))  # the smallest inner size of a matrix unit
    groups = math.ceil(J * EP / HELD)
    DP = max(2, triton.next_power_of_2(D))
    BI = COLUMNS // DP
    return Layout(groups, groups * math.ceil(J / groups), EP, DP, BI, math.ceil(I / BI))


def _outputs(
    u: Tensor, W: Tensor, num_iters: int, lay: Layout
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return empty v [N, J, E], A and S [R, N, JP, EP] and lse [R - 1, I, N]."""
    N, I = u.shape[:2]
    J, E = W.shape[1:3]
    states = (num_iters, N, lay.JP, lay.EP)
    wide = torch.float32
    lse = u.new_empty(num_iters - 1, I, N, dtype=wide)
    return u.new_empty(N, J, E), u.new_empty(states), u.new_empty(states, dtype=wide), lse


def _pack(W: Tensor, lay: Layout, dtype: torch.dtype) -> Tensor:
    """Return W as [blocks, JP, EP, DP * BI] in `dtype`, zero where padded."""
    I, J, E, D = W.shape
    rows = lay.blocks * lay.BI
    if (rows, lay.JP, lay.EP, lay.DP) != (I, J, E, D):
        W = torch.nn.functional.pad(W, (0, lay.DP - D, 0, lay.EP - E, 0, lay.JP - J, 0, rows - I))
    packed = W.new_empty(lay.blocks, lay.JP, lay.EP, lay.DP, lay.BI, dtype=dtype)
    packed.copy_(W.reshape(lay.blocks, lay.BI, lay.JP, lay.EP, lay.DP).permute(0, 2, 3, 4, 1))
    return packed.flatten(3)
