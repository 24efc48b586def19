"""Connections that are waited for only so long: a request must come whole within a few seconds.

uvicorn.Config(app, http=Patient)
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 20.0  # seconds; a photo over a slow network takes less


class Patient(H11Protocol):
    """A connection that is closed when its request does not come, or when the server ends."""

    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.wait()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; the time that it may take is counted from its first part."""
        if self.deadline is None:
            self.wait()
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self.rest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self.rest()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End with the server, whatever is half-sent: nobody is left to answer it."""
        self.transport.abort()

    def wait(self) -> None:
        """Begin to count the time."""
        self.deadline = self.loop.call_later(PATIENCE, self.transport.abort)

    def rest(self) -> None:
        """Stop counting: the request is whole."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
