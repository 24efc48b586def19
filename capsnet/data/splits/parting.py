"""Training, validation and test: by whole groups, with the shares of the classes kept.

splits = part(listing, together, holdout=None, seed=0)

Pictures that stand alone are drawn by `stratified`; groups are drawn by scikit-learn.
"""

import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch

from capsnet.data.splits.split import stratified
from capsnet.errors import UserError, needs
from capsnet.pictures.layout import Listing

TEST_SHARE = 0.2
VALIDATION_SHARE = 1 / 6  # of what is left for training
DRAWS = 10


def part(
    listing: Listing,
    together: np.ndarray,
    holdout: int | None,
    seed: int,
    fold: tuple[int, int] | None = None,
) -> tuple[str, ...]:
    """Return "train", "validation" or "test" for each picture of a listing.

    Splits that the listing has are kept. together [M]: numbers of the groups that must not be
    parted. holdout: pictures for validation, about; None: a sixth, 0: none. fold: the number of
    the fold that is tested, counted from 1, and of how many.
    """
    splits = list(listing.splits) or ["train"] * len(listing)
    has = set(splits)
    if "train" not in has:
        raise UserError(f"{listing.root} has no pictures for training; add some.")
    drawer = _Drawer(listing, together, seed)
    if fold is not None:
        if "test" in has:
            raise UserError(f"{listing.root} has a test split of its own; leave --folds out.")
        rows = _rows(splits, "train")
        _mark(splits, drawer.fold(rows, *fold), "test")
    elif "test" not in has:
        _mark(splits, drawer.test(_rows(splits, "train")), "test")
    if "validation" not in has and holdout != 0:
        rows = _rows(splits, "train")
        wanted = round(VALIDATION_SHARE * len(rows)) if holdout is None else holdout
        if wanted >= len(rows):
            raise UserError(f"Cannot hold out {wanted} of {len(rows)} images; hold out fewer.")
        if wanted:
            _mark(splits, drawer.validation(rows, wanted), "validation")
    return tuple(splits)


def _rows(splits: Sequence[str], name: str) -> np.ndarray:
    return np.array([k for k, split in enumerate(splits) if split == name], dtype=np.int64)


def _mark(splits: list[str], rows: np.ndarray, name: str) -> None:
    for row in rows.tolist():
        splits[row] = name


class _Drawer:
    """Draws rows of a listing, by whole groups, seeded."""

    def __init__(self, listing: Listing, together: np.ndarray, seed: int) -> None:
        self.listing, self.together, self.seed = listing, together, seed
        names = listing.strata()
        if listing.kind == "several_labels":  # what is rarer than this has no share to keep
            often = {name for name, num in Counter(names).items() if num >= 10}
            names = [name if name in often else "" for name in names]
        kinds = {name: k for k, name in enumerate(sorted(set(names)))}
        self.strata = np.array([kinds[name] for name in names])

    def test(self, rows: np.ndarray) -> np.ndarray:
        """Return a fifth of the rows, at least one picture of each class."""
        self._require_two(rows)
        if self._alone(rows):
            chosen = []
            for kind in np.unique(self.strata[rows]):
                own = rows[self.strata[rows] == kind]
                num = max(1, round(TEST_SHARE * len(own)))
                zeros = torch.zeros(len(own), dtype=torch.int64)
                chosen.append(own[stratified(zeros, num, self.seed)[1].numpy()])
            return np.concatenate(chosen)
        return self._groups(rows, round(1 / TEST_SHARE))

    def validation(self, rows: np.ndarray, wanted: int) -> np.ndarray:
        """Return about so many of the rows."""
        if self._alone(rows):
            strata = torch.from_numpy(self.strata[rows])
            return rows[stratified(strata, wanted, self.seed)[1].numpy()]
        return self._groups(rows, max(2, round(len(rows) / wanted)), whole=False)

    def fold(self, rows: np.ndarray, number: int, folds: int) -> np.ndarray:
        """Return the rows of one of several folds, counted from 1."""
        self._require_two(rows)
        least = min(self._groups_of(rows).values())
        if folds > least:
            raise UserError(
                f"{folds} folds need {folds} groups (or pictures that stand alone) of every class, "
                f"but one has {least}; ask for fewer folds."
            )
        return self._folds(rows, folds)[number - 1]

    def _groups(self, rows: np.ndarray, parts: int, whole: bool = True) -> np.ndarray:
        """Return about a `parts`-th of the rows, with every class on both sides.

        Where rare classes do not let that be, other draws are tried, then larger parts. Without
        `whole` they need only be on the other side, and if they cannot, no row is returned; for
        numbers and several labels the first draw will do.
        """
        classes = len(np.unique(self.strata[rows]))
        largest = int(np.bincount(self.strata[rows]).max())
        most = min(parts, len(np.unique(self.together[rows])), largest)
        one_label = self.listing.kind == "one_label"
        needed = (classes if whole else 1, classes) if one_label else (1, 1)
        for num in range(most, 1, -1):
            for draw in range(DRAWS):
                for chosen in self._folds(rows, num, draw):
                    left = np.setdiff1d(rows, chosen)
                    sides = (len(np.unique(self.strata[x])) for x in (chosen, left))
                    if all(x >= least for x, least in zip(sides, needed, strict=True)):
                        return chosen
        if one_label and not whole:
            return rows[:0]
        raise UserError(
            f"The groups of {self.listing.root} cannot be parted so that every class is trained "
            "and tested; add groups, or part them by hand into train and test folders."
        )

    def _folds(self, rows: np.ndarray, parts: int, draw: int = 0) -> list[np.ndarray]:
        with needs("Splits by groups and folds need scikit-learn", extra="pictures"):
            from sklearn.model_selection import StratifiedGroupKFold
        splitter = StratifiedGroupKFold(parts, shuffle=True, random_state=self.seed + draw)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a class is rare is said in our words
            found = splitter.split(rows, self.strata[rows], self.together[rows])
            return [rows[chosen] for _, chosen in found]

    def _alone(self, rows: np.ndarray) -> bool:
        return len(np.unique(self.together[rows])) == len(rows)

    def _groups_of(self, rows: np.ndarray) -> dict[int, int]:
        """Return how many groups each class, or range of numbers, has."""
        pairs = {(int(self.strata[k]), int(self.together[k])) for k in rows}
        return Counter(kind for kind, _ in pairs)

    def _require_two(self, rows: np.ndarray) -> None:
        if self.listing.kind != "one_label":
            return
        for kind, num in self._groups_of(rows).items():
            if num < 2:
                row = next(k for k in rows if self.strata[k] == kind)
                name = self.listing.labels[row]
                grouped = not self._alone(rows)
                raise UserError(
                    f"The class '{name}' has only one {'group' if grouped else 'picture'}; add "
                    "more, one of them is for testing."
                )
