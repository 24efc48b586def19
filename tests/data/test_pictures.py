import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.data import read_image
from capsnet.data.sets.digits import load_digits
from capsnet.errors import UserError
from capsnet.pictures.decoding import read_form


def save(path, pixels, mode=None):
    image = Image.fromarray(np.asarray(pixels))
    (image.convert(mode) if mode else image).save(path)
    return path


def rand(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def test_picture_of_the_right_size_is_unchanged(tmp_path):
    grey, colour = rand(12, 12), rand(12, 12, 3)
    assert np.array_equal(read_image(save(tmp_path / "g.png", grey), 12, 1)[0].numpy(), grey)
    out = read_image(save(tmp_path / "c.png", colour), 12, 3)
    assert np.array_equal(out.permute(1, 2, 0).numpy(), colour)


def test_proportions_are_kept_and_black_is_added_evenly(tmp_path):
    path = save(tmp_path / "wide.png", np.full((20, 40), 200, np.uint8))
    out = read_image(path, 10, 1)[0]
    assert (out[:2] == 0).all() and (out[-3:] == 0).all()
    assert (out[2:7] == 200).all()


def test_grey_and_colour_become_each_other(tmp_path):
    grey = save(tmp_path / "g.png", rand(8, 8))
    three = read_image(grey, 8, 3)
    assert torch.equal(three[0], three[1]) and torch.equal(three[1], three[2])
    colour = save(tmp_path / "c.jpg", rand(8, 8, 3))
    assert read_image(colour, 8, 1).shape == (1, 8, 8)


def test_invert_turns_paper_black(tmp_path):
    page = np.full((8, 8), 255, np.uint8)
    page[3:5, 3:5] = 0
    out = read_image(save(tmp_path / "p.png", page), 8, 1, invert=True)[0]
    assert np.array_equal(out.numpy(), 255 - page)


@pytest.mark.parametrize("invert", [False, True])
def test_transparent_parts_are_background(tmp_path, invert):
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[..., :3] = 130
    pixels[2:4, 2:4, 3] = 255
    out = read_image(save(tmp_path / "t.png", pixels), 8, 1, invert=invert)[0]
    assert (out[2:4, 2:4] == (125 if invert else 130)).all()
    assert out.sum() == out[2:4, 2:4].sum()


def test_sixteen_bit_grey_keeps_its_levels(tmp_path):
    levels = np.array([[0, 0x1234], [0x8000, 0xFFFF]], np.uint16)
    out = read_image(save(tmp_path / "deep.png", levels), 2, 1)[0]
    assert out.tolist() == [[0, 0x12], [0x80, 0xFF]]


def test_transparent_level_of_sixteen_bit_grey_is_background(tmp_path):
    levels = np.array([[0xFFFF, 0x1234], [0x8000, 0xFFFE]], np.uint16)
    Image.fromarray(levels).save(tmp_path / "deep.png", transparency=0xFFFF)
    out = read_image(tmp_path / "deep.png", 2, 1)[0]
    assert out.tolist() == [[0, 0x12], [0x80, 0xFF]]


def test_centred_digit_of_mnist_barely_changes(tmp_path):
    images = load_digits("test").images[:100]
    changes = []
    for image in images:
        out = read_image(save(tmp_path / "d.png", image[0].numpy()), 28, 1, centre=True)
        changes.append((out.float() - image.float()).abs().sum() / image.float().sum())
    assert max(changes) < 0.05
    assert sum(change == 0 for change in changes) > 70


def test_centring_undoes_moving_scaling_and_dark_ink(tmp_path):
    image = load_digits("test").images[3, 0].numpy()
    page = np.zeros((200, 300), np.uint8)
    page[20:132, 150:262] = image.repeat(4, 0).repeat(4, 1)
    path = save(tmp_path / "page.png", 255 - page)
    out = read_image(path, 28, 1, invert=True, centre=True)[0].float()
    assert torch.corrcoef(torch.stack([out.flatten(), torch.tensor(image).flatten()]))[0, 1] > 0.95


@pytest.mark.parametrize("size", [28, 40, 64])
def test_centred_ink_fills_its_share_with_its_mass_in_the_middle(tmp_path, size):
    page = np.zeros((90, 70), np.uint8)
    page[5:65, 10:20] = 255  # a tall L
    page[55:65, 10:45] = 255
    out = read_image(save(tmp_path / "l.png", page), size, 1, centre=True)[0].double()
    rows = out.sum(1)
    assert (rows > 0).sum() == round(size * 20 / 28)
    assert abs((rows @ torch.arange(size).double()) / rows.sum() - size / 2) <= 0.5


def test_blank_page_cannot_be_centred(tmp_path):
    with pytest.raises(UserError, match="blank"):
        read_image(save(tmp_path / "b.png", np.full((9, 9), 77, np.uint8)), 28, 1, centre=True)


def test_specks_too_faint_to_see_are_blank(tmp_path):
    page = np.where(np.random.default_rng(0).random((600, 800)) < 0.02, 254, 255).astype(np.uint8)
    with pytest.raises(UserError, match="blank"):
        read_image(save(tmp_path / "b.png", page), 28, 1, invert=True, centre=True)


def test_files_that_are_no_picture_are_named(tmp_path):
    text = tmp_path / "text.png"
    text.write_text("not a picture")
    cut = save(tmp_path / "cut.png", rand(50, 50))
    cut.write_bytes(cut.read_bytes()[:-500])
    for path in (text, cut, tmp_path / "missing.png", tmp_path):
        with pytest.raises(UserError, match=path.name):
            read_image(path, 28, 1)


@pytest.mark.parametrize("side", [9_000, 60_000])
def test_picture_bombs_are_refused_unopened(tmp_path, side):
    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    bomb = tmp_path / "bomb.png"
    bomb.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    )
    with pytest.raises(UserError, match="pixels"):
        read_image(bomb, 28, 1)
    with pytest.raises(UserError, match="more than 64,000,000 pixels; make it smaller"):
        read_form(str(bomb))


def test_only_grey_and_colour_exist(tmp_path):
    with pytest.raises(UserError, match="1 or 3"):
        read_image(save(tmp_path / "g.png", rand(8, 8)), 8, 2)
