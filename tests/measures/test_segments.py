import numpy as np
import pytest
from sklearn import metrics

from capsnet.measures.segments import foreground_ari


def test_names_do_not_matter_and_chance_is_nothing():
    random = np.random.default_rng(0)
    owner = random.integers(3, size=(4, 20, 20))
    everywhere = np.ones_like(owner, bool)
    assert (foreground_ari(owner, (owner + 1) % 3 + 7, everywhere) == 1).all()
    chance = foreground_ari(owner, random.integers(3, size=owner.shape), everywhere)
    assert np.abs(chance).max() < 0.02


def test_only_what_is_counted_counts():
    owner = np.array([[[0, 0, 1, 1]], [[0, 0, 0, 0]]])
    said = np.array([[[5, 5, 2, 5]], [[1, 1, 1, 1]]])
    counted = np.array([[[True, True, True, False]], [[False] * 4]])
    scores = foreground_ari(owner, said, counted)
    assert scores[0] == 1 and np.isnan(scores[1])
    assert foreground_ari(owner, said, owner >= 0)[0] < 1


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_the_index_is_that_of_scikit_learn(groups):
    random = np.random.default_rng(groups)
    owner, said = random.integers(groups, size=(2, 6, 5, 5))
    said = np.where(random.random(owner.shape) < 0.6, owner, said)
    counted = random.random(owner.shape) < 0.8
    expected = [
        metrics.adjusted_rand_score(one[seen], two[seen])
        for one, two, seen in zip(owner, said, counted, strict=True)
    ]
    np.testing.assert_allclose(foreground_ari(owner, said, counted), expected, atol=1e-12)
