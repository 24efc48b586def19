import pytest
import torch

from capsnet.errors import UserError
from capsnet.ops import margin_loss, reconstruction_loss, spread_loss


def test_margin_by_hand():
    lengths = torch.tensor([[0.8, 0.3, 0.05], [0.95, 0.1, 0.6]])
    labels = torch.tensor([0, 2])
    # Sample 0: (0.9-0.8)^2 + 0.5 (0.3-0.1)^2 = 0.01 + 0.02; sample 1: 0.5 (0.95-0.1)^2 + 0.3^2.
    expected = ((0.01 + 0.02) + (0.5 * 0.85**2 + 0.09)) / 2
    assert margin_loss(lengths, labels).item() == pytest.approx(expected)


def test_margin_and_its_gradient_are_equation_4():
    lengths = torch.rand(50, 7, dtype=torch.float64, requires_grad=True)
    T = (torch.rand(50, 7) < 0.3).double()
    present, absent = (0.9 - lengths).clamp(min=0), (lengths - 0.1).clamp(min=0)
    exact = (T * present**2 + 0.5 * (1 - T) * absent**2).sum(dim=1).mean()
    loss = margin_loss(lengths, T)
    torch.testing.assert_close(loss, exact)
    for ours, truth in zip(*(torch.autograd.grad(x, lengths) for x in (loss, exact)), strict=True):
        torch.testing.assert_close(ours, truth)


def test_margin_is_zero_where_both_margins_are_kept():
    assert margin_loss(torch.tensor([[0.95, 0.05, 0.1]]), torch.tensor([0])) == 0


def test_margin_takes_lengths_not_probabilities():
    # A softmax over the lengths would move them together and leave a loss.
    lengths = torch.zeros(4, 10)
    lengths[:, 3] = 1.0
    assert margin_loss(lengths, torch.full((4,), 3)) == 0


def test_margin_of_labels_is_that_of_their_table():
    lengths, labels = torch.rand(6, 5), torch.arange(6) % 5
    table = torch.nn.functional.one_hot(labels, 5)
    assert margin_loss(lengths, labels) == margin_loss(lengths, table)


def test_several_classes_may_be_present():
    lengths = torch.tensor([[0.9, 0.9, 0.1]])
    assert margin_loss(lengths, torch.tensor([[1, 1, 0]])) == 0
    # Only the second is then too long: 0.5 (0.9 - 0.1)^2.
    assert margin_loss(lengths, torch.tensor([[1, 0, 0]])).item() == pytest.approx(0.32)


def test_margins_and_weight_are_used():
    lengths, labels = torch.tensor([[0.5, 0.5]]), torch.tensor([0])
    loss = margin_loss(lengths, labels, m_pos=0.7, m_neg=0.2, lam=2.0).item()
    assert loss == pytest.approx(0.2**2 + 2 * 0.3**2)


def test_authors_divide_by_twice_the_classes():
    lengths, labels = torch.rand(4, 10), torch.arange(4)
    ours = margin_loss(lengths, labels)
    torch.testing.assert_close(margin_loss(lengths, labels, average_classes=True), ours / 20)


def test_spread_by_hand():
    a = torch.tensor([[0.5, 0.4, 0.1]])
    # max(0, 0.3 - (0.5 - 0.4))^2 + max(0, 0.3 - (0.5 - 0.1))^2 = 0.2^2 + 0.
    assert spread_loss(a, torch.tensor([0]), margin=0.3).item() == pytest.approx(0.04)


def test_defaults_by_hand():
    # Far from every margin, so that each default counts by itself:
    # margin: (0.9 - 0.2)^2 + 0.5 (0.7 - 0.1)^2 = 0.49 + 0.18; spread: (0.9 - (0.2 - 0.7))^2 = 1.96.
    lengths, labels = torch.tensor([[0.2, 0.7]], dtype=torch.float64), torch.tensor([0])
    assert margin_loss(lengths, labels).item() == pytest.approx(0.67, rel=1e-9)
    present, absent = torch.tensor([[1, 1]]), torch.tensor([[0, 0]])
    assert margin_loss(lengths, present).item() == pytest.approx(0.49 + 0.04, rel=1e-9)
    assert margin_loss(lengths, absent).item() == pytest.approx(0.5 * (0.01 + 0.36), rel=1e-9)
    assert spread_loss(lengths, labels).item() == pytest.approx(1.96, rel=1e-9)


@pytest.mark.parametrize("loss", [margin_loss, spread_loss])
def test_losses_are_transformed(loss):
    lengths, labels = torch.rand(6, 5), torch.arange(6) % 5
    each = torch.func.vmap(lambda a, t: loss(a[None], t[None]))(lengths, labels)
    torch.testing.assert_close(each.mean(), loss(lengths, labels))
    lengths.requires_grad_()
    (expected,) = torch.autograd.grad(loss(lengths, labels), lengths)
    torch.testing.assert_close(torch.func.grad(loss)(lengths.detach(), labels), expected)


def test_reconstruction_sums_pixels_and_averages_images():
    pixels, images = torch.zeros(2, 1, 3, 3), torch.ones(2, 1, 3, 3)
    images[1] = 0.5
    assert reconstruction_loss(pixels, images).item() == pytest.approx((9 + 9 / 4) / 2)


@pytest.mark.parametrize("loss", [margin_loss, spread_loss])
def test_gradients_are_exact(loss):
    lengths = torch.rand(3, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 4, 2])
    assert torch.autograd.gradcheck(lambda x: loss(x, labels), lengths)
    assert torch.autograd.gradgradcheck(lambda x: loss(x, labels), lengths)


def test_batch_mean_makes_copies_count_once():
    lengths, labels = torch.rand(3, 4), torch.tensor([0, 1, 2])
    for loss in (margin_loss, spread_loss):
        twice = loss(lengths.repeat(2, 1), labels.repeat(2))
        torch.testing.assert_close(twice, loss(lengths, labels))


@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (2, 3, 1)])
def test_targets_that_do_not_fit_are_a_sentence(shape):
    with pytest.raises(UserError, match=r"do not fit .*; give labels"):
        margin_loss(torch.rand(2, 3), torch.zeros(shape))


@pytest.mark.parametrize("shape", [(2, 1), (1,), (3,), ()])
def test_weights_that_do_not_fit_are_a_sentence(shape):
    with pytest.raises(UserError, match=r"do not fit 2 samples; give \[2\]"):
        margin_loss(torch.rand(2, 3), torch.tensor([0, 1]), weights=torch.ones(shape))


@pytest.mark.parametrize("loss", [margin_loss, spread_loss])
@pytest.mark.parametrize(
    ("labels", "sentence"),
    [([0, 3], "no class 3"), ([-1, 0], "no class -1"), ([0.0, 1.0], "whole numbers")],
)
def test_labels_that_are_no_classes_are_a_sentence(loss, labels, sentence):
    with pytest.raises(UserError, match=sentence):
        loss(torch.rand(2, 3), torch.tensor(labels))


def test_labels_of_any_whole_type():
    lengths, labels = torch.rand(2, 3), torch.tensor([2, 0])
    for dtype in (torch.uint8, torch.int32):
        assert torch.equal(margin_loss(lengths, labels.to(dtype)), margin_loss(lengths, labels))


def test_pictures_of_another_shape_are_not_compared():
    with pytest.raises(UserError, match="same shape"):
        reconstruction_loss(torch.rand(4, 1, 5, 5), torch.rand(4, 5, 5))


def test_spread_loss_of_several_labels_is_summed_over_them():
    a = torch.tensor([[0.9, 0.6, 0.2, 0.5]])
    T = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    # Leads 0.7, 0.4 and 0.4, 0.1 before a margin of 0.5.
    torch.testing.assert_close(spread_loss(a, T, 0.5), torch.tensor(0.1**2 + 0.1**2 + 0.4**2))
    one = torch.nn.functional.one_hot(torch.tensor([2]), 4)
    torch.testing.assert_close(spread_loss(a, one, 0.5), spread_loss(a, torch.tensor([2]), 0.5))


@pytest.mark.parametrize("weights", [None, torch.zeros(0)])
def test_of_no_image_the_loss_is_zero(weights):
    answers = torch.zeros(0, 10, requires_grad=True)
    pictures = torch.zeros(0, 1, 5, 5, requires_grad=True)
    labels = torch.zeros(0, dtype=torch.long)
    losses = [
        margin_loss(answers, labels, weights=weights),
        spread_loss(answers, labels, weights=weights),
        reconstruction_loss(pictures, pictures.detach(), weights=weights),
    ]
    sum(losses).backward()
    assert [x.item() for x in losses] == [0, 0, 0]
    assert answers.grad.shape == answers.shape and pictures.grad.shape == pictures.shape


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_losses_of_half_precision_do_not_overflow(dtype):
    lengths = torch.full((2, 10), 1000.0, dtype=dtype, requires_grad=True)
    labels = torch.tensor([0, 9])
    for loss in (margin_loss, spread_loss):
        expected = loss(lengths.detach().double(), labels)
        found = loss(lengths, labels)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
        (gradient,) = torch.autograd.grad(found, lengths)
        assert gradient.dtype == dtype and gradient.isfinite().all()
    pixels = torch.full((2, 1, 28, 28), 30.0, dtype=dtype)
    assert reconstruction_loss(pixels, torch.zeros_like(pixels)).item() == 900 * 784
