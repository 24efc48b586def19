"""An explorer in a process of its own, and those who ask it: many, slow, rude, or gone again."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import sys
from capsnet.web import patience
from capsnet.web.server import serve
patience.PATIENCE = float(sys.argv[3])
serve(sys.argv[1], port=int(sys.argv[2]))
"""
HOST = "127.0.0.1"  # and nothing else is ever asked
LENGTH = re.compile(rb"content-length: (\d+)")


class Explorer:
    """A server that runs: its port, its process, and the file of what it says."""

    def __init__(self, port: int, process: subprocess.Popen, log: Path) -> None:
        self.port, self.process, self.log = port, process, log

    def memory(self) -> float:
        """Return the bytes that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024.0 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def files(self) -> int:
        """Return how many files and connections it has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def is_calm(self) -> bool:
        """Return whether it runs, and no traceback was written."""
        return self.process.poll() is None and "Traceback" not in self.log.read_text()


@contextmanager
def exploring(weights: Path, log: Path, patience: float = 20.0) -> Iterator[Explorer]:
    """Serve a run on a free port of loopback until the block ends."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-c", PROGRAM, str(weights), str(port), str(patience)]
    with (
        log.open("w") as said,
        subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT) as process,
    ):
        try:
            asyncio.run(asyncio.wait_for(arrived(port), 120))
            yield Explorer(port, process, log)
        finally:
            process.kill()


def get(path: str, host: str = HOST) -> bytes:
    """Return a request."""
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def post(path: str, query: object, host: str = HOST) -> bytes:
    """Return a request with JSON in it."""
    body = json.dumps(query).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Visitor:
    """One connection, opened when it is needed: await visitor.ask(request) -> status, body."""

    def __init__(self, port: int) -> None:
        self.port, self.reader, self.writer = port, None, None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(HOST, self.port, limit=1 << 24)
        self.writer.write(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        body = await self.reader.readexactly(int(LENGTH.search(head)[1]))
        if b"connection: close" in head:
            self.leave()
        return int(head[9:12]), body

    def leave(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None


async def arrived(port: int) -> None:
    """Return when the server answers."""
    visitor = Visitor(port)
    while True:
        try:
            await visitor.ask(get("/api/info"))
        except ConnectionError:
            await asyncio.sleep(0.05)
        else:
            return visitor.leave()
