"""Steps of the figure of tweaked capsules."""

import pytest
import torch

from capsnet.data import ImageStream, open_data
from capsnet.figures.perturbation import STEPS, draw_perturbation, perturb
from capsnet.models import create_model
from capsnet.models.self_reading import spreads


@pytest.fixture(scope="module")
def model():
    return create_model("capsnet_small", pretrained=True).eval()


def titles(figure):
    axes = figure.axes[: len(STEPS)]
    return [axis.get_title() for axis in axes], axes[0].get_ylabel()


def test_steps_are_spreads_of_each_dimension(model):
    stream = open_data("digits", "test")
    figure = draw_perturbation(model, stream, 0)
    above, first = titles(figure)
    assert above[0] == "-2.5 σ" and above[-1] == "+2.5 σ"
    images = stream.batch({k: x[:300] for k, x in stream.plan(None).items()}).images
    which = int(model(images[:1]).answers.argmax())
    assert f"capsule “{model.task.names[which]}”" in figure.get_suptitle()
    assert float(first.split("±")[1]) == pytest.approx(
        2.5 * float(spreads(model, images)[which, 0]), rel=0.3
    )


def test_paper_steps_where_no_spread_is_known(model):
    split = open_data("digits", "test").split.subset(range(1))
    above, first = titles(draw_perturbation(model, ImageStream(split), 0))
    assert above[0] == "-0.25" and above[-1] == "+0.25" and first == "1"


def test_each_dimension_may_have_steps_of_its_own(model):
    v = torch.rand(10, 16) / 5
    steps = torch.rand(16, 3)
    drawn = perturb(model, v, 3, steps)
    moved = v.clone()
    moved[3, 5] += steps[5, 2]
    torch.testing.assert_close(drawn[5, 2], model.reconstruct(moved[None], 3)[0])
    torch.testing.assert_close(perturb(model, v, 3, steps[0])[0], perturb(model, v, 3, steps)[0])
