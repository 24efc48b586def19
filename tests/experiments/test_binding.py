import pytest
import torch

from capsnet.data import open_data
from capsnet.experiments.binding import kept_bytes, misses, misses_known
from capsnet.experiments.runner.records import read
from capsnet.experiments.runner.run import reproduce
from capsnet.experiments.synchrony import (
    ATTENTION,
    COLUMNS,
    DIGITS,
    EXPERIMENTS,
    NAME,
    PHASES,
    row_name,
    small_recipes,
)
from capsnet.models import create_model
from capsnet.tasks import Sets
from capsnet.training.setup import build_model


def test_a_set_is_right_when_all_are_named_as_often_as_they_are_there():
    task = Sets(("a", "b", "c"))
    lengths = torch.tensor([[[0.9, 0.1, 0.1], [0.8, 0.2, 0.0], [0.1, 0.3, 0.4]]]).repeat(3, 1, 1)
    labels = torch.tensor([[0, 0, -1], [0, -1, -1], [0, 0, 2]])
    assert misses(task, lengths, labels).tolist() == [False, True, True]
    # With the number known the surest slots are taken, long or not.
    assert misses_known(task, lengths, labels).tolist() == [False, False, False]


def test_phases_are_measured_beyond_their_error(tmp_path):
    where = {"results": tmp_path / "results", "runs": tmp_path / "runs", "device": "cpu"}
    row = row_name("digits", PHASES)
    reproduce(NAME, seeds=1, rows=(row,), smoke=True, **where)
    (record,) = read(where["results"], NAME)
    found = {key for key in COLUMNS.values() if key in record.result}
    assert found == {*COLUMNS.values()} - {"error_of_4"}
    assert -1 <= record.result["ari_apart"] <= 1
    assert f"| {row} (" in EXPERIMENTS[0].table({NAME: [record]})
    overlaps = [record.result[f"error_{x}"] for x in ("apart", "touching", "overlapping")]
    assert any(x is not None for x in overlaps)


@pytest.mark.parametrize("binding", ["synchrony", "dynamic", "attention"])
def test_memory_is_what_autograd_keeps(binding):
    torch.manual_seed(0)
    options = {"channels": (8, 8), "primary_types": 4, "decoder": (16,)}
    model = create_model("capsnet_slots", binding=binding, **options)
    stream = open_data("crowd_digits", "test", num_samples=8)
    plan = stream.plan(None)
    four, eight = (
        kept_bytes(model, stream.batch({name: x[:n] for name, x in plan.items()})) for n in (4, 8)
    )
    assert 0 < four < eight <= 2.2 * four
    # At least the first two convolutions' results, 48×48 of 8 channels, in fp32.
    assert eight > 8 * 2 * 48 * 48 * 8 * 4
    assert not model.training


def test_memory_of_what_was_freed_is_not_counted():
    stream = open_data("crowd_digits", "test", num_samples=8)
    batch = stream.batch(stream.plan(None))
    options = {"channels": (8, 8), "primary_types": 4, "decoder": (16,)}
    found = set()
    for seed in range(3):  # without steps the couplings are made and dropped
        torch.manual_seed(seed)
        model = create_model("capsnet_slots", num_steps=0, **options)
        found.add(kept_bytes(model, batch))
    assert len(found) == 1


def test_every_row_of_the_small_comparison_can_be_built():
    rows = small_recipes(3)
    assert len(rows) == 7 and all(config.seed == 3 for config in rows.values())
    stream = open_data("crowd_digits", "test", image_size=48, num_samples=4)
    sizes = {
        row: sum(p.numel() for p in build_model(x, stream).parameters()) for row, x in rows.items()
    }
    phases = {size for row, size in sizes.items() if "phases" in row}
    assert len(phases) == 1  # steps and followed anchors learn nothing more
    attention = sizes[row_name(DIGITS, ATTENTION)]
    assert abs(attention / phases.pop() - 1) < 0.01
