"""The explorer's server: one page, and a small API over the models.

serve(weights="runs/mine", port=8000), or uvicorn with create_app("runs/mine")
"""

import errno
import socket
import webbrowser
from collections.abc import Collection
from math import prod

import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.staticfiles import StaticFiles

from capsnet import __version__
from capsnet.errors import UserError
from capsnet.web import schema
from capsnet.web.guard import BUSY, HEADERS, LOOPBACK, Compressed, Guard, host_name, refusal
from capsnet.web.nets import Nets, load_nets
from capsnet.web.patience import Patient
from capsnet.web.routes import STATIC, TooBusy, Worker, add_routes

LOCAL_NAMES = {"127.0.0.1": "localhost", "0.0.0.0": "localhost", "::": "[::1]"}


def create_app(
    weights: str | None = None,
    overlap_weights: str | None = None,
    cnn_weights: str | None = None,
    names: Collection[str] = (),
) -> FastAPI:
    """Return the app for trained runs, weights files or names; by default what is shipped.

    It answers to requests for an IP address, for localhost, and for hosts with these names.
    """
    nets = load_nets(weights, overlap_weights, cnn_weights)
    app = FastAPI(
        title="capsnet explorer",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses={"4XX": {"model": schema.Problem, "description": "A sentence says why."}},
    )
    app.add_middleware(Compressed)
    app.add_middleware(Guard, names=names)
    add_errors(app)
    add_routes(app, nets, Worker())
    tell_sizes(app, nets)
    app.mount("/static", StaticFiles(directory=STATIC), "static")
    return app


def add_errors(app: FastAPI) -> None:
    """Answer every mistake with a sentence."""

    @app.exception_handler(UserError)
    def mistake(request: Request, error: UserError) -> JSONResponse:
        return refusal(422, str(error))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or "The request"
        return refusal(422, f"{place}: {first['msg']}.")

    @app.exception_handler(TooBusy)
    def busy(request: Request, error: TooBusy) -> JSONResponse:
        return refusal(429, BUSY)

    @app.exception_handler(Exception)  # ours; its traceback is in the server's window
    def failure(request: Request, error: Exception) -> JSONResponse:
        answer = refusal(500, "The server made a mistake; its window says which.")
        answer.headers.update(HEADERS)  # nothing passes the guard here
        return answer


def tell_sizes(app: FastAPI, nets: Nets) -> None:
    """Put the sizes of the loaded models into the OpenAPI description."""
    forms = app.openapi()["components"]["schemas"]
    model = nets.capsnet.model
    image = schema.base64_form(prod(model.image_shape))
    for query in ("LookQuery", "WarpQuery", "SweepQuery"):
        forms[query]["properties"]["image"] = image
    for query in ("LookQuery", "DecodeQuery", "AnimationQuery"):
        forms[query]["properties"]["net"]["maximum"] = len(nets.others)
    J, E = nets.capsnet.blank.v.shape[2:]
    forms["Capsule"]["properties"]["which"]["maximum"] = J - 1
    forms["Capsule"]["properties"]["v"].update(minItems=E, maxItems=E)
    pair = schema.base64_form(prod(nets.overlap.model.image_shape))
    forms["PairQuery"]["properties"]["image"] = pair


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; its connections send small answers at once."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        raise UserError(
            f"Cannot listen on {host} port {port} ({error.strerror}); "
            f"choose another {'port' if taken else 'host'}."
        ) from None
    # asyncio does so only for sockets that name their protocol; accepted ones inherit it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_name(host: str) -> str:
    """Return how a browser on this machine writes the host that a server listens on."""
    return LOCAL_NAMES.get(host, f"[{host}]" if ":" in host else host)


def configured(app: FastAPI) -> uvicorn.Config:
    """Return how the app is served: quietly, and to those who send whole requests."""
    return uvicorn.Config(app, http=Patient, log_level="error", server_header=False)


def serve(
    weights: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    open_browser: bool = False,
    overlap_weights: str | None = None,
    cnn_weights: str | None = None,
    names: Collection[str] = (),
) -> None:
    """Serve the page until Ctrl-C; anything but loopback is announced.

    It answers under the host, the machine's own name if others are let in, and these names.
    """
    if not 1 <= port <= 65535:
        raise UserError(f"There is no port {port}; choose one from 1 to 65535.")
    for name in names:
        if host_name(name) != name.lower():
            raise UserError(f"{name} is no name of a host; give it alone, as caps.example.org.")
    torch.set_num_threads(1)  # the worker runs one request on each core
    local = host in LOOPBACK
    own = () if local else (host, socket.gethostname())
    app = create_app(weights, overlap_weights, cnn_weights, {*own, *names})
    listener = listen(host, port)
    address = f"http://{url_name(host)}:{port}"
    print(f"The explorer is at {address} (Ctrl-C ends it).")
    if not local:
        print(f"Warning: it listens on {host}, so everyone who can reach this machine can use it.")
    if open_browser:
        webbrowser.open(address)
    uvicorn.Server(configured(app)).run([listener])
