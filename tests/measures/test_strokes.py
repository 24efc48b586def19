import numpy as np
import pytest

from capsnet.measures.strokes import PROPERTIES, meanings, shape_changes, stroke_shapes


def bar(width=4.0, height=16.0, slant=0.0, angle=0.0, size=33):
    """A white bar in the middle of a black picture, with soft edges."""
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    y = -y
    turn = np.radians(angle)
    x, y = x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn)
    x = x - slant * y
    inside = np.clip(width / 2 + 0.5 - abs(x), 0, 1) * np.clip(height / 2 + 0.5 - abs(y), 0, 1)
    return inside


def told(**shape):
    return dict(zip(PROPERTIES, stroke_shapes(bar(**shape)), strict=True))


def test_an_upright_bar_is_measured():
    found = told(width=4, height=16)
    assert found["width"] == pytest.approx(4, rel=0.1)
    assert found["height"] == pytest.approx(16, rel=0.05)
    assert found["slant"] == pytest.approx(0, abs=1e-9)
    assert found["rotation"] == pytest.approx(0, abs=1e-9)
    # A bar that is not endlessly long: 2 · 4 · 16 / (2 · (4 + 16)).
    assert found["thickness"] == pytest.approx(3.2, rel=0.15)


@pytest.mark.parametrize("slant", [-0.5, 0.3])
def test_a_slanted_bar_leans_to_its_side(slant):
    assert told(slant=slant, height=14)["slant"] == pytest.approx(slant, rel=0.1)


@pytest.mark.parametrize("angle", [-40, -15, 30, 80])
def test_a_turned_bar_is_turned_clockwise(angle):
    assert told(angle=angle)["rotation"] == pytest.approx(angle, abs=1)


def test_thicker_strokes_are_thicker_and_nothing_else_is_needed_for_it():
    thin, thick = told(width=2, height=24), told(width=4, height=24)
    assert thick["thickness"] / thin["thickness"] == pytest.approx(2, rel=0.2)
    assert thick["height"] == pytest.approx(thin["height"], rel=0.02)


def test_place_does_not_matter_and_many_are_measured_as_one():
    picture = bar(slant=0.2)
    moved = np.roll(picture, (3, -4), (0, 1))
    both = stroke_shapes(np.stack([picture, moved])[:, None])
    assert both.shape == (2, 1, 5)
    np.testing.assert_allclose(both[0, 0], stroke_shapes(picture))
    np.testing.assert_allclose(both[1], both[0], atol=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.05, 1.0])
def test_even_pictures_and_single_points_have_numbers(value):
    point = np.zeros((9, 9))
    point[3, 4] = value
    for picture in (np.full((9, 9), value), point):
        assert np.isfinite(stroke_shapes(picture)).all()
    assert (stroke_shapes(np.full((9, 9), min(value, 0.1))) == 0).all()


def test_a_rotation_goes_the_shorter_way():
    before, after = np.zeros(5), np.zeros(5)
    before[-1], after[-1] = 85, -85
    assert shape_changes(before, after)[-1] == pytest.approx(10)


def test_meanings_find_the_dimension_that_slants():
    steps = np.linspace(-0.3, 0.3, 5)
    slants = np.array([0.0, 0.1, 0.2])
    before = np.stack([stroke_shapes(bar(slant=x)) for x in slants])
    slanted = [[stroke_shapes(bar(slant=x + s)) for s in steps] for x in slants]
    still = [[stroke_shapes(bar(slant=x)) for _ in steps] for x in slants]
    found = meanings(steps, before, np.stack([slanted, still], 1))
    slant = PROPERTIES.index("slant")
    assert found.r.shape == (2, 5)
    assert found.r[0, slant] > 0.99
    assert found.slope[0, slant] == pytest.approx(1, rel=0.1)
    assert (found.r[1] == 0).all() and (found.slope[1] == 0).all()


def test_each_dimension_may_have_steps_of_its_own():
    rng = np.random.default_rng(0)
    before, steps = rng.normal(size=(4, 5)), np.array([[-1.0, 1.0], [-2.0, 2.0]])
    after = before[:, None, None] + steps[None, :, :, None] * np.array([3.0, 0, 0, -1, 0])
    found = meanings(steps, before, after)
    np.testing.assert_allclose(found.slope, [[3, 0, 0, -1, 0]] * 2, atol=1e-12)
    np.testing.assert_allclose(found.r, [[1, 0, 0, -1, 0]] * 2, atol=1e-12)
