"""What stands between the network and the app: same origin only, small requests, strict headers.

app.add_middleware(Guard, names={"caps.example.org"})
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 4_000_000
MAX_BODIES = 64 * MAX_BODY  # of all requests that are not answered yet
LOOPBACK = ("127.0.0.1", "localhost", "::1")
BUSY = "Too many requests are waiting; try again in a moment."
FOREIGN_HOST = (
    "This server answers to its address and to names given with --allow-host; open its address."
)
FOREIGN_ORIGIN = "This server answers only its own page; open its address."
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


class Guard:
    """Refuse foreign hosts, foreign origins and large bodies; add the headers to every answer."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        """Answer to addresses, to localhost and to these names."""
        self.app, self.names = app, {name.lower() for name in names}
        self.held = 0  # bytes of requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        problem = self.foreign(Headers(scope=scope))
        if problem is not None:
            return await problem(scope, receive, send_with_headers)
        body = bytearray()
        try:
            if await self.read_into(body, receive):
                problem = self.too_large(body)
                app = self.app if problem is None else problem
                await while_waited_for(scope, bytes(body), app, receive, send_with_headers)
        finally:
            self.held -= len(body)

    def foreign(self, headers: Headers) -> JSONResponse | None:
        """Return the refusal of a request that another site caused, if it is one.

        A site can point its own name at this machine, but not an address: that is ours.
        """
        host = headers.get("host", "")
        if not is_address(name := host_name(host)) and name not in {"localhost", *self.names}:
            return refusal(403, FOREIGN_HOST)
        origin = headers.get("origin")
        if origin is None or (own := origin.partition("//")[2]) == host:
            return None
        # A proxy may ask with a Host of its own.
        return None if host_name(own) in self.names else refusal(403, FOREIGN_ORIGIN)

    async def read_into(self, body: bytearray, receive: Receive) -> bool:
        """Read a body until it is whole or too large; return whether its sender is still there."""
        more = True
        while more and self.too_large(body) is None:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            part = message.get("body", b"")
            self.held += len(part)
            body += part
            more = message.get("more_body", False)
        return True

    def too_large(self, body: bytearray) -> JSONResponse | None:
        """Return the refusal of a body that is too large, alone or with all others."""
        if len(body) > MAX_BODY:
            return refusal(413, f"A request may have {MAX_BODY:,} bytes; send less.")
        if body and self.held > MAX_BODIES:
            return refusal(429, BUSY)
        return None


async def while_waited_for(
    scope: Scope, body: bytes, app: ASGIApp, receive: Receive, send: Send
) -> None:
    """Let the app answer a whole request; what waits for its turn is given up if nobody waits."""
    if not body:  # it has no work to do
        return await app(scope, replay(body, receive), send)
    answering = asyncio.ensure_future(app(scope, replay(body, receive), send))
    leaving = asyncio.ensure_future(receive())  # after a whole body comes only a good-bye
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        answering.cancel()
    with suppress(asyncio.CancelledError):
        await answering


class Compressed:
    """Answers compressed for those who come over a network; on this machine it would cost time."""

    def __init__(self, app: ASGIApp) -> None:
        """Compress what is worth it, quickly."""
        self.app = app
        self.compressed = GZipMiddleware(app, minimum_size=2000, compresslevel=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_near = (scope.get("client") or ("",))[0] in LOOPBACK
        await (self.app if is_near else self.compressed)(scope, receive, send)


def host_name(host: str) -> str | None:
    """Return the name in a Host header, without the port; None if it is no such thing."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def is_address(name: str | None) -> bool:
    """Return whether a name is no name but an IP address."""
    try:
        return name is not None and bool(ip_address(name))
    except ValueError:
        return False


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that gives the body once, then whatever the server says."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


def refusal(status: int, sentence: str) -> JSONResponse:
    """Return an answer in the form of a Problem."""
    return JSONResponse({"detail": sentence}, status)
