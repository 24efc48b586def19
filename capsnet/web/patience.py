"""Connections that are waited for only so long, and not too many of them.

uvicorn.Config(app, http=Patient)
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 20.0  # seconds; a photo over a slow network takes less
MAX_CONNECTIONS = 900  # a process may have 1,024 files open where nobody changed that


class Patient(H11Protocol):
    """A connection that is closed when a request does not come whole, or an answer is not taken."""

    asking: asyncio.TimerHandle | None = None
    taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        transport.set_write_buffer_limits(0)  # to be told of every answer that is not taken
        self.asking = self.loop.call_later(PATIENCE, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; the time that it may take is counted from its first part."""
        if self.asking is None:
            self.asking = self.loop.call_later(PATIENCE, self.transport.abort)
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self.stop(self.asking)
            self.asking = None

    def pause_writing(self) -> None:
        """Begin to wait for who asked to take the answer."""
        super().pause_writing()
        self.watch(self.transport.get_write_buffer_size())

    def watch(self, left: int) -> None:
        """Wait as long as something of what is left is taken."""

        def look() -> None:
            now = self.transport.get_write_buffer_size()
            self.transport.abort() if now >= left else self.watch(now)

        self.taking = self.loop.call_later(PATIENCE, look)

    def resume_writing(self) -> None:
        """Wait no longer: the answer was taken."""
        super().resume_writing()
        self.stop(self.taking)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, if nothing was answered yet; the app need not answer it too."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self.stop(self.asking)
        self.stop(self.taking)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End with the server, whatever is half-sent: nobody is left to answer it."""
        self.transport.abort()

    @staticmethod
    def stop(timer: asyncio.TimerHandle | None) -> None:
        """Wait no longer for what a timer was set for."""
        if timer is not None:
            timer.cancel()
