"""How pictures are bent for the explorer, and that page and server agree how far."""

import re
from typing import get_args

import pytest
import torch
from pydantic import ValidationError

from capsnet.data.streams.geometry import SHARP
from capsnet.web import routes, samples, schema
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
    assert (values[0], values[-1]) == schema.RANGES[over]
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


def test_page_and_server_agree_on_the_limits():
    def source(name):
        return (routes.STATIC / name).read_text()

    kinds = re.findall(r"(\w+): { min: (\S+), max: (\S+),", source("bends.js"))
    assert {name: (float(low), float(high)) for name, low, high in kinds} == schema.RANGES
    for name, (low, high) in schema.RANGES.items():
        assert Warp(**{name: low}) != Warp(**{name: high})
        for beyond in (low - 0.1, high + 0.1):
            with pytest.raises(ValidationError, match=name):
                Warp(**{name: beyond})
    pieces = f"PIECES = {list(get_args(Warp.model_fields['pieces'].annotation))};"
    assert pieces in source("bends.js")
    assert f"MAX_PICTURES = {schema.MAX_PICTURES};" in source("tweak.js")
