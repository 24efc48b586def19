import pytest
import torch

from capsnet.errors import UserError
from capsnet.ops import (
    self_routing,
    self_routing_activations,
    self_routing_logits,
    self_routing_trace,
)


def inputs(N=2, P=1, I=5, J=3, E=4, D=3, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    u_hat = torch.randn(N, P, I, J, E, generator=g, dtype=torch.float64)
    a = torch.rand(N, P, I, generator=g, dtype=torch.float64)
    b = torch.randn(N, P, I, J, generator=g, dtype=torch.float64)
    return [x.to(dtype) for x in (u_hat, a, b)]


def test_gradient_is_exact():
    u_hat, a, b = inputs(P=2)
    u_hat[0, 0, 1] = 0
    a[0, 0, 2] = 0  # a child that is not there
    assert torch.autograd.gradcheck(self_routing, [x.requires_grad_() for x in (u_hat, a, b)])
    assert torch.autograd.gradcheck(self_routing_activations, (a, b))


def test_gradient_of_the_logits_is_exact():
    g = torch.Generator().manual_seed(0)
    shapes = ((2, 2, 5, 3), (5, 4, 3), (5, 4))
    leaves = [torch.randn(s, generator=g, dtype=torch.float64, requires_grad=True) for s in shapes]
    assert torch.autograd.gradcheck(self_routing_logits, leaves)


def test_by_hand():
    # Child 0 (a = 1) wants parent 0 with 3/4, child 1 (a = 1/2) wants both the same.
    a = torch.tensor([1.0, 0.5]).view(1, 1, 2)
    b = torch.tensor([[3.0, 1.0], [1.0, 1.0]]).log().view(1, 1, 2, 2)
    u_hat = torch.tensor([[1.0, 2.0], [5.0, 8.0]]).view(1, 1, 2, 2, 1)
    v, a_upper = self_routing(u_hat, a, b)
    # a c = (3/4, 1/4), (1/4, 1/4); sums (1, 1/2); v = (3/4 + 5/4, (2/4 + 8/4) / (1/2)).
    torch.testing.assert_close(v.flatten(), torch.tensor([2.0, 5.0]))
    torch.testing.assert_close(a_upper.flatten(), torch.tensor([1.0, 0.5]) / 1.5)
    torch.testing.assert_close(self_routing_activations(a, b), a_upper)


def test_equal_wishes_give_the_mean_of_the_active_votes():
    u_hat, a, b = inputs()
    v, a_upper = self_routing(u_hat, a, torch.zeros_like(b))
    mean = torch.einsum("npi,npije->npje", a, u_hat) / a.sum(dim=2)[..., None, None]
    torch.testing.assert_close(v, mean)
    torch.testing.assert_close(a_upper, torch.full_like(a_upper, 1 / 3))


def test_activations_of_the_parents_of_a_place_sum_to_one():
    _, a, b = inputs(N=3, P=4, I=7, J=5)
    a_upper = self_routing_activations(a, 10 * b)
    torch.testing.assert_close(a_upper.sum(dim=-1), torch.ones(3, 4, dtype=torch.float64))


def test_order_of_children_does_not_matter_and_of_parents_carries_over():
    u_hat, a, b = inputs(P=2)
    v, a_upper = self_routing(u_hat, a, b)
    i, j = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 0, 1])
    mixed = self_routing(u_hat[:, :, i][:, :, :, j], a[:, :, i], b[:, :, i][..., j])
    torch.testing.assert_close(mixed, (v[:, :, j], a_upper[..., j]))


def test_samples_and_places_are_independent():
    whole = self_routing(*inputs(N=3, P=2))
    for n in range(3):
        for p in range(2):
            alone = self_routing(*(x[n : n + 1, p : p + 1] for x in inputs(N=3, P=2)))
            for part, x in zip(alone, whole, strict=True):
                torch.testing.assert_close(part, x[n : n + 1, p : p + 1])


def test_a_child_that_is_not_there_counts_for_nothing():
    u_hat, a, b = inputs()
    a[:, :, 0] = 0
    changed = u_hat.clone()
    changed[:, :, 0] = 1e6
    torch.testing.assert_close(self_routing(changed, a, b), self_routing(u_hat, a, b))


def test_scale_of_all_activations_does_not_matter():
    u_hat, a, b = inputs()
    torch.testing.assert_close(self_routing(u_hat, a / 7, b), self_routing(u_hat, a, b))


def test_share_is_what_is_given():
    u_hat, a, b = inputs()
    v, a_upper = self_routing(u_hat, a, b, share=lambda b: b.sigmoid())
    weights = a[..., None] * b.sigmoid()
    torch.testing.assert_close(a_upper, weights.sum(2) / a.sum(2, keepdim=True))
    expected = torch.einsum("npij,npije->npje", weights, u_hat) / weights.sum(2)[..., None]
    torch.testing.assert_close(v, expected)


@pytest.mark.parametrize("votes", [0.0, 1e-20, 1.0, 1e12])
@pytest.mark.parametrize("wish", [0.0, 1e-20, 1e4, 1e30])
@pytest.mark.parametrize("active", [0.0, 1e-30, 1.0])
def test_nothing_is_ever_not_a_number(votes, wish, active):
    u_hat, a, b = inputs(I=9, dtype=torch.float32)
    leaves = [u_hat * votes, (a > 0.4) * active, b * wish]
    leaves = [x.requires_grad_() for x in leaves]
    v, a_upper = self_routing(*leaves)
    grads = torch.autograd.grad(v.sum() + a_upper[..., 0].sum(), leaves)
    assert all(x.isfinite().all() for x in (v, a_upper, *grads))


def test_half_precision_is_summed_in_fp32():
    u_hat, a, b = (x.to(torch.bfloat16) for x in inputs(I=999))
    with torch.autocast("cpu", torch.bfloat16):
        found = self_routing(u_hat, a, b)
    for x, exact in zip(found, self_routing(u_hat.double(), a.double(), b.double()), strict=True):
        assert x.dtype == torch.float32
        torch.testing.assert_close(x.double(), exact, rtol=1e-4, atol=1e-6)
    g = torch.Generator().manual_seed(0)
    u, W, bias = (torch.randn(s, generator=g) for s in ((2, 1, 5, 64), (5, 3, 64), (5, 3)))
    with torch.autocast("cpu", torch.bfloat16):
        logits = self_routing_logits(u, W, bias)
    torch.testing.assert_close(logits, self_routing_logits(u, W, bias))


def test_the_votes_are_kept_once():
    u_hat, a, b = inputs(N=4, P=3, I=40, J=6, E=16, dtype=torch.float32)
    kept = {}

    def pack(x):
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes() // 4
        return x

    leaves = [x.requires_grad_() for x in (u_hat, a, b)]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        v, _ = self_routing(*leaves)
    assert u_hat.numel() <= sum(kept.values()) < 1.5 * u_hat.numel()
    v.sum().backward()


def test_trace_is_one_iteration_that_ends_at_the_result():
    u_hat, a, b = inputs()
    v, a_upper = self_routing(u_hat, a, b)
    trace = self_routing_trace(u_hat, a, b)
    torch.testing.assert_close((trace.v[-1], trace.a[-1]), (v[:, 0], a_upper[:, 0]))
    assert trace.u_hat.shape == (2, 5, 3, 4) and trace.b.shape == (1, 2, 5, 3)
    torch.testing.assert_close(trace.c, trace.b.softmax(dim=-1))
    assert trace.s is trace.v
    assert trace[6:] == (False, False, "self-routing")


def test_compiles_as_one_graph():
    u_hat, a, b = inputs()
    compiled = torch.compile(self_routing, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(u_hat, a, b), self_routing(u_hat, a, b))


def test_mistakes_are_sentences():
    u_hat, a, b = inputs()
    for call, sentence in [
        (lambda: self_routing(u_hat[0], a, b), r"must be \[N, P, I, J, E\]"),
        (lambda: self_routing(u_hat, a[..., 1:], b), r"give \[2, 1, 5\]"),
        (lambda: self_routing(u_hat, a, b[..., 1:]), r"give \[2, 1, 5, 3\]"),
        (lambda: self_routing_trace(u_hat[0], a, b), r"must be \[N, P, I, J, E\]"),
        (lambda: self_routing_trace(u_hat, a, b[..., 1:]), r"give \[2, 1, 5, 3\]"),
        (lambda: self_routing_activations(a, b[0]), r"give a \[N, P, I\]"),
        (lambda: self_routing_logits(a, b[0], b[0, 0]), r"W \[I, J, D\]"),
        (
            lambda: self_routing_logits(u_hat[..., 0], torch.zeros(5, 2, 3), b[0]),
            r"must be \[5, 2\]",
        ),
    ]:
        with pytest.raises(UserError, match=sentence):
            call()
