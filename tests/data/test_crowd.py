import pytest
import torch

from capsnet.data import open_data
from capsnet.data.sets.digits import load_digits
from capsnet.data.sets.hollow import load_hollow
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
