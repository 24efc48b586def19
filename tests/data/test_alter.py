import pytest
import torch

from capsnet.data.streams.alter import scramble, thicken


@pytest.mark.parametrize(("rows", "columns"), [(2, 1), (2, 2), (4, 4), (4, 7)])
def test_no_part_stays_in_its_place(rows, columns):
    images = torch.arange(28.0 * 28).view(1, 1, 28, 28).expand(50, 1, 28, 28) + 1
    moved = scramble(images, rows, columns, torch.Generator().manual_seed(0))
    assert torch.equal(moved.flatten(1).sort().values, images.flatten(1))
    assert not (moved == images).any()


def test_parts_move_whole():
    images = torch.arange(2.0 * 28 * 28).view(1, 2, 28, 28)
    assert torch.equal(scramble(images, 2, 1, torch.Generator()), images.roll(14, 2))
    assert torch.equal(scramble(images, 1, 2, torch.Generator()), images.roll(14, 3))
    assert torch.equal(scramble(images, 1, 1, torch.Generator()), images)


def test_what_is_left_over_stays():
    images = torch.arange(9.0 * 11).view(1, 1, 9, 11)
    before = images.clone()
    moved = scramble(images, 2, 2, torch.Generator().manual_seed(0))
    assert torch.equal(images, before)
    same = moved == images
    assert same[:, :, 8:].all() and same[..., 10:].all() and not same[:, :, :8, :10].any()


def test_strokes_grow_and_shrink_on_all_sides():
    dot = torch.zeros(1, 1, 7, 7)
    dot[..., 3, 3] = 1
    block = torch.zeros(1, 1, 7, 7)
    block[..., 2:5, 2:5] = 1
    assert torch.equal(thicken(dot, 1), block) and torch.equal(thicken(block, -1), dot)
    torch.testing.assert_close(thicken(dot, 0.25), dot + 0.25 * (block - dot))
    torch.testing.assert_close(thicken(block, -1.25), 0.75 * dot)
    assert torch.equal(thicken(block, 0), block)
    assert (thicken(dot, 2)[..., 1:6, 1:6] == 1).all() and thicken(dot, 2).sum() == 25


def test_the_generator_decides_where_parts_go():
    images = torch.arange(8 * 36.0).view(8, 1, 6, 6)
    once, again = (scramble(images, 3, 3, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(once, again)
    assert not torch.equal(once, scramble(images, 3, 3, torch.Generator().manual_seed(2)))
