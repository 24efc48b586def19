"""Tensor files: read by any reader of the format, and no changed bit of them passes."""

import json
import os
import resource
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from damage import flipped
from safetensors.torch import load_file, save_file

from capsnet.errors import UserError
from capsnet.files import known_digest, note_digest
from capsnet.models import create_model
from capsnet.models import weights as weights_module
from capsnet.models.tensor_file import load_tensors, read_tensor_file, save_tensors
from capsnet.models.weights import load_weights, save_weights, shipped_path

TENSORS = {
    "W": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
    "half": torch.arange(5, dtype=torch.float16),
    "b": torch.arange(3, dtype=torch.bfloat16),
    "bytes": torch.arange(3, dtype=torch.uint8),
    "yes": torch.tensor([True, False]),
    "count": torch.tensor(7),
    "none": torch.zeros(0, 3),
    "größe": torch.tensor(2.0, dtype=torch.float64),
}


def same(one, other):
    assert one.keys() == other.keys()
    for name, x in one.items():
        assert x.dtype == other[name].dtype and torch.equal(x, other[name])


def test_others_read_our_files_and_we_read_theirs(tmp_path):
    save_tensors(tmp_path / "ours", TENSORS, {"epoch": 3})
    same(load_file(tmp_path / "ours"), TENSORS)
    save_file(TENSORS, tmp_path / "theirs", {"capsnet": '{"epoch": 3}'})
    for name in ("ours", "theirs"):
        tensors, record = load_tensors(tmp_path / name)
        same(tensors, TENSORS)
        assert record == {"epoch": 3}
    assert read_tensor_file(tmp_path / "theirs").digest is None
    assert len(read_tensor_file(tmp_path / "ours").digest) == 64


def test_a_tensor_of_another_layout_is_written_as_it_reads(tmp_path):
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    save_tensors(tmp_path / "x", {"x": x, "t": x[0, 0].T}, {})
    same(load_tensors(tmp_path / "x")[0], {"x": x, "t": x[0, 0].T})


def test_a_tensor_has_the_bytes_of_its_shape(tmp_path):
    """Two tensors that share their bytes otherwise than they say, with all bytes in use."""
    text = json.dumps(
        {
            "__metadata__": {"capsnet": "{}"},
            "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]},
            "b": {"dtype": "F32", "shape": [3], "data_offsets": [8, 16]},
        }
    ).encode()
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
    with pytest.raises(UserError, match="'a' is of another size than it says"):
        load_tensors(tmp_path / "x")


def test_no_changed_bit_passes(tmp_path):
    path = tmp_path / "x"
    save_tensors(path, TENSORS, {"epoch": 3})
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        path.write_bytes(flipped(whole, bit))
        with pytest.raises(UserError, match=r"damaged or cut short|not written by capsnet"):
            load_tensors(path)


def test_no_cut_and_no_addition_passes(tmp_path):
    path = tmp_path / "x"
    save_tensors(path, TENSORS, {"epoch": 3})
    whole = path.read_bytes()
    for content in (*(whole[:cut] for cut in range(len(whole))), whole + b"\0", b"\0" + whole):
        path.write_bytes(content)
        with pytest.raises(UserError, match="damaged or cut short"):
            load_tensors(path)


def old_file(path, header, data=b"", **metadata):
    """Write a file without a digest, as nobody would who means well."""
    header = {"__metadata__": {"capsnet": "{}", **metadata}, **header}
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def entry(dtype="F32", shape=(2,), data_offsets=(0, 8)):
    return {"dtype": dtype, "shape": shape, "data_offsets": data_offsets}


@pytest.mark.parametrize(
    "header",
    [
        {"x": entry("F33")},
        {"x": entry(["F32"])},
        {"x": entry(shape=(3,))},
        {"x": entry(shape=(2.0,))},
        {"x": entry(shape=(True, 2))},
        {"x": entry(shape=(-1, -2))},
        {"x": entry(shape=5)},
        {"x": entry(data_offsets=(4, 12))},
        {"x": entry(data_offsets=(8, 0))},
        {"x": entry(data_offsets=(0, 1 << 70))},
        {"x": entry(shape=(1,), data_offsets=(0, 4))},
        {"x": entry(), "y": entry()},
        {"x": 5},
        {"x": {}},
    ],
)
def test_headers_that_lie_are_refused(header, tmp_path):
    path = tmp_path / "x"
    old_file(path, {"x": entry()}, bytes(8))
    assert torch.equal(load_tensors(path)[0]["x"], torch.zeros(2))
    old_file(path, header, bytes(8))
    with pytest.raises(UserError, match="damaged or cut short"):
        load_tensors(path)


def test_a_digest_under_another_name_is_none(tmp_path):
    old_file(tmp_path / "x", {}, dihest="0" * 64)
    with pytest.raises(UserError, match="its digest is gone"):
        load_tensors(tmp_path / "x")


def test_json_too_deep_to_be_read_is_refused(tmp_path):
    old_file(tmp_path / "x", {}, capsnet="[" * 200_000)
    with pytest.raises(UserError, match="not written by capsnet"):
        load_tensors(tmp_path / "x")


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        reader = ThreadPoolExecutor().submit(refusal, path)
        assert "is no file but a folder, a pipe or a device" in reader.result(timeout=20)


def refusal(path):
    with pytest.raises(UserError) as caught:
        load_tensors(path)
    return str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers_are_refused(value, tmp_path):
    model = create_model("cnn_small", channels=4)
    next(model.parameters()).data.view(-1)[3] = value
    save_weights(model, tmp_path / "w")
    with pytest.raises(UserError, match=r"holds weights that are no numbers \(layers"):
        load_weights(tmp_path / "w")


def test_large_weights_are_numbers(tmp_path):
    model = create_model("cnn_small", channels=4)
    next(model.parameters()).data.fill_(3e38)  # their sum is none
    save_weights(model, tmp_path / "w")
    load_weights(tmp_path / "w")


def test_weights_of_another_kind_are_refused(tmp_path):
    model = create_model("cnn_small", channels=4)
    tensors = {k: x.int() for k, x in model.state_dict().items()}
    save_tensors(tmp_path / "w", tensors, {"model": model.name, "options": model.options})
    with pytest.raises(UserError, match=r"is of type torch\.int32"):
        load_weights(tmp_path / "w")


@pytest.mark.parametrize(
    "options",
    [
        {"num_classes": 300_000_000},
        {"channels": 300_000_000},
        {"channels": 1_000_000},
        {"image_shape": (1, 1 << 20, 1 << 20)},
        {"channels": -1},
        {"channels": 1.5},
        {"colour": 3},
    ],
)
def test_a_card_of_another_model_takes_no_memory(options, tmp_path):
    model = create_model("cnn_small", channels=4)
    model.options = {**model.options, **options}
    save_weights(model, tmp_path / "w")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError):
        load_weights(tmp_path / "w")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def test_iterations_without_end_are_refused(tmp_path):
    model = create_model("capsnet_small", conv_channels=2, primary_types=1, decoder=(8,))
    model.options = {**model.options, "num_iters": 10**9}
    save_weights(model, tmp_path / "w")
    with pytest.raises(UserError, match="num_iters must be at most 1,000"):
        load_weights(tmp_path / "w")


def test_half_precision_leaves_counts_alone(tmp_path):
    model = create_model("capsnet_modern_small", image_shape=(1, 16, 16))
    counts = {k: x for k, x in model.state_dict().items() if not x.is_floating_point()}
    assert counts
    save_weights(model, tmp_path / "w", dtype=torch.float16)
    tensors, _ = load_tensors(tmp_path / "w")
    same({k: tensors[k] for k in counts}, counts)
    load_weights(tmp_path / "w")


def test_shipped_weights_are_those_that_the_package_knows(tmp_path, monkeypatch, cli):
    name = "cnn_small"
    whole = shipped_path(name).read_bytes()
    monkeypatch.setattr(weights_module, "SHELF", tmp_path)
    path = shipped_path(name)
    path.write_bytes(whole)
    with pytest.raises(UserError, match=r"SHA256SUMS does not tell of cnn_small"):
        load_weights(path)
    note_digest(path)
    note_digest(path)
    assert (tmp_path / "SHA256SUMS").read_text() == f"{known_digest(path)}  {path.name}\n"
    load_weights(path)
    assert "the one that the package knows" in cli("info", name).out
    path.write_bytes(flipped(whole, 8 * len(whole) - 30))
    with pytest.raises(UserError, match=r"its digest does not fit.* install capsnet again"):
        load_weights(path)
    done = cli("info", name)
    assert done.status == 2 and "digest does not fit" in done.err


def test_info_verifies_a_file(trained, tmp_path, cli):
    assert '"checked": "its digest fits"' in cli("info", trained).out
    path = tmp_path / "w.safetensors"
    tensors, record = load_tensors(trained / "weights.safetensors")
    save_file(tensors, path, {"capsnet": json.dumps(record)})
    assert "it has no digest" in cli("info", path).out
    whole = (trained / "weights.safetensors").read_bytes()
    path.write_bytes(flipped(whole, 8 * len(whole) - 1))
    done = cli("info", path)
    assert done.status == 2 and "its digest does not fit" in done.err


def test_tensors_begin_at_a_multiple_of_eight(tmp_path):
    for size in range(9):
        save_tensors(tmp_path / "x", TENSORS, {"a": "b" * size})
        (length,) = struct.unpack("<Q", (tmp_path / "x").read_bytes()[:8])
        assert length % 8 == 0
