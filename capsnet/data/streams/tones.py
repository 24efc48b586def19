"""Random tones of training images: brightness, intensity and colour, drawn for a whole epoch.

    x' = m + gain (C x - m) + lift        m: the picture's mean, C: a change of hue and saturation

Usage: plan = draw_tones(Augment(brightness=0.2), 60_000, generator); toned = tone(images, plan)
"""

from math import pi

import torch
from torch import Tensor

from capsnet.data.streams.augmentation import Augment, Plan
from capsnet.errors import UserError

# RGB -> luma and two differences of colour (YIQ): turned about luma, greys stay what they are.
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


def check_tones(augment: Augment, channels: int) -> None:
    """Raise a UserError if images of so many channels have no colours to change."""
    if augment.colour and channels != 3:
        raise UserError(
            f"colour changes images of three channels, and these have {channels}; leave it out, "
            "or ask for 3 channels."
        )


def draw_tones(augment: Augment, num: int, generator: torch.Generator) -> Plan:
    """Draw "gain" [num], "lift" [num] and "colour" [num, 3, 3], each only if it is asked for."""
    plan = {}
    if augment.brightness:
        plan["lift"] = augment.brightness * _spread(num, generator)
    if augment.intensity:
        plan["gain"] = 1 + augment.intensity * _spread(num, generator)
    if augment.colour:
        hue = pi * augment.colour * _spread(num, generator)
        saturation = 1 + augment.colour * _spread(num, generator)
        plan["colour"] = colour_maps(hue, saturation)
    return plan


def _spread(num: int, generator: torch.Generator) -> Tensor:
    return torch.rand(num, generator=generator, device=generator.device) * 2 - 1


def colour_maps(hue: Tensor, saturation: Tensor) -> Tensor:
    """Return C [N, 3, 3] that turns hues by [N] radians and multiplies saturation by [N]."""
    to_yiq = torch.tensor(YIQ, dtype=torch.float64)
    to_yiq[1:] -= to_yiq[1:].mean(1, keepdim=True)  # exactly nothing for grey
    from_yiq = to_yiq.inverse()
    to_yiq, from_yiq = (x.to(hue.device, hue.dtype) for x in (to_yiq, from_yiq))
    cos, sin = saturation * hue.cos(), saturation * hue.sin()
    one, zero = torch.ones_like(hue), torch.zeros_like(hue)
    turn = torch.stack([one, zero, zero, zero, cos, -sin, zero, sin, cos], -1).view(-1, 3, 3)
    # Products written out: a matmul would round to TF32 or bf16 where those are switched on.
    half = (turn[:, :, :, None] * to_yiq[None, None]).sum(2)
    return (from_yiq[None, :, :, None] * half[:, None]).sum(2)


def tone(images: Tensor, plan: Plan) -> Tensor:
    """Return images [N, C, H, W] in [0, 1] with the tones of a slice of a plan; none: as is."""
    if not plan.keys() & {"lift", "gain", "colour"}:
        return images
    if "colour" in plan:
        images = (plan["colour"][:, :, :, None, None] * images[:, None]).sum(2)
    if "gain" in plan:
        mean = images.mean(dim=(1, 2, 3), keepdim=True)
        images = mean + plan["gain"][:, None, None, None] * (images - mean)
    if "lift" in plan:
        images = images + plan["lift"][:, None, None, None]
    return images.clamp(0, 1)
