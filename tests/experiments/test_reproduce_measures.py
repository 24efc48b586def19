import pytest
import torch

from capsnet.data import AffineStream, CanvasStream, open_data
from capsnet.experiments import affine, depth, equivariance, few_labels, multimnist, scrambled
from capsnet.experiments.multimnist import overlap_errors
from capsnet.experiments.recipes import AUTHORS, in_words
from capsnet.experiments.runner.records import settings
from capsnet.models import create_model
from capsnet.tasks import Batch
from capsnet.training.config import TrainConfig


def test_acceptance_keeps_the_asked_share_of_real_ones():
    real = torch.rand(1000, generator=torch.Generator().manual_seed(0)).numpy()
    found = scrambled.acceptance("x", real, real)
    assert found["x_accepted_at_99"] == pytest.approx(99, abs=0.2)
    assert found["x_accepted_at_95"] == pytest.approx(95, abs=0.2)
    assert found["x_auroc"] == pytest.approx(0.5)
    assert scrambled.acceptance("x", real, real - 2)["x_auroc"] == 1.0
    assert scrambled.acceptance("x", real, real - 2)["x_accepted_at_99"] == 0.0


def test_measures_of_a_path():
    t = equivariance.STEPS
    still = torch.ones(len(t), 1)
    arc = torch.stack([t.cos(), t.sin()], -1)[:, None]
    found = equivariance.path_measures(5 * arc, still)
    degrees = float(torch.rad2deg(torch.tensor(2.0)))
    assert found["path"] == pytest.approx(degrees, rel=1e-4)
    assert found["straight"] == pytest.approx(1) and found["drift"] == 0
    assert found["rough"] < 0.3 and found["on_a_line"] > 0.9
    zigzag = torch.stack([t.cos(), t.sin() * (-1) ** torch.arange(len(t))], -1)[:, None]
    rough = equivariance.path_measures(zigzag, still * t[:, None].abs())
    assert rough["rough"] > 1 and rough["straight"] < found["straight"] and rough["drift"] > 0.1


@pytest.mark.parametrize("kind", equivariance.CHANGES)
def test_changes_leave_the_centre_alone(kind):
    images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    images[:, :, :6], images[:, :, -6:] = 0, 0
    torch.testing.assert_close(equivariance.change(images, kind, 0.0), images, atol=1e-4, rtol=0)
    assert not torch.allclose(equivariance.change(images, kind, 0.5), images, atol=0.1)


def edges(images):
    """The strength of the edges of images [N, 1, H, W]."""
    return sum(images.diff(dim=d).square().sum().item() for d in (2, 3))


@pytest.mark.parametrize("kind", ["rotation", "shift"])
def test_changed_digits_are_as_sharp_as_they_were(kind):
    digits = open_data("digits", "test").split.images / 255
    for amount in equivariance.STEPS.tolist():
        changed = equivariance.change(digits, kind, amount)
        assert edges(changed) == pytest.approx(edges(digits), rel=0.03)


def test_affnist_style_digits_are_as_sharp_as_placed_ones():
    split = open_data("digits", "test").split
    placed, warped = CanvasStream(split), AffineStream(split, len(split))
    strength = [edges(x.batch(x.plan(None)).images) for x in (placed, warped)]
    assert strength[1] == pytest.approx(strength[0], rel=0.03)


def test_vector_that_is_followed_is_that_of_the_class():
    images, winner = torch.rand(2, 1, 28, 28), torch.tensor([3, 7])
    capsules = create_model("capsnet_small").eval()
    vectors, lengths = equivariance.follow(capsules, images, winner)
    assert vectors.shape == (2, 16)
    torch.testing.assert_close(torch.linalg.vector_norm(vectors, dim=1), lengths)
    cnn = create_model("cnn_small").eval()
    vectors, lengths = equivariance.follow(cnn, images, winner)
    assert vectors.shape == (2, 128)
    logits = cnn.layers[-1](vectors)
    torch.testing.assert_close(logits.softmax(1)[[0, 1], winner], lengths)


def test_inside_of_a_stack():
    small = {"channels": (4,), "primary_types": 2, "hidden": 3, "hidden_dim": 4, "decoder": ()}
    model = create_model("capsnet_deep", image_shape=(1, 9, 9), depth=3, **small).eval()
    batch = Batch(torch.rand(2, 1, 9, 9), torch.tensor([[1], [2]]))
    inside = depth.look_inside(model, batch)
    assert len(inside["lengths"]) == len(inside["gradients"]) == 4
    assert inside["lengths"][0] == pytest.approx(
        model.primary(batch.images).norm(dim=-1).mean().item()
    )
    assert inside["lengths"][-1] == pytest.approx(model(batch.images).lengths.mean().item())
    assert all(g > 0 for g in inside["gradients"])
    assert depth.ratio([1.0, 3.0, 2.0]) == 0.5 and depth.ratio([1.0, 0.0]) is None
    assert [depth.in_short(x) for x in (0.0, 0.5, 4e-15)] == ["0.00", "0.50", "4e-15"]


def test_errors_by_overlap():
    wrong = torch.tensor([True, False, True, True]).numpy()
    bins = overlap_errors(wrong, torch.tensor([0.51, 0.55, 0.95, 1.0]).numpy())
    assert [(b["from"], b["num_images"], b["error_percent"]) for b in bins] == [
        (0.5, 2, 50.0),
        (0.9, 2, 100.0),
    ]


def test_sizes_are_those_that_are_claimed():
    assert multimnist.TEST_PAIRS >= 100_000
    models = {name: num_parameters(config) for name, config in affine.recipes(0).items()}
    assert models["CNN, fully trained"] == pytest.approx(models["CapsNet, fully trained"], rel=0.02)
    for row, config in few_labels.recipes(0).items():
        assert f"{config.num_samples // 10:,} per class" in row


def test_recipes_in_words_name_what_is_taken_from_the_authors():
    plain = settings(TrainConfig())
    assert in_words({**plain, "options": [*AUTHORS]}).endswith(", the authors' network")
    assert in_words({**plain, "options": [AUTHORS[1]]}).endswith(f", {AUTHORS[1]}")


def num_parameters(config):
    """The number of parameters of a recipe's model on 40×40."""
    options = dict(o.split("=") for o in config.options)
    with torch.device("meta"):
        model = create_model(
            config.model, image_shape=(1, 40, 40), **{k: int(v) for k, v in options.items()}
        )
    return sum(p.numel() for p in model.parameters())
