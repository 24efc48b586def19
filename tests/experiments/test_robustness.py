import pytest
import torch

from capsnet.data import open_data
from capsnet.experiments.robustness import attack, blur, error_percent
from capsnet.experiments.statistics import compare_paired, paired
from capsnet.models import create_model


@pytest.fixture(scope="module")
def digits():
    stream = open_data("digits", "test")
    batch = stream.batch({k: x[:64] for k, x in stream.plan(None).items()})
    return batch.images, batch.labels[:, 0]


@pytest.mark.parametrize("name", ["capsnet_small", "cnn_small"])
def test_attacks_stay_in_reach_and_steps_find_more_than_one(name, digits):
    images, labels = digits
    model = create_model(name, pretrained=True).eval()
    plain = error_percent(model, images, labels)
    errors = []
    for steps in (1, 10):
        changed = attack(model, images, labels, 0.1, steps, torch.Generator().manual_seed(0))
        assert (changed - images).abs().max() <= 0.1 + 1e-6
        assert changed.min() >= 0 and changed.max() <= 1 and not changed.requires_grad
        errors.append(error_percent(model, changed, labels))
    assert plain < errors[0] <= errors[1]


def test_no_attack_without_reach(digits):
    images, labels = digits
    model = create_model("cnn_small", pretrained=True).eval()
    changed = attack(model, images[:4], labels[:4], 0.0, 3, torch.Generator())
    assert torch.equal(changed, images[:4])


def test_blur_is_a_gaussian():
    point = torch.zeros(1, 2, 31, 31)
    point[:, :, 15, 15] = 1
    blurred = blur(point, 2.0)
    torch.testing.assert_close(blurred.sum(dim=(2, 3)), torch.ones(1, 2))
    places = torch.arange(31.0) - 15
    assert (blurred[0, 0] * places[:, None] ** 2).sum().item() == pytest.approx(4, rel=0.05)
    assert torch.equal(blurred[0, 0], blurred[0, 1])
    torch.testing.assert_close(blurred[0, 0], blurred[0, 0].T)


def test_paired_difference_by_hand():
    found = paired({0: 1.0, 1: 2.0, 2: 4.0, 5: 9.0}, {0: 2.0, 1: 3.0, 2: 6.0, 7: 1.0})
    assert found.difference == pytest.approx(-4 / 3) and found.num == 3
    # Differences -1, -1, -2: standard error 1/3, t = -4 with 2 degrees of freedom.
    assert found.p == pytest.approx(0.0572, abs=1e-4)
    assert found.low == pytest.approx(-4 / 3 - 4.3027 / 3, abs=1e-3)
    assert paired({0: 1.0}, {0: 2.0}) is None and paired({0: 1.0, 1: 2.0}, {2: 1.0}) is None


def test_differences_are_corrected_for_their_number():
    rows = {
        "a": {0: 1.0, 1: 1.1, 2: 1.2, 3: 1.3},
        "b": {0: 2.0, 1: 2.2, 2: 2.1, 3: 2.3},
        "c": {0: 1.2, 1: 1.0, 2: 1.3, 3: 1.2},
    }
    said = compare_paired("Error", rows, [("a", "b"), ("a", "c"), ("a", "d")])
    assert "lower for a" in said[0] and "over 4 seeds" in said[0]
    assert "no significant difference" in said[1]
    assert "too few shared seeds" in said[2]
    assert all("as one of 2 tests" in text for text in said[:2])  # the third was not made
