import numpy as np
import pytest
import torch

from capsnet.data import Augment, open_data
from capsnet.data.sets.scenes import COUNTS, POSE, SHAPES, load_scenes, load_several
from capsnet.data.sets.shapes import DISTANCES, PERIODS, REACH, draw_shape
from capsnet.errors import UserError
from capsnet.tasks import Numbers, SeveralLabels


def centre_of_mass(images):
    """x and y [M] of images [M, S, S], as parts of the canvas."""
    images = np.asarray(images, np.float64)
    at = (np.arange(images.shape[-1]) + 0.5) / images.shape[-1]
    whole = images.sum((1, 2))
    return (images * at).sum((1, 2)) / whole, (images * at[:, None]).sum((1, 2)) / whole


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_has_its_area_place_and_symmetry(shape):
    pose = np.array([[0.4, 0.55, 0.15, angle] for angle in (0, 17, 17 + PERIODS[shape])])
    images = draw_shape(shape, pose, 100)
    assert images.dtype == np.float32 and images.min() == 0 and images.max() == 1
    assert images.sum((1, 2)) / 100**2 == pytest.approx(np.pi * 0.15**2, rel=0.005)
    x, y = centre_of_mass(images)
    assert x == pytest.approx(0.4, abs=1e-3) and y == pytest.approx(0.55, abs=1e-3)
    assert np.abs(images[1] - images[2]).max() < 1e-3
    assert np.abs(images[0] - images[1]).max() > 0.5


@pytest.mark.parametrize("shape", SHAPES)
def test_no_smaller_turn_looks_the_same(shape):
    turns = np.arange(5, PERIODS[shape] - 4, 5)
    pose = np.array([[0.5, 0.5, 0.2, angle] for angle in (0, *turns)])
    images = draw_shape(shape, pose, 64)
    assert np.abs(images[1:] - images[0]).mean((1, 2)).min() > 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_pixels_are_as_bright_as_they_are_covered(shape):
    pose = np.array([[0.47, 0.52, 0.18, 33.0]])
    image = draw_shape(shape, pose, 40)[0]
    fine = draw_shape(shape, pose, 40 * 16)[0] > 0.5
    covered = fine.reshape(40, 16, 40, 16).mean((1, 3))
    assert np.abs(image - covered).max() < 0.2 and np.abs(image - covered).mean() < 0.002


@pytest.mark.parametrize("shape", SHAPES)
def test_reach_holds_all_of_a_shape(shape):
    turn = np.linspace(0, 2 * np.pi, 1000)
    assert (DISTANCES[shape](REACH * np.cos(turn), REACH * np.sin(turn)) > 0).all()


def test_positive_angles_turn_clockwise():
    upright, turned = draw_shape("heart", np.array([[0.5, 0.5, 0.2, 0], [0.5, 0.5, 0.2, 90]]), 50)
    assert np.abs(np.rot90(upright, -1) - turned).max() < 1e-3
    assert upright[:, :25] == pytest.approx(upright[:, :24:-1], abs=1e-4)


def test_scenes_come_from_the_seed_alone():
    one, again = (load_scenes("train", num=50) for _ in range(2))
    assert torch.equal(one.images, again.images) and torch.equal(one.labels, again.labels)
    for other in (load_scenes("test", num=50), load_scenes("train", num=50, seed=3)):
        assert not torch.equal(one.factors.values, other.factors.values)
    # The first of these scenes, so that a change of the rule is seen.
    assert one.labels[:6].tolist() == [1, 3, 0, 2, 1, 3]
    first = [0.708506, 0.348866, 0.164268, 167.599686]
    assert one.factors.values[0].tolist() == pytest.approx(first, abs=1e-4)


def test_scenes_are_what_their_factors_say():
    split = load_scenes("test", size=36, num=400)
    assert split.image_shape == (1, 36, 36) and split.factors.names == POSE
    x, y, scale, angle = split.factors.values.numpy().T
    found_x, found_y = centre_of_mass(split.images[:, 0].numpy())
    assert np.abs(found_x - x).max() < 0.005 and np.abs(found_y - y).max() < 0.005
    # Whole shapes: none is cut by the edge of the canvas.
    area = split.images[:, 0].double().mean((1, 2)).numpy() / 255
    assert np.abs(area / (np.pi * scale**2) - 1).max() < 0.06
    assert np.corrcoef(split.factors.values.numpy().T)[~np.eye(4, dtype=bool)] == pytest.approx(
        0, abs=0.2
    )
    period = split.factors.periods[:, 3]
    assert period.tolist() == [PERIODS[SHAPES[k]] for k in split.labels]
    assert angle.min() >= 0 and angle.max() < 360


def test_same_scenes_in_any_size():
    small, large = (load_scenes("test", size, num=30) for size in (20, 60))
    assert torch.equal(small.factors.values, large.factors.values)
    blocks = torch.nn.functional.avg_pool2d(large.images.float(), 3)
    assert (blocks - small.images).abs().mean() < 1.5


def test_several_shapes_are_apart_and_told():
    split = load_several("test", num=300)
    assert isinstance(split.task, SeveralLabels) and split.labels.shape == (300, 4)
    assert {*split.labels.sum(1).tolist()} == {1, 2, 3}
    values = split.factors.values.view(300, 4, 4)
    assert torch.equal(values.isnan().all(-1), split.labels == 0)
    assert split.factors.names[:2] == ("square x", "square y")
    # The sum of their areas: none hides another.
    area = split.images[:, 0].double().mean((1, 2)) / 255
    told = (torch.pi * values[:, :, 2].double().nan_to_num() ** 2).sum(1)
    assert (area / told - 1).abs().max() < 0.06


def test_factors_go_where_their_images_go():
    stream = open_data("scenes", "train", holdout=1000, num_samples=100, seed=5)
    split = stream.split
    x, _ = centre_of_mass(split.images[:, 0].numpy())
    assert len(split) == 100 and split.factors.values[:, 0].numpy() == pytest.approx(x, abs=0.005)
    assert split.to("cpu").with_channels(3).factors.values.shape == (100, 4)


def test_pose_is_asked_as_numbers():
    split = open_data("scenes_pose", "test", image_size=24, num_samples=50).split
    assert isinstance(split.task, Numbers)
    assert split.task.names == ("x", "y", "scale", "sin rotation", "cos rotation")
    low, high = torch.tensor(split.task.ranges).T
    assert ((split.labels >= low) & (split.labels <= high)).all()
    turn = 2 * torch.pi * split.factors.values[:, 3] / split.factors.periods[:, 3]
    assert torch.allclose(split.labels[:, 3], turn.sin(), atol=1e-5)


def test_scenes_are_not_moved_and_bad_wishes_are_sentences(tmp_path):
    with pytest.raises(UserError, match="own rules"):
        open_data("scenes", "train", augment=Augment(shift=2))
    with pytest.raises(UserError, match="8 or more"):
        open_data("scenes", "test", image_size=7)
    for name in ("scenes", "scenes_pose", "scenes_several"):
        with pytest.raises(UserError, match="no folder"):
            open_data(name, "test", folder=tmp_path)


@pytest.mark.parametrize("shape", DISTANCES)
def test_distance_grows_by_one_for_each_step_from_the_edge(shape):
    # Straight out from the middle of a shape's sides, where the nearest point of the edge is.
    step, turn = 1e-4, np.radians(np.arange(0, 360, 0.5))
    out = np.stack([np.cos(turn), np.sin(turn)])
    radii = np.linspace(0.3, 2.0, 3000)[:, None]
    inside = DISTANCES[shape](*(radii * x for x in out)) < 0
    edge = radii[inside.argmin(axis=0), 0] * out  # the first that is no longer inside
    gradient = [
        (DISTANCES[shape](*(edge + step * e)) - DISTANCES[shape](*(edge - step * e))) / (2 * step)
        for e in (np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]))
    ]
    slope = np.hypot(*gradient)
    assert np.median(slope) == pytest.approx(1, abs=2e-3)
    assert (np.abs(slope - 1) < 0.02).mean() > 0.95  # all but corners


def test_smallest_scenes():
    assert load_scenes("test", size=8, num=2).image_shape == (1, 8, 8)
    with pytest.raises(UserError, match="ask for 8 or more"):
        load_scenes("test", size=7, num=2)


def test_several_shapes_come_from_the_seed_alone():
    split = load_several("test", num=200)
    assert split.image_shape == (1, 40, 40)
    # What was drawn when this was written, so that a change of the rule is seen.
    assert split.labels.sum(0).tolist() == [113, 98, 91, 91]
    sums = split.factors.values.view(200, 4, 4).nansum(0)
    assert sums[0].tolist() == pytest.approx([58.1489, 56.1374, 11.8409, 18509.83], rel=1e-4)
    assert sums[3].tolist() == pytest.approx([46.3642, 48.0923, 9.5162, 15346.26], rel=1e-4)


def test_ranges_are_where_factors_lie():
    for split in (load_scenes("test", num=500), load_several("test", num=500)):
        low, high = (torch.tensor(x) for x in zip(*split.factors.ranges, strict=True))
        values = split.factors.values
        least, most = values.nan_to_num(9e9).amin(0), values.nan_to_num(-9e9).amax(0)
        width = high - low
        assert ((least >= low) & (least < low + 0.05 * width)).all()
        assert ((most <= high) & (most > high - 0.05 * width)).all()


def test_as_many_scenes_as_are_promised():
    assert COUNTS == {"train": 20_000, "test": 5_000}
    assert len(load_scenes("test", size=8)) == 5_000
    assert load_several("test", size=8, num=1).image_shape == (1, 8, 8)
