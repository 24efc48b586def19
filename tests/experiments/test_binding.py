import torch

from capsnet.experiments.runner.records import read
from capsnet.experiments.runner.run import reproduce
from capsnet.experiments.synchrony import (
    COLUMNS,
    EXPERIMENTS,
    NAME,
    PHASES,
    misses,
    misses_known,
    row_name,
)
from capsnet.tasks import Sets


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
