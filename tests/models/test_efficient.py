import pytest
import torch

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.models import Progress, create_model
from capsnet.ops import margin_loss, reconstruction_loss

TINY = {"channels": (8, 8, 16), "kernels": (5, 3, 3), "strides": (2, 1, 2), "decoder": (32,)}


@pytest.mark.parametrize(
    ("name", "grid", "field"),
    [
        ("efficient_capsnet", (1, 1, 16), (27, 2)),
        ("efficient_capsnet_multimnist", (1, 1, 16), (29, 8)),
        ("efficient_capsnet_smallnorb", (1, 1, 16), (47, 4)),
    ],
)
def test_sixteen_primary_capsules_as_in_the_paper(name, grid, field):
    with torch.device("meta"):
        model = create_model(name)
    assert (model.grid, model.field) == (grid, (*field, 0))
    assert model.class_caps.W.shape == (16, model.num_classes, 16, 8)


def test_a_capsule_sees_its_field_and_nothing_else():
    model = create_model("efficient_capsnet", image_shape=(1, 29, 36), **TINY, primary_kernel=2)
    model.eval()
    (rows, columns, types), (side, step, _) = model.grid, model.field
    image = torch.rand(1, 1, 29, 36, requires_grad=True)
    u = model.primary(image).view(rows, columns, types, -1)
    seen = torch.autograd.grad(u[1, 2].square().sum(), image)[0][0, 0] != 0
    inside = torch.zeros(29, 36, dtype=torch.bool)
    inside[step : step + side, 2 * step : 2 * step + side] = True
    assert not (seen & ~inside).any()
    assert seen.any(dim=1).sum() == seen.any(dim=0).sum() == side


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 40, 28), (2, 19, 61)])
@pytest.mark.parametrize("norm", ["batch", "instance"])
def test_any_size_channels_and_classes(shape, norm):
    model = create_model("efficient_capsnet", image_shape=shape, num_classes=7, norm=norm, **TINY)
    for n in (1, 3):
        output = model(torch.rand(n, *shape))
        assert output.v.shape == (n, 7, 16) and (output.lengths < 1).all()
        assert model.reconstruct(output.v).shape == (n, *shape)


@pytest.mark.parametrize("weight", [0.0005, 0.5])
def test_loss_is_margin_and_reconstruction(weight):
    model = create_model("efficient_capsnet", **TINY, reconstruction_weight=weight).eval()
    batch = first_digits(8)
    output, labels = model(batch.images), batch.labels[:, 0]
    pixels = model.reconstruct(output.v, labels)
    expected = weight * reconstruction_loss(pixels, batch.images)
    expected = expected + margin_loss(output.lengths, labels)
    torch.testing.assert_close(model.loss(output, batch, Progress.at(0, 10)), expected)


def first_digits(num):
    digits = open_data("digits", "train")
    return digits.batch({k: x[:num] for k, x in digits.plan(None).items()})


@pytest.mark.parametrize("norm", ["batch", "instance"])
def test_learns_one_batch(norm):
    torch.manual_seed(0)
    model, batch = create_model("efficient_capsnet", norm=norm, **TINY), first_digits(32)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(60):
        loss = model.loss(model(batch.images), batch, Progress.at(step, 60))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.inference_mode():
        answers = model(batch.images).answers
    assert (answers.argmax(dim=1) == batch.labels[:, 0]).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"channels": (8, 8)}, "one of each for every convolution"),
        ({"channels": (), "kernels": (), "strides": ()}, "one of each"),
        ({"primary_dim": 7}, "do not make capsules of 7"),
        ({"image_shape": (1, 9, 9)}, "does not fit"),
        ({"primary_kernel": 10}, "10×10 kernel does not fit a 9×9"),
        ({"image_shape": (1, 11, 11), "norm": "instance"}, "one place"),
        ({"norm": "layer"}, "no norm called 'layer'"),
        ({"slope": 1.5}, "slope must be less than 1"),
        ({"num_classes": 1}, "at least two classes"),
    ],
)
def test_mistakes_are_sentences(options, sentence):
    with pytest.raises(UserError, match=sentence):
        create_model("efficient_capsnet", **options)
