"""Matrix capsules and their variational-Bayes kin: how they start, learn and what their loss is."""

import pytest
import torch

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.models import Progress, create_model
from capsnet.ops import spread_loss
from capsnet.tasks import Pairs, SeveralLabels
from capsnet.training.step import answer_and_loss

NAMES = ["matrixcaps", "vb_capsnet"]
SMALL = {"A": 8, "B": 2, "C": 3, "D": 3}


def digits(num):
    stream = open_data("digits", "train")
    return stream.batch({key: x[:num] for key, x in stream.plan(None).items()})


@pytest.mark.parametrize("kind", ["digits", "noise"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [{}, {"A": 16, "B": 16, "C": 16, "D": 16}])
def test_activations_start_neither_on_nor_off(name, kind, sizes):
    torch.manual_seed(0)
    model = create_model(name, **sizes)
    images = digits(4).images if kind == "digits" else torch.rand(4, 1, 28, 28)
    with torch.no_grad():
        capsules = model.primary_caps(model.stem(images))
        for layer in (None, model.conv_caps1, model.conv_caps2, model.class_caps):
            capsules = capsules if layer is None else layer(capsules)
            inside = ((capsules.a > 0.05) & (capsules.a < 0.95)).float().mean()
            assert inside > 0.8, layer


@pytest.mark.parametrize("name", NAMES)
def test_one_batch_can_be_learned(name):
    torch.manual_seed(0)
    model, batch = create_model(name, A=16, B=3, C=4, D=4), digits(20)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(22):
        loss, misses = answer_and_loss(model, batch, Progress.at(0, 22))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert int(misses.sum()) <= 3  # of 20; none when this was written


def test_margin_grows_over_the_run():
    model, batch = create_model("matrixcaps", **SMALL), digits(3)
    output = model(batch.images)
    for step, margin in ((0, 0.2), (5, 0.55), (10, 0.9), (20, 0.9)):
        expected = spread_loss(output.answers, batch.labels[:, 0], margin)
        torch.testing.assert_close(model.loss(output, batch, Progress.at(step, 10)), expected)


@pytest.mark.parametrize("name", NAMES)
def test_pairs_are_answered_and_several_labels_are_refused(name):
    model = create_model(name, num_classes=4, **SMALL)
    model.set_task(Pairs(("a", "b", "c", "d")))
    with pytest.raises(UserError, match="several labels is asked"):
        model.set_task(SeveralLabels(("a", "b", "c", "d")))


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_one_and_autocast(name):
    torch.manual_seed(0)
    model, batch = create_model(name, **SMALL).train(), digits(1)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = answer_and_loss(model, batch, Progress.at(0, 1))
    loss.backward()
    assert loss.dtype == torch.float32 and loss.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_models_of_other_types(name, dtype):
    torch.manual_seed(0)
    model, batch = create_model(name, **SMALL).eval(), digits(2)
    expected = model(batch.images).answers
    batch = batch._replace(images=batch.images.to(dtype))
    loss, _ = answer_and_loss(model.to(dtype), batch, Progress.at(0, 1))
    loss.backward()
    assert loss.isfinite() and all(p.grad.isfinite().all() for p in model.parameters())
    torch.testing.assert_close(model(batch.images).answers.float(), expected, atol=0.05, rtol=0)


@pytest.mark.parametrize("shape", [(3, 17, 17), (2, 32, 40)])
@pytest.mark.parametrize("name", NAMES)
def test_any_size_and_channels(name, shape):
    model = create_model(name, image_shape=shape, num_classes=3, **SMALL).eval()
    output = model(torch.rand(2, *shape))
    assert output.v.shape == (2, 3, 16) and output.answers.shape == (2, 3)


@pytest.mark.parametrize(("name", "num_iters"), [("matrixcaps", 2), ("vb_capsnet", 1)])
def test_exports(name, num_iters):
    options = {**SMALL, "image_shape": (1, 17, 17), "num_classes": 3, "num_iters": num_iters}
    model = create_model(name, **options).eval()
    images = torch.rand(3, 1, 17, 17)
    any_batch = ({0: torch.export.Dim("N", min=2)},)
    exported = torch.export.export(model, (images,), dynamic_shapes=any_batch)
    torch.testing.assert_close(exported.module()(images[:2]).answers, model(images[:2]).answers)
