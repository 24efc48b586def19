import pytest
import torch

from capsnet.errors import UserError
from capsnet.layers import Stem
from capsnet.models import create_model
from capsnet.models.modern import CapsNetModern
from capsnet.tasks import Batch, OneLabel, Pairs

TINY = {"channels": (4, 8), "primary_types": 3, "decoder": (8,)}
ROUTINGS = ("dynamic", "em", "vb", "self", "ida", "attention")


@pytest.mark.parametrize(
    ("size", "left"),
    [
        ((28, 28), (7, 7)),
        ((36, 36), (9, 9)),
        ((8, 9), (8, 9)),
        ((64, 64), (8, 8)),
        ((224, 160), (7, 10)),
        ((28, 200), (7, 7)),
        ((5, 300), (5, 10)),
    ],
)
def test_stem_brings_any_size_down_to_a_small_map(size, left):
    stem = Stem(2, size, (2, 3, 4))
    features = stem(torch.rand(2, 2, *size))
    assert features.shape == (2, 4, *left) and stem.size == left
    assert stem.out_channels == 4


def test_a_feature_sees_what_the_stem_says():
    stem = Stem(1, (40, 40), (2, 2, 2)).double().eval()
    for module in stem.modules():
        if isinstance(module, torch.nn.ReLU):
            module.forward = lambda x: x  # so that nothing is hidden
    image = torch.rand(1, 1, 40, 40, dtype=torch.float64, requires_grad=True)
    features = stem(image)
    (step, _), row, column = stem.step, 5, 4
    seen = torch.autograd.grad(features[0, :, row, column].square().sum(), image)[0][0, 0] != 0
    expected = torch.zeros(40, 40, dtype=torch.bool)
    top, left = row * step + stem.start, column * step + stem.start
    expected[max(top, 0) : top + stem.side, max(left, 0) : left + stem.side] = True
    assert torch.equal(seen, expected)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_every_routing_on_the_same_votes(routing):
    torch.manual_seed(0)
    model = create_model("capsnet_modern", routing=routing, **TINY)
    images = torch.rand(6, 1, 28, 28)
    output = model(images)
    torch.testing.assert_close(output.answers, output.v.norm(dim=-1))
    assert (output.answers >= 0).all() and (output.answers <= 1).all()
    trace = model.eval().trace(images)
    output = model(images)
    torch.testing.assert_close(trace.v[-1], output.v, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(trace.a[-1], output.answers, rtol=1e-4, atol=1e-5)
    u = model.primary(images)
    W = model.class_caps.W
    torch.testing.assert_close(trace.u_hat, torch.einsum("ijed,nid->nije", W, u))
    assert model.reconstruct(output.v).shape == images.shape


def test_routings_differ_by_few_parameters():
    counts = {}
    for routing in ROUTINGS:
        with torch.device("meta"):
            model = create_model("capsnet_modern", routing=routing)
        counts[routing] = sum(p.numel() for p in model.parameters())
    assert counts["dynamic"] == 2_678_864
    assert all(0 <= n / counts["dynamic"] - 1 < 0.02 for n in counts.values())


@pytest.mark.parametrize("routing", ["self", "attention"])
def test_a_routing_without_iterations_is_not_asked_for_any(routing):
    with pytest.raises(UserError, match=f"routing='{routing}' has no iterations; leave num_iters"):
        create_model("capsnet_modern", routing=routing, num_iters=3)


@pytest.mark.parametrize("name", ["capsnet_modern_small", "capsnet_deep", "cnn_modern"])
def test_a_stem_without_stages_is_a_sentence(name):
    with pytest.raises(UserError, match="give the channels of at least one stage"):
        create_model(name, channels=())


def test_unknown_words_are_told_from_the_known_ones():
    with pytest.raises(UserError, match="no decoder called 'cov'; did you mean 'conv'"):
        create_model("capsnet_modern", decoder="cov")
    with pytest.raises(UserError, match="The option decoder must be numbers in brackets"):
        create_model("capsnet_modern", decoder=8)
    with pytest.raises(UserError, match="no routing called 'foo'"):
        CapsNetModern(routing="foo")


def test_too_small_a_picture_is_a_sentence():
    with pytest.raises(UserError, match="does not fit a 2×2 picture; give larger images"):
        create_model("capsnet_modern", image_shape=(1, 2, 2))


@pytest.mark.parametrize("pooled", [False, True])
def test_cnn_head_draws_each_class_from_its_own_features(pooled):
    torch.manual_seed(0)
    options = {"channels": (4, 8), "conv_channels": 6, "pooled": pooled, "decoder": (8,)}
    model = create_model("cnn_modern", **options).eval()
    output = model(torch.rand(3, 1, 28, 28))
    other = output.v.clone()
    other[:, 4] += 1
    drawn, moved = (model.reconstruct(v, 7) for v in (output.v, other))
    assert torch.equal(drawn, moved)
    assert not torch.equal(model.reconstruct(output.v, 4), model.reconstruct(other, 4))
    assert torch.equal(model.winner(output.v), output.answers.argmax(1))


def test_cnn_head_answers_as_its_task_asks():
    model = create_model("cnn_modern", channels=(4, 8), conv_channels=6).eval()
    images = torch.rand(3, 1, 28, 28)
    torch.testing.assert_close(model(images).answers.sum(1), torch.ones(3))
    model.set_task(Pairs(OneLabel.numbered(10).names))
    output = model(images)
    assert not torch.allclose(output.answers.sum(1), torch.ones(3), atol=1e-3)
    labels = torch.tensor([[0, 1], [2, 3], [4, 5]])
    T = torch.zeros(3, 10).scatter_(1, labels, 1)
    expected = -(T * output.answers.log() + (1 - T) * (1 - output.answers).log()).sum(1).mean()
    torch.testing.assert_close(model.loss(output, Batch(images, labels), None), expected)


def test_large_images_are_drawn_by_convolutions():
    counts = []
    for side in (28, 64, 65, 224):
        with torch.device("meta"):
            model = create_model("capsnet_modern_small", image_shape=(1, side, side))
        counts.append(sum(p.numel() for p in model.decoder.parameters()))
    assert counts[1] > 2 * counts[0] and max(counts[2:]) < counts[0]


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 45, 30)])
def test_decoder_of_convolutions_draws_as_the_dense_one_is_asked(shape):
    torch.manual_seed(0)
    options = {"channels": (4, 8), "primary_types": 3, "decoder": "conv"}
    model = create_model("capsnet_modern", image_shape=shape, **options).eval()
    v = model(torch.rand(3, *shape)).v
    which = torch.tensor([[1, 2], [3, 4], [5, 6]])
    pictures = model.reconstruct(v, which)
    assert pictures.shape == (3, 2, *shape)
    torch.testing.assert_close(pictures[:, 1], model.reconstruct(v, which[:, 1]))
    alone = torch.zeros_like(v)
    alone[torch.arange(3), which[:, 0]] = v[torch.arange(3), which[:, 0]]
    torch.testing.assert_close(model.draw(alone), pictures[:, 0])
