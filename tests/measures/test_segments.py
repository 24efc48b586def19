import numpy as np

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
