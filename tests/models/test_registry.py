import pytest
import torch
from safetensors.torch import save_file

import capsnet
from capsnet.data import ImageStream, Split, open_data
from capsnet.errors import UserError
from capsnet.models import create_model, list_models
from capsnet.models.weights import find_model, load_weights, save_weights
from capsnet.ops import squash
from capsnet.training.config import TrainConfig
from capsnet.training.evaluation import evaluate
from capsnet.training.objectives import OBJECTIVES

SMALL = {"conv_channels": 8, "primary_types": 4, "decoder": (16,)}


def small_shape(name):
    """A picture as small as the model takes, so that even the paper's networks are quick."""
    big_kernels = name in ("capsnet_mnist", "capsnet_multimnist")
    return (1, 17, 18) if big_kernels else (1, 13, 14)


@pytest.mark.parametrize("name", list_models())
def test_model(name, tmp_path):
    shape = small_shape(name)
    model = create_model(name, image_shape=shape, num_classes=3)
    images = torch.rand(2, *shape)

    output = model.eval()(images)
    assert output.lengths.shape == (2, 3) and output.v.shape[:2] == (2, 3)
    assert output.v.isfinite().all()
    assert (output.lengths >= 0).all() and (output.lengths <= 1).all()
    if model.objective == "margin":
        torch.testing.assert_close(output.lengths, output.v.norm(dim=-1))

    batch_mates = model(torch.cat([images[:1], torch.rand(3, *shape)]))
    torch.testing.assert_close(batch_mates.v[:1], output.v[:1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model(images[:1]).v, output.v[:1], rtol=1e-4, atol=1e-5)

    split = Split((images * 255).byte(), torch.tensor([0, 2]), ("a", "b", "c"))
    stream = ImageStream(split)
    loss, wrong = OBJECTIVES[model.objective](model, stream.batch(stream.plan(None)), TrainConfig())
    loss.backward()
    assert loss.isfinite() and wrong.shape == (2,)
    for key, p in model.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all() and p.grad.abs().max() > 0, key

    save_weights(model, tmp_path / "w.safetensors", {"classes": ["a", "b", "c"]})
    again, card = load_weights(tmp_path / "w.safetensors")
    assert (again.name, again.options, card["classes"]) == (name, model.options, ["a", "b", "c"])
    assert torch.equal(again.eval()(images).v, model(images).v)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("capsnet_mnist", {}, 8_215_568),
        ("capsnet_mnist", {"routing_bias": True}, 8_215_728),
        ("capsnet_mnist", {"decoder": ()}, 6_804_224),
        ("capsnet_multimnist", {}, 11_361_808),
        ("capsnet_multimnist", {"routing_bias": True}, 11_361_968),
        ("cnn_baseline", {}, 35_445_522),
        ("cnn_multimnist", {}, 24_563_978),
    ],
)
def test_parameter_count_of_the_paper(name, options, count):
    with torch.device("meta"):
        model = create_model(name, **options)
    assert sum(p.numel() for p in model.parameters()) == count


def test_small_cnn_is_small():
    assert sum(p.numel() for p in create_model("cnn_small").parameters()) < 1_000_000


@pytest.mark.parametrize("name", [name for name in list_models() if name.startswith("cnn")])
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
        (lambda: create_model("resnet"), "choose one of: capsnet_mnist"),
        (lambda: create_model("capsnet_small", num_iter=2), "did you mean 'num_iters'"),
        (lambda: create_model("cnn_small", leaky=True), "no option of cnn_small called 'leaky'"),
        (lambda: create_model("capsnet_mnist", image_shape=(1, 8, 8)), "9×9 kernel does not fit"),
        (lambda: create_model("capsnet_mnist", image_shape=(1, 14, 30)), "does not fit a 6×6"),
        (lambda: create_model("cnn_small", image_shape=(1, 3, 3)), "does not fit"),
        (lambda: create_model("capsnet_small", num_classes=1), "at least two classes"),
        (lambda: create_model("capsnet_small", num_iters="3"), "num_iters cannot be '3'"),
        (lambda: create_model("capsnet_small", num_iters=0), "numbers from 1 on"),
        (lambda: create_model("capsnet_small", num_iters=True), "num_iters cannot be True"),
        (lambda: create_model("capsnet_small", num_iters=2.5), "num_iters cannot be 2.5"),
        (lambda: create_model("capsnet_small", leaky=1), "leaky cannot be 1"),
        (lambda: create_model("capsnet_small", decoder=16), "decoder cannot be 16"),
        (lambda: create_model("capsnet_small", decoder=(16, "a")), "whole numbers"),
        (lambda: create_model("capsnet_small", decoder=(0,)), "numbers from 1 on"),
        (lambda: create_model("capsnet_small", image_shape=(1, 28)), "channels, height, width"),
        (lambda: create_model("capsnet_small", init="author"), "did you mean 'authors'"),
        (lambda: create_model("capsnet_small", gradient="none"), "full, last"),
        (lambda: create_model("capsnet_small", backend="triton"), "no backend called 'triton'"),
        (lambda: create_model("cnn_small", dropout=1.5), "less than 1"),
        (lambda: create_model("cnn_small", dropout=-0.5), "0 or more"),
        (lambda: create_model("cnn_baseline", pretrained=True), "No weights are shipped"),
    ],
)
def test_mistakes_are_sentences(call, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        call()
    assert str(caught.value).endswith((".", "?"))


def test_integer_dropout_is_a_number():
    create_model("cnn_small", dropout=0)


def test_weights_of_another_model_a_broken_file_and_none(model, tmp_path):
    path = tmp_path / "w.safetensors"
    save_weights(model, path, {})
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
    save_weights(model, path, {})
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
