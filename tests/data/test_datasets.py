import pytest
import torch

from capsnet.data import Split, stratified
from capsnet.errors import UserError


def make(labels, classes=("a", "b", "c")):
    labels = torch.tensor(labels)
    return Split(torch.zeros(len(labels), 3, 4, 5, dtype=torch.uint8), labels, classes)


def test_split_describes_itself():
    split = make([0, 2, 2, 1])
    assert len(split) == 4
    assert split.image_shape == (3, 4, 5)
    assert split.label_counts() == (1, 1, 2)
    assert split.subset([1, 3]).labels.tolist() == [2, 1]


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0]])
def test_labels_out_of_range_are_refused(labels):
    with pytest.raises(UserError, match=r"0\.\.2"):
        make(labels)


def test_wrong_shapes_and_types_are_refused():
    images = torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    with pytest.raises(UserError, match="uint8"):
        Split(images.float(), torch.zeros(2, dtype=torch.int64), ("a",))
    with pytest.raises(UserError, match="one per object"):
        Split(images, torch.zeros(3, dtype=torch.int64), ("a",))
    with pytest.raises(UserError, match="empty"):
        Split(images[:0], torch.zeros(0, dtype=torch.int64), ("a",))


def test_stratified_parts_all_and_keeps_shares():
    labels = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)
    rest, chosen = stratified(labels, 20, seed=1)
    assert sorted(rest.tolist() + chosen.tolist()) == list(range(100))
    assert torch.bincount(labels[chosen]).tolist() == [12, 6, 2]


def test_stratified_begins_with_the_middle_of_each_class():
    labels = torch.tensor([0] * 10 + [1] * 2)
    shares = [labels[stratified(labels, num, seed=0)[1]].bincount(minlength=2) for num in (3, 4)]
    assert [x.tolist() for x in shares] == [[3, 0], [3, 1]]  # at 0.05, 0.15, 0.25, and 0.25


def test_stratified_depends_on_the_seed_alone():
    labels = torch.arange(1000) % 7
    assert torch.equal(stratified(labels, 50, 3)[1], stratified(labels, 50, 3)[1])
    assert not torch.equal(stratified(labels, 50, 3)[1], stratified(labels, 50, 4)[1])


def test_more_than_there_is_cannot_be_taken():
    with pytest.raises(UserError, match="11 of 10"):
        stratified(torch.zeros(10, dtype=torch.int64), 11, 0)


def test_stratified_takes_none_and_all():
    labels = torch.tensor([0, 1, 1, 0, 2])
    assert [x.tolist() for x in stratified(labels, 0, 0)] == [[0, 1, 2, 3, 4], []]
    assert [x.tolist() for x in stratified(labels, 5, 0)] == [[], [0, 1, 2, 3, 4]]
    with pytest.raises(UserError, match="ask for at most 5"):
        stratified(labels, -1, 0)


def test_white_is_the_largest_value_of_the_type():
    for dtype, white in ((torch.uint8, 255), (torch.int16, 32767)):
        images = torch.zeros(1, 1, 2, 2, dtype=dtype)
        assert Split(images, torch.zeros(1, dtype=torch.long), ("a", "b")).white == white
