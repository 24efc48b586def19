import pytest
import torch

from capsnet.errors import UserError
from capsnet.layers import ConvDecoder, SharedDecoder


@pytest.mark.parametrize(
    "shape", [(1, 28, 28), (3, 64, 64), (1, 13, 14), (2, 9, 200), (5, 1, 1), (4, 8, 17)]
)
def test_picture_has_the_size_asked_for(shape):
    decoder = ConvDecoder(6, shape, width=8).eval()
    for batch in ((2,), (1,), (0,), (2, 3)):
        pixels = decoder(torch.randn(*batch, 6))
        assert pixels.shape == (*batch, *shape)
        assert (pixels >= 0).all() and (pixels <= 1).all()


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        # A dense layer, 2 · 16 of the norm, and 3×3 weights with biases; the authors' maps.
        ((1, 28, 28), 32 * 784 + 784 + 32 + 9280 + 18464 + 4624 + 145),
        ((3, 64, 64), 32 * 1024 + 1024 + 32 + 9280 + 18464 + 4624 + 1160 + 219),
    ],
)
def test_parameter_count_of_the_authors(shape, count):
    assert sum(p.numel() for p in ConvDecoder(32, shape).parameters()) == count


def test_every_pixel_and_every_parameter_is_used():
    decoder = ConvDecoder(5, (2, 13, 18), width=8)
    v = torch.randn(4, 5, requires_grad=True)
    decoder(v).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in decoder.parameters())
    assert (v.grad != 0).all()
    decoder.eval()
    drawn = decoder(torch.randn(64, 5))
    assert (drawn.std(dim=0) > 0).all()  # no pixel is the same for all


def test_relu_and_end_are_options():
    def layers(**options):
        return {type(layer).__name__ for layer in ConvDecoder(4, (1, 9, 9), 8, **options).layers}

    assert layers() == {"ConvTranspose2d", "ReLU", "Sigmoid"}
    assert layers(relu=False) == {"ConvTranspose2d", "Sigmoid"}
    assert layers(relu=False, end="relu") == {"ConvTranspose2d", "ReLU"}
    with pytest.raises(UserError, match="'sigmoid' or 'relu'"):
        ConvDecoder(4, (1, 9, 9), end="tanh")
    with pytest.raises(UserError, match="at least 1"):
        ConvDecoder(4, (1, 0, 9))


def test_shared_decoder_draws_the_capsule_alone():
    one = ConvDecoder(5, (1, 10, 9), width=8).eval()
    decoder, v = SharedDecoder(one), torch.randn(3, 4, 5)
    which = torch.tensor([2, 0, 3])
    pixels = decoder(v, which)
    for n, k in enumerate(which):
        torch.testing.assert_close(pixels[n], one(v[n : n + 1, k])[0])
    several = decoder(v, which[:, None].expand(-1, 2))
    assert several.shape == (3, 2, 1, 10, 9)
    torch.testing.assert_close(several[:, 1], pixels)
    masked = v * torch.nn.functional.one_hot(which, 4).unsqueeze(-1)
    torch.testing.assert_close(decoder.draw(masked), pixels)
    torch.testing.assert_close(decoder.draw(v), one(v.sum(dim=1)))
    torch.testing.assert_close(decoder.draw(v[None])[0], decoder.draw(v))
