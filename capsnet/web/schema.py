"""What the page and the server say to each other; the OpenAPI description is made from this.

Pictures travel as base64 of their bytes [C, H, W], tables as base64 of little-endian float32.
"""

import base64
import binascii
from math import prod
from typing import Annotated, Any, Literal, get_args

import numpy as np
import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from torch import Tensor

from capsnet.errors import UserError

Bytes = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$", max_length=4_000_000)]
# JSON knows only numbers: 2.0 is as whole as 2.
Whole = BeforeValidator(lambda x: int(x) if type(x) is float and x.is_integer() else x)
MAX_POSE = 10
Number = Annotated[float, Field(ge=-MAX_POSE, le=MAX_POSE, allow_inf_nan=False)]
Sweepable = Literal["rotate", "scale", "shear", "right", "down", "thicken"]
Pieces = Literal[1, 2, 4]
MAX_ITERS = 5
MAX_PICTURES = 256
MAX_NUMBER = 1_000_000


class Slider(BaseModel):
    """How far a slider goes and in which steps, where it stands at first, and in what unit."""

    low: float
    high: float
    step: float
    usual: float = 0
    unit: str = ""


# Their order is their place in a link.
RANGES: dict[Sweepable, Slider] = {
    "rotate": Slider(low=-180, high=180, step=1, unit="°"),
    "scale": Slider(low=0.5, high=1.5, step=0.01, usual=1, unit="×"),
    "shear": Slider(low=-1, high=1, step=0.01),
    "right": Slider(low=-12, high=12, step=0.5, unit=" px"),
    "down": Slider(low=-12, high=12, step=0.5, unit=" px"),
    "thicken": Slider(low=-2, high=2, step=0.1, unit=" px"),
}
PLACE = Slider(low=-8, high=8, step=1)
TWEAKS = [Slider(low=-far, high=far, step=0.01) for far in (0.25, 0.5, 1)]


class Limits(BaseModel):
    """How far everything goes that a visitor can choose: sliders and links are held to it."""

    bends: dict[Sweepable, Slider] = RANGES
    pieces: Annotated[list[int], Field(description="along each side")] = [*get_args(Pieces)]
    place: Annotated[Slider, Field(description="pixels that a digit is moved in Overlap")] = PLACE
    trained_shift: int = Field(description="pixels that digits were moved in training")
    tweaks: Annotated[list[Slider], Field(description="to choose from; the widest is last")] = (
        TWEAKS
    )
    max_iters: Annotated[int, Field(description="of the routing in Route")] = MAX_ITERS
    max_pose: Annotated[float, Field(description="of a number of a class capsule")] = MAX_POSE
    max_number: Annotated[int, Field(description="of pages and seeds")] = MAX_NUMBER
    max_pictures: Annotated[int, Field(description="drawn for one request")] = MAX_PICTURES
    max_picture_pixels: int = Field(description="of a picture file")


class Strict(BaseModel):
    """Abstract: a request in which an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str


class NetCard(BaseModel):
    """What the page must know of a network."""

    name: str
    data: str
    error_percent: float | None
    num_parameters: int
    image_shape: tuple[int, int, int]
    classes: list[str]
    grid: tuple[int, int, int] = Field(description="rows, columns, types of primary capsules")
    field: tuple[int, int, int] = Field(
        description="side, step and start, in pixels, of what a capsule sees"
    )
    primary_dim: int
    class_dim: int
    num_iters: int
    routing: str = Field(description="the name of the routing; 'dynamic' is the paper's")
    leaky: bool
    has_bias: bool = Field(description="whether routing adds a bias to s")
    has_decoder: bool
    reads_digits: bool
    tells_numbers: bool = Field(description="whether its answers are numbers and not lengths")


class Digits(BaseModel):
    """What the test digits of Overlap are."""

    image_shape: tuple[int, int, int]
    classes: list[str]
    num_pages: int = Field(description="after which the same ones come again")


class CnnCard(BaseModel):
    """What the page says of the CNN in Warp."""

    name: str
    data: str
    error_percent: float | None
    num_parameters: int


class Info(BaseModel):
    """What this server can show; why_no_cnn says what to do where has_cnn is false."""

    capsnet: NetCard
    others: list[NetCard] = Field(description="of the same images and classes, to look into")
    overlap: NetCard
    cnn: CnnCard | None
    digits: Digits
    limits: Limits
    has_cnn: bool
    why_no_cnn: str
    has_samples: bool
    num_mistakes: int = Field(description="of the test images; 0 where they are not known")


class Dimensions(BaseModel):
    """What the numbers of the main network's capsules do, measured from drawings of test images."""

    order: list[list[int]] = Field(
        description="[J, E]: the numbers, that which changes the drawing most first"
    )
    names: list[list[str]] = Field(
        description="[J, E]: what happens to the stroke while the number grows; empty: unclear"
    )
    spreads: list[list[float]] | None = Field(
        description="[J, E]: standard deviation of each number over known images; null: unknown"
    )


class Poses(BaseModel):
    """From which poses of a class are drawn: mean + z @ ways, z normal; empty where unknown."""

    mean: str = Field(description="float32 [J, E]")
    ways: str = Field(description="float32 [J, E, E]: zeros for a class that no image shows")


class Sample(BaseModel):
    """A test image: its number, its place among the names, its true label in words, its pixels."""

    number: int
    label: int
    said: str
    image: str


class Mistake(BaseModel):
    """A test picture that was read wrong: its file, what was said of it, and how surely."""

    sample: Sample
    file: str
    said: str
    confidence: float


class MistakesPage(BaseModel):
    """Some of all mistakes, the surest first."""

    total: int
    mistakes: list[Mistake]


class Picture(BaseModel):
    """A picture as the model takes it."""

    image: str


class ImageQuery(Strict):
    """A picture to look at."""

    image: Bytes


class LookQuery(ImageQuery):
    """A picture to look at, and with which network: 0 is the main one, then the others in turn."""

    net: Annotated[int, Field(ge=0), Whole] = 0


class PairQuery(Strict):
    """A picture of two digits to look at."""

    image: Bytes


class Analysis(BaseModel):
    """Everything that happened between the picture and the class capsules."""

    image: str = Field(description="bytes [C, H, W]: what the model saw")
    said: str = Field(description="the answer in words")
    doubts: list[str] = Field(description="why it is not to be trusted, in words")
    lengths: list[float] = Field(description="[J]")
    v: list[list[float]] = Field(description="[J, E]: the class capsules")
    u: str = Field(description="float32 [I]: lengths of the primary capsules")
    votes: str = Field(description="float32 [I, J]: lengths of the votes u_hat")
    b: str = Field(
        description="float32 [R + 1, I, J]: agreement before each iteration and after all, summed; "
        "the logits of dynamic routing"
    )
    c: str = Field(description="float32 [R, I, J]: couplings; empty where they are softmax of b")
    s_steps: list[list[float]] = Field(description="[R, J]: |s| after each iteration")
    v_steps: list[list[float]] = Field(description="[R, J]: |v| after each iteration")
    drawn: list[int] = Field(description="the longest capsules, drawn below")
    pictures: str = Field(description="bytes [len(drawn), C, H, W]; empty without a decoder")


class Votes(BaseModel):
    """All votes of dynamic routing, from which the page routes as often as it is told to."""

    votes: str = Field(description="float32 [I, J, E]: u_hat")
    bias: str = Field(description="float32 [J, E]: what is added to each s; empty where nothing is")


class Capsule(Strict):
    """A class capsule: which class, and its vector."""

    which: Annotated[int, Field(ge=0), Whole]
    v: Annotated[list[Number], Field(min_length=1, max_length=1024)]


class DecodeQuery(Strict):
    """Pictures to draw, each by one capsule or by several that share the decoder of a network."""

    net: Annotated[int, Field(ge=0), Whole] = 0
    pictures: Annotated[
        list[Annotated[list[Capsule], Field(min_length=1, max_length=2)]],
        Field(min_length=1, max_length=MAX_PICTURES),
    ]


class AnimationQuery(DecodeQuery):
    """Pictures to draw as the frames of a GIF."""

    milliseconds: Annotated[int, Field(ge=20, le=1000), Whole] = 60


def within(kind: Sweepable) -> Any:
    """Return the bounds of a kind of bending, and what it is where nothing is said."""
    slider = RANGES[kind]
    return Field(slider.usual, ge=slider.low, le=slider.high, allow_inf_nan=False)


class Warp(Strict):
    """How a picture is bent: degrees, factors and pixels; then cut into pieces and shuffled."""

    rotate: float = within("rotate")
    scale: float = within("scale")
    shear: float = within("shear")
    right: float = within("right")
    down: float = within("down")
    thicken: float = within("thicken")
    pieces: Pieces = Field(1, description="pieces along each side; 1 leaves it whole")
    seed: Annotated[int, Field(ge=0, le=MAX_NUMBER), Whole] = 0


class WarpQuery(ImageQuery):
    """A picture, and how to bend it."""

    warp: Warp


class SweepQuery(WarpQuery):
    """The same for all values of one kind of bending."""

    over: Sweepable


class WarpAnswer(BaseModel):
    """What both networks say of a bent picture; cnn is null where there is none."""

    analysis: Analysis
    cnn: list[float] | None


class SweepAnswer(BaseModel):
    """Class probabilities [S, J] of both networks along the sweep."""

    values: list[float]
    capsnet: list[list[float]]
    cnn: list[list[float]] | None


def pack_pixels(pixels: Tensor) -> str:
    """Return pictures in [0, 1] as base64 of bytes."""
    return base64.b64encode(pixel_bytes(pixels)).decode()


def pixel_bytes(pixels: Tensor) -> bytes:
    """Return pictures in [0, 1] as bytes."""
    return (pixels * 255).round().byte().numpy().tobytes()


def pack_floats(table: Tensor) -> str:
    """Return numbers as base64 of little-endian float32."""
    return base64.b64encode(table.float().numpy().astype("<f4").tobytes()).decode()


def unpack_pixels(text: str, shape: tuple[int, int, int]) -> Tensor:
    """Return base64 of bytes as pixels in [0, 1] of a shape; a UserError if they do not fit it."""
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise UserError("The picture is not base64; send the bytes of its pixels.") from None
    if len(raw) != prod(shape):
        raise UserError(
            f"The picture has {len(raw):,} bytes, but this model takes {prod(shape):,}, one for "
            f"each value of {shape[0]}×{shape[1]}×{shape[2]}; scale it to that size."
        )
    return torch.from_numpy(np.frombuffer(raw, np.uint8).copy()).view(shape) / 255


def base64_form(num_bytes: int) -> dict[str, Any]:
    """Return the JSON schema of base64 text that stands for exactly so many bytes."""
    tail = {0: "", 1: "[A-Za-z0-9+/]{2}==", 2: "[A-Za-z0-9+/]{3}="}[num_bytes % 3]
    length = (num_bytes + 2) // 3 * 4
    return {
        "type": "string",
        "minLength": length,
        "maxLength": length,
        "pattern": f"^[A-Za-z0-9+/]{{{num_bytes // 3 * 4}}}{tail}$",
    }
