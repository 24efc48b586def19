import pytest
import torch

from capsnet.data.splits.factors import Factors
from capsnet.data.splits.split import Split


@pytest.fixture
def factors():
    """A place and an angle; the second image looks the same after half a turn, the third always."""
    values = torch.tensor([[0.1, 90.0], [0.2, 45.0], [0.3, 10.0]])
    periods = torch.tensor([[0.0, 360.0], [0.0, 180.0], [0.0, 40.0]])
    return Factors(("x", "rotation"), ((0.0, 0.5), (0.0, 360.0)), values, periods)


def test_what_comes_back_is_asked_as_a_point_of_a_circle(factors):
    task, labels = factors.asked()
    assert task.names == ("x", "sin rotation", "cos rotation") and len(task.units) == 3
    assert task.ranges == ((0.0, 0.5), (-1.0, 1.0), (-1.0, 1.0))
    # A quarter of the way round each of them: sine 1, cosine 0.
    expected = torch.tensor([[0.1, 1.0, 0.0], [0.2, 1.0, 0.0], [0.3, 1.0, 0.0]])
    torch.testing.assert_close(labels, expected, atol=1e-6, rtol=0)


def test_factors_follow_their_images(factors):
    split = Split(
        torch.zeros(3, 1, 2, 2, dtype=torch.uint8),
        torch.arange(3),
        ("a", "b", "c"),
        tuple("xyz"),
        tuple("uvw"),
    )
    split = Split(split.images, split.labels, split.task, "xyz", "uvw", factors)
    few = split.subset([2, 0]).to("cpu").with_channels(3)
    assert few.image_shape == (3, 2, 2) and (few.files, few.groups) == (("z", "x"), ("w", "u"))
    assert few.factors.values.tolist() == factors.values[[2, 0]].tolist()
    assert few.factors.periods[:, 1].tolist() == [40, 360] and few.factors.ranges == factors.ranges
    asked = few.asking_factors()
    assert torch.equal(asked.labels, factors.asked()[1][[2, 0]]) and asked.files == few.files
    assert torch.equal(asked.images, few.images) and asked.label_counts() == ()


def test_each_image_and_each_name_has_its_factors(factors):
    names, ranges, values, periods = vars(factors).values()
    for wrong in (
        (names, ranges, values, periods[:2]),
        (names, ranges, values[:, :1], periods[:, :1]),
        (names, ranges[:1], values, periods),
    ):
        with pytest.raises(AssertionError):
            Factors(*wrong)
    with pytest.raises(AssertionError):
        images = torch.zeros(2, 1, 2, 2, dtype=torch.uint8)
        Split(images, torch.zeros(2, dtype=torch.long), ("a", "b"), factors=factors)
