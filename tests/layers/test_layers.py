import pytest
import torch
import torch.nn.functional as F
from torch import nn

from capsnet.errors import UserError
from capsnet.layers import ClassCaps, Conv2d, Decoder, PrimaryCaps, RoutedCaps
from capsnet.layers.routings import EmRouting
from capsnet.ops import dynamic_routing, squash


def test_primary_capsule_is_its_channels_at_one_position():
    layer = PrimaryCaps(3, num_types=4, dim=5, kernel_size=3, stride=2)
    features = torch.randn(2, 3, 9, 11)
    u = layer(features)
    assert u.shape == (2, 4 * 5 * 4, 5)
    x = layer.conv(features)  # [2, 4 * 5, 4, 5]
    for row, column, kind in ((0, 0, 0), (3, 4, 3), (2, 1, 2)):
        channels = x[:, kind * 5 : kind * 5 + 5, row, column]
        torch.testing.assert_close(u[:, (row * 5 + column) * 4 + kind], squash(channels))


def test_one_pixel_reaches_only_the_capsules_whose_kernel_covers_it():
    layer = PrimaryCaps(1, num_types=3, dim=4, kernel_size=3, stride=2)
    features = torch.randn(1, 1, 9, 9)
    moved = features.clone()
    moved[0, 0, 3, 5] += 1.0  # covered by the kernels of row 1 and columns 2 of the 4×4 grid
    changed = (layer(features) != layer(moved)).view(4, 4, 3, 4)
    assert changed[1, 2].all()
    changed[1, 2] = False
    assert not changed.any()


def test_routed_primary_capsules_divide_the_convolution_but_not_the_bias():
    layer = PrimaryCaps(2, num_types=4, dim=3, kernel_size=3, routed=True)
    features = torch.randn(2, 2, 7, 7)
    plain = F.conv2d(features, layer.conv.weight, stride=2)
    s = plain / 4 + layer.conv.bias[:, None, None]
    expected = squash(s.permute(0, 2, 3, 1).reshape(2, -1, 3))
    torch.testing.assert_close(layer(features), expected)


@pytest.mark.parametrize("backend", ["auto", "reference", "chunked"])
def test_class_caps_is_routing_with_its_options(backend):
    u = torch.randn(3, 6, 4)
    options = {"gradient": "last", "leaky": True, "backend": backend}
    layer = ClassCaps(6, 4, num_classes=5, dim=7, num_iters=2, routing_bias=True, **options)
    torch.nn.init.normal_(layer.bias)
    v = dynamic_routing(u, layer.W, 2, bias=layer.bias, leaky=True, backend="reference")
    torch.testing.assert_close(layer(u), v)
    torch.testing.assert_close(layer.trace(u).v[-1], v)
    grads = torch.autograd.grad(layer(u).square().sum(), layer.W)[0]
    last = dynamic_routing(u, layer.W, 2, bias=layer.bias, gradient="last", leaky=True)
    full = dynamic_routing(u, layer.W, 2, bias=layer.bias, gradient="full", leaky=True)
    torch.testing.assert_close(grads, torch.autograd.grad(last.square().sum(), layer.W)[0])
    assert not torch.allclose(grads, torch.autograd.grad(full.square().sum(), layer.W)[0])


def test_class_caps_has_no_bias_unless_asked():
    assert [name for name, _ in ClassCaps(6, 4).named_parameters()] == ["W"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_conv_is_scaled_convolution_padding_and_relu(dtype, layout):
    conv = Conv2d(3, 4, 5, padding=2, relu=True, scale=0.5, dtype=dtype)
    x = torch.randn(2, 3, 6, 7, dtype=dtype).to(memory_format=layout)
    leaves = (x.requires_grad_(), conv.weight, conv.bias)
    results = []
    plain = F.conv2d(x, 0.5 * conv.weight, conv.bias, padding=2).relu()
    for y in (conv(x), plain):
        assert y.shape == (2, 4, 6, 7) and y.is_contiguous(memory_format=layout)
        results.append((y, *torch.autograd.grad(y.square().sum(), leaves)))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("spatial_dims", [1, 2, 3])
def test_primary_capsules_of_signals_pictures_and_volumes(spatial_dims):
    layer = PrimaryCaps(5, num_types=3, dim=4, kernel_size=3, spatial_dims=spatial_dims).double()
    x = torch.randn(2, 5, *(9, 8, 7)[:spatial_dims], dtype=torch.double)
    u = layer(x)
    kind = (F.conv1d, F.conv2d, F.conv3d)[spatial_dims - 1]
    map_ = kind(x, layer.conv.weight, layer.conv.bias, stride=2)
    # Capsule (position, type) has the channels type * dim … of that position.
    expected = map_.flatten(2).transpose(1, 2).reshape(2, -1, 4)
    torch.testing.assert_close(u, squash(expected))


@pytest.mark.parametrize("bad", [{"spatial_dims": 4}, {"spatial_dims": 1, "routed": True}])
def test_primary_capsules_that_cannot_be(bad):
    with pytest.raises(UserError, match="use 1, 2 or 3"):
        PrimaryCaps(5, **bad)


def test_primary_capsules_refuse_features_of_other_dimensions():
    with pytest.raises(UserError, match="2 spatial dimensions"):
        PrimaryCaps(5)(torch.rand(2, 5, 30))


def test_convolutions_that_cannot_be_are_no_others():
    for option in ({"dilation": 2}, {"groups": 2}, {"padding_mode": "circular"}):
        with pytest.raises(TypeError, match="unexpected keyword"):
            Conv2d(2, 4, 3, **option)
    for option in ({"stride": (1, 2)}, {"padding": "same"}):
        with pytest.raises(UserError, match=r"one number each; take torch\.nn\.Conv2d"):
            Conv2d(2, 4, 3, **option)


def test_capsules_that_do_not_fit_any_routing_are_a_sentence():
    with pytest.raises(UserError, match=r"u must be \[N, 16, 8\]"):
        RoutedCaps(16, 8, 5, 16, EmRouting(5))(torch.rand(2, 15, 8))


def test_class_capsules_take_tokens_and_maps_of_any_backbone():
    layer = ClassCaps(num_lower=2 * 3 * 4, lower_dim=8, num_classes=5)
    u = torch.randn(2, 24, 8)
    v = layer(u)
    tokens = u.reshape(2, 6, 32)  # six tokens of four capsules each
    torch.testing.assert_close(layer(tokens), v)
    features = tokens.transpose(1, 2).reshape(2, 32, 2, 3)  # the same on a grid of 2 × 3
    torch.testing.assert_close(layer(features), v)
    torch.testing.assert_close(layer.trace(features).v[-1], v)
    with pytest.raises(UserError, match="24 capsules of 8"):
        layer(torch.randn(2, 23, 8))


def test_class_capsules_stack_to_any_depth():
    stack = nn.Sequential(*(ClassCaps(6, 4, 6, 4) for _ in range(5)), ClassCaps(6, 4, 3, 2))
    for layer in stack:
        layer.W.data *= 10  # with small ones the lengths are squared away from layer to layer
    v = stack(squash(torch.randn(2, 6, 4)))
    assert v.shape == (2, 3, 2)
    v.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in stack.parameters())


def test_class_capsules_say_what_they_are():
    text = repr(ClassCaps(6, 4, 3, 2, routing_bias=True, leaky=True, gradient="last"))
    for words in ("6 capsules of 4 -> 3 of 2", "num_iters=3", "routing_bias", "leaky", "last"):
        assert words in text


@pytest.fixture
def decoder():
    return Decoder(num_classes=4, dim=3, image_shape=(2, 5, 6), hidden=(8,))


def test_decoder_sees_only_the_chosen_capsule(decoder):
    v = torch.randn(3, 4, 3, requires_grad=True)
    which = torch.tensor([2, 0, 3])
    pictures = decoder(v, which)
    assert pictures.shape == (3, 2, 5, 6)
    pictures.square().sum().backward()
    seen = v.grad.abs().sum(dim=2) > 0
    assert torch.equal(seen, F.one_hot(which, 4).bool())
    others = v.detach() + torch.randn(3, 4, 3) * (1 - F.one_hot(which, 4)).unsqueeze(-1)
    assert torch.equal(decoder(others, which), pictures)


def test_decoder_tells_classes_apart(decoder):
    v = torch.randn(1, 1, 3).expand(1, 4, 3)
    pictures = decoder(v, torch.tensor([[0, 1, 2, 3]]))[0]
    assert len(pictures.flatten(1).unique(dim=0)) == 4


def test_capsules_draw_together_what_a_lone_one_draws_among_zeros(decoder):
    v, which = torch.randn(3, 4, 3), torch.tensor([2, 0, 3])
    alone = v * F.one_hot(which, 4).unsqueeze(-1)
    assert torch.equal(decoder.draw(alone), decoder(v, which))
    assert not torch.allclose(decoder.draw(v), decoder(v, which))


def test_several_pictures_are_each_the_picture_alone(decoder):
    v = torch.randn(3, 4, 3)
    which = torch.tensor([[2, 0], [1, 1], [3, 2]])
    pictures = decoder(v, which)
    assert pictures.shape == (3, 2, 2, 5, 6)
    for k in range(2):
        torch.testing.assert_close(pictures[:, k], decoder(v, which[:, k]))


def test_pixels_lie_between_black_and_white(decoder):
    pictures = decoder(1000 * torch.randn(5, 4, 3), torch.arange(5) % 4)
    assert pictures.min() >= 0 and pictures.max() <= 1
