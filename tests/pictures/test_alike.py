import numpy as np

from capsnet.pictures.alike import _hashes, find_alike

SIZE = 29


def bars(colour: tuple[int, int, int], width: int) -> np.ndarray:
    picture = np.zeros((3, SIZE, SIZE), dtype=np.uint8)
    picture[:, :, (SIZE - width) // 2 : (SIZE + width) // 2] = np.array(colour)[:, None, None]
    return picture


def test_pictures_of_one_form_and_two_colours_are_not_alike():
    red, blue, dim = (bars(c, 20) for c in ((255, 0, 0), (0, 0, 255), (240, 2, 0)))
    found = find_alike(np.stack([red, blue, dim]), 255)
    assert found.same.tolist() == [] and found.near.tolist() == [[0, 2]]


def test_rounding_decides_nothing():
    # Bars have few frequencies: the others are zero, or what is left of it on a machine.
    grey = np.stack([bars((255, 255, 255), width)[0, :16, 6:22] / 255 for width in range(4, 14)])
    noise = np.random.default_rng(0).normal(0, 1e-6, grey.shape)
    assert (_hashes(grey) == _hashes(grey + noise)).all()
