import pytest
import torch

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.models import Progress, create_model
from capsnet.ops import margin_loss

TINY = {"conv_channels": 16, "types": 4, "class_dim": 16, "decoder_width": 16}


def first_digits(num):
    digits = open_data("digits", "train")
    return digits.batch({k: x[:num] for k, x in digits.plan(None).items()})


@pytest.mark.parametrize(("shape", "count"), [((1, 28, 28), 8_500_625), ((3, 64, 64), 13_427_283)])
def test_parameter_count_of_the_authors(shape, count):
    with torch.device("meta"):
        model = create_model("deepcaps", image_shape=shape)
    # Keras counts the running mean and variance of the two batch norms, of 128 and 16 channels.
    statistics = [x.numel() for name, x in model.named_buffers() if "running" in name]
    assert sum(statistics) == 2 * 128 + 2 * 16
    assert sum(p.numel() for p in model.parameters()) + sum(statistics) == count


def test_maps_and_capsules_of_the_authors():
    torch.manual_seed(0)
    model, sizes = create_model("deepcaps"), []
    for cell in model.cells:
        cell.register_forward_hook(lambda cell, x, y: sizes.append(tuple(y.shape[1:])))
    with torch.inference_mode():
        u = model.primary(first_digits(4).images)
    assert sizes == [(128, 14, 14), (256, 7, 7), (256, 4, 4), (256, 2, 2)]
    assert u.shape == (4, (4 * 4 + 2 * 2) * 32, 8)
    lengths = u.norm(dim=-1)
    assert lengths.isfinite().all() and lengths.mean() > 0.05  # the squashes leave something


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (2, 9, 61)])
@pytest.mark.parametrize("option", [{}, {"squash_over": "map"}, {"decoder_width": 0}])
def test_any_size_channels_and_classes(shape, option):
    model = create_model("deepcaps", image_shape=shape, num_classes=7, **{**TINY, **option})
    for n in (1, 3):
        output = model(torch.rand(n, *shape))
        assert output.v.shape == (n, 7, 16) and (output.lengths < 1).all()
        if model.draws is not None:
            assert model.reconstruct(output.v).shape == (n, *shape)
            assert model.reconstruct(output.v, [[0, 1]] * n).shape == (n, 2, *shape)
    assert (model.draws is None) == ("decoder_width" in option)


def test_the_decoder_does_not_know_the_class():
    model = create_model("deepcaps", **TINY).eval()
    v = torch.randn(2, 10, 16)
    v[:, 3] = v[:, 7]
    drawn = model.reconstruct(v, 3)
    torch.testing.assert_close(drawn, model.reconstruct(v, 7))
    longest = v.norm(dim=-1).argmax(dim=1)
    torch.testing.assert_close(model.reconstruct(v), model.reconstruct(v, longest))
    alone = torch.zeros_like(v)
    alone[:, 5] = v[:, 3]
    torch.testing.assert_close(model.draw(alone), drawn)
    torch.testing.assert_close(model.draw(v), model.decoder.net(v.sum(dim=1)))
    with pytest.raises(UserError, match="There is no class 10"):
        model.reconstruct(v, 10)


def test_trace_ends_at_the_output():
    model = create_model("deepcaps", **TINY).eval()
    images = torch.rand(2, 1, 28, 28)
    trace = model.trace(images)
    torch.testing.assert_close(trace.v[-1], model(images).v)
    assert len(trace.c) == 3 and trace.u_hat.shape == (2, 80, 10, 16)


def test_margins_become_hard():
    model, batch = create_model("deepcaps", **TINY, hard_from=0.5).eval(), first_digits(4)
    output, labels = model(batch.images), batch.labels[:, 0]
    squares = (model.reconstruct(output.v, labels) - batch.images).square()
    soft = margin_loss(output.lengths, labels)
    hard = margin_loss(output.lengths, labels, 0.95, 0.05, 0.8)
    for step, margin in ((0, soft), (4, soft), (5, hard), (9, hard)):
        found = model.loss(output, batch, Progress.at(step, 10))
        torch.testing.assert_close(found, margin + 0.0005 * squares.sum() / 4)
    never = create_model("deepcaps", **TINY)
    assert never.hard_from == 1


def test_learns_one_batch():
    torch.manual_seed(0)
    model, batch = create_model("deepcaps", **TINY), first_digits(32)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for step in range(20):
        loss = model.loss(model(batch.images), batch, Progress.at(step, 20))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
    with torch.inference_mode():
        answers = model(batch.images).answers
    assert (answers.argmax(dim=1) == batch.labels[:, 0]).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"image_shape": (1, 7, 28)}, "7×28 is too small"),
        ({"dims": (4, 8, 8, 6)}, "do not vote together"),
        ({"dims": (4, 8)}, "longer by"),
        ({"num_iters": 0}, "at least 1"),
        ({"hard_from": 1.5}, "at most 1"),
        ({"squash_over": "type"}, "no squash_over called 'type'"),
        ({"decoder_end": "tanh"}, "no decoder_end called 'tanh'"),
        ({"decoder_width": -1}, "at least 0"),
    ],
)
def test_mistakes_are_sentences(options, sentence):
    with pytest.raises(UserError, match=sentence):
        create_model("deepcaps", **options)
