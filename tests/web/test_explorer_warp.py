"""How pictures are bent for the explorer, and how far."""

import pytest
import torch
from pydantic import ValidationError

from capsnet.data.streams.geometry import SHARP
from capsnet.web import samples, schema
from capsnet.web.schema import Warp
from capsnet.web.warp import bend, sweep


def test_bending_laws():
    image = torch.rand(3, 12, 12)
    assert torch.equal(bend(image, Warp()), image)
    assert torch.equal(bend(image, Warp(right=1, down=-2))[:, :-2, 1:], image[:, 2:, :-1])
    for rotate in (-180, -90, 90, 180):
        exact = bend(image, Warp(rotate=rotate, right=2, down=-1))
        near = bend(image, Warp(rotate=rotate * 0.999999, right=2, down=-1))
        sharpened = (0.5 + SHARP * (exact - 0.5)).clamp(0, 1)
        torch.testing.assert_close(near, sharpened, atol=1e-3, rtol=0)
    for how in (Warp(thicken=0.5), Warp(thicken=-1.5), Warp(pieces=2), Warp(pieces=4, seed=3)):
        assert not torch.allclose(bend(image, how), image, atol=0.1)
    assert not torch.equal(bend(image, Warp(pieces=4)), bend(image, Warp(pieces=4, seed=3)))


@pytest.mark.parametrize("over", schema.RANGES)
def test_a_sweep_passes_through_the_picture_itself(over):
    image = torch.rand(1, 12, 12)
    values, bent = sweep(image, Warp(), over)
    assert (values[0], values[-1]) == (schema.RANGES[over].low, schema.RANGES[over].high)
    assert torch.equal(bent[len(values) // 2], image)


def edges(images):
    """The strength of the edges of images [N, H, W]."""
    return sum(images.diff(dim=d).square().sum().item() for d in (1, 2))


def test_bent_digits_are_as_sharp_as_they_were():
    digits = samples.digit_samples().images[:, 0] / 255
    _, turned = sweep(digits, Warp(), "rotate")
    shifted = [bend(digits, how) for how in (Warp(right=0.5), Warp(right=3, down=-0.5))]
    for bent in (*turned, *shifted):
        assert edges(bent) == pytest.approx(edges(digits), rel=0.04)


@pytest.mark.parametrize("name", schema.RANGES)
def test_bending_beyond_its_range_is_refused(name):
    slider = schema.RANGES[name]
    assert Warp(**{name: slider.low}) != Warp(**{name: slider.high})
    assert getattr(Warp(), name) == slider.usual
    for beyond in (slider.low - slider.step, slider.high + slider.step):
        with pytest.raises(ValidationError, match=name):
            Warp(**{name: beyond})
