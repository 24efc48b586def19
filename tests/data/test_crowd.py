from dataclasses import replace

import numpy as np
import pytest
import torch

from capsnet.data import open_data
from capsnet.data.entries import TABLE, Request
from capsnet.data.sets.digits import load_digits
from capsnet.data.sets.hollow import COUNTS, load_hollow
from capsnet.data.sets.shapes import draw_outline
from capsnet.data.splits.halving import halved
from capsnet.data.splits.split import Split
from capsnet.data.streams.crowd import CrowdStream, owners
from capsnet.errors import UserError
from capsnet.tasks import NOBODY, Sets


@pytest.fixture(scope="module")
def digits():
    return load_digits("train")


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_a_crowd_is_the_clipped_sum_of_its_objects(digits):
    stream = CrowdStream(digits, 300, (1, 3), canvas=48, max_shift=10)
    plan = stream.plan(seeded(0))
    batch = stream.batch(plan)
    assert batch.images.shape == (300, 1, 48, 48) and batch.parts.shape == (300, 3, 1, 48, 48)
    torch.testing.assert_close(batch.images, batch.parts.sum(1).clamp(max=1))
    there = torch.arange(3) < plan["many"][:, None]
    assert torch.equal(batch.labels != NOBODY, there)
    assert torch.equal(batch.labels[there], digits.labels[plan["index"]][there])
    ink = digits.images[plan["index"]].sum((2, 3, 4)) / 255
    torch.testing.assert_close(batch.parts.sum((2, 3, 4)), ink * there)  # no digit is cut


def test_numbers_are_drawn_evenly_and_twins_occur(digits):
    plan = CrowdStream(digits, 30_000, (1, 3), canvas=48, max_shift=10).plan(seeded(1))
    assert torch.equal(CrowdStream(digits, 30_000).plan(seeded(1))["many"], plan["many"])
    shares = torch.bincount(plan["many"], minlength=4) / 30_000
    torch.testing.assert_close(shares, torch.tensor([0, 1 / 3, 1 / 3, 1 / 3]), atol=0.02, rtol=0)
    labels = digits.labels[plan["index"]]
    twins = (labels[:, 0] == labels[:, 1]).float().mean()
    assert 0.08 < twins < 0.12


def test_the_test_crowd_is_always_the_same(digits):
    stream = CrowdStream(digits, 50, (2, 2), canvas=48, max_shift=10)
    first, again = stream.batch(stream.plan(None)), stream.batch(stream.plan(None))
    assert torch.equal(first.images, again.images) and torch.equal(first.labels, again.labels)


def test_owners_by_hand():
    parts = torch.zeros(1, 2, 1, 1, 4)
    parts[0, 0, 0, 0] = torch.tensor([1.0, 0.4, 0.6, 0.0])
    parts[0, 1, 0, 0] = torch.tensor([0.0, 0.4, 0.9, 0.5])
    owner, several = owners(parts)
    assert owner.tolist() == [[[0, NOBODY, 1, 1]]]
    assert several.tolist() == [[[False, False, True, False]]]


def test_hollow_shapes_are_outlines(digits):
    split = load_hollow("test", num=400)
    images = split.images[:, 0].float() / 255
    assert (images.amax((1, 2)) > 0.9).all() and (images.mean((1, 2)) < 0.12).all()
    assert images[:, [0, -1]].max() < 1 and images[:, :, [0, -1]].max() < 1
    assert torch.bincount(split.labels, minlength=4).min() > 60
    stream = open_data("hollow", "test", num_samples=20)
    batch = stream.batch(stream.plan(None))
    many = (batch.labels != NOBODY).sum(1)
    assert many.min() >= 2 and many.max() == 4 and isinstance(stream.task, Sets)


def test_what_cannot_be_a_crowd_is_said(digits):
    with pytest.raises(UserError, match="cannot have 3 to 1"):
        CrowdStream(digits, 10, (3, 1))
    with pytest.raises(UserError, match="do not fit"):
        CrowdStream(digits, 10, (1, 2), canvas=30, max_shift=6)
    with pytest.raises(UserError, match="24 or more"):
        load_hollow("test", size=10)


def test_hollow_shapes_come_from_the_seed_alone():
    split = load_hollow("test", num=200)
    ink = split.images.double().mean((1, 2, 3)) / 255
    assert split.labels[:8].tolist() == [3, 3, 0, 2, 3, 0, 2, 0]
    assert ink[:3].tolist() == pytest.approx([0.0312426, 0.0366176, 0.0429779], rel=1e-3)
    assert not torch.equal(split.labels, load_hollow("train", num=200).labels)
    assert split.image_shape == (1, 40, 40)


def test_as_many_hollow_shapes_as_are_promised():
    assert COUNTS == {"train": 20_000, "test": 5_000}
    assert load_hollow("test", size=24, num=3).image_shape == (1, 24, 24)
    with pytest.raises(UserError, match="on 23 px; ask for 24 or more"):
        load_hollow("test", size=23)


def test_an_outline_is_as_wide_as_it_is_told():
    pose = np.array([[0.5, 0.5, 0.3, 0.0]])
    for width in (1.0, 3.0):
        image = draw_outline("square", pose, 100, width)[0]
        round_it = 4 * np.sqrt(np.pi) * 0.3 * 100  # of a square of the area pi scale²
        assert image.sum() == pytest.approx(width * round_it, rel=0.02)


def test_a_crowd_of_one_and_of_what_a_pixel_owns():
    stream = CrowdStream(load_digits("test"), 5, (1, 1))
    batch = stream.batch(stream.plan(seeded(0)))
    assert stream.image_shape == (1, 28, 28) and batch.parts.shape == (5, 1, 1, 28, 28)
    torch.testing.assert_close(batch.images, batch.parts[:, 0])
    owner, several = owners(torch.full((1, 2, 1, 1, 1), 0.5))
    assert owner.item() == 0 and several.item()
    with pytest.raises(UserError, match="cannot have 0 to 2"):
        CrowdStream(load_digits("test"), 5, (0, 2))
    with pytest.raises(UserError, match="of one object each"):
        CrowdStream(open_data("scenes_several", "test", image_size=24).split, 5)


def test_half_the_size_is_the_mean_of_every_four_pixels():
    images = torch.arange(2 * 5 * 4, dtype=torch.uint8).view(2, 1, 5, 4)
    small = halved(Split(images, torch.tensor([0, 1]), ("a", "b")))
    assert small.images.dtype == torch.uint8 and small.labels.tolist() == [0, 1]
    # (0 + 1 + 4 + 5) / 4 = 2.5, to the even one
    assert small.images[0, 0].tolist() == [[2, 4], [10, 12]]
    assert small.task.names == ("a", "b")


def test_small_crowds_lie_anywhere_on_their_canvas(digits):
    ask = Request(None, None, None, 2_000, None, 0, training=True)
    (entry,) = (x for x in TABLE if x.name == "small_crowds")
    stream = entry.stream(digits, ask)
    assert stream.image_shape == (1, 40, 40) and stream.many == (1, 3)
    inked = stream.batch(stream.plan(seeded(0))).images.amax(dim=(0, 1)) > 0
    assert all(inked.any(dim=k)[2:-2].all() for k in (0, 1))  # digits have a border of 2 px
    narrow = entry.stream(digits, replace(ask, image_size=14))
    assert narrow.image_shape == (1, 14, 14)
    with pytest.raises(UserError, match="choose a size of 14 or more"):
        entry.stream(digits, replace(ask, image_size=13))
