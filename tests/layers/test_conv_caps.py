import pytest
import torch

from capsnet.errors import UserError
from capsnet.layers import Capsules, ConvCaps, PrimaryPoses, TypeNorm
from capsnet.layers.routings import DynamicRouting, EmRouting, VbRouting

ROUTINGS = {
    "dynamic": lambda J: DynamicRouting(),
    "em": lambda J: EmRouting(J),
    "vb": lambda J: VbRouting(J),
}


def lower_of(N, size, B, D=16):
    return Capsules(torch.randn(N, *size, B, D), torch.rand(N, *size, B))


@pytest.mark.parametrize("name", list(ROUTINGS))
@pytest.mark.parametrize("matrix", [True, False])
def test_any_routing_stacks(name, matrix):
    torch.manual_seed(0)
    options = {"matrix": matrix, "lower_dim": 9, "dim": 9}
    first = ConvCaps((7, 8), 3, 4, ROUTINGS[name](4), stride=2, **options)
    last = ConvCaps(first.places, 4, 5, ROUTINGS[name](5), kernel=None, coordinates=True, **options)
    lower = lower_of(2, (7, 8), 3, 9)
    middle = first(lower)
    assert middle.pose.shape == (2, 3, 3, 4, 9) and middle.a.shape == (2, 3, 3, 4)
    upper = last(middle)
    assert upper.pose.shape == (2, 5, 9) and upper.a.shape == (2, 5)
    (upper.a.square().sum() + upper.pose.square().sum()).backward()
    trained = [*first.parameters(), *last.parameters()]
    # Norms in training take away what is the same for a whole type.
    moved = [p for p in trained if p.grad.abs().max() > 0]
    assert all(p.grad.isfinite().all() for p in trained)
    assert len(moved) >= (2 if name == "vb" else len(trained))

    first, last = first.eval(), last.eval()
    trace = last.trace(first(lower))
    torch.testing.assert_close(trace.v[-1], last(first(lower)).pose)
    assert trace.u_hat.shape == (2, 3 * 3 * 4, 5, 9)
    assert first.trace(lower).c.shape == (3, 2 * 9, 27, 4)
    alone = last(first(Capsules(*(x[:1] for x in lower))))
    torch.testing.assert_close(alone.pose, last(first(lower)).pose[:1])


@pytest.mark.parametrize("name", list(ROUTINGS))
def test_a_batch_of_one_can_be_trained_on(name):
    layer = ConvCaps((3, 3), 2, 4, ROUTINGS[name](4), kernel=None)
    upper = layer.train()(lower_of(1, (3, 3), 2))
    assert upper.a.shape == (1, 4) and upper.pose.isfinite().all() and upper.a.isfinite().all()


def test_votes_are_products_of_matrices():
    layer = ConvCaps((4, 4), 2, 3, EmRouting(3), kernel=2)
    pose = torch.randn(2, 9, 8, 16)
    votes = layer.votes(pose)
    assert votes.shape == (2, 9, 8, 3, 16)
    M, W = pose[1, 5, 6].view(4, 4), layer.W[6, 2]
    torch.testing.assert_close(votes[1, 5, 6, 2].view(4, 4), M @ W)


def test_votes_of_vectors_are_transformed():
    layer = ConvCaps((4, 4), 2, 3, DynamicRouting(), kernel=2, matrix=False, lower_dim=5, dim=7)
    pose = torch.randn(2, 9, 8, 5)
    torch.testing.assert_close(layer.votes(pose)[1, 5, 6, 2], layer.W[6, 2] @ pose[1, 5, 6])


def test_class_layer_shares_its_transformations_and_adds_the_place():
    layer = ConvCaps((2, 4), 3, 5, EmRouting(5), kernel=None, coordinates=True)
    assert layer.W.shape == (3, 5, 4, 4)
    pose = torch.randn(1, 1, 24, 16)
    pose[0, 0, 3:6] = pose[0, 0, 21:24]  # column 1 of row 0, and column 3 of row 1
    votes = layer.votes(pose).view(2, 4, 3, 5, 16)
    difference = (votes[1, 3] - votes[0, 1]).detach()
    expected = torch.zeros(16)
    expected[3], expected[7] = 0.5, 0.5  # rows 0.75 - 0.25, columns 0.875 - 0.375
    torch.testing.assert_close(difference, expected.expand(3, 5, 16), atol=1e-6, rtol=0)
    assert "coordinates" not in layer.state_dict()


def test_parents_at_different_places_compete_for_a_child():
    torch.manual_seed(0)
    layer = ConvCaps((3, 5), 1, 1, EmRouting(1), stride=2)  # two windows share the middle column
    trace = layer.trace(lower_of(1, (3, 5), 1))
    c = trace.c.view(3, 2, 3, 3)  # iterations, places, rows, columns
    torch.testing.assert_close(c[:, 0, :, :2], torch.ones(3, 3, 2))
    torch.testing.assert_close(c[:, 0, :, 2] + c[:, 1, :, 0], torch.ones(3, 3))
    assert (c[0, 0, :, 2] == 0.5).all() and (c[2, 0, :, 2] - 0.5).abs().max() > 0.01


def test_identity_start():
    W = ConvCaps((3, 3), 2, 3, EmRouting(3), std=0.01, identity=True).W
    assert (W - torch.eye(4)).abs().max() < 0.06 and W.std(dim=1).max() > 0


def test_primary_poses():
    features = torch.randn(2, 6, 5, 4)
    layer = PrimaryPoses(6, num_types=3, dim=9)
    pose, a = layer(features)
    assert pose.shape == (2, 5, 4, 3, 9) and a.shape == (2, 5, 4, 3)
    torch.testing.assert_close(pose[1, 2, 3].flatten(), layer.pose(features)[1, :, 2, 3])
    torch.testing.assert_close(a[1, 2, 3], layer.a(features)[1, :, 2, 3].sigmoid())
    with pytest.raises(UserError, match="no map"):
        layer(features[0])
    normed = PrimaryPoses(6, num_types=3, dim=9, norm=True)
    assert sum(p.numel() for p in normed.parameters()) == 6 * 3 * 10 + 4 * 3


def test_type_norm_is_batch_norm_of_types():
    x = 3 * torch.randn(4, 2, 3, 5, 7) + 2
    y = TypeNorm(5, affine=False)(x)
    torch.testing.assert_close(y.mean(dim=(0, 1, 2, 4)), torch.zeros(5), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        y.var(dim=(0, 1, 2, 4), correction=0), torch.ones(5), atol=1e-4, rtol=0
    )
    norm = TypeNorm(5, pose=False)
    assert norm(x[..., 0]).shape == (4, 2, 3, 5) and norm.num_batches_tracked == 1
    torch.testing.assert_close(norm(torch.ones(1, 5)), norm.eval()(torch.ones(1, 5)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ConvCaps((4, 4), 2, 3, EmRouting(3), lower_dim=8, dim=8), "no square matrix"),
        (lambda: ConvCaps((4, 4), 2, 3, EmRouting(3), dim=9), "give both the same size"),
        (lambda: ConvCaps((2, 2), 2, 3, EmRouting(3)), "does not fit a map of 2×2"),
        (lambda: ConvCaps((4, 4), 2, 3, EmRouting(3), coordinates=True), "use kernel=None"),
        (
            lambda: ConvCaps((4, 4), 2, 3, DynamicRouting(), matrix=False, identity=True),
            "use matrix=True",
        ),
        (
            lambda: ConvCaps(
                (4, 4), 2, 3, EmRouting(3), kernel=None, lower_dim=1, dim=1, coordinates=True
            ),
            "no room for coordinates",
        ),
        (
            lambda: ConvCaps((4, 4), 2, 3, EmRouting(3))(lower_of(1, (4, 5), 2)),
            r"give poses \[N, 4, 4, 2, 16\]",
        ),
        (
            lambda: ConvCaps((4, 4), 2, 3, EmRouting(3, num_iters=0))(lower_of(1, (4, 4), 2)),
            "num_iters must be at least 1",
        ),
    ],
)
def test_mistakes_are_sentences(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()
