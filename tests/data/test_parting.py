"""Which rows are for training, validation and tests, drawn without a picture being read."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from capsnet.data.splits.parting import part
from capsnet.errors import UserError
from capsnet.pictures.layout import Listing


def listing_of(labels, kind="one_label", splits=(), names=("a", "b")):
    files = tuple(f"{k}.png" for k in range(len(labels)))
    return Listing(Path("pictures"), files, kind, names, tuple(labels), splits=tuple(splits))


def alone(listing):
    return np.arange(len(listing))


def count(listing, splits):
    """How many pictures of each label are in each split."""
    return Counter(zip(splits, listing.labels, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_combinations_of_labels_keep_their_share_if_there_are_ten(seed):
    often, ten, rare = (0, 0, 0, 0, 0), (1, 1, 1, 1, 1), []
    for k in range(10):  # each once
        rare.append(tuple(int(x) for x in f"{k + 1:05b}"))
    listing = listing_of([often] * 40 + [ten] * 10 + rare, "several_labels", names=tuple("abcde"))
    found = count(listing, part(listing, alone(listing), 0, seed))
    assert (found["test", often], found["test", ten]) == (8, 2)
    assert sum(found["test", x] for x in rare) == 2


@pytest.mark.parametrize("many", [9, 10])
def test_nine_of_a_combination_have_no_share_of_their_own(many):
    some, other = (0, 1), (1, 0)
    listing = listing_of([some] * many + [other] * many, "several_labels")
    drawn = {
        count(listing, part(listing, alone(listing), 0, seed))["test", some] for seed in range(12)
    }
    # A fifth of the nine and nine is 4 of any kind; of ten and ten it is 2 and 2.
    assert drawn == {2} if many == 10 else len(drawn) > 1


def test_splits_that_are_there_are_kept_and_the_others_made():
    for has, made in ((("train", "test"), "validation"), (("train", "validation"), "test")):
        given = [has[k % 4 == 3] for k in range(40)]
        listing = listing_of(["ab"[k // 20] for k in range(40)], splits=given)
        splits = part(listing, alone(listing), None, 0)
        changed = [(old, new) for old, new in zip(given, splits, strict=True) if old != new]
        # A sixth of the 30 for validation, a fifth of each class of 15 for tests.
        assert changed == [("train", made)] * (5 if made == "validation" else 6)


def test_a_sixth_of_what_tests_leave_is_for_validation_unless_told():
    listing = listing_of(["a"] * 50 + ["b"] * 25)
    for holdout, num in ((None, 10), (0, 0), (7, 7), (1, 1)):
        assert Counter(part(listing, alone(listing), holdout, 0))["validation"] == num
    tiny = listing_of(["a", "a", "b", "b"])  # two are left: a sixth of them is none
    assert Counter(part(tiny, alone(tiny), None, 0)) == {"train": 2, "test": 2}


def test_groups_are_held_out_whole_and_about_as_many_as_asked():
    listing = listing_of(["ab"[k % 2] for k in range(120)])
    together = np.arange(120) // 4  # 30 groups, each of both classes
    for seed in range(3):
        splits = part(listing, together, 24, seed)
        for group in range(30):
            assert (
                len({split for split, k in zip(splits, together, strict=True) if k == group}) == 1
            )
        found = Counter(splits)
        assert 20 <= found["test"] <= 28 and 20 <= found["validation"] <= 28
        assert splits == part(listing, together, 24, seed)
    assert part(listing, together, 24, 0) != part(listing, together, 24, 1)


def test_folds_test_all_once_and_are_no_larger_than_they_must():
    listing = listing_of(["ab"[k % 2] for k in range(40)])
    tested = np.zeros(40, int)
    for number in (1, 2, 3, 4):
        splits = part(listing, alone(listing), 0, 0, (number, 4))
        assert count(listing, splits)["test", "a"] == count(listing, splits)["test", "b"] == 5
        tested += [split == "test" for split in splits]
    assert (tested == 1).all()


def test_numbers_are_parted_too_and_keep_the_shares_of_their_ranges():
    listing = listing_of([(float(k),) for k in range(100)], "numbers", names=("age",))
    splits = part(listing, alone(listing), 0, 0)
    test = [k for k, split in enumerate(splits) if split == "test"]
    assert np.bincount([k // 20 for k in test]).tolist() == [4] * 5
    # One of a kind is a mistake of classes alone.
    one = listing_of([(float(k),) for k in range(5)], "numbers", names=("age",))
    assert "test" in part(one, alone(one), 0, 0)
    with pytest.raises(UserError, match="The class 'b' has only one picture; add more"):
        part(listing_of(["a", "a", "b"]), np.arange(3), 0, 0)
    with pytest.raises(UserError, match="The class 'b' has only one group; add more"):
        part(listing_of(["a", "a", "b", "b"]), np.array([0, 1, 2, 2]), 0, 0)


def test_validation_takes_no_class_from_training():
    for groups, held in ((4, 2), (2, 0)):  # of two classes with one group left there is none
        listing = listing_of(["a"] * 2 * groups + ["b"] * 4)
        together = np.arange(len(listing)) // 2
        for seed in range(4):
            found = count(listing, part(listing, together, None, seed))
            assert found["train", "b"] == found["test", "b"] == 2
            assert found["validation", "a"] == held and found["train", "a"] >= 2


def test_validation_may_lack_a_rare_class_and_tests_may_not():
    # Two groups of the rare class: one is for tests, and the other stays in training.
    listing = listing_of(["a"] * 40 + ["b"] * 4)
    together = np.array([*(k // 2 for k in range(40)), 20, 20, 21, 21])
    for seed in range(3):
        found = count(listing, part(listing, together, None, seed))
        assert found["test", "b"] == found["train", "b"] == 2
        assert found["validation", "a"] >= 4 and found["validation", "b"] == 0
