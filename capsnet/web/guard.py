"""What stands between the network and the app: same origin only, small requests, strict headers.

app.add_middleware(Guard, hosts={"127.0.0.1", "localhost"})
"""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 4_000_000
LOOPBACK = ("127.0.0.1", "localhost", "::1")
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

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        """Answer to the names in `hosts`; None is any name, for a server open to a network."""
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        problem = self.foreign(Headers(scope=scope))
        body = b""
        if problem is None:
            body, problem = await read_body(receive)
        if problem is not None:
            return await problem(scope, receive, send_with_headers)
        await self.app(scope, replay(body, receive), send_with_headers)

    def foreign(self, headers: Headers) -> JSONResponse | None:
        """Return the refusal of a request that another site caused, if it is one."""
        host = headers.get("host", "")
        if self.hosts is not None and host_name(host) not in self.hosts:
            return refusal(403, "This server answers only under its own name; open its address.")
        origin = headers.get("origin")
        if origin is not None and origin.partition("//")[2] != host:
            return refusal(403, "This server answers only its own page; open its address.")
        return None


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


async def read_body(receive: Receive) -> tuple[bytes, JSONResponse | None]:
    """Return the whole body, or the refusal of one that is too large."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY:
            return b"", refusal(413, f"A request may have {MAX_BODY:,} bytes; send less.")
    return bytes(body), None


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that gives the body once, then whatever the server says."""
    first = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


def refusal(status: int, sentence: str) -> JSONResponse:
    """Return an answer in the form of a Problem."""
    return JSONResponse({"detail": sentence}, status)
