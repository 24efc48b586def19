import numpy as np
import pytest

from capsnet.data.sets.idx import read_idx, write_idx
from capsnet.errors import UserError


@pytest.mark.parametrize("shape", [(5,), (3, 4, 2), (0, 28, 28)])
def test_round_trip(shape):
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    back = read_idx(write_idx(array))
    assert back.shape == shape and (back == array).all()


def test_bytes_are_big_endian_sizes_then_numbers():
    raw = bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9])
    assert read_idx(raw).tolist() == [[7, 8, 9]]
    assert write_idx(np.array([[7, 8, 9]], np.uint8)) == raw


@pytest.mark.parametrize("raw", [b"", b"\x89PNG....", bytes([0, 0, 8, 3, 0, 0])])
def test_other_files_are_refused_by_name(raw):
    with pytest.raises(UserError, match="labels-file"):
        read_idx(raw, "labels-file")


def test_a_cut_file_is_refused():
    raw = write_idx(np.zeros((4, 5), np.uint8))
    with pytest.raises(UserError, match="cut short"):
        read_idx(raw[:-1])
