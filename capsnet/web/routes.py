"""What the explorer's API answers, and the threads that work it out.

add_routes(app, load_nets(None, None, None), Worker())
"""

import asyncio
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from fastapi import FastAPI, Query, Request
from fastapi.responses import FileResponse, Response
from PIL import Image
from torch import Tensor

from capsnet.data import OverlapStream
from capsnet.models import Model
from capsnet.models.weights import Card
from capsnet.prediction.seeing import reads_ink
from capsnet.tasks import Numbers
from capsnet.web import schema
from capsnet.web.dimensions import measure_dimensions
from capsnet.web.guard import refusal
from capsnet.web.look import analyse, draw, vote
from capsnet.web.mistakes import find_mistakes
from capsnet.web.nets import OTHER_CNN, Net, Nets
from capsnet.web.samples import (
    MAX_PICTURE_PIXELS,
    digit_samples,
    open_samples,
    read_upload,
)
from capsnet.web.warp import bend, sweep

STATIC = Path(__file__).parent / "static"
MAX_WAITING = 1000
GIF_SIDE = 224
T = TypeVar("T")
Page = Annotated[int, Query(ge=0, le=schema.MAX_NUMBER)]
BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}
GIF: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/gif": {"schema": {"type": "string"}}}}
}

PICTURE_FILE: dict[str, Any] = {
    "required": True,
    "content": {
        kind: {"schema": {"type": "string", "format": "binary"}}
        for kind in ("image/png", "image/jpeg")
    },
}
NO_PICTURE = "Send a PNG or JPEG file, with image/png or image/jpeg as its Content-Type."


class TooBusy(Exception):
    """More work is waiting than the server takes on."""


class Worker:
    """A few threads for the models' work, so that the event loop is never blocked."""

    def __init__(self) -> None:
        """Start no thread yet; there will be one for each core, two at least."""
        self.pool = ThreadPoolExecutor(max(2, os.cpu_count() or 1), "explorer")
        self.waiting = 0

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Return work(*args), computed on one of the threads."""
        if self.waiting >= MAX_WAITING:
            raise TooBusy
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, work, *args)
        finally:
            self.waiting -= 1


def add_routes(app: FastAPI, nets: Nets, worker: Worker) -> None:
    """Add the page and the API."""
    main, pairs, cnn = nets.capsnet, nets.overlap, nets.cnn
    samples, digits = open_samples(main), digit_samples()
    mistakes = find_mistakes(main, samples)
    known = worker.pool.submit(measure_dimensions, main, samples)  # takes a second or two
    facts = describe(nets, samples is not None, 0 if mistakes is None else len(mistakes))

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/api/info")
    async def info() -> schema.Info:
        """What this server can show."""
        return facts

    @app.get("/api/dimensions")
    async def dimensions() -> schema.Dimensions:
        """What the numbers of each capsule do to its drawing: their order and their names."""
        return (await asyncio.wrap_future(known)).dimensions

    @app.get("/api/poses")
    async def poses() -> schema.Poses:
        """How real images of each class pose, to draw others like them."""
        return (await asyncio.wrap_future(known)).poses

    @app.get("/api/samples")
    async def test_images(page: Page = 0) -> list[schema.Sample]:
        """One test image of each class; the next page has the next ones."""
        return samples.page(page) if samples else []

    @app.get("/api/digits")
    async def test_digits(page: Page = 0) -> list[schema.Sample]:
        """One 28×28 test digit of each class, to lay two over each other."""
        return digits.page(page)

    @app.get("/api/mistakes")
    async def test_mistakes(page: Page = 0) -> schema.MistakesPage:
        """Test images that the network got wrong, the surest mistakes first."""
        return mistakes.page(page) if mistakes else schema.MistakesPage(total=0, mistakes=[])

    @app.post("/api/picture", openapi_extra={"requestBody": PICTURE_FILE})
    async def picture(
        request: Request, as_is: bool = False, invert: bool = False, centre: bool = False
    ) -> schema.Picture:
        """Bring a PNG or JPEG to the model's size; for models of digits its ink is found.

        `as_is` only scales and pads it; so do `invert` and `centre`, but for what they say.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in PICTURE_FILE["content"]:
            return refusal(415, NO_PICTURE)  # type: ignore[return-value]
        pixels = await worker.run(read_upload, await request.body(), main, as_is, invert, centre)
        return schema.Picture(image=schema.pack_pixels(pixels))

    @app.post("/api/analyse")
    async def look(query: schema.LookQuery) -> schema.Analysis:
        """Route a picture and tell everything on the way."""
        pixels = schema.unpack_pixels(query.image, main.model.image_shape)
        return await worker.run(analyse, nets.chosen(query.net), pixels, 1)

    @app.post("/api/votes")
    async def votes(query: schema.LookQuery) -> schema.Votes:
        """Tell what every primary capsule of a picture says of every class."""
        pixels = schema.unpack_pixels(query.image, main.model.image_shape)
        return await worker.run(vote, nets.chosen(query.net), pixels)

    @app.post("/api/overlap")
    async def look_at_two(query: schema.PairQuery) -> schema.Analysis:
        """Route a picture of two digits and draw the two longest capsules, each alone."""
        pixels = schema.unpack_pixels(query.image, pairs.model.image_shape)
        return await worker.run(analyse, pairs, pixels, 2)

    @app.post("/api/decode", responses=BYTES, response_class=Response)
    async def decode(query: schema.DecodeQuery) -> Response:
        """Draw capsules: bytes [N, C, H, W]."""
        pictures = await worker.run(draw, nets.chosen(query.net), query.pictures)
        return Response(schema.pixel_bytes(pictures), media_type="application/octet-stream")

    @app.post("/api/animation", responses=GIF, response_class=Response)
    async def animation(query: schema.AnimationQuery) -> Response:
        """Draw capsules as the frames of a GIF."""

        def film() -> bytes:
            pictures = draw(nets.chosen(query.net), query.pictures)
            return write_gif(pictures, query.milliseconds)

        return Response(await worker.run(film), media_type="image/gif")

    @app.post("/api/warp")
    async def look_at_bent(query: schema.WarpQuery) -> schema.WarpAnswer:
        """Bend a picture and tell what both networks say."""
        pixels = schema.unpack_pixels(query.image, main.model.image_shape)

        def both() -> schema.WarpAnswer:
            bent = bend(pixels, query.warp)
            answer = None if cnn is None else probabilities(cnn, bent[None])[0]
            return schema.WarpAnswer(analysis=analyse(main, bent, 1), cnn=answer)

        return await worker.run(both)

    @app.post("/api/sweep")
    async def look_along(query: schema.SweepQuery) -> schema.SweepAnswer:
        """Tell what both networks say while one kind of bending goes through its range."""
        pixels = schema.unpack_pixels(query.image, main.model.image_shape)

        def both() -> schema.SweepAnswer:
            values, bent = sweep(pixels, query.warp, query.over)
            return schema.SweepAnswer(
                values=values,
                capsnet=probabilities(main.model, bent),
                cnn=None if cnn is None else probabilities(cnn, bent),
            )

        return await worker.run(both)


def describe(nets: Nets, has_samples: bool, num_mistakes: int) -> schema.Info:
    """Return what can be shown of networks."""
    digits = digit_samples()
    return schema.Info(
        capsnet=net_card(nets.capsnet),
        others=[net_card(net) for net in nets.others],
        overlap=net_card(nets.overlap),
        cnn=None if nets.cnn is None else cnn_card(nets.cnn, nets.cnn_card),
        digits=schema.Digits(
            image_shape=digits.split.image_shape,
            classes=list(digits.split.task.names),
            num_pages=max(map(len, digits.groups)),
        ),
        limits=schema.Limits(
            trained_shift=OverlapStream(digits.split, num_samples=2).max_shift,
            max_picture_pixels=MAX_PICTURE_PIXELS,
        ),
        has_cnn=nets.cnn is not None,
        why_no_cnn=OTHER_CNN,
        has_samples=has_samples,
        num_mistakes=num_mistakes,
    )


def net_card(net: Net) -> schema.NetCard:
    """Return what the page must know of a network."""
    model, trace = net.model, net.blank
    with torch.inference_mode():
        u = net.placed.primary(torch.zeros(1, *model.image_shape))
    return schema.NetCard(
        name=model.name,
        data=net.card.data,
        error_percent=net.card.result.get("error_percent"),
        num_parameters=num_parameters(model),
        image_shape=model.image_shape,
        classes=net.classes,
        grid=net.placed.grid,
        field=net.placed.field,
        primary_dim=u.shape[2],
        class_dim=trace.v.shape[3],
        num_iters=len(trace.v),
        routing=trace.routing,
        leaky=trace.leaky,
        has_bias=trace.biased,
        has_decoder=net.draws is not None,
        reads_digits=reads_ink(net.card),
        tells_numbers=isinstance(model.task, Numbers),
    )


def cnn_card(model: Model, card: Card) -> schema.CnnCard:
    """Return what the page says of the CNN."""
    return schema.CnnCard(
        name=model.name,
        data=card.data,
        error_percent=card.result.get("error_percent"),
        num_parameters=num_parameters(model),
    )


def num_parameters(model: Model) -> int:
    """Return how many numbers were learnt."""
    return sum(p.numel() for p in model.parameters())


@torch.inference_mode()
def probabilities(model: torch.nn.Module, images: Tensor) -> list[list[float]]:
    """Return the class probabilities [N, J] of images [N, C, H, W]."""
    return model(images).answers.tolist()


def write_gif(pictures: Tensor, milliseconds: int) -> bytes:
    """Return pictures [N, C, H, W] in [0, 1] as an endless GIF."""
    size = (GIF_SIDE, GIF_SIDE * pictures.shape[2] // pictures.shape[3])
    colour = pictures if pictures.shape[1] == 3 else pictures[:, :1].expand(-1, 3, -1, -1)
    pixels = (colour * 255).round().byte().permute(0, 2, 3, 1).numpy()
    frames = [Image.fromarray(x).resize(size, Image.Resampling.BICUBIC) for x in pixels]
    file = io.BytesIO()
    frames[0].save(
        file, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0
    )
    return file.getvalue()
