import pytest
import torch

from capsnet.data import Augment, ImageStream, Split
from capsnet.data.sets.digits import load_digits
from capsnet.data.streams.elastic import KNOTS, SPREAD, draw_knots, spline_basis, spline_field
from capsnet.data.streams.geometry import affine_grid, affine_theta, pixel_centres, place, sample
from capsnet.errors import UserError
from capsnet.training.config import TrainConfig, differences
from capsnet.training.setup import open_stream
from capsnet.training.step import epoch_plan

CPU = torch.device("cpu")


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def random_images(num=24, height=7, width=6):
    return torch.randint(1, 256, (num, 2, height, width), dtype=torch.uint8)


def unmoved(num, inner, outer):
    return affine_theta(torch.eye(2).expand(num, 2, 2), torch.zeros(num, 2), inner, outer)


def pixel_field(num, strength, side=28):
    """Displacements [num, side, side, 2] in pixels."""
    knots = draw_knots(num, strength, (side, side), seeded(0))
    return spline_field(knots, spline_basis((side, side))) * (side / 2)


@pytest.mark.parametrize("size", [(28, 28), (7, 6), (41, 96), (1, 2)])
def test_shares_of_a_pixel_are_one_and_come_from_sixteen_knots(size):
    basis = spline_basis(size)
    assert basis.shape == (KNOTS**2, *size) and basis.min() >= 0
    torch.testing.assert_close(basis.sum(0), torch.ones(size), atol=1e-6, rtol=0)
    assert (basis > 0).sum(0).max() <= 16


def test_zero_displacement_is_the_affine_warp_bit_for_bit():
    split = load_digits("test").subset(range(40))
    plain = ImageStream(split, Augment(2, 15.0, 0.15, 0.15))
    elastic = ImageStream(split, Augment(2, 15.0, 0.15, 0.15, elastic=1.0))
    plan = elastic.plan(seeded(3))
    affine = plain.batch(plain.plan(seeded(3))).images
    assert not torch.equal(elastic.batch(plan).images, affine)
    plan["knots"].zero_()
    assert torch.equal(elastic.batch(plan).images, affine)


def test_other_movements_are_drawn_as_without():
    split = load_digits("test").subset(range(40))
    plain = ImageStream(split, Augment(2, 15.0, 0.15, 0.15)).plan(seeded(3))
    bent = ImageStream(split, Augment(2, 15.0, 0.15, 0.15, elastic=1.0)).plan(seeded(3))
    assert plain.keys() == {"index", "theta"} and bent.keys() == {"index", "theta", "knots"}
    assert all(torch.equal(plain[name], bent[name]) for name in plain)
    assert ImageStream(split, Augment()).plan(seeded(3)).keys() == {"index", "shift"}


def test_equal_displacements_are_a_shift_by_as_many_pixels():
    images = random_images()
    shift = torch.randint(-2, 3, (24, 2))  # (dy, dx)
    pixels = -shift.flip(1) * torch.tensor([2 / 6, 2 / 7])  # to look left is to move right
    knots = pixels[:, :, None, None].expand(-1, -1, KNOTS, KNOTS)
    field = spline_field(knots, spline_basis((11, 10)))
    grid = affine_grid(unmoved(24, (7, 6), (11, 10)), *pixel_centres((11, 10), CPU))
    moved = sample(images / 255, grid + field)
    torch.testing.assert_close(moved, place(images, shift, (11, 10)) / 255, atol=1e-4, rtol=0)


def test_displacements_are_as_large_as_asked_everywhere_and_in_both_directions():
    for strength in (0.5, 2.0):
        field = pixel_field(4000, strength)
        assert field.std().item() == pytest.approx(strength, rel=0.02)
        assert field.mean(0).abs().max() < 0.1 * strength
        spread = field.std(0) / strength
        assert spread.min() > 0.9 and spread.max() < 1.12
    # The directions have their own draws, and pixels far from each other do too.
    x, y = field[..., 0], field[..., 1]
    assert torch.corrcoef(torch.stack([x[:, 14, 14], y[:, 14, 14]]))[0, 1].abs() < 0.06
    assert torch.corrcoef(torch.stack([x[:, 0, 0], x[:, 27, 27]]))[0, 1].abs() < 0.06


def test_size_of_a_pixel_is_that_of_the_image_not_of_the_canvas():
    knots = draw_knots(4000, 1.5, (10, 40), seeded(0))
    field = spline_field(knots, spline_basis((20, 48))) * torch.tensor([40 / 2, 10 / 2])
    assert field[..., 0].std().item() == pytest.approx(1.5, rel=0.02)
    assert field[..., 1].std().item() == pytest.approx(1.5, rel=0.02)


def test_field_is_smooth_and_does_not_fold_the_image():
    field = pixel_field(2000, 1.0)
    along_y, along_x = field.diff(dim=1), field.diff(dim=2)
    bend = (8 / 3 / SPREAD) ** 0.5 / 7**2  # ∫B″² = 8/3, knots 7 px apart: 0.05 px per px²
    for second in (along_y.diff(dim=1), along_x.diff(dim=2)):
        assert second.std().item() == pytest.approx(bend, rel=0.06)
        assert second.abs().max() < 8 * bend
    dy, dx = along_y[:, :, :-1], along_x[:, :-1]
    area = (1 + dx[..., 0]) * (1 + dy[..., 1]) - dx[..., 1] * dy[..., 0]
    assert area.min() > 0


def test_every_image_and_every_epoch_is_bent_its_own_way():
    digits = load_digits("test")
    same = Split(
        digits.images[:1].expand(60, -1, -1, -1), digits.labels[:1].expand(60), digits.task
    )
    stream = ImageStream(same, Augment(shift=0, elastic=1.0))
    first, again, other = (stream.batch(stream.plan(seeded(s))).images for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert len(torch.cat([first, other]).flatten(1).unique(dim=0)) == 120


def test_plan_of_an_epoch_is_the_same_on_resuming():
    config = TrainConfig(data="digits", num_samples=50, elastic=1.0)
    first = epoch_plan(open_stream(config, "train", CPU), seed=3, epoch=5, num_rows=60)
    again = epoch_plan(open_stream(config, "train", CPU), seed=3, epoch=5, num_rows=60)
    assert first.keys() == {"index", "theta", "knots"}
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert torch.equal(first["knots"][50:], first["knots"][:10])
    later = epoch_plan(open_stream(config, "train", CPU), seed=3, epoch=6, num_rows=60)
    assert not torch.equal(first["knots"], later["knots"])


def test_config_is_passed_on_and_checked():
    config = TrainConfig(data="digits", rotate=1.0, scale=0.2, shear=0.3, elastic=0.4)
    assert open_stream(config, "train", CPU).mover.augment == Augment(2, 1.0, 0.2, 0.3, 0.4)
    assert open_stream(config, "test", CPU).mover.augment == Augment(shift=0)
    with pytest.raises(UserError, match="elastic must not be negative"):
        open_stream(TrainConfig(data="digits", elastic=-1.0), "train", CPU)
    with pytest.raises(UserError, match="own rules"):
        open_stream(TrainConfig(data="mnist40", elastic=1.0), "train", CPU)


def test_run_of_before_there_was_elastic_can_go_on():
    saved = TrainConfig(rotate=15.0).to_json()
    del saved["elastic"]
    assert differences(TrainConfig(rotate=15.0), saved) == []
    assert differences(TrainConfig(rotate=15.0, elastic=1.0), saved) == ["elastic: 0.0 -> 1.0"]
