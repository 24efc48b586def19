import pytest
import torch

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.models import create_model
from capsnet.models.principal import turned, with_principal_directions
from capsnet.models.self_reading import moved_drawings, self_reading, spreads

SMALL = {
    "capsnet_small": {"conv_channels": 4, "primary_types": 2, "routing_bias": True},
    "capsnet_modern": {"channels": (4, 4), "primary_types": 2},
    "efficient_capsnet": {"channels": (4, 4, 4, 8)},
}


def small(name, **options):
    torch.manual_seed(0)
    shape = (1, 28, 28)
    settings = {"num_classes": 3, "decoder": (8, 9), **SMALL[name], **options}
    model = create_model(name, image_shape=shape, **settings).eval()
    for p in model.parameters():
        p.data += 0.05 * torch.randn_like(p)
    return model


def digits(num):
    stream = open_data("digits", "test")
    return stream.batch({name: x[:num] for name, x in stream.plan(None).items()}).images


@pytest.fixture(scope="module")
def shipped():
    return create_model("capsnet_small", pretrained=True).eval()


def test_one_number_of_the_winner_is_changed_and_drawn(shipped):
    images, steps = digits(3), torch.tensor([-0.1, 0.0, 0.2])
    found = list(moved_drawings(shipped, images, steps))
    drawn = torch.cat([part.drawn for part in found])
    assert drawn.shape == (3, 16, 3, 1, 28, 28)
    v = shipped(images).v
    winner = v.norm(dim=-1).argmax(1)
    assert torch.equal(torch.cat([part.winner for part in found]), winner)
    for n, e, s in ((0, 0, 0), (2, 15, 2), (1, 7, 1)):
        moved = v[n].clone()
        moved[winner[n], e] += steps[s]
        alone = shipped.reconstruct(moved[None], winner[n : n + 1])[0]
        torch.testing.assert_close(drawn[n, e, s], alone)
    before = torch.cat([part.before for part in found])
    torch.testing.assert_close(drawn[:, :, 1], before[:, None].expand_as(drawn[:, :, 1]))


def test_a_network_reads_its_own_drawings(shipped):
    images = digits(20)
    none, little, much = (self_reading(shipped, images, x) for x in (0.0, 0.05, 0.5))
    assert none.change == 0 and none.same > 0.9
    assert 0 < little.change < much.change and little.same > much.same
    assert much.same == pytest.approx(sum(much.same_of) / 16)
    assert much.change == pytest.approx(sum(much.change_of) / 16)
    assert much.num_images == 20 and set(much.to_json()) >= {"same", "change"}


def test_amounts_of_each_number_and_another_reader(shipped):
    images = digits(4)
    table = torch.full((10, 16), 0.1)
    assert self_reading(shipped, images, table) == self_reading(shipped, images, 0.1)
    table[:, 3:] = 0
    found = self_reading(shipped, images, table)
    assert all(found.change_of[:3]) and not any(found.change_of[3:])
    cnn = create_model("cnn_small", pretrained=True).eval()
    read = self_reading(shipped, images, 0.1, reader=cnn)
    assert read.change_of == self_reading(shipped, images, 0.1).change_of and read.same > 0.5


def test_mistakes_are_sentences(shipped):
    with pytest.raises(UserError, match="no decoder"):
        self_reading(small("capsnet_small", decoder=()), digits(1), 0.1)
    with pytest.raises(UserError, match="no image"):
        self_reading(shipped, digits(1)[:0], 0.1)
    with pytest.raises(UserError, match="one class of an image"):
        self_reading(create_model("capsnet_multimnist", pretrained=True), digits(1), 0.1)
    with pytest.raises(UserError, match="cannot be turned"):
        turned(create_model("cnn_small"), torch.eye(16).repeat(10, 1, 1))
    with pytest.raises(UserError, match="cannot be turned"):
        turned(small("capsnet_modern", routing="em"), torch.eye(16).repeat(3, 1, 1))


def test_spreads_are_standard_deviations_of_those_read_as_the_class(shipped):
    images = digits(100)
    found = spreads(shipped, images)
    v = shipped(images).v.detach()
    own = v[v.norm(dim=-1).argmax(1) == 4, 4]
    torch.testing.assert_close(found[4], own.std(0), rtol=1e-4, atol=1e-6)
    assert (spreads(shipped, images[:1]) == 0).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in SMALL), ("capsnet_modern", {"decoder": "conv"})],
)
def test_turned_capsules_answer_and_draw_as_before(name, options):
    model = small(name, **options).double()
    if name == "capsnet_small":
        torch.nn.init.normal_(model.class_caps.bias, std=0.3)
    images = digits(5).double()
    R = torch.linalg.qr(torch.randn(3, 16, 16, dtype=torch.float64)).Q
    other = turned(model, R)
    before, after = model(images), other(images)
    exact = {"rtol": 1e-9, "atol": 1e-12}
    torch.testing.assert_close(after.v, torch.einsum("jfe,nje->njf", R, before.v), **exact)
    torch.testing.assert_close(after.answers, before.answers, **exact)
    for which in (None, 2):
        drawn = model.reconstruct(before.v, which)
        torch.testing.assert_close(other.reconstruct(after.v, which), drawn, **exact)
    torch.testing.assert_close(other.draw(after.v), model.draw(before.v), **exact)
    torch.testing.assert_close(model(images).v, before.v, rtol=0, atol=0)  # itself untouched


def test_principal_directions_of_a_trained_network(shipped):
    images = digits(200)
    other = with_principal_directions(shipped, images)
    before, after = shipped(images), other(images)
    torch.testing.assert_close(after.answers, before.answers, rtol=1e-4, atol=1e-5)
    drawn = shipped.reconstruct(before.v)
    torch.testing.assert_close(other.reconstruct(after.v), drawn, rtol=1e-3, atol=1e-4)
    winner = after.answers.argmax(1)
    for j in (0, 7):
        own = after.v[winner == j, j].detach().double()
        S = torch.cov(own.T)
        assert (S - S.diag().diag()).abs().max() < 1e-3 * S.diag().max()
    again = spreads(other, images)
    found = self_reading(other, images[:50], again)
    assert found.change_of[0] > 3 * found.change_of[-1]
    assert next(other.parameters()).requires_grad
    other(images[:2]).v.sum().backward()  # it can be trained on


def test_classes_without_images_stay_as_they_are():
    model = small("capsnet_small")
    one = digits(1)
    other = with_principal_directions(model, one)
    assert torch.equal(other.class_caps.W, model.class_caps.W)
