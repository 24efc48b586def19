"""Classes of unequal size: shown equally often, or counted for more in the loss."""

import pytest
import torch
import torch.nn.functional as F

from capsnet.data import Augment, BalancedStream, ImageStream, Split, open_data
from capsnet.errors import UserError
from capsnet.models import Progress, create_model
from capsnet.ops import margin_loss
from capsnet.ops.losses import reconstruction_loss, spread_loss
from capsnet.tasks import OneLabel
from capsnet.training.setup import build_model, open_stream

COUNTS = (60, 25, 5)
START = Progress.at(0, 10)


def uneven_split(names=("a", "b", "c", "none")):
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor(COUNTS))
    images = torch.randint(256, (90, 1, 16, 16), dtype=torch.uint8)
    return Split(images, labels, OneLabel(names))


def seeded(seed=3):
    return torch.Generator().manual_seed(seed)


def test_an_epoch_shows_classes_equally_often_and_images_of_a_class_too():
    stream = BalancedStream(ImageStream(uneven_split()), "sampling")
    plan = stream.plan(seeded())
    labels, index = stream.split.labels, plan["index"]
    assert len(index) == 90
    assert torch.bincount(labels[index]).tolist() == [30, 30, 30]
    times = torch.bincount(index, minlength=90)
    assert times[:60].max() == 1 and times[60:85].max() <= 2
    assert times[85:].tolist() == [6] * 5
    assert stream.batch(plan).weights is None
    assert torch.equal(index, stream.plan(seeded())["index"])
    assert not torch.equal(index, stream.plan(seeded(4))["index"])
    assert labels[index[:30]].unique().tolist() == [0, 1, 2]  # not one class after the other


def test_movement_is_drawn_as_without_balance():
    plain = ImageStream(uneven_split(), Augment(2, 10.0))
    balanced = BalancedStream(plain, "sampling")
    assert torch.equal(plain.plan(seeded())["theta"], balanced.plan(seeded())["theta"])
    assert torch.equal(balanced.plan(None)["index"], torch.arange(90))


def test_weights_make_classes_count_the_same_with_mean_one():
    stream = BalancedStream(ImageStream(uneven_split()), "loss")
    weights = stream.batch(stream.plan(None)).weights
    assert weights.mean().item() == pytest.approx(1)
    sums = [weights[stream.split.labels == k].sum().item() for k in range(3)]
    assert sums == pytest.approx([30, 30, 30])
    assert torch.equal(stream.plan(seeded())["index"], stream.stream.plan(seeded())["index"])


def test_weighted_losses_are_those_computed_by_hand():
    lengths = torch.tensor([[0.8, 0.3], [0.5, 0.9]])
    labels, weights = torch.tensor([0, 0]), torch.tensor([0.5, 3.0])
    # 0.1² + ½ 0.2² = 0.03 and 0.4² + ½ 0.8² = 0.48
    by_hand = (0.5 * 0.03 + 3.0 * 0.48) / 2
    torch.testing.assert_close(margin_loss(lengths, labels, weights=weights), torch.tensor(by_hand))
    # (0.9 - 0.5)² = 0.16 and (0.9 + 0.4)² = 1.69
    spread = (0.5 * 0.16 + 3.0 * 1.69) / 2
    torch.testing.assert_close(spread_loss(lengths, labels, weights=weights), torch.tensor(spread))
    pixels = torch.stack([torch.full((1, 2, 2), 0.5), torch.ones(1, 2, 2)])
    loss = reconstruction_loss(pixels, torch.zeros(2, 1, 2, 2), weights)
    torch.testing.assert_close(loss, torch.tensor((0.5 * 1 + 3.0 * 4) / 2))


@pytest.mark.parametrize("name", ["capsnet_small", "cnn_small", "cnn_multimnist"])
def test_the_loss_of_a_batch_is_the_weighted_mean_of_its_images(name):
    torch.manual_seed(0)
    model = create_model(name, image_shape=(1, 16, 16), num_classes=4).eval()
    stream = BalancedStream(ImageStream(uneven_split()), "loss")
    rows = torch.tensor([0, 70, 88])
    batch = stream.batch({"index": rows})
    each = [stream.batch({"index": rows[k : k + 1]})._replace(weights=None) for k in range(3)]
    alone = torch.stack([model.loss(model(b.images), b, START) for b in each])
    torch.testing.assert_close(
        model.loss(model(batch.images), batch, START), (alone * batch.weights).mean()
    )
    if name == "cnn_small":
        logits = model(batch.images).v[..., 0]
        expected = F.cross_entropy(logits, batch.labels[:, 0], reduction="none") * batch.weights
        torch.testing.assert_close(alone, expected / batch.weights)


def test_a_loss_that_ignores_weights_is_refused(tiny, monkeypatch):
    from capsnet.models import CapsNet, register_model, registry

    monkeypatch.setattr(registry, "_MODELS", {**registry._MODELS})

    @register_model("deaf")
    class Deaf(CapsNet):
        """A CapsNet whose loss counts all images the same."""

        def loss(self, output, batch, progress):
            return margin_loss(output.lengths, batch.labels[:, 0])

    config = tiny(model="deaf", balance="loss", options=("conv_channels=4", "primary_types=2"))
    stream = open_stream(config, "train", torch.device("cpu"))
    with pytest.raises(UserError, match="does not heed the weights"):
        build_model(config, stream)
    config = tiny(model="deaf", balance="sampling", options=config.options)
    build_model(config, open_stream(config, "train", torch.device("cpu")))


@pytest.mark.parametrize("data", ["multidigits", "turned_digits"])
def test_only_images_of_one_class_each_are_balanced(data):
    with pytest.raises(UserError, match="one class each"):
        BalancedStream(open_data(data, "train"), "loss")
