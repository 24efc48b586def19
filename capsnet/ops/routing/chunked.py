"""Dynamic routing in plain torch that never forms the votes; a few capsules i at a time, in cache.

The votes u_hat_ij = W_ij u_i appear only inside inner products, and those can be taken with
u instead (README.md in this folder):
  logits  b_ij = u_hat_ij . A_j     = u_i . (W_ij^T A_j),   A = sum of the v so far
  sum     s_j  = sum_i c_ij u_hat_ij = sum_(i,d) (c_ij u_id) W_ij,d
so each pass over i is two batched matrix products and a softmax, and A [N, J, E] is its state.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from capsnet.ops.squash import squash

CHUNK_ELEMENTS = 1 << 18  # J * N * i * D in a chunk: one megabyte in fp32, the size of an L2.


def route_chunked(
    u: Tensor, W: Tensor, num_iters: int, bias: Tensor | None, gradient: str, leaky: bool
) -> Tensor:
    """Return v [N, J, E] of u [N, I, D] and W [I, J, E, D]; the same function as `route_votes`."""
    dtype = u.dtype
    if dtype in (torch.float16, torch.bfloat16):
        u = u.float()
    with torch.autocast(u.device.type, enabled=False):
        v = _Route.apply(u, W.to(u.dtype), bias, num_iters, gradient == "full", leaky)
    return v.to(dtype)


class _Chunks:
    """u and W cut over i and laid out for the products: u [N, 1, D, i], W [J, E, D * i]."""

    def __init__(self, u: Tensor, W: Tensor) -> None:
        N, I, D = u.shape
        J, E = W.shape[1:3]
        self.size = max(1, min(I, CHUNK_ELEMENTS // max(1, J * N * D)))
        self.u = [x.permute(0, 2, 1).contiguous() for x in u.split(self.size, dim=1)]
        self.W = [x.permute(1, 2, 3, 0).reshape(J, E, -1) for x in W.split(self.size)]

    def __iter__(self) -> Any:
        return zip(self.u, self.W, strict=True)


def _dot(a: Tensor, uc: Tensor, Wc: Tensor) -> tuple[Tensor, Tensor]:
    """Return W^T a as [J, N, D, i] and a_j . u_hat_ij as [J, N, i]; a is [J, N, E]."""
    N, D, i = uc.shape
    Wa = torch.bmm(a, Wc).view(-1, N, D, i)
    return Wa, (Wa * uc).sum(dim=2)


def _weighted(c: Tensor, uc: Tensor) -> Tensor:
    """Return c_ij u_id as [J, N, D * i]; c is [J, N, i]."""
    return (c.unsqueeze(2) * uc).flatten(2)


def _couple(b: Tensor, leaky: bool) -> Tensor:
    """Return softmax over j of logits [J, N, i]; leaky: with one more logit, zero."""
    if leaky:
        return torch.cat([b.new_zeros(1, *b.shape[1:]), b]).softmax(dim=0)[1:]
    return b.softmax(dim=0)


class _Route(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, u: Tensor, W: Tensor, bias: Tensor | None, num_iters: int, full: bool, leaky: bool
    ) -> Tensor:
        N, J = u.shape[0], W.shape[1]
        chunks = _Chunks(u, W)
        offset = 0 if bias is None else bias.unsqueeze(1)
        uniform = 1 / (J + leaky)
        A: list[Tensor] = []  # the state [J, N, E] before each iteration
        S: list[Tensor] = []  # s [J, N, E] of each iteration
        state = u.new_zeros(J, N, W.shape[2])
        for t in range(num_iters):
            s = torch.zeros_like(state)
            for uc, Wc in chunks:
                if t == 0:
                    x = (uc * uniform).flatten(1).expand(J, -1, -1)
                else:
                    x = _weighted(_couple(_dot(state, uc, Wc)[1], leaky), uc)
                s.baddbmm_(x, Wc.transpose(1, 2))
            s += offset
            A.append(state)
            S.append(s)
            v = squash(s)
            state = state + v
        ctx.save_for_backward(u, W, torch.stack(A), torch.stack(S))
        ctx.full, ctx.leaky, ctx.has_bias = full, leaky, bias is not None
        return v.transpose(0, 1).contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        u, W, A, S = ctx.saved_tensors
        _, J, E, D = W.shape
        num_iters = len(S)
        chunks = _Chunks(u, W)
        du = [torch.zeros_like(uc) for uc in chunks.u]
        dW = [torch.zeros_like(Wc) for Wc in chunks.W]
        dbias = u.new_zeros(J, E)
        uniform = 1 / (J + ctx.leaky)
        dstate = torch.zeros_like(S[0])  # what the later iterations ask of v of this one
        dv = grads[0].transpose(0, 1)
        for t in reversed(range(num_iters)):
            dS = _squash_backward(S[t], dv if t == num_iters - 1 else dstate)
            dbias += dS.sum(dim=1)
            for k, (uc, Wc) in enumerate(chunks):
                if t == 0:
                    du[k].add_(torch.bmm(dS, Wc).sum(0).view_as(uc), alpha=uniform)
                    x = (uc * uniform).flatten(1).expand(J, -1, -1)
                    dW[k].baddbmm_(dS.transpose(1, 2), x)
                    continue
                WA, b = _dot(A[t], uc, Wc)
                WS, dc = _dot(dS, uc, Wc)
                c = _couple(b, ctx.leaky)
                db = c * (dc - (c * dc).sum(dim=0))
                du[k] += (WS.mul_(c.unsqueeze(2))).sum(0)
                dW[k].baddbmm_(dS.transpose(1, 2), _weighted(c, uc))
                if ctx.full:
                    du[k] += (WA.mul_(db.unsqueeze(2))).sum(0)
                    x = _weighted(db, uc)
                    dW[k].baddbmm_(A[t].transpose(1, 2), x)
                    dstate.baddbmm_(x, Wc.transpose(1, 2))
            if not ctx.full:
                break
        du_all = torch.cat([x.permute(0, 2, 1) for x in du], dim=1)
        dW_all = torch.cat([x.view(J, E, D, -1).permute(3, 0, 1, 2) for x in dW])
        return du_all, dW_all, dbias if ctx.has_bias else None, None, None, None


def _squash_backward(s: Tensor, dv: Tensor) -> Tensor:
    """Return the gradient at s of squash(s) for dv at its output; zero where s is zero."""
    with torch.enable_grad():
        s = s.detach().requires_grad_()
        return torch.autograd.grad(squash(s), s, dv)[0]
