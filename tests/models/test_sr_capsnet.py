import pytest
import torch

from capsnet import create_model
from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.layers import Capsules, ConvCaps
from capsnet.layers.routings import SelfRoutedClasses, SelfRouting
from capsnet.models import Progress
from capsnet.models.resnet import ResNet
from capsnet.models.sr_capsnet import framed
from capsnet.ops import self_routing_activations
from capsnet.tasks import Batch

SMALL = {"channels": 4, "blocks": 1, "types": 3, "dim": 4}
ROUTINGS = ["self", "dynamic", "em"]


def build(seed=0, shape=(1, 14, 17), **options):
    torch.manual_seed(seed)
    model = create_model("sr_capsnet", image_shape=shape, num_classes=3, **SMALL, **options)
    for p in model.parameters():
        p.data += 0.1 * torch.randn_like(p)  # self-routing starts at zero, with all classes alike
    return model.eval()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("routing", ROUTINGS)
def test_any_routing_and_depth(routing, depth):
    model, images = build(routing=routing, depth=depth), torch.rand(3, 1, 14, 17)
    output = model(images)
    assert output.v.shape == (3, 3, 1 if routing == "self" else 4)
    torch.testing.assert_close(output.answers.sum(dim=1), torch.ones(3))
    assert (output.answers > 0).all() and output.answers.std(dim=1).min() > 1e-5
    torch.testing.assert_close(model(images[1:2]).answers, output.answers[1:2])
    trace = model.trace(images)
    torch.testing.assert_close(trace.v[-1], output.v)
    torch.testing.assert_close(trace.a[-1] / trace.a[-1].sum(1, keepdim=True), output.answers)
    torch.testing.assert_close(trace.c.sum(dim=-1), torch.ones(trace.c.shape[:-1]))
    assert len(trace.c) == (1 if routing == "self" else 3)
    assert trace.u_hat.shape[1] == {1: 4 * 5, 2: 2 * 3, 3: 2 * 3}[depth] * 3
    loss = model.loss(output, Batch(images, torch.tensor([[0], [1], [2]])), Progress.at(0, 1))
    torch.testing.assert_close(loss, -output.answers.diagonal().log().mean())
    loss.backward()
    for key, p in model.named_parameters():
        assert p.grad.isfinite().all() and p.grad.abs().max() > 0, key


def test_the_answer_is_a_mixture_of_what_the_capsules_say():
    model, images = build(), torch.rand(2, 1, 14, 17)
    features = model.trunk(images)
    a = model.primary_a(features).sigmoid().permute(0, 2, 3, 1).flatten(1)
    u = model.primary_pose(features).permute(0, 2, 3, 1).reshape(2, -1, 4)
    W, bias = model.class_caps.W, model.class_caps.bias
    c = (torch.einsum("nid,ijd->nij", u, W) + bias).softmax(dim=-1)
    torch.testing.assert_close(model(images).answers, (a[..., None] * c).sum(1) / a.sum(1)[:, None])


def test_at_the_start_all_classes_are_alike():
    torch.manual_seed(0)
    model = create_model("sr_capsnet", image_shape=(1, 12, 12), num_classes=5, **SMALL)
    torch.testing.assert_close(model(torch.rand(2, 1, 12, 12)).answers, torch.full((2, 5), 0.2))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 30), (2, 33, 8)])
def test_any_size_and_channels(shape):
    for routing in ROUTINGS:
        output = build(shape=shape, routing=routing, depth=2)(torch.rand(2, *shape))
        assert output.answers.isfinite().all()


def test_blank_and_huge_pictures_have_numbers_as_answers():
    for routing in ROUTINGS:
        model = build(routing=routing)
        for images in (torch.zeros(2, 1, 14, 17), torch.full((2, 1, 14, 17), 1e6)):
            output = model(images)
            loss = model.loss(output, Batch(images, torch.tensor([[0], [1]])), Progress.at(0, 1))
            grads = torch.autograd.grad(loss, list(model.parameters()))
            assert all(x.isfinite().all() for x in (output.v, loss, *grads))


def test_self_routing_in_a_map():
    g = torch.Generator().manual_seed(0)
    routing = SelfRouting(9 * 2, 3, lower_dim=4)
    routing.W.data.normal_(generator=g), routing.bias.data.normal_(generator=g)
    caps = ConvCaps((6, 5), 2, 3, routing, stride=2, lower_dim=4, dim=5, matrix=False)
    pose, a = torch.randn(2, 6, 5, 2, 4, generator=g), torch.rand(2, 6, 5, 2, generator=g)
    upper = caps(Capsules(pose, a))
    assert upper.pose.shape == (2, 2, 2, 3, 5)
    torch.testing.assert_close(upper.a.sum(dim=-1), torch.ones(2, 2, 2))
    # The parents at row 1, column 0 see rows 2 to 4 and columns 0 to 2.
    u, weight = pose[:, 2:5, :3].reshape(2, 18, 4), a[:, 2:5, :3].reshape(2, 18, 1)
    c = (torch.einsum("nid,ijd->nij", u, routing.W) + routing.bias).softmax(-1) * weight
    votes = torch.einsum("ijed,nid->nije", caps.W, u)
    expected = torch.einsum("nij,nije->nje", c, votes) / c.sum(1)[..., None]
    torch.testing.assert_close(upper.pose[:, 1, 0], expected)
    trace = caps.trace(Capsules(pose, a))
    torch.testing.assert_close(trace.v[-1].view_as(upper.pose), upper.pose)


def test_parents_of_the_whole_map_may_compete():
    caps = ConvCaps((4, 4), 2, 3, SelfRouting(18, 3, 4, compete="map"), lower_dim=4, matrix=False)
    lower = Capsules(torch.randn(1, 4, 4, 2, 4), torch.ones(1, 4, 4, 2))
    c = caps.trace(lower).c.view(2, 2, 3, 3, 2, 3)
    # A child in the corner has the parents of one place, one in the middle those of four.
    torch.testing.assert_close(c[0, 0, 0, 0], torch.full((2, 3), 1 / 3))
    torch.testing.assert_close(c[0, 0, 1, 1], torch.full((2, 3), 1 / 12))


def test_a_frame_of_absent_capsules_changes_no_mean():
    classes = SelfRoutedClasses(5 * 5 * 2, 4, 3)
    classes.bias.data.normal_()
    lower = framed(Capsules(torch.randn(2, 3, 3, 2, 4), torch.rand(2, 3, 3, 2)))
    inner = classes.bias.view(5, 5, 2, 3)[1:4, 1:4].reshape(1, 1, 18, 3).expand(2, 1, 18, 3)
    a = lower.a[:, 1:4, 1:4].reshape(2, 1, 18)
    torch.testing.assert_close(classes(lower).a, self_routing_activations(a, inner)[:, 0])


def test_trunks():
    for shortcut, count in (("pad", 0), ("conv", 4 * 8 + 2 * 8)):
        trunk = ResNet(2, (4, 8), (1, 2), shortcut)
        convs = 9 * (2 * 4 + 2 * 4 * 4 + 4 * 8 + 3 * 8 * 8) + 2 * (3 * 4 + 4 * 8)
        assert sum(p.numel() for p in trunk.parameters()) == convs + count
        for side in (1, 2, 7, 8):
            assert trunk(torch.rand(2, 2, side, 9)).shape == (2, 8, trunk.size(side), 5)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_one_batch_can_be_overfitted(routing):
    torch.manual_seed(0)
    digits = open_data("digits", "train")
    batch = digits.batch({k: x[:16] for k, x in digits.plan(None).items()})
    sizes = {"channels": 8, "blocks": 1, "types": 4, "dim": 9}
    model = create_model("sr_capsnet", image_shape=(1, 28, 28), routing=routing, **sizes)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(30):
        output = model(batch.images)
        loss = model.loss(output, batch, Progress.at(0, 30))
        optimizer.zero_grad(), loss.backward(), optimizer.step()
    assert (output.answers.argmax(dim=1) == batch.labels[:, 0]).all()
    assert loss < (1.6 if routing == "em" else 0.5)  # EM's activations go to 0 and 1 slowly


def test_half_precision_routes_in_fp32():
    model, images = build(depth=2), torch.rand(2, 1, 14, 17)
    with torch.autocast("cpu", torch.bfloat16):
        output = model(images)
    assert output.answers.dtype == torch.float32
    torch.testing.assert_close(output.answers, model(images).answers, rtol=0.1, atol=0.02)


def test_compiles_as_one_graph():
    model, images = build(depth=2), torch.rand(2, 1, 14, 17)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(images).answers, model(images).answers)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_other_types_devices_and_no_images(routing):
    images = torch.rand(2, 1, 14, 17)
    model = build(routing=routing, depth=2)
    expected = model(images).answers
    assert model(images[:0]).answers.shape == (0, 3)
    torch.testing.assert_close(model.double()(images.double()).answers.float(), expected)
    half = model.bfloat16()(images.bfloat16()).answers.float()
    torch.testing.assert_close(half, expected, rtol=0.2, atol=0.1)
    with torch.device("meta"):
        assert build(routing=routing, depth=2)(torch.rand(2, 1, 14, 17)).answers.shape == (2, 3)


def test_exports_for_any_batch():
    model, images = build(depth=2), torch.rand(4, 1, 14, 17)
    any_batch = ({0: torch.export.Dim("N", min=2)},)
    exported = torch.export.export(model, (images,), dynamic_shapes=any_batch).module()
    torch.testing.assert_close(exported(images[:3]).answers, model(images[:3]).answers)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"num_iters": 3}, "Self-routing has no iterations; leave num_iters out"),
        ({"routing": "em", "num_iters": 0}, "num_iters must be at least 1"),
        ({"routing": "em", "dim": 8}, "no square matrix"),
        ({"routing": "none"}, "no routing called 'none'"),
        ({"depth": 0}, "depth must be at least 1"),
        ({"num_classes": 1}, "at least two classes"),
    ],
)
def test_mistakes_are_sentences(options, sentence):
    with pytest.raises(UserError, match=sentence):
        create_model("sr_capsnet", **options)
