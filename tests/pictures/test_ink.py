"""Ink is found on paper of any brightness, in any light, and what is no ink is not."""

import numpy as np
import pytest
from photos import make_photo
from PIL import Image, ImageDraw

from capsnet.data.sets.digits import load_digits
from capsnet.pictures.ink import STROKES, Blank, find_ink, is_clean, stroke_width
from capsnet.prediction import predict

NUM_PHOTOS = 120


@pytest.mark.slow
def test_photos_of_digits_are_read(tmp_path):
    photos = [make_photo(seed, light_on_dark=seed % 6 == 5) for seed in range(NUM_PHOTOS)]
    endings = ("jpg", "png")
    files = [p.write(tmp_path, f"{n}.{endings[n % 2]}") for n, p in enumerate(photos)]
    answers = predict(files, "capsnet_mnist", device="cpu")
    wrong = [n for n, p in enumerate(photos) if answers[n].decision != str(p.digit)]
    assert len(wrong) <= 0.04 * NUM_PHOTOS, wrong
    assert sum(bool(x.doubts) for x in answers) <= 0.05 * NUM_PHOTOS


def page(width=6, paper=220.0, ink=60.0, shape=(400, 600)):
    """A seven written with a pen of some width on plain paper."""
    picture = Image.new("F", shape[::-1], paper)
    corners = [(300, 100), (400, 100), (340, 280)]
    ImageDraw.Draw(picture).line(corners, fill=ink, width=width, joint="curve")
    return np.array(picture)


def test_light_and_noise_change_nothing_that_matters():
    plain = find_ink(page())
    draw = np.random.default_rng(0)
    shade = np.where(np.arange(600) < 350, 1.0, 0.7) * np.linspace(1, 0.8, 400)[:, None]
    photo = find_ink(page() * shade + draw.normal(0, 8, (400, 600)))
    assert abs(np.subtract(plain.shape, photo.shape)).max() <= 8
    same = np.asarray(Image.fromarray(photo).resize(plain.shape[::-1]), float)
    assert np.corrcoef(same.ravel(), plain.ravel())[0, 1] > 0.9


@pytest.mark.parametrize(("paper", "darkest"), [(200, 0.4), (130, 0.3), (90, 0.5)])
def test_grey_paper_in_slanting_light(paper, darkest):
    light = np.linspace(1, darkest, 600) * np.linspace(1, 0.8, 400)[:, None]
    noise = np.random.default_rng(3).normal(0, 3, (400, 600))
    photo = find_ink(page(paper=paper, ink=0.3 * paper) * light + noise)
    plain = find_ink(page())
    assert abs(np.subtract(plain.shape, photo.shape)).max() <= 8
    same = np.asarray(Image.fromarray(photo).resize(plain.shape[::-1]), float)
    assert np.corrcoef(same.ravel(), plain.ravel())[0, 1] > 0.9


def test_light_ink_on_dark_paper_is_the_same_ink():
    dark, light = find_ink(page()).astype(int), find_ink(280 - page()).astype(int)
    assert dark.shape == light.shape and abs(dark - light).max() <= 5


def test_depth_and_units_do_not_matter():
    bytes_, deep = find_ink(page()).astype(int), find_ink(page() * 257, white=65535).astype(int)
    assert abs(bytes_ - deep).max() <= 1


@pytest.mark.parametrize("width", [2, 40])
def test_pens_are_brought_to_mnists_strokes(width):
    ink = find_ink(page(width)) / 255
    share = stroke_width(ink) / max(ink.shape)
    assert STROKES[0] * 0.8 < share < STROKES[1] * 1.2


def test_specks_rulings_and_a_dark_desk_are_no_ink():
    clean = find_ink(page())
    photo = page()
    photo[380:383, 20:23] = 40  # a speck
    photo[::50] -= 30  # lines
    photo[:, :60] = 50  # the desk
    found = find_ink(photo)
    assert abs(np.subtract(clean.shape, found.shape)).max() <= 4


def test_a_small_digit_on_a_large_page_keeps_its_detail():
    photo = np.full((3000, 4000), 230.0)
    photo[2000:2400, 500:1100] = page(width=8)
    assert max(find_ink(photo).shape) > 80


def test_blank_pages_are_blank():
    draw = np.random.default_rng(1)
    for noise in (0, 3, 15):
        with pytest.raises(Blank):
            find_ink(200 + np.linspace(0, 50, 300) + draw.normal(0, noise, (200, 300)))
    with pytest.raises(Blank):
        find_ink(np.zeros((1, 1)))


def test_pictures_of_any_shape_have_ink_or_none():
    draw = np.random.default_rng(2)
    for _ in range(60):
        shape = tuple(draw.integers(1, 50, 2))
        try:
            ink = find_ink(draw.integers(0, 256, shape))
        except Blank:
            continue
        assert ink.dtype == np.uint8 and ink.max() > 0


def test_mnist_is_clean_and_paper_is_not():
    images = load_digits("test").images[:200, 0].numpy()
    assert all(map(is_clean, images))
    assert not any(is_clean(255 - image) for image in images)
    assert not is_clean(np.zeros((28, 28)))
