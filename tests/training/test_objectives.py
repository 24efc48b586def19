import numpy as np
import pytest
import torch
import torch.nn.functional as F

from capsnet.data import ImageStream, OverlapStream, Split
from capsnet.data.sets.digits import load_digits
from capsnet.errors import UserError
from capsnet.models import Output, create_model
from capsnet.models.model import Progress
from capsnet.ops import margin_loss
from capsnet.tasks import Pairs, Sets
from capsnet.tasks.labels import present, wrong
from capsnet.training.evaluation import evaluate, pack, unpack
from capsnet.training.step import answer_and_loss

START = Progress.at(0, 100)


def take(stream, count=12):
    return stream.batch({k: x[:count] for k, x in stream.plan(None).items()})


@pytest.fixture
def digits():
    return take(ImageStream(load_digits("test")))


@pytest.fixture
def model():
    torch.manual_seed(0)
    small = {"conv_channels": 8, "primary_types": 4, "decoder": (16,)}
    model = create_model("capsnet_small", **small, reconstruction_weight=0.5)
    model.class_caps.W.data *= 20  # classes that are drawn differently
    model.decoder.layers[0].weight.data *= 20
    return model


def squared_differences(pictures, images):
    return (pictures - images).square().flatten(1).sum(dim=1).mean()


def test_decoder_is_masked_by_the_label_not_by_the_prediction(model, digits):
    loss, errors = answer_and_loss(model, digits, START)
    assert errors.any()  # else label and prediction would be the same
    output, labels = model(digits.images), digits.labels[:, 0]
    margin = margin_loss(output.lengths, labels)
    by_label = squared_differences(model.reconstruct(output.v, labels), digits.images)
    by_guess = squared_differences(model.reconstruct(output.v), digits.images)
    torch.testing.assert_close(loss, margin + 0.5 * by_label)
    assert not torch.isclose(loss, margin + 0.5 * by_guess, rtol=1e-4)


def test_reconstruction_pulls_only_the_labelled_capsules(model, digits):
    model.reconstruction_weight = 1.0
    one = digits._replace(**{k: x[:1] for k, x in digits._asdict().items() if x is not None})
    answer_and_loss(model, one, START)[0].backward()
    first = model.decoder.layers[0].weight.grad.view(16, 10, 16)
    seen = first.abs().sum(dim=(0, 2)) > 0
    assert seen.nonzero().flatten().tolist() == one.labels[0].tolist()


def test_each_of_two_labelled_capsules_draws_its_own_digit(digits):
    torch.manual_seed(0)
    small = {"conv_channels": 8, "primary_types": 4, "decoder": (16,)}
    options = {"image_shape": (1, 36, 36), "reconstruction_weight": 0.5, **small}
    model = create_model("capsnet_small", **options)
    stream = OverlapStream(load_digits("test"), 12)
    assert stream.task == Pairs(tuple("0123456789"))
    model.set_task(stream.task)
    batch = take(stream)
    loss, _ = answer_and_loss(model, batch, START)
    output = model(batch.images)
    margin = margin_loss(output.lengths, present(batch.labels, 10))
    draw = sum(
        squared_differences(model.reconstruct(output.v, batch.labels[:, k]), batch.parts[:, k])
        for k in range(2)
    )
    torch.testing.assert_close(loss, margin + 0.5 * draw)


@pytest.mark.parametrize("kind", [Pairs, Sets])
def test_an_image_of_several_objects_is_not_the_part_of_each(kind):
    images, labels = torch.zeros(3, 1, 28, 28).byte(), torch.tensor([[0, 2], [1, 0], [2, 1]])
    batch = take(ImageStream(Split(images, labels, kind(("a", "b", "c")))))
    name, sizes = "capsnet_small", {"conv_channels": 4}
    if kind is Sets:
        name, sizes = "capsnet_slots", {"channels": (4,)}
    model = create_model(
        name, image_shape=(1, 28, 28), num_classes=3, primary_types=2, decoder=(8,), **sizes
    )
    assert batch.parts is None and answer_and_loss(model, batch, START)[0].isfinite()


def test_margin_loss_is_of_the_lengths_themselves(model, digits):
    model.reconstruction_weight = 0.0
    loss, _ = answer_and_loss(model, digits, START)
    v = model(digits.images).v
    torch.testing.assert_close(loss, margin_loss(v.norm(dim=-1), digits.labels[:, 0]))


def test_authors_weigh_reconstruction_twenty_times_more(model, digits):
    losses = []
    for model.reconstruction_weight, model.average_classes in ((0.01, False), (0.0005, True)):
        losses.append(answer_and_loss(model, digits, START)[0])
    ours, theirs = losses
    torch.testing.assert_close(theirs * 20, ours)


def test_cross_entropies_are_those_of_the_logits(digits):
    for name, kind in (("cnn_small", "cross_entropy"), ("cnn_multimnist", "binary_cross_entropy")):
        model = create_model(name, image_shape=(1, 28, 28)).eval()
        logits, labels = model(digits.images).v.squeeze(-1), digits.labels[:, 0]
        loss, _ = answer_and_loss(model, digits, START)
        if kind == "cross_entropy":
            expected = F.cross_entropy(logits, labels)
        else:
            T = F.one_hot(labels, 10).float()
            p = logits.sigmoid()
            expected = -(T * p.log() + (1 - T) * (1 - p).log()).sum(dim=1).mean()
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)


def test_right_only_if_the_longest_are_just_the_labels():
    lengths = torch.tensor([[0.9, 0.8, 0.1], [0.9, 0.1, 0.8], [0.1, 0.9, 0.8]])
    assert wrong(lengths, torch.tensor([[0], [0], [0]])).tolist() == [False, False, True]
    labels = torch.tensor([[1, 0], [0, 1], [2, 1]])
    assert wrong(lengths, labels).tolist() == [False, True, False]


def test_tie_with_a_label_is_wrong():
    lengths = torch.tensor([[0.0, 0.0, 0.0], [0.9, 0.9, 0.1], [0.1, 0.9, 0.9]])
    assert wrong(lengths, torch.tensor([[0], [1], [2]])).all()
    labels = torch.tensor([[0, 1], [0, 1], [1, 0]])
    assert wrong(lengths, labels).tolist() == [True, False, True]


def test_answer_that_is_no_number_is_wrong():
    assert wrong(torch.full((1, 3), float("nan")), torch.tensor([[0]])).all()


def test_table_has_a_one_for_each_label():
    T = present(torch.tensor([[2, 0], [1, 1]]), 4)
    assert T.tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]]


def test_evaluation_counts_by_hand(model):
    stream = ImageStream(load_digits("test").subset(range(60)))
    found = evaluate(model, stream, batch_size=7)
    batch = take(stream, 60)
    guess = model.eval()(batch.images).lengths.argmax(dim=1)
    labels = batch.labels[:, 0]
    assert (found.num_images, found.num_wrong) == (60, int((guess != labels).sum()))
    assert found.error_percent == pytest.approx(100 * found.num_wrong / 60)
    for k, percent in enumerate(found.per_class_error_percent):
        share = (guess != labels)[labels == k].float().mean().item()
        assert percent == pytest.approx(100 * share)
    assert found.wrong.tolist() == (guess != labels).tolist()
    assert evaluate(model, stream, batch_size=60).to_json() == found.to_json()


def test_classes_without_images_have_no_error():
    model = create_model("cnn_small", channels=2)
    split = load_digits("test")
    stream = ImageStream(split.subset((split.labels == 3).nonzero().flatten()))
    percents = evaluate(model, stream).per_class_error_percent
    assert [k for k, percent in enumerate(percents) if percent is not None] == [3]


def test_evaluation_leaves_dropout_out():
    model = create_model("cnn_small", channels=4, dropout=0.9)
    stream = ImageStream(load_digits("test").subset(range(100)))
    one, two = (evaluate(model.train(), stream).wrong for _ in range(2))
    assert one.tolist() == two.tolist()


def test_wrong_images_survive_packing():
    wrong = np.random.default_rng(0).random(100_003) < 0.05
    text = pack(wrong)
    assert np.array_equal(unpack(text, len(wrong)), wrong) and len(text) < 8_000


def test_a_model_that_breaks_its_contract_is_a_sentence(model, digits, monkeypatch):
    forward, loss = model.forward, model.loss
    monkeypatch.setattr(model, "loss", lambda *args: loss(*args).expand(2))
    with pytest.raises(UserError, match="loss of capsnet_small is not one number"):
        answer_and_loss(model, digits, START)
    monkeypatch.setattr(model, "forward", lambda images: forward(images).answers)
    with pytest.raises(UserError, match="capsnet_small gives no Output; let forward return"):
        answer_and_loss(model, digits, START)
    monkeypatch.setattr(model, "forward", lambda images: Output(images, forward(images).v))
    with pytest.raises(UserError, match=r"gives answers \[12, 10, 16\]; .* \[12, 10\]"):
        answer_and_loss(model, digits, START)
