import math

import pytest
import torch

from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.models import Progress, create_model
from capsnet.models.cycle import as_long_as, move_one, taken
from capsnet.tasks import Batch, Pairs
from capsnet.training.step import answer_and_loss

START = Progress.at(0, 10)


def small(**options):
    torch.manual_seed(0)
    return create_model(
        "capsnet_modern", channels=(4, 8), primary_types=4, decoder=(16,), **options
    ).train()


def batch(num=6):
    stream = open_data("digits", "test")
    return stream.batch({name: x[:num] for name, x in stream.plan(None).items()})


def test_one_number_moves_and_not_too_far():
    pose = torch.randn(500, 7, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    added = move_one(pose, 0.25) - pose
    assert ((added != 0).sum(1) <= 1).all()
    assert 0.2 < added.abs().max() <= 0.25 + 1e-6
    assert (added.abs().amax(0) > 0.1).all() and (added.amin(0) < 0).all()


def test_lengths_are_those_of_the_others():
    pose, other = torch.randn(5, 3), torch.randn(5, 3)
    kept = as_long_as(pose, other)
    torch.testing.assert_close(kept.norm(dim=1), other.norm(dim=1))
    torch.testing.assert_close(torch.cosine_similarity(kept, pose), torch.ones(5))
    assert as_long_as(torch.zeros(1, 3), other[:1]).isfinite().all()


def test_taken_is_the_capsule_of_the_class():
    v = torch.randn(2, 4, 3)
    assert torch.equal(taken(v, torch.tensor([3, 0])), torch.stack([v[0, 3], v[1, 0]]))


def test_off_it_is_the_plain_loss_and_draws_no_random_number():
    plain, same = small(), small(cycle_step=0.1, cycle_share=0.3)
    state = torch.get_rng_state()
    losses = [answer_and_loss(model, batch(), START)[0] for model in (plain, same)]
    assert torch.equal(*losses) and torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("average", [False, True])
def test_the_loss_of_a_cycle_is_what_it_says(average):
    model = small(cycle_weight=2.0, cycle_step=0.0, cycle_share=0.5, average_classes=average)
    given = batch(5)
    output = model(given.images)
    mean = model.stem.layers[1].running_mean.clone()
    loss = model.loss(output, given, START)
    assert torch.equal(model.stem.layers[1].running_mean, mean)  # drawings leave no trace
    which = given.labels[:3, 0].long()
    drawn = model.reconstruct(output.v[:3], which)
    read = model.class_caps(model.primary_caps(model.stem(drawn)))  # the same norms, and a trace
    lengths = read.norm(dim=-1)
    T = torch.nn.functional.one_hot(which, 10)
    far = (taken(read, which) - taken(output.v[:3], which)).square().sum(1).mean()
    lost = model.margin(lengths, T, None, START) + far / (20 if average else 1)
    expected = small(average_classes=average).loss(output, given, START) + 2 * lost
    torch.testing.assert_close(loss, expected)


def test_every_weight_learns_from_a_cycle_and_from_noise():
    model = small(cycle_weight=1.0, pose_noise=0.1, reconstruction_weight=0.0)
    loss, _ = answer_and_loss(model, batch(), START)
    loss.backward()
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all() and p.grad.abs().max() > 0, name


def test_noise_is_drawn_and_not_read():
    model = small(pose_noise=0.3)
    output, given = model(batch().images), batch()
    torch.manual_seed(0)
    one = model.loss(output, given, START)
    two = model.loss(output, given, START)
    torch.manual_seed(0)
    assert one != two and torch.equal(model.loss(output, given, START), one)
    alone = small(pose_noise=0.3, reconstruction_weight=0.0)
    assert torch.equal(alone.loss(output, given, START), alone.loss(output, given, START))


def test_evaluation_has_no_chance_in_it():
    model = small(cycle_weight=1.0, pose_noise=0.1).eval()
    losses = [answer_and_loss(model, batch(), START)[0] for _ in range(2)]
    assert torch.equal(*losses)


def test_images_count_as_much_as_they_weigh():
    model = small(cycle_weight=1.0, cycle_step=0.0, cycle_share=1.0)
    given = batch(4)
    weights = torch.tensor([1.0, 0.0, 2.0, 0.5])
    output = model(given.images)
    one = model.loss(output, given._replace(weights=weights), START)
    three = model.loss(output, given._replace(weights=3 * weights), START)
    torch.testing.assert_close(three, 3 * one)


def test_a_pair_goes_round_by_one_of_its_digits():
    model = small(cycle_weight=1.0)
    model.set_task(Pairs(tuple(map(str, range(10)))))
    given = batch()
    labels = torch.stack([given.labels[:, 0], (given.labels[:, 0] + 1) % 10], 1)
    loss, _ = answer_and_loss(model, Batch(given.images, labels), START)
    loss.backward()
    assert loss.isfinite()


def test_half_precision_and_a_compiled_step():
    model = small(cycle_weight=1.0, pose_noise=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = answer_and_loss(model, batch(), START)
    loss.backward()
    assert loss.isfinite() and loss.dtype == torch.float32
    whole = torch.compile(answer_and_loss, backend="eager", fullgraph=True)
    loss, _ = whole(model, batch(), START)
    assert math.isfinite(loss.item())


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"cycle_share": 0.0}, "greater than 0"),
        ({"cycle_share": 1.5}, "at most 1"),
        ({"cycle_weight": -1.0}, "at least 0"),
        ({"pose_noise": "much"}, "a number"),
    ],
)
def test_mistakes_are_sentences(option, sentence):
    with pytest.raises(UserError, match=sentence):
        create_model("capsnet_modern", **option)
