import pytest
import torch

from capsnet.data import OverlapStream, Split, bounding_box_overlap
from capsnet.data.sets.digits import load_digits
from capsnet.data.streams.overlap import draw_partners
from capsnet.errors import UserError


@pytest.fixture(scope="module")
def digits():
    return load_digits("train")


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_of_fewer_pairs_than_images_every_epoch_begins_with_others(digits):
    firsts = [OverlapStream(digits, 50).plan(seeded(epoch))["index"][:, 0] for epoch in range(4)]
    assert all(len(first.unique()) == 50 for first in firsts)
    assert len(torch.cat(firsts).unique()) > 150


@pytest.mark.parametrize("generator", [seeded(0), None], ids=["train", "test"])
def test_never_two_of_a_class(digits, generator):
    stream = OverlapStream(digits, 20_000)
    labels = digits.labels[stream.plan(generator)["index"]]
    assert (labels[:, 0] != labels[:, 1]).all()


def test_overlay_is_the_clipped_sum_of_its_parts(digits):
    stream = OverlapStream(digits, 500)
    plan = stream.plan(seeded(1))
    batch = stream.batch(plan)
    parts = (batch.parts * 255).round().int()
    assert torch.equal((batch.images * 255).round().int(), parts.sum(1).clamp(max=255))
    assert parts.sum(1).max() > 255  # the clip is seen at work
    originals = digits.images[plan["index"]].sum((2, 3, 4))
    assert torch.equal(parts.sum((2, 3, 4)), originals)  # no digit is cut


def test_parts_lie_where_the_plan_says(digits):
    stream = OverlapStream(digits, 40)
    plan = stream.plan(seeded(2))
    parts = (stream.batch(plan).parts * 255).round().byte()
    for n in range(40):
        for k in range(2):
            dy, dx = plan["shift"][n, k].tolist()
            window = parts[n, k, :, 4 + dy : 32 + dy, 4 + dx : 32 + dx]
            assert torch.equal(window, digits.images[plan["index"][n, k]])


def test_frames_overlap_by_80_percent(digits):
    shift = OverlapStream(digits, 50_000).plan(seeded(3))["shift"]
    assert bounding_box_overlap(shift).mean().item() == pytest.approx(0.80, abs=0.005)
    assert bounding_box_overlap(torch.zeros(1, 2, 2)).item() == 1
    assert bounding_box_overlap(torch.tensor([[[0, 0], [14, 14]]])).item() == 0.25
    apart = torch.tensor([[[0, 0], [28, 0]], [[9, 2], [9, -40]], [[-7, 3], [7, 3]]])
    assert bounding_box_overlap(apart).tolist() == [0, 0, 0.5]
    assert bounding_box_overlap(apart[2:], (20, 50)).item() == pytest.approx(0.3)


def test_partners_are_uniform_over_other_classes():
    labels = torch.tensor([2, 0, 1, 1, 0, 2, 2])
    first = torch.full((60_000,), 2)  # class 1, so that both sides of its range are drawn
    counts = torch.bincount(draw_partners(labels, first, seeded(4)), minlength=7)
    assert counts[[2, 3]].tolist() == [0, 0]
    others = counts[[0, 1, 4, 5, 6]].double()
    chi_square = ((others - 12_000) ** 2 / 12_000).sum()
    assert chi_square < 18.5  # 4 degrees of freedom, p = 0.001


def test_every_digit_is_used_equally_often(digits):
    first = OverlapStream(digits, 15_000).plan(seeded(5))["index"][:, 0]
    assert torch.bincount(first).tolist() == [3] * 5000


def test_one_class_or_too_small_a_canvas_is_refused():
    images = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)
    same = Split(images, torch.zeros(3, dtype=torch.int64), ("a", "b"))
    with pytest.raises(UserError, match="at least two"):
        OverlapStream(same, 3, canvas=16)
    with pytest.raises(UserError, match="16 or more"):
        OverlapStream(Split(images, torch.arange(3), ("a", "b", "c")), 3, canvas=15)
