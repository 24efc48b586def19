"""Routing alone: is the fast one right, and how fast is it beside the reference?"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from capsnet.bench.timing import Shown, ceilings, counted, measure
from capsnet.ops import dynamic_routing
from capsnet.ops.dynamic import Backend, why_not_fused

J, E, D, NUM_ITERS = 10, 16, 8, 3  # the paper's class capsules


class WrongResult(Exception):
    """A variant does not compute the function it claims to; its time means nothing."""


def inputs(batch: int, capsules: int, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """Return random u [N, I, D], W [I, J, E, D] and dv [N, J, E], scaled as in a trained net."""
    generator = torch.Generator().manual_seed(batch * 100_003 + capsules)
    u = 0.2 * torch.randn(batch, capsules, D, generator=generator)
    W = 0.1 * torch.randn(capsules, J, E, D, generator=generator)
    dv = torch.randn(batch, J, E, generator=generator)
    return [
        u.to(device, dtype).requires_grad_(),
        W.to(device, dtype).requires_grad_(),
        dv.to(device, dtype),
    ]


def route(u: Tensor, W: Tensor, backend: Backend) -> Tensor:
    """Route as the paper does."""
    return dynamic_routing(u, W, NUM_ITERS, backend=backend)


def fast_backend(u: Tensor, W: Tensor) -> Backend:
    """Return what routes these without votes: the GPU kernels where they run, else plain torch."""
    return "chunked" if why_not_fused(u, W) else "fused"


def check(device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """Return the errors of routing without votes over those of the reference in the same type.

    Errors are against the reference in fp64, relative, for v and the gradients of u and W. More
    than twice the reference's error for v, or three times for a gradient, is a WrongResult.
    """
    u, W, dv = inputs(8, 1152, device, dtype)
    truth = _all(u.double(), W.double(), dv.double(), "reference")
    plain = _all(u, W, dv, "reference")
    backend = fast_backend(u, W)
    fast = _all(u, W, dv, backend)
    ratios = {}
    for name, exact, ours, theirs in zip(("v", "du", "dW"), truth, fast, plain, strict=True):
        scale = exact.norm()
        err, allowed = ((x.double() - exact).norm() / scale for x in (ours, theirs))
        ratios[name] = float(err / allowed.clamp(min=1e-9))
        if not err <= (2 if name == "v" else 3) * allowed + 1e-6:
            raise WrongResult(
                f"The {backend} routing is wrong on this device: the error of {name} is {err:.1e}, "
                f"the reference's {allowed:.1e}; no time is printed."
            )
    return ratios


def _all(u: Tensor, W: Tensor, dv: Tensor, backend: Backend) -> tuple[Tensor, ...]:
    u, W = (x.detach().requires_grad_() for x in (u, W))
    v = route(u, W, backend)
    return v.detach(), *torch.autograd.grad(v, (u, W), dv)


def bench_routing(
    batches: tuple[int, ...],
    capsules: tuple[int, ...],
    device: torch.device,
    dtype: torch.dtype,
    compiled: bool = True,
    progress: Shown | None = None,
) -> dict[str, Any]:
    """Time forward and forward + backward of every variant at every size."""
    ceiling = ceilings(device)
    tell = counted(len(batches) * len(capsules) * (3 if compiled else 2), progress)
    rows = []
    for batch in batches:
        for count in capsules:
            rows += _rows(batch, count, device, dtype, compiled, ceiling, tell)
    return {
        "bench": "routing",
        "dtype": str(dtype).removeprefix("torch."),
        "ceilings": ceiling,
        "rows": rows,
    }


def _rows(
    batch: int,
    capsules: int,
    device: torch.device,
    dtype: torch.dtype,
    compiled: bool,
    ceiling: dict[str, float],
    tell: Callable[[str], None],
) -> list[dict[str, Any]]:
    u, W, dv = inputs(batch, capsules, device, dtype)
    backends: tuple[Backend, ...] = ("reference", fast_backend(u, W))
    variants: dict[str, Callable[..., Tensor]] = {
        backend: partial(route, backend=backend) for backend in backends
    }
    if compiled:
        torch.compiler.reset()  # after eight sizes of one function it would give up silently
        variants["compiled reference"] = torch.compile(variants["reference"], dynamic=False)
    cuda = device.type == "cuda"
    # Per step and image: 5 products of this size forward and 12 backward (routing/README.md).
    flops = 2 * batch * capsules * D * J * E
    rows: list[dict[str, Any]] = []
    for name, variant in variants.items():
        tell(f"{name}, batch {batch}, {capsules} capsules")

        def forward(variant: Callable[..., Tensor] = variant) -> Tensor:
            with torch.no_grad():
                return variant(u, W)

        def both(variant: Callable[..., Tensor] = variant) -> tuple[Tensor, ...]:
            return torch.autograd.grad(variant(u, W), (u, W), dv)

        repeats = 30 if cuda else 7
        fwd = measure(forward, device, repeats, graph=cuda)
        full = measure(both, device, repeats, graph=cuda)
        bytes_moved = 2 * (2 * u.numel() + 2 * W.numel()) * u.element_size()
        rows.append(
            {
                "variant": name,
                "batch": batch,
                "capsules": capsules,
                "forward": fwd.to_json(),
                "forward_backward": full.to_json(),
                "matmul_share": 17 * flops / full.median_ms / 1e9 / ceiling["matmul_tflops"],
                "copy_share": bytes_moved / full.median_ms / 1e6 / ceiling["copy_gb_per_s"],
            }
        )
    by_name = {row["variant"]: row["forward_backward"]["median_ms"] for row in rows}
    for row in rows:
        row["times_faster_than_reference"] = by_name["reference"] / by_name[row["variant"]]
    return rows
