"""Dynamic routing in plain torch that never forms the votes; a few capsules i at a time, in cache.

The votes u_hat_ij = W_ij u_i appear only inside inner products, and those can be taken with
u instead (README.md in this folder):
  logits  b_ij = u_hat_ij . A_j     = u_i . (W_ij^T A_j),   A = sum of the v so far
  sum     s_j  = sum_i c_ij u_hat_ij = sum_(i,d) (c_ij u_id) W_ij,d
so each pass over i is two batched matrix products and a softmax, and A [N, J, E] is its state.
Forward and backward are operators of their own, so that torch.compile does not look inside.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from capsnet.ops.dynamic.reference import route_reference
from capsnet.ops.plain import needs_plain_backward, plain_gradients
from capsnet.ops.squash import squash, squash_gradient

CHUNK_ELEMENTS = 1 << 18  # J * N * i * D in a chunk: one megabyte in fp32, the size of an L2.


def route_chunked(
    u: Tensor, W: Tensor, num_iters: int, bias: Tensor | None, gradient: str, leaky: bool
) -> Tensor:
    """Return v [N, J, E] of u [N, I, D] and W [I, J, E, D]; the same function as `route_reference`.

    Half precision is routed in fp32, and autocast changes nothing.
    """
    dtype = u.dtype
    if dtype in (torch.float16, torch.bfloat16):
        u = u.float()
    bias = None if bias is None else bias.to(u.dtype)
    return chunked_forward(u, W.to(u.dtype), bias, num_iters, gradient == "full", leaky)[0].to(
        dtype
    )


class _Chunks:
    """u and W cut over i and laid out for the products: u [N, D, i] and W [J, E, D * i].

    The two large results per chunk are written to the same memory again and again: fresh memory
    for each would cost more in page faults than the arithmetic.
    """

    def __init__(self, u: Tensor, W: Tensor, sides: int) -> None:
        N, I, D = u.shape
        J, E = W.shape[1:3]
        size = max(1, min(I, CHUNK_ELEMENTS // max(1, J * N * D)))
        self.u = [x.permute(0, 2, 1).contiguous() for x in u.split(size, dim=1)]
        self.W = [x.permute(1, 2, 3, 0).reshape(J, E, -1) for x in W.split(size)]
        self.memory = u.new_empty(2, sides * J * N * D * size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(self.u, self.W, strict=True)

    def products(self, a: Tensor, uc: Tensor, Wc: Tensor) -> tuple[Tensor, Tensor]:
        """Return W^T a as [J, P, N, D, i] and a . u_hat as [J, P, N, i] for a [J, P, N, E]."""
        Wa, x = self.memory[:, : a.shape[:3].numel() * uc.shape[1:].numel()]
        torch.bmm(a.flatten(1, 2), Wc, out=Wa.view(len(a), -1, Wc.shape[2]))
        Wa = Wa.view(*a.shape[:3], *uc.shape[1:])
        return Wa, torch.mul(Wa, uc, out=x.view_as(Wa)).sum(dim=3)

    def weighted(self, weights: Tensor, uc: Tensor) -> Tensor:
        """Return c_ij u_id as [J, P, N, D * i] for weights [J, P, N, i], in place of the last."""
        shape = (*weights.shape[:3], *uc.shape[1:])
        x = self.memory[1, : torch.Size(shape).numel()].view(shape)
        return torch.mul(weights.unsqueeze(3), uc, out=x).flatten(3)


def _couple(b: Tensor, leaky: bool) -> Tensor:
    """Return softmax over j of logits [J, N, i]; leaky: with one more logit, zero."""
    if leaky:
        return torch.cat([b.new_zeros(1, *b.shape[1:]), b]).softmax(dim=0)[1:]
    return b.softmax(dim=0)


@torch.library.custom_op("capsnet::chunked_forward", mutates_args=())
def chunked_forward(
    u: Tensor, W: Tensor, bias: Tensor | None, num_iters: int, full: bool, leaky: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return v, and for the backward pass A before and s of each iteration, [R, J, N, E]."""
    N, J, E = u.shape[0], *W.shape[1:3]
    states: list[Tensor] = []
    sums: list[Tensor] = []
    A = u.new_zeros(J, N, E)
    # Of all products here and in the backward pass autocast would round one, that of t == 0.
    with torch.autocast(u.device.type, enabled=False):
        chunks = _Chunks(u, W, sides=1)
        for t in range(num_iters):
            s = torch.zeros_like(A)
            for uc, Wc in chunks:
                if t == 0:  # c is uniform: one product for all parents
                    flat = torch.mm(Wc.flatten(0, 1), uc.flatten(1).T).view(J, E, N)
                    s.add_(flat.transpose(1, 2), alpha=1 / (J + 1 if leaky else J))
                else:
                    b = chunks.products(A.unsqueeze(1), uc, Wc)[1].squeeze(1)
                    x = chunks.weighted(_couple(b, leaky).unsqueeze(1), uc).squeeze(1)
                    s.baddbmm_(x, Wc.transpose(1, 2))
            if bias is not None:
                s += bias.unsqueeze(1)
            states.append(A)
            sums.append(s)
            v = squash(s)
            A = A + v
    return v.transpose(0, 1).contiguous(), torch.stack(states), torch.stack(sums)


@chunked_forward.register_fake
def _(
    u: Tensor, W: Tensor, bias: Tensor | None, num_iters: int, full: bool, leaky: bool
) -> tuple[Tensor, Tensor, Tensor]:
    N, J, E = u.shape[0], *W.shape[1:3]
    states = u.new_empty(num_iters, J, N, E)
    return u.new_empty(N, J, E), states, torch.empty_like(states)


@torch.library.custom_op("capsnet::chunked_backward", mutates_args=())
def chunked_backward(
    dv: Tensor, u: Tensor, W: Tensor, states: Tensor, sums: Tensor, full: bool, leaky: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return du, dW and dbias."""
    _, J, E, D = W.shape
    chunks = _Chunks(u, W, sides=2)
    du = [torch.zeros_like(uc) for uc in chunks.u]
    dW = [torch.zeros_like(Wc) for Wc in chunks.W]
    dbias = u.new_zeros(J, E)
    dA = torch.zeros_like(sums[0])  # what the later iterations ask of v of this one
    dv = dv.transpose(0, 1)
    for t in reversed(range(len(sums))):
        dS = squash_gradient(sums[t], dv)
        dbias += dS.sum(dim=1)
        pair = torch.stack([states[t], dS], dim=1)  # [J, 2, N, E]
        for k, (uc, Wc) in enumerate(chunks):
            if t == 0:
                flat, share = dS.transpose(1, 2).flatten(0, 1), 1 / (J + 1 if leaky else J)
                du[k].flatten(1).addmm_(flat.T, Wc.flatten(0, 1), alpha=share)
                dW[k].flatten(0, 1).addmm_(flat, uc.flatten(1), alpha=share)
                continue
            Wa, dots = chunks.products(pair, uc, Wc)
            b, dc = dots.unbind(dim=1)
            c = _couple(b, leaky)
            db = c * (dc - (c * dc).sum(dim=0)) if full else torch.zeros_like(c)
            weights = torch.stack([db, c], dim=1)  # [J, 2, N, i]
            x = chunks.weighted(weights, uc)
            dW[k].baddbmm_(pair.flatten(1, 2).transpose(1, 2), x.flatten(1, 2))
            du[k] += Wa.mul_(weights.unsqueeze(3)).sum(dim=(0, 1))
            if full:
                dA.baddbmm_(x[:, 0], Wc.transpose(1, 2))
        if not full:
            break
        dv = dA
    du_all = torch.cat([x.permute(0, 2, 1) for x in du], dim=1)
    dW_all = torch.cat([x.view(J, E, D, -1).permute(3, 0, 1, 2) for x in dW])
    return du_all, dW_all.contiguous(), dbias


@chunked_backward.register_fake
def _(
    dv: Tensor, u: Tensor, W: Tensor, states: Tensor, sums: Tensor, full: bool, leaky: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return u.new_empty(u.shape), W.new_empty(W.shape), u.new_empty(W.shape[1:3])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    u, W, bias, ctx.num_iters, ctx.full, ctx.leaky = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(u, W, bias, *output[1:])


def _backward(ctx: Any, dv: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    if dv is None:
        return (None,) * 6
    u, W, bias, states, sums = ctx.saved_tensors
    if needs_plain_backward():

        def route(u: Tensor, W: Tensor, bias: Tensor | None) -> Tensor:
            gradient = "full" if ctx.full else "last"
            return route_reference(u, W, ctx.num_iters, bias, gradient, ctx.leaky)

        found = plain_gradients(route, (u, W, bias), ctx.needs_input_grad[:3], dv)
        return *found, None, None, None
    du, dW, dbias = chunked_backward(dv, u, W, states, sums, ctx.full, ctx.leaky)
    return du, dW, None if bias is None else dbias, None, None, None


chunked_forward.register_autograd(_backward, setup_context=_save)
