import pytest
import torch

from capsnet.errors import UserError
from capsnet.layers import ClassCaps
from capsnet.models import Progress, create_model
from capsnet.tasks import Batch

SMALL = {
    "image_shape": (1, 14, 14),
    "channels": (4, 8),
    "primary_types": 3,
    "hidden": 5,
    "hidden_dim": 4,
    "decoder": (16,),
}
PLAIN = {"norm": "none", "gain": None, "residual": False}


def build(**options):
    torch.manual_seed(0)
    return create_model("capsnet_deep", **{**SMALL, **options})


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", ["none", "layer", "capsule"])
@pytest.mark.parametrize("depth", [1, 2, 4, 6])
def test_any_depth_and_norm(depth, norm, residual):
    model = build(depth=depth, norm=norm, residual=residual, gain=2.5).double()
    images = torch.rand(3, 1, 14, 14, dtype=torch.float64)
    output = model(images)
    loss = model.loss(output, Batch(images, torch.tensor([[0], [1], [2]])), Progress.at(0, 1))
    loss.backward()
    for key, p in model.named_parameters():
        assert p.grad.isfinite().all() and p.grad.abs().max() > 0, key
    model.eval()
    output = model(images)
    torch.testing.assert_close(model(images[:1]).v, output.v[:1], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(model.trace(images).v[-1], output.v, rtol=1e-4, atol=1e-6)
    assert (output.lengths < 1).all()


def test_one_plain_layer_is_the_modern_capsnet():
    deep = build(depth=1, **PLAIN).eval()
    options = {k: v for k, v in SMALL.items() if not k.startswith("hidden")}
    modern = create_model("capsnet_modern", **options).eval()
    modern.load_state_dict(deep.state_dict())
    images = torch.rand(2, 1, 14, 14)
    assert torch.equal(modern(images).v, deep(images).v)
    assert deep.placed is deep and build(depth=2).placed is None


def test_residual_capsules_are_added_from_the_second_hidden_layer_on():
    model, images = build(depth=4, norm="none").eval(), torch.rand(2, 1, 14, 14)
    first, second, third = model.hidden_caps
    v = first(model.primary(images))
    v = v + second(v)
    torch.testing.assert_close(model.lower(images), v + third(v))
    for depth, same in ((2, True), (3, False)):
        with_and_without = [build(depth=depth, residual=x).eval()(images).v for x in (True, False)]
        assert torch.equal(*with_and_without) == same


@pytest.mark.parametrize(("gain", "end"), [(1.0, 0), (1.5, 0), (2.5, 0.8), (4.0, 0.933)])
def test_lengths_of_a_stack_follow_the_map_of_a_layer(gain, end):
    """l' = (g l)^2 / (1 + (g l)^2), which has a fixed point above zero from g = 2 on."""
    torch.manual_seed(0)
    I, D = 48, 24
    v, expected = torch.nn.functional.normalize(torch.randn(4, I, D), dim=-1), 1.0
    for _ in range(8):
        v = ClassCaps(I, D, I, D, num_iters=1, std=gain * I / (D * I) ** 0.5)(v)
        expected = (gain * expected) ** 2 / (1 + (gain * expected) ** 2)
        assert v.norm(dim=-1).mean().item() == pytest.approx(expected, rel=0.1, abs=0.04)
    assert expected == pytest.approx(end, abs=0.01)


def lengths_and_gradients(model):
    """Mean length and gradient of each layer of routed capsules at the start."""
    found = []
    layers = [*model.hidden_caps, model.class_caps]
    hooks = [layer.register_forward_hook(lambda m, i, o: found.append(o)) for layer in layers]
    loss = model(torch.rand(8, 1, 14, 14)).lengths.sum()
    for hook in hooks:
        hook.remove()
    gradients = torch.autograd.grad(loss, found)
    return [v.norm(dim=-1).mean().item() for v in found], [g.norm().item() for g in gradients]


def test_plain_stack_dies_and_normed_stack_lives():
    wide = {"hidden": 32, "hidden_dim": 16, "num_iters": 1}
    plain, dead = lengths_and_gradients(build(depth=6, **wide, **PLAIN))
    assert plain[2] < 1e-6 and plain[-1] == 0 and dead[0] == 0
    normed, alive = lengths_and_gradients(build(depth=6, residual=False, gain=1.0, **wide))
    assert all(0.4 < x < 0.6 for x in normed)
    assert max(alive) < 2 * min(alive)


def test_votes_that_are_long_at_the_start_make_the_routing_jump():
    wide = {"hidden": 32, "hidden_dim": 16, "residual": False}
    long = lengths_and_gradients(build(depth=6, norm="none", gain=2.5, **wide))[1]
    short = lengths_and_gradients(build(depth=6, norm="layer", **wide))[1]
    assert long[0] > 100 * long[-2]
    assert max(short[1:-1]) < 2 * min(short[1:-1])


def test_images_of_any_kind_have_numbers_as_answers():
    for norm in ("none", "layer", "capsule"):
        for images in (torch.zeros(2, 1, 14, 14), torch.full((2, 1, 14, 14), 1e6)):
            model = build(depth=4, norm=norm)
            output = model(images)
            loss = model.loss(output, Batch(images, torch.tensor([[0], [1]])), Progress.at(0, 1))
            grads = torch.autograd.grad(loss, list(model.parameters()))
            assert all(x.isfinite().all() for x in (output.v, loss, *grads))


def test_parameters_of_each_layer():
    def count(depth):
        with torch.device("meta"):
            return sum(p.numel() for p in create_model("capsnet_deep", depth=depth).parameters())

    with torch.device("meta"):
        modern = sum(p.numel() for p in create_model("capsnet_modern").parameters())
    assert count(1) == modern
    per_layer = 32 * 32 * 16 * 16
    between = 288 * 32 * 16 * 8 + 32 * 10 * 16 * 16 - 288 * 10 * 16 * 8
    assert count(2) == modern + between
    assert [count(d) - count(d - 1) for d in (3, 4, 5, 6)] == 4 * [per_layer]


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"depth": 0}, "depth must be at least 1"),
        ({"depth": 7}, "depth must be at most 6"),
        ({"gain": 0.0}, "gain must be greater than 0"),
        ({"norm": "batch"}, "norm called 'batch'"),
        ({"hidden": 0}, "hidden must be at least 1"),
    ],
)
def test_mistakes(option, sentence):
    with pytest.raises(UserError, match=sentence):
        build(**option)
