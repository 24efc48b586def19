import numpy as np
import pytest

from capsnet.data.sets.scenes import load_scenes
from capsnet.errors import UserError
from capsnet.measures.readout import (
    PENALTIES,
    Sample,
    completeness,
    disentanglement,
    read_out,
)


def parts(features, factors, periods=None):
    """Every third image each for training, validation and test."""
    cut = [slice(k, None, 3) for k in range(3)]
    return [Sample(features[c], factors[c], None if periods is None else periods[c]) for c in cut]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_features_that_are_the_factors_are_read_wholly(rng):
    factors = rng.uniform(-1, 1, (900, 3))
    features = 5 + factors[:, [2, 0, 1]] * [1e-3, 1, 1e3]
    told = read_out(("x", "y", "scale"), *parts(features, factors))
    assert told.names == ("x", "y", "scale") and min(told.r_squared) > 0.9999
    assert told.importance.argmax(axis=0).tolist() == [1, 2, 0]
    assert told.dci.disentanglement > 0.99 and told.dci.completeness > 0.99
    assert told.dci.informativeness == pytest.approx(np.mean(told.r_squared))


def test_mixed_features_are_read_as_well_but_serve_all(rng):
    factors = rng.normal(size=(900, 2))
    turn = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
    told = read_out(("x", "y"), *parts(factors @ turn, factors))
    assert min(told.r_squared) > 0.999
    assert told.dci.disentanglement < 0.01 and told.dci.completeness < 0.01


def test_noise_tells_nothing_and_half_noise_half(rng):
    factors = rng.normal(size=(30_000, 1))
    noise = rng.normal(size=(30_000, 1))
    assert abs(read_out(("x",), *parts(noise, factors)).r_squared[0]) < 0.005
    told = read_out(("x",), *parts(factors + noise, factors))
    assert told.r_squared[0] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("period", "score"), [(90, 1), (360, 0)])
def test_an_angle_is_read_with_the_symmetry_of_its_shape(rng, period, score):
    angle = rng.uniform(0, 360, (6000, 1))
    seen = np.radians(4 * angle)  # of a square, more cannot be seen
    features = np.concatenate([np.sin(seen), np.cos(seen)], axis=1)
    told = read_out(("rotation",), *parts(features, angle, np.full_like(angle, period)))
    assert told.r_squared[0] == pytest.approx(score, abs=0.01)
    assert told.importance.shape == (2, 1)


def test_pixels_tell_place_and_size_but_no_angle():
    split = load_scenes("train", size=16, num=2400)
    told = read_out(
        split.factors.names,
        *parts(
            split.images.flatten(1).numpy() / 255,
            split.factors.values.numpy(),
            split.factors.periods.numpy(),
        ),
    )
    x, y, scale, rotation = told.r_squared
    assert min(x, y) > 0.8 and scale > 0.8 and rotation < 0.1


def test_each_image_has_its_own_period(rng):
    angle = rng.uniform(0, 360, (600, 1))
    period = rng.choice([90.0, 180.0, 360.0], (600, 1))
    seen = 2 * np.pi * angle / period
    features = np.concatenate([np.sin(seen), np.cos(seen)], axis=1)
    assert read_out(("rotation",), *parts(features, angle, period)).r_squared[0] > 0.999
    period[7] = 0
    with pytest.raises(UserError, match="a period"):
        read_out(("rotation",), *parts(features, angle, period))


def test_images_without_a_factor_are_left_out(rng):
    features = rng.normal(size=(300, 4))
    factors = features[:, :2] + rng.normal(size=(300, 2))
    all_there = read_out(("x", "y"), *parts(features[:150], factors[:150]))
    factors[150:, 0] = np.nan
    told = read_out(("x", "y"), *parts(features, factors))
    assert told.r_squared[0] == pytest.approx(all_there.r_squared[0])
    assert told.r_squared[1] != pytest.approx(all_there.r_squared[1])


def test_unit_and_origin_of_features_and_factors_change_nothing(rng):
    features = rng.normal(size=(300, 3))
    factors = features[:, :2] + 0.5 * rng.normal(size=(300, 2))
    one = read_out(("x", "y"), *parts(features, factors))
    two = read_out(("x", "y"), *parts(7 + 1e4 * features, 1e-3 * factors - 5))
    assert one.r_squared == pytest.approx(two.r_squared)
    assert one.importance == pytest.approx(two.importance)


def test_penalty_is_chosen_where_features_outnumber_images(rng):
    features = rng.normal(size=(120, 400))
    factors = features[:, :1] + features[:, 1:2]
    told = read_out(("x",), *parts(features, factors))
    assert told.penalties[0] > PENALTIES[0] and np.isfinite(told.r_squared[0])


def test_constant_features_and_factors_are_no_harm(rng):
    features = rng.normal(size=(90, 3))
    features[:, 1] = 0.1
    factors = np.stack([features[:, 0], np.full(90, 2.0)], axis=1)
    told = read_out(("x", "still"), *parts(features, factors))
    assert told.r_squared[0] > 0.99 and told.r_squared[1] is None
    assert told.importance[1].tolist() == [0, 0]
    assert told.dci.informativeness == told.r_squared[0]


def test_dci_by_hand():
    importance = np.array([[1.0, 0.0], [1.0, 1.0]])
    assert disentanglement(importance) == pytest.approx(1 / 3)  # 1/3 · 1 + 2/3 · 0
    assert completeness(importance) == pytest.approx(1 / 2)  # (0 + 1) / 2
    assert disentanglement(np.eye(4)) == completeness(np.eye(4)) == 1
    assert disentanglement(np.ones((3, 5))) == pytest.approx(0)
    assert disentanglement(np.zeros((3, 5))) == completeness(np.zeros((3, 5))) == 0


def test_order_of_features_and_factors_does_not_matter(rng):
    importance = rng.random((6, 4))
    mixed = importance[rng.permutation(6)][:, rng.permutation(4)]
    assert disentanglement(mixed) == pytest.approx(disentanglement(importance))
    assert completeness(mixed) == pytest.approx(completeness(importance))


def test_what_cannot_be_read_is_a_sentence(rng):
    x = rng.normal(size=(9, 2))
    for features, factors, periods in (
        (x, x[:8], None),
        (x[:0], x[:0], None),
        (x[:, 0], x, None),
        (x, x, x[:, :1]),
        (np.where(x > 0, np.nan, x), x, None),
    ):
        with pytest.raises(UserError, match="give"):
            Sample(features, factors, periods)
    with pytest.raises(UserError, match="each factor a name"):
        read_out(("x",), *parts(x, x))
    with pytest.raises(UserError, match="No image of a split has y"):
        read_out(("x", "y"), *parts(x, x * [1, np.nan]))
    with pytest.raises(UserError, match="two factors"):
        disentanglement(np.ones((3, 1)))
    with pytest.raises(UserError, match="two features"):
        completeness(np.ones((1, 3)))
