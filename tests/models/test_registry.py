import pytest
import torch
from safetensors.torch import save_file

import capsnet
from capsnet.data import ImageStream, Split, open_data
from capsnet.errors import UserError
from capsnet.layers import Capsules, RoutedCaps
from capsnet.layers.routings import Routing
from capsnet.models import (
    CapsNet,
    Progress,
    create_model,
    list_models,
    model_entry,
    register_model,
    registry,
)
from capsnet.models.weights import Card, find_model, load_weights, save_weights
from capsnet.ops import squash
from capsnet.tasks import Numbers, OneLabel, Sets
from capsnet.training.evaluation import evaluate
from capsnet.training.step import answer_and_loss
from capsnet.training.watching import troubles

NORB = {"image_shape": (2, 32, 32), "num_classes": 5}
WIDE = {"A": 32, "B": 32, "C": 32, "D": 32}
# Features of a trunk see what is not known; DeepCaps and capsnet_deep route others to the classes.
UNPLACED = {"capsnet_on_trunk", "deepcaps", "capsnet_deep"}
UNDRAWN = {"matrixcaps", "vb_capsnet", "sr_capsnet", "ida_capsnet"}
SMALL = {"conv_channels": 8, "primary_types": 4, "decoder": (16,)}
UNTRACED = {"capsnet_slots"}  # its slots hold phases, which have a trace of their own
IDLE = {("ida_capsnet", "logit.bias")}  # the same for all classes: a softmax does not see it


def small_shape(name):
    """A picture as small as the model takes, so that even the paper's networks are quick."""
    for side in (13, 17, 24, 32):
        try:
            with torch.device("meta"):
                create_model(name, image_shape=(1, side, side + 1))
            return (1, side, side + 1)
        except UserError:
            continue
    raise AssertionError(f"{name} takes no small picture")


def task_for(name):
    """What a model of the package is asked, with as few answers as there can be."""
    if Numbers in model_entry(name).model.tasks:
        return Numbers(("angle", "size"), ("°", ""), ((-45.0, 45.0), (0.0, 2.0)))
    if Sets in model_entry(name).model.tasks:
        return Sets(("a", "b", "c"))
    return OneLabel(("a", "b", "c"))


def labels_for(task):
    if isinstance(task, Numbers):
        return torch.tensor([[-3.0, 0.5], [40.0, 1.5]])
    if isinstance(task, Sets):
        return torch.tensor([[0, 2, 2], [1, -1, -1]])
    return torch.tensor([0, 2])


@pytest.mark.parametrize("name", list_models())
def test_model(name, tmp_path):
    torch.manual_seed(0)
    shape, task = small_shape(name), task_for(name)
    J = len(task.names)
    model = create_model(name, image_shape=shape, **task.options)
    model.set_task(task)
    images = torch.rand(2, *shape)
    for p in model.parameters():
        p.data += 0.01 * torch.randn_like(p)  # weights that start at zero hide those below them

    output = model.eval()(images)
    assert output.answers.shape == (2, J) and output.v.shape[:2] == (2, J)
    assert output.v.isfinite().all()
    if isinstance(task, OneLabel):
        assert (output.answers >= 0).all() and (output.answers <= 1).all()
    if name.startswith("capsnet_") and isinstance(task, OneLabel):
        torch.testing.assert_close(output.lengths, output.v.norm(dim=-1))

    batch_mates = model(torch.cat([images[:1], torch.rand(3, *shape)]))
    torch.testing.assert_close(batch_mates.v[:1], output.v[:1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model(images[:1]).v, output.v[:1], rtol=1e-4, atol=1e-5)

    stream = ImageStream(Split((images * 255).byte(), labels_for(task), task))
    batch = stream.batch(stream.plan(None))
    if isinstance(task, Sets):  # drawings are compared with each object alone
        batch = batch._replace(parts=torch.rand(2, 3, *shape))
    loss, misses = answer_and_loss(model, batch, Progress.at(0, 10))
    loss.backward()
    assert loss.isfinite() and loss.shape == () and misses.shape == (2,)
    for key, p in model.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all(), key
        assert p.grad.abs().max() > 0 or (name, key) in IDLE, key

    save_weights(model, tmp_path / "w.safetensors", Card(name, model.options, task))
    again, card = load_weights(tmp_path / "w.safetensors")
    assert (again.name, again.options, card.task) == (name, model.options, task)
    assert again.task == task and torch.equal(again.eval()(images).v, model(images).v)


@pytest.mark.parametrize("name", list_models())
def test_abilities_are_true(name):
    shape, task = small_shape(name), task_for(name)
    model = create_model(name, image_shape=shape, **task.options).eval()
    images, capsules = torch.rand(2, *shape), not name.startswith("cnn")
    found = (model.draws, model.traced, model.placed, model.embeds)
    draws = capsules and name not in UNDRAWN | UNTRACED
    traced = capsules and name not in UNTRACED
    placed = capsules and name not in UNDRAWN | UNPLACED
    assert [x is not None for x in found] == [draws, traced, placed, not capsules]
    output = model(images)
    if model.draws is not None:
        assert model.draws.reconstruct(output.v).shape == images.shape
        assert model.draws.reconstruct(output.v, 1).shape == images.shape
        assert model.draws.draw(output.v).shape == images.shape
    if model.traced is not None:
        trace = model.traced.trace(images)
        torch.testing.assert_close(trace.v[-1], output.v)
    if model.traced is not None and model.placed is not None:
        u = model.placed.primary(images)
        rows, columns, types = model.placed.grid
        assert trace.u_hat.shape[:2] == u.shape[:2] == (2, rows * columns * types)
        side, step, start = model.placed.field
        end = start + (rows - 1) * step + side
        assert start <= 0 and end > shape[1] - step and (end <= shape[1] or start < 0)
    if model.embeds is not None:
        assert model.embeds.embed(images).shape[0] == 2
    if model.chained is not None:
        x = images
        for layer in model.chained.chain():
            x = layer.eval()(x)
        torch.testing.assert_close(x, output.answers if model.embeds is not None else output.v)


def test_a_model_with_a_routing_that_has_no_trace_is_not_traced():
    class Mean(Routing):
        def forward(self, u_hat, lower, share=None):
            v = u_hat.mean(dim=2)
            return Capsules(v, v.norm(dim=-1).tanh())

    model = create_model("capsnet_small", **SMALL).eval()
    I, J, E, D = model.class_caps.W.shape
    model.class_caps = RoutedCaps(I, D, J, E, Mean())
    images = torch.rand(2, 1, 28, 28)
    assert model.traced is None and model.draws is not None
    assert not any("dead" in sentence for sentence in troubles(model, images))
    with pytest.raises(UserError, match="Mean cannot be followed step by step; give it a method"):
        model.trace(images)


def test_a_capsule_sees_its_field_and_nothing_else():
    model = create_model("capsnet_small").eval()
    (rows, columns, types), (side, step, _) = model.grid, model.field
    image = torch.rand(1, 1, 28, 28, requires_grad=True)
    u = model.primary(image).view(rows, columns, types, -1)
    seen = torch.autograd.grad(u[1, 2].square().sum(), image)[0][0, 0] != 0
    inside = torch.zeros(28, 28, dtype=torch.bool)
    inside[step : step + side, 2 * step : 2 * step + side] = True
    assert torch.equal(seen, inside)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("capsnet_mnist", {}, 8_215_568),
        ("capsnet_mnist", {"routing_bias": True}, 8_215_728),
        ("capsnet_mnist", {"decoder": ()}, 6_804_224),
        ("capsnet_multimnist", {}, 11_361_808),
        ("capsnet_multimnist", {"routing_bias": True}, 11_361_968),
        ("sr_capsnet", {}, 931_664),
        ("sr_capsnet", {"routing": "dynamic"}, 5_807_888),
        ("sr_capsnet", {"routing": "em"}, 911_204),
        ("ida_capsnet", {}, 1_828_817),
        ("efficient_capsnet", {"decoder": ()}, 161_824),
        ("efficient_capsnet_multimnist", {"decoder": ()}, 154_656),
        ("efficient_capsnet_smallnorb", {"decoder": ()}, 151_664),
        ("cnn_baseline", {}, 35_445_522),
        ("cnn_multimnist", {}, 24_563_978),
        ("matrixcaps", {**NORB, **WIDE, "primary_bias": False}, 316_650),
        ("matrixcaps", NORB, 68_754),
        ("matrixcaps", {**NORB, "image_shape": (1, 32, 32)}, 67_154),
        ("vb_capsnet", NORB, 68_714),
        ("vb_capsnet", {**NORB, **WIDE}, 316_810),
    ],
)
def test_parameter_count_of_the_paper(name, options, count):
    with torch.device("meta"):
        model = create_model(name, **options)
    assert sum(p.numel() for p in model.parameters()) == count


def test_small_cnn_is_small():
    assert sum(p.numel() for p in create_model("cnn_small").parameters()) < 1_000_000


@pytest.mark.parametrize("name", ["cnn_baseline", "cnn_multimnist", "cnn_small"])
def test_cnn_is_its_layers_one_after_the_other(name):
    model = create_model(name, image_shape=(1, 13, 14), num_classes=3).eval()
    images = torch.rand(2, 1, 13, 14)
    results = []
    for logits in (model(images).v[..., 0], torch.nn.Sequential(*model.layers)(images)):
        grads = torch.autograd.grad(logits.square().sum(), list(model.parameters()))
        results.append((logits, *grads))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain)


def test_shipped_cnn_reads_the_embedded_digits():
    model = create_model("cnn_small", pretrained=True)
    assert evaluate(model, open_data("digits", "test")).num_wrong <= 10  # of 1000; 8 when shipped


def test_shipped_networks_come_with_the_options_they_were_trained_with():
    model = create_model("capsnet_mnist", pretrained=True)
    assert model.options["primary_routed"] and model.options["routing_bias"]
    digits = open_data("digits", "test")
    assert evaluate(model, digits).num_wrong <= 2  # of 1000; 1 when shipped
    other = create_model("capsnet_mnist", pretrained=True, num_iters=1)
    images = digits.batch({k: x[:2] for k, x in digits.plan(None).items()}).images
    with torch.inference_mode():
        assert (other(images).v - model(images).v).abs().max() > 0.01
    with pytest.raises(UserError, match="another model"):
        create_model("capsnet_mnist", pretrained=True, routing_bias=False)


@pytest.mark.parametrize(
    "options", [{"num_classes": 5}, {"image_shape": (1, 32, 40)}, {"num_classes": 10}]
)
def test_pretrained_trunk_with_a_new_head(options):
    shipped = create_model("capsnet_small", pretrained=True)
    model = create_model("capsnet_small", pretrained=True, **options)
    assert torch.equal(model.conv.weight, shipped.conv.weight)
    assert torch.equal(model.primary_caps.conv.weight, shipped.primary_caps.conv.weight)
    same_head = options == {"num_classes": 10}
    W, theirs = model.class_caps.W, shipped.class_caps.W
    assert (W.shape == theirs.shape and torch.equal(W, theirs)) == same_head
    output = model(torch.rand(2, *model.image_shape))
    assert model.reconstruct(output.v).shape == (2, *model.image_shape)


def test_pretrained_cnn_with_a_new_head():
    shipped = create_model("cnn_small", pretrained=True).state_dict()
    model = create_model("cnn_small", pretrained=True, num_classes=3)
    new = [k for k, x in model.state_dict().items() if not torch.equal(x, shipped[k])]
    assert new == ["layers.10.weight", "layers.10.bias"]


def test_primary_grid_of_the_paper():
    with torch.device("meta"):
        mnist, multi = create_model("capsnet_mnist"), create_model("capsnet_multimnist")
    assert mnist.grid == (6, 6, 32) and mnist.class_caps.W.shape == (1152, 10, 16, 8)
    assert multi.grid == (10, 10, 32) and multi.image_shape == (1, 36, 36)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 40, 40), (2, 24, 31), (4, 13, 13)])
@pytest.mark.parametrize("num_classes", [2, 43])
@pytest.mark.parametrize("name", ["capsnet_small", "cnn_small"])
def test_any_size_channels_and_classes(name, shape, num_classes):
    options = SMALL if name == "capsnet_small" else {"channels": 4}
    model = create_model(name, image_shape=shape, num_classes=num_classes, **options)
    for n in (1, 3):
        output = model(torch.rand(n, *shape))
        assert output.lengths.shape == (n, num_classes)
        if name == "capsnet_small":
            assert model.reconstruct(output.v).shape == (n, *shape)


def test_capsule_sizes_and_kernels_are_options():
    model = create_model(
        "capsnet_small",
        image_shape=(1, 16, 16),
        conv_kernel=3,
        conv_stride=1,
        primary_kernel=4,
        primary_stride=3,
        primary_dim=5,
        class_dim=7,
        **SMALL,
    )
    assert model.grid == (4, 4, 4) and model.class_caps.W.shape == (4 * 4 * 4, 10, 7, 5)
    assert model(torch.rand(2, 1, 16, 16)).v.shape == (2, 10, 7)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return create_model("capsnet_small", **SMALL).eval()


def test_without_decoder_there_is_no_picture():
    model = create_model("capsnet_small", **{**SMALL, "decoder": ()})
    with pytest.raises(UserError, match="no decoder"):
        model.reconstruct(model(torch.rand(1, 1, 28, 28)).v)


def test_trace_of_images_ends_at_the_output(model):
    images = torch.rand(2, 1, 28, 28)
    trace = model.trace(images)
    torch.testing.assert_close(trace.v[-1], model(images).v)
    assert len(trace.c) == 3


@pytest.mark.parametrize(
    "option",
    [
        {"num_iters": 1},
        {"leaky": True},
        {"routing_bias": True},
        {"primary_routed": True},
        {"init": "authors"},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_change_the_output(model, option):
    images = torch.rand(2, 1, 28, 28)
    torch.manual_seed(0)
    other = create_model("capsnet_small", **SMALL, **option).eval()
    assert not torch.allclose(other(images).v, model(images).v)


@pytest.mark.parametrize("option", [{"gradient": "last"}, {"backend": "reference"}])
def test_options_of_the_backward_pass_leave_the_output(model, option):
    images = torch.rand(2, 1, 28, 28)
    torch.manual_seed(0)
    other = create_model("capsnet_small", **SMALL, **option).eval()
    for m in (model, other):
        m.class_caps.W.data *= 20  # enough agreement for routing to matter
    torch.testing.assert_close(other(images).v, model(images).v)
    grads = [m.class_caps.W.grad for m in (model, other) if m(images).v.sum().backward() is None]
    assert torch.allclose(*grads, rtol=1e-3, atol=1e-6) == ("backend" in option)


def test_authors_initialisation():
    model = create_model("capsnet_small", init="authors", routing_bias=True)
    for key, p in model.named_parameters():
        if key.endswith("bias"):
            assert (p == 0.1).all(), key
        else:
            std = 0.05 if key == "conv.weight" else 0.1
            # A normal cut off at two sigma has 0.88 of its spread.
            assert p.abs().max() <= 2 * std, key
            assert p.std().item() == pytest.approx(0.88 * std, rel=0.1), key


def test_routed_primary_capsules_reach_the_model():
    model = create_model("capsnet_small", primary_routed=True, **SMALL)
    images = torch.rand(2, 1, 28, 28)
    conv = model.primary_caps.conv
    x = torch.nn.functional.conv2d(model.conv(images).relu(), conv.weight, stride=2) / 4
    s = (x + conv.bias[:, None, None]).permute(0, 2, 3, 1).reshape(2, -1, 8)
    torch.testing.assert_close(model.primary(images), squash(s))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: create_model("capsnet_mnits"), "did you mean 'capsnet_mnist'"),
        (lambda: create_model("lstm"), "choose one of: capsnet_deep, capsnet_mnist"),
        (lambda: create_model("capsnet_small", num_iter=2), "did you mean 'num_iters'"),
        (lambda: create_model("cnn_small", leaky=True), "no option of cnn_small called 'leaky'"),
        (lambda: create_model("capsnet_mnist", image_shape=(1, 8, 8)), "9×9 kernel does not fit"),
        (lambda: create_model("capsnet_mnist", image_shape=(1, 14, 30)), "does not fit a 6×6"),
        (lambda: create_model("cnn_small", image_shape=(1, 3, 3)), "does not fit"),
        (lambda: create_model("capsnet_small", num_classes=1), "at least two classes"),
        (
            lambda: create_model("capsnet_small", num_iters="3"),
            "num_iters must be a whole number, not '3'",
        ),
        (lambda: create_model("capsnet_small", num_iters=0), "num_iters must be at least 1, not 0"),
        (lambda: create_model("capsnet_small", num_iters=True), "whole number, not True"),
        (lambda: create_model("capsnet_small", num_iters=2.5), r"whole number, not 2\.5"),
        (lambda: create_model("capsnet_small", leaky=1), "leaky must be True or False, not 1"),
        (lambda: create_model("capsnet_small", decoder=16), "decoder must be numbers in brackets"),
        (
            lambda: create_model("capsnet_small", decoder=(16, "a")),
            "must be a whole number, not 'a'",
        ),
        (
            lambda: create_model("capsnet_small", decoder=(0,)),
            "Each part of the option decoder",
        ),
        (lambda: create_model("capsnet_small", image_shape=(1, 28)), "longer by"),
        (lambda: create_model("capsnet_small", init="author"), "did you mean 'authors'"),
        (lambda: create_model("capsnet_small", gradient="none"), "full, last"),
        (lambda: create_model("capsnet_small", backend="triton"), "no backend called 'triton'"),
        (lambda: create_model("cnn_small", dropout=1.5), r"dropout must be less than 1, not 1\.5"),
        (lambda: create_model("cnn_small", dropout=-0.5), "at least 0"),
        (lambda: create_model("matrixcaps", image_shape=(1, 16, 28)), "at least 17×17 pixels"),
        (lambda: create_model("vb_capsnet", num_iters=0), "num_iters must be at least 1"),
        (lambda: create_model("matrixcaps", C=0), "option C must be at least 1"),
        (lambda: create_model("cnn_baseline", pretrained=True), "No weights are shipped"),
    ],
)
def test_mistakes_are_sentences(call, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        call()
    assert str(caught.value).endswith((".", "?"))


def test_a_model_of_ones_own_may_take_any_option(monkeypatch):
    monkeypatch.setattr(registry, "_MODELS", {**registry._MODELS})

    @register_model("thin", decoder=())
    class Thin(CapsNet):
        """A CapsNet of few channels."""

        def __init__(self, **options):
            super().__init__(conv_channels=4, primary_types=2, **options)

    model = create_model("thin", num_classes=3)
    assert model.num_classes == 3 and model.decoder is None and model.name == "thin"
    assert model_entry("thin").description == "A CapsNet of few channels."
    with pytest.raises(UserError, match="registered already"):
        register_model("thin")(type("Other", (CapsNet,), {}))


def test_options_of_ones_own_model_that_are_missing_or_not_known_are_sentences(monkeypatch):
    monkeypatch.setattr(registry, "_MODELS", {**registry._MODELS})

    @register_model("told")
    class Told(CapsNet):
        def __init__(self, width, **more):
            super().__init__(conv_channels=width, **more)

    @register_model("typed")
    class Typed(CapsNet):
        def __init__(self, image_shape: "Elsewhere" = (1, 28, 28)):  # noqa: F821
            super().__init__(image_shape)

    assert create_model("told", width=4, primary_types=2).conv.out_channels == 4
    with pytest.raises(UserError, match="has to be told its width; give --options width=VALUE"):
        create_model("told")
    with pytest.raises(UserError, match="name 'Elsewhere' is not defined"):
        create_model("typed")


def test_integer_dropout_is_a_number():
    create_model("cnn_small", dropout=0)


def test_weights_of_another_model_a_broken_file_and_none(model, tmp_path):
    path = tmp_path / "w.safetensors"
    save_weights(model, path)
    whole = path.read_bytes()
    for cut in (0, 7, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(UserError, match="damaged or cut short"):
            load_weights(path)
    with pytest.raises(UserError, match="no file"):
        load_weights(tmp_path / "none.safetensors")
    with pytest.raises(UserError, match="no file or folder"):
        find_model(str(tmp_path / "none"))
    path.write_bytes(whole)
    assert load_weights(path)[0].name == model.name
    with pytest.raises(UserError, match="does not say what it was trained on"):
        find_model(str(path))
    with pytest.raises(UserError, match=r"no weights\.safetensors"):
        find_model(str(tmp_path))
    model.options = {**model.options, "primary_types": 5}
    save_weights(model, path)
    with pytest.raises(UserError, match="another model"):
        load_weights(path)


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (None, "not written by capsnet"),
        ({"capsnet": "no JSON"}, "not written by capsnet"),
        ({"capsnet": "5"}, "not written by capsnet"),
        ({"capsnet": '{"model": "capsnet_small"}'}, "holds no model"),
        ({"capsnet": '{"model": "capsnet_small", "options": 5}'}, "holds no model"),
    ],
)
def test_a_foreign_weights_file_is_refused(header, sentence, tmp_path):
    save_file({"x": torch.zeros(3)}, tmp_path / "foreign.safetensors", header)
    with pytest.raises(UserError, match=sentence):
        load_weights(tmp_path / "foreign.safetensors")


def test_top_level_names():
    assert capsnet.list_models() == list_models()
    assert capsnet.create_model is create_model
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = capsnet.nothing
