import pytest
import torch
from scipy.optimize import linear_sum_assignment

from capsnet.errors import UserError
from capsnet.ops import agreement, least_cost, read_phases, synchronise, synchrony_trace


def inputs(N=2, I=6, R=3, n=4, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    u_hat = torch.randn(N, I, R, generator=g, dtype=torch.float64)
    a = torch.rand(N, I, generator=g, dtype=torch.float64)
    x = torch.randn(N, I, n, generator=g, dtype=torch.float64)
    c = torch.randn(N, I, n, generator=g, dtype=torch.float64)
    return [y.to(dtype) for y in (u_hat, a, x, c)]


def test_gradient_is_exact():
    u_hat, a, x, c = inputs(I=4, n=3)
    u_hat[0, 1] = 0
    a[0, 2] = 0  # a capsule that is not there
    a.requires_grad_(False)

    def whole(u_hat, x, c, anchors):
        return read_phases(synchronise(x, agreement(u_hat, a), c, 3), anchors, 2.0)

    anchors = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    leaves = [y.requires_grad_() for y in (u_hat, x, c, anchors)]
    assert torch.autograd.gradcheck(whole, leaves)
    alive = (a + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(agreement, (u_hat, alive))


def test_gradient_of_anchors_that_move_is_exact():
    _, a, x, _ = inputs(I=4, n=3)
    x = torch.nn.functional.normalize(x, dim=-1)
    anchors = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    leaves = [y.requires_grad_() for y in (x, anchors, a)]
    assert torch.autograd.gradcheck(lambda x, w, a: read_phases(x, w, 2.0, a, 2), leaves)


def test_anchors_move_to_the_groups_that_are_there():
    # Two groups, both nearer to the first anchor: only anchors that move tell them apart.
    own = torch.tensor([0, 1] * 10)
    x = torch.tensor([[1.0, 0.3, 0.0], [1.0, -0.3, 0.0]])[own][None]
    x = torch.nn.functional.normalize(x, dim=-1)
    anchors = torch.tensor([[1.0, 0.02, 0.0], [0.9, -0.5, 0.0]])
    stayed, moved = (read_phases(x, anchors, 30.0, num_moves=k)[0] for k in (0, 5))
    right = torch.nn.functional.one_hot(own, 2)
    assert (stayed - right).abs().max() > 0.1
    torch.testing.assert_close(moved, right.float(), rtol=0, atol=0.02)


def test_anchors_that_move_keep_the_laws_of_reading():
    _, a, x, _ = inputs(N=3)
    x = torch.nn.functional.normalize(x, dim=-1)
    anchors = torch.randn(3, 4, dtype=x.dtype, generator=torch.Generator().manual_seed(3))
    c = read_phases(x, anchors, 5.0, a, 3)
    torch.testing.assert_close(c.sum(-1), torch.ones_like(a))
    k = torch.tensor([2, 0, 1])
    torch.testing.assert_close(read_phases(x, anchors[k], 5.0, a, 3), c[:, :, k])
    torch.testing.assert_close(read_phases(x[1:2], anchors, 5.0, a[1:2], 3), c[1:2])
    torch.testing.assert_close(read_phases(x, anchors, 5.0, 7 * a, 3), c)
    Q = torch.linalg.qr(
        torch.randn(4, 4, dtype=x.dtype, generator=torch.Generator().manual_seed(2))
    )[0]
    torch.testing.assert_close(read_phases(x @ Q, anchors @ Q, 5.0, a, 3), c)
    gone = a.clone()
    gone[:, 0] = 0
    changed = x.clone()
    changed[:, 0] = -x[:, 0]
    before, after = (read_phases(y, anchors, 5.0, gone, 3) for y in (x, changed))
    torch.testing.assert_close(after[:, 1:], before[:, 1:])
    nobody = read_phases(x, anchors, 5.0, torch.zeros_like(a), 3)
    torch.testing.assert_close(nobody, read_phases(x, anchors, 5.0))


def test_lengths_stay_one():
    u_hat, a, x, c = inputs()
    trace = synchrony_trace(x, 5 * agreement(u_hat, a), c, 8)
    torch.testing.assert_close(trace.x.norm(dim=-1), torch.ones(9, 2, 6, dtype=torch.float64))


@pytest.mark.parametrize("strength", [0.0, 1.0, 4.0])
def test_energy_falls(strength):
    u_hat, a, x, c = inputs(I=9)
    energy = synchrony_trace(x, strength * agreement(u_hat, a), c, 60, gamma=0.1).energy
    assert (energy[1:] <= energy[:-1] + 1e-12).all()
    assert (energy[0] - energy[-1] > 0.1).all()


def test_energy_is_that_of_all_pairs():
    u_hat, a, x, c = inputs()
    f = agreement(u_hat, a)
    trace = synchrony_trace(x, f, c, 2)
    J = f @ f.mT
    for x, energy in zip(trace.x, trace.energy, strict=True):
        pairs = (J * (x @ x.mT)).sum(dim=(1, 2)) / 2
        torch.testing.assert_close(energy, -pairs - (c * x).sum(dim=(1, 2)))


def test_low_rank_is_the_sum_over_all_pairs():
    u_hat, a, x, c = inputs()
    f = 3 * agreement(u_hat, a)
    slow = torch.nn.functional.normalize(x, dim=-1)
    for _ in range(5):
        y = (f @ f.mT) @ slow + c
        slow = slow + 0.5 * (y - (y * slow).sum(-1, keepdim=True) * slow)
        slow = slow / slow.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(synchronise(x, f, c, 5, gamma=0.5), slow)


def test_rotating_all_phases_rotates_the_result_and_changes_no_reading():
    u_hat, a, x, c = inputs()
    f = 3 * agreement(u_hat, a)
    Q = torch.linalg.qr(
        torch.randn(4, 4, dtype=x.dtype, generator=torch.Generator().manual_seed(2))
    )[0]
    plain, turned = synchronise(x, f, c, 8), synchronise(x @ Q, f, c @ Q, 8)
    torch.testing.assert_close(turned, plain @ Q)
    anchors = torch.randn(3, 4, dtype=x.dtype, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(read_phases(turned, anchors @ Q, 5), read_phases(plain, anchors, 5))


def test_no_step_leaves_phases_where_they_are():
    u_hat, a, x, c = inputs()
    still = synchronise(x, agreement(u_hat, a), c, 0)
    torch.testing.assert_close(still, x / x.norm(dim=-1, keepdim=True))


def test_only_differences_between_votes_count_and_not_their_scale():
    u_hat, a, _, _ = inputs()
    f = agreement(u_hat, a)
    torch.testing.assert_close(agreement(7 * u_hat + 3, a), f)
    torch.testing.assert_close(agreement(u_hat, 5 * a), f)
    torch.testing.assert_close(f.square().sum(dim=(1, 2)), torch.ones(2, dtype=f.dtype))


def test_two_groups_of_votes_part():
    g = torch.Generator().manual_seed(4)
    own = torch.tensor([0, 1] * 10)
    votes = torch.eye(2)[own] + 0.1 * torch.randn(1, 20, 2, generator=g)
    x = torch.randn(1, 20, 4, generator=g)
    x = synchronise(x, agreement(votes), torch.zeros_like(x), 100)[0]
    near = x @ x.T
    same = own[:, None] == own[None]
    assert near[same].min() > 0.99 and near[~same].max() < -0.99


def test_order_of_capsules_carries_over_and_samples_are_independent():
    u_hat, a, x, c = inputs(N=3)
    whole = synchronise(x, agreement(u_hat, a), c, 4)
    i = torch.tensor([3, 0, 5, 1, 4, 2])
    mixed = synchronise(x[:, i], agreement(u_hat[:, i], a[:, i]), c[:, i], 4)
    torch.testing.assert_close(mixed, whole[:, i])
    for n in range(3):
        one = slice(n, n + 1)
        alone = synchronise(x[one], agreement(u_hat[one], a[one]), c[one], 4)
        torch.testing.assert_close(alone, whole[one])


def test_a_capsule_that_is_not_there_moves_nobody():
    u_hat, a, x, c = inputs()
    a[:, 0] = 0
    changed = u_hat.clone()
    changed[:, 0] = 1e3
    before, after = (synchronise(x, agreement(v, a), c, 4) for v in (u_hat, changed))
    torch.testing.assert_close(after[:, 1:], before[:, 1:])


@pytest.mark.parametrize("votes", [0.0, 1e-20, 1.0, 1e12])
@pytest.mark.parametrize("active", [0.0, 1e-30, 1.0])
def test_nothing_is_ever_not_a_number(votes, active):
    u_hat, a, x, c = inputs(dtype=torch.float32)
    leaves = [u_hat * votes, (a > 0.4) * active, x, c]
    leaves = [y.requires_grad_() for y in leaves]
    found = synchronise(leaves[2], agreement(*leaves[:2]), leaves[3], 4)
    grads = torch.autograd.grad(found.sum(), leaves)
    assert all(y.isfinite().all() for y in (found, *grads))


def test_half_precision_is_summed_in_fp32():
    u_hat, a, x, c = (y.bfloat16() for y in inputs(I=999))
    with torch.autocast("cpu", torch.bfloat16):
        found = synchronise(x, agreement(u_hat, a), c, 4)
    exact = synchronise(x.double(), agreement(u_hat.double(), a.double()), c.double(), 4)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_said():
    u_hat, a, x, c = inputs()
    with pytest.raises(UserError, match="do not fit votes"):
        agreement(u_hat, a[:, 1:])
    with pytest.raises(UserError, match="do not fit"):
        synchronise(x, u_hat[:, 1:], c)
    with pytest.raises(UserError, match="0 or more"):
        synchronise(x, u_hat, c, -1)
    with pytest.raises(UserError, match="anchors"):
        read_phases(x, torch.eye(3))
    with pytest.raises(UserError, match="do not fit oscillators"):
        read_phases(x, torch.eye(4), a=a[:, 1:])
    with pytest.raises(UserError, match="num_moves must be 0 or more"):
        read_phases(x, torch.eye(4), num_moves=-1)


@pytest.mark.parametrize(("K", "L"), [(1, 1), (2, 2), (3, 2), (4, 4)])
def test_assignment_is_that_of_scipy(K, L):
    costs = torch.rand(20, K, L, generator=torch.Generator().manual_seed(K + L))
    for cost, slots in zip(costs, least_cost(costs), strict=True):
        rows, columns = linear_sum_assignment(cost.numpy())
        assert len(set(slots.tolist())) == L
        best = cost[rows, columns].sum()
        torch.testing.assert_close(cost[slots, torch.arange(L)].sum(), best)


def test_more_objects_than_slots_are_refused():
    with pytest.raises(UserError, match="no more objects"):
        least_cost(torch.rand(1, 2, 3))


def test_defaults_are_eight_whole_steps_and_the_nearness_itself():
    u_hat, a, x, c = inputs()
    f = agreement(u_hat, a)
    torch.testing.assert_close(synchronise(x, f, c), synchronise(x, f, c, 8, 1.0), rtol=0, atol=0)
    trace = synchrony_trace(x, f, c)
    assert len(trace.x) == len(trace.energy) == 9
    torch.testing.assert_close(trace.x[-1], synchronise(x, f, c))
    anchors = torch.eye(4, dtype=x.dtype) * 3
    torch.testing.assert_close(read_phases(trace.x[-1], anchors), trace.x[-1].softmax(dim=-1))
    torch.testing.assert_close(agreement(u_hat), agreement(u_hat, torch.ones_like(a)))


def test_every_shape_that_does_not_fit_is_said():
    u_hat, _, x, c = inputs()
    for votes in (u_hat[0], u_hat.long()):
        with pytest.raises(UserError, match=r"must be floats \[N, I, R\]"):
            agreement(votes)
    for wrong in ((x[0], u_hat, c[0]), (x, u_hat[0], c), (x, u_hat, c[:, :, 1:])):
        for call in (synchronise, synchrony_trace):
            with pytest.raises(UserError, match="do not fit; give x"):
                call(*wrong)
    for wrong in ((x, torch.ones(4)), (x[0], torch.eye(4)), (x, torch.eye(5))):
        with pytest.raises(UserError, match="do not fit anchors"):
            read_phases(*wrong)


def test_six_slots_are_the_most():
    assert least_cost(torch.rand(1, 6, 1)).shape == (1, 1)
    for shape in ((1, 7, 1), (2, 2)):
        with pytest.raises(UserError, match="at most 6 slots"):
            least_cost(torch.rand(*shape))


def test_the_smallest_sum_that_divides():
    # Below it, votes are no longer brought to the same length.
    f = agreement(torch.tensor([[[1e-6], [-1e-6]]], dtype=torch.float64))
    torch.testing.assert_close(f.square().sum().item(), 1.0)
    f = agreement(torch.tensor([[[1e-7], [-1e-7]]], dtype=torch.float64))
    torch.testing.assert_close(f.square().sum().item(), 0.01)
