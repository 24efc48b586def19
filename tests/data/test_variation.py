"""Flips, crops and tones of training images, and that older plans stay what they were."""

import pytest
import torch

from capsnet.data import Augment, ImageStream, OverlapStream, Split, open_data
from capsnet.data.sets.digits import load_digits
from capsnet.data.streams.augmentation import cropped, draw_maps, draw_windows
from capsnet.data.streams.elastic import draw_knots
from capsnet.data.streams.geometry import affine_theta, warp
from capsnet.data.streams.tones import colour_maps, draw_tones, tone
from capsnet.errors import UserError

SIZE = (28, 28)
NEW = {"flip": "both", "brightness": 0.2, "intensity": 0.3}
IDENTITY = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def seeded(seed=3):
    return torch.Generator().manual_seed(seed)


def colour_split(num=40, side=16):
    images = torch.randint(256, (num, 3, side, side), generator=seeded(), dtype=torch.uint8)
    return Split(images, torch.arange(num) % 2, ("a", "b"))


@pytest.mark.parametrize("more", [{}, NEW], ids=["as before", "and more"])
@pytest.mark.parametrize("elastic", [0.0, 1.0])
def test_what_was_drawn_before_is_drawn_first_and_the_same(elastic, more):
    split = load_digits("train").subset(range(300))
    plan = ImageStream(split, Augment(2, 15.0, 0.1, 0.2, elastic, **more)).plan(seeded())
    g = seeded()
    assert torch.equal(plan["index"], torch.randperm(300, generator=g))
    shift = torch.randint(-2, 3, (300, 2), generator=g)
    theta = affine_theta(draw_maps(300, 15.0, 0.1, 0.2, g), shift.flip(1), SIZE, SIZE)
    assert torch.equal(plan["theta"], theta)
    if elastic:
        assert torch.equal(plan["knots"], draw_knots(300, 1.0, SIZE, g))
    old = {"index", "theta"} | ({"knots"} if elastic else set())
    assert plan.keys() == old | ({"flip", "lift", "gain"} if more else set())


@pytest.mark.parametrize(
    ("flip", "axes"), [("horizontal", (3,)), ("vertical", (2,)), ("both", (2, 3))]
)
def test_a_flip_mirrors_half_of_the_images_exactly(flip, axes):
    split = load_digits("train").subset(range(400))
    stream = ImageStream(split, Augment(0, flip=flip))
    plan = stream.plan(seeded())
    found, whole = stream.batch(plan).images, split.images[plan["index"]] / 255
    for n in range(400):
        turned = [axis for axis, on in zip((2, 3), plan["flip"][n], strict=True) if on]
        assert set(turned) <= set(axes)
        assert torch.equal(found[n], whole[n : n + 1].flip(turned)[0])
    for axis in axes:
        assert 150 < plan["flip"][:, axis - 2].sum() < 250


def test_pairs_of_digits_are_mirrored_too():
    stream = open_data("multidigits", "train", augment=Augment(0, flip="vertical"), num_samples=20)
    plan = stream.plan(seeded())
    assert plan["flip"].shape == (20, 2, 2)
    still = {**plan, "flip": torch.zeros_like(plan["flip"])}
    same = (stream.batch(plan).parts == stream.batch(still).parts).flatten(2).all(2)
    assert torch.equal(same, ~plan["flip"].any(2))


def test_a_window_of_half_the_side_is_shown_as_the_whole():
    ramp = torch.arange(28.0).expand(1, 1, 28, 28) / 27  # brighter to the right
    centre = torch.tensor([[0.5, -0.5]])
    seen = warp(ramp, cropped(IDENTITY[None], torch.tensor([0.5]), centre), SIZE)
    # The window is x in 0 … 1 of -1 … 1: the columns 14 to 28, at half the slope.
    expected = (14 + (torch.arange(28.0) + 0.5) / 2 - 0.5) / 27
    torch.testing.assert_close(seen[0, 0, 14, :-5], expected[:-5], atol=3e-3, rtol=0)


def test_windows_lie_inside_and_reach_the_edges():
    side, centre = draw_windows(5000, 0.4, seeded())
    assert 0.6 <= side.min() < 0.61 and 0.99 < side.max() <= 1
    reach = (centre.abs() + side[:, None]).amax(1)
    assert 0.99 < reach.max() <= 1 + 1e-6


def test_a_crop_of_nothing_shows_everything():
    side, centre = torch.ones(3), torch.zeros(3, 2)
    theta = IDENTITY.expand(3, 2, 3)
    assert torch.equal(cropped(theta, side, centre), theta)
    stream = ImageStream(load_digits("test").subset(range(50)), Augment(0, crop=0.3))
    images = stream.batch(stream.plan(seeded())).images
    assert images.min() >= 0 and images.max() <= 1
    # Black edges are cut away, so that there is more ink.
    assert images.mean() > 1.1 * (stream.split.images / 255).mean()


def test_brightness_adds_and_intensity_spreads_around_the_mean():
    images = 0.3 + 0.4 * torch.rand(4, 3, 8, 8, generator=seeded())
    lift, gain = torch.tensor([0.1, -0.1, 0.2, 0.0]), torch.tensor([0.8, 1.2, 1.0, 1.3])
    brighter = tone(images, {"lift": lift})
    torch.testing.assert_close(brighter, images + lift[:, None, None, None])
    spread = tone(images, {"gain": gain})
    torch.testing.assert_close(spread.mean(dim=(1, 2, 3)), images.mean(dim=(1, 2, 3)))
    torch.testing.assert_close(spread.std(dim=(1, 2, 3)), gain * images.std(dim=(1, 2, 3)))
    assert tone(images, {"lift": lift * 10}).max() == 1
    assert tone(images, {"index": lift}) is images


def test_colours_turn_around_grey_and_keep_the_luma():
    hue, saturation = torch.tensor([0.0, 1.0, -2.0]), torch.tensor([1.0, 1.0, 0.5])
    maps = colour_maps(hue, saturation)
    torch.testing.assert_close(maps[0], torch.eye(3), atol=1e-6, rtol=0)
    grey = torch.rand(3, 1, 5, 5, generator=seeded()).expand(3, 3, 5, 5)
    torch.testing.assert_close(tone(grey, {"colour": maps}), grey, atol=1e-5, rtol=0)
    images = 0.4 + 0.2 * torch.rand(3, 3, 5, 5, generator=seeded())
    luma = torch.tensor([0.299, 0.587, 0.114])[None, :, None, None]
    toned = tone(images, {"colour": maps})
    torch.testing.assert_close((toned * luma).sum(1), (images * luma).sum(1), atol=1e-3, rtol=0)
    assert not torch.allclose(toned[1:], images[1:], atol=1e-2)


def test_tones_are_drawn_up_to_their_bounds_and_are_a_function_of_the_plan():
    stream = ImageStream(
        colour_split(2000, 4), Augment(0, brightness=0.2, intensity=0.3, colour=0.1)
    )
    plan = stream.plan(seeded())
    assert 0.19 < plan["lift"].abs().max() <= 0.2
    assert 0.29 < (plan["gain"] - 1).abs().max() <= 0.3
    batch = stream.batch({k: x[:7] for k, x in plan.items()}).images
    assert torch.equal(batch, stream.batch(plan).images[:7])
    assert batch.min() >= 0 and batch.max() <= 1
    assert stream.plan(None).keys() == {"index"}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Augment(flip="sideways"), "no flip called 'sideways'"),
        (lambda: Augment(crop=1.0), "crop must be less than 1"),
        (lambda: Augment(brightness=-0.1), "brightness must not be negative"),
        (
            lambda: ImageStream(load_digits("test"), Augment(colour=0.1)),
            "three channels, and these have 1",
        ),
        (
            lambda: OverlapStream(load_digits("test"), 9, augment=Augment(brightness=0.1)),
            "leave brightness",
        ),
        (
            lambda: open_data("turned_digits", "train", augment=Augment(0, flip="both")),
            "by its own rules",
        ),
        (
            lambda: open_data("turned_digits", "train", augment=Augment(0, intensity=0.5)),
            "by its own rules",
        ),
    ],
)
def test_what_cannot_be_is_a_sentence(call, sentence):
    with pytest.raises(UserError, match=sentence):
        call()


def test_a_hue_turned_twice_is_turned_by_the_sum():
    angle, one = torch.tensor([0.4, 0.7, 1.1]), torch.ones(3)
    first, second, both = colour_maps(angle, one)
    torch.testing.assert_close(second @ first, both)
    back = colour_maps(-angle, one)
    torch.testing.assert_close(back[0] @ first, torch.eye(3), rtol=0, atol=1e-6)


def test_a_quarter_turn_of_the_colour_circle():
    (turn,) = colour_maps(torch.tensor([torch.pi / 2]), torch.ones(1))
    expected = [[0.4667, 0.9163, -0.383], [-0.0291, 0.6225, 0.4066], [1.5487, -0.4595, -0.0892]]
    torch.testing.assert_close(turn, torch.tensor(expected), atol=1e-4, rtol=0)


def test_colours_of_images_without_are_refused_by_the_stream():
    split = Split(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1]), ("a", "b"))
    with pytest.raises(UserError, match="and these have 1; leave it out, or ask for 3 channels"):
        ImageStream(split, Augment(colour=0.1))


def test_contrast_grows_about_the_mean():
    image = torch.tensor([0.2, 0.4, 0.6]).view(1, 1, 1, 3)
    more = tone(image, {"gain": torch.tensor([1.5])})
    torch.testing.assert_close(more, torch.tensor([0.1, 0.4, 0.7]).view(1, 1, 1, 3))


def test_colours_turn_and_pale_no_further_than_asked():
    for colour in (1e-6, 0.1):
        maps = draw_tones(Augment(0, colour=colour), 500, seeded())["colour"]
        hue, saturation = torch.tensor([3.1416 * colour, 0.0]), torch.tensor([1.0, 1 + colour])
        furthest = (colour_maps(hue, saturation) - torch.eye(3)).flatten(1).norm(dim=1).sum()
        away = (maps - torch.eye(3)).flatten(1).norm(dim=1).max()
        assert 0.3 * furthest < away <= 1.3 * furthest


def test_what_a_seed_draws_stays_what_it_was():
    u = 2 * torch.rand(50, 4, generator=seeded()) - 1
    A = draw_maps(50, 0.0, 0.3, 0.0, seeded())
    torch.testing.assert_close(A.diagonal(dim1=1, dim2=2), 1 + 0.3 * u[:, 1:3])
    hue, saturation = (2 * torch.rand(2, 50, generator=seeded()) - 1).unbind()
    maps = draw_tones(Augment(0, colour=0.2), 50, seeded())["colour"]
    expected = colour_maps(0.2 * torch.pi * hue, 1 + 0.2 * saturation)
    torch.testing.assert_close(maps, expected)
