"""The explorer's server among many, slow, rude and leaving clients: each other one is answered.

The mix of the long run is nine cheap requests of ten, as a browser's own; see MIX.
"""

import asyncio
import base64
import socket
import time
from random import Random

import pytest
from test_readers import mangled
from visitors import HOST, Visitor, exploring, get, post

PATIENCE = 5.0  # seconds that this server waits for clients; 20 are usual
GROWTH = 30e6  # bytes that it may hold more after a long time than after a short one
CROWD = 500
BLANK = base64.b64encode(bytes(784)).decode()
CAPSULE = {"which": 0, "v": [0.0] * 16}
FILM = post("/api/animation", {"pictures": [[CAPSULE]] * 256})  # a second of work
LOOK = post("/api/analyse", {"image": BLANK})
VOTES = post("/api/votes", {"image": BLANK})
# A request, its status, and how many of a thousand it is.
MIX = (
    (get("/api/info"), 200, 400),
    (post("/api/analyse", {"image": "AAAA"}), 422, 300),
    (get("/", "evil.example"), 403, 200),
    (get("/static/app.js"), 200, 30),
    (get("/api/samples?page=3"), 200, 30),
    (post("/api/decode", {"pictures": [[CAPSULE]]}), 200, 30),
    (LOOK, 200, 8),
    (VOTES, 200, 2),
)
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
RAW = (
    get("/api/info"),
    get("/static/app.js"),
    post("/api/analyse", {"image": "AAAA"}),
    b"POST /api/decode HTTP/1.1\r\nHost: evil\r\n" + CHUNKS,
    b"POST /api/warp HTTP/1.1\r\nHost: 127.0.0.1\r\nExpect: 100-continue\r\n" + CHUNKS,
)


@pytest.fixture(scope="module")
def explorer(trained, tmp_path_factory):
    log = tmp_path_factory.mktemp("server") / "log"
    with exploring(trained, log, PATIENCE) as running:
        answered(running)  # what it loads with the first answer is loaded
        running.usual = running.files()
        yield running


def answered(explorer, request=LOOK, seconds=30.0):
    """Return what a new client gets, in time."""

    async def ask():
        visitor = Visitor(explorer.port)
        try:
            return await asyncio.wait_for(visitor.ask(request), seconds)
        finally:
            visitor.leave()

    return asyncio.run(ask())


def wait_until_usual(explorer):
    """Wait, but not without end, until the server has closed what clients have left."""
    deadline = time.monotonic() + 30 * PATIENCE
    while explorer.files() > explorer.usual and time.monotonic() < deadline:
        time.sleep(0.05)


def test_many_requests(explorer, tally):
    fault = "a request to the server among many, its memory watched"
    times = tally.times(fault, many=1_000_000, few=3_000)
    first: dict[bytes, bytes] = {}
    random = Random(0)
    order = [(ask, status) for ask, status, share in MIX for _ in range(share)]
    random.shuffle(order)

    async def visit(count):
        visitor = Visitor(explorer.port)
        for k in count:
            ask, status = order[k % len(order)]
            said = await visitor.ask(ask)
            tally.tried += 1
            tally.noticed += status >= 400
            tally.wrong += said != (status, first.setdefault(ask, said[1]))
        visitor.leave()

    async def all_visit(times):
        count = iter(range(times))
        await asyncio.gather(*(visit(count) for _ in range(20)))

    asyncio.run(all_visit(max(2_000, times // 20)))
    before = explorer.memory()
    asyncio.run(all_visit(times - tally.tried))
    assert explorer.memory() - before < GROWTH
    assert (tally.tried, tally.wrong) == (times, 0) and explorer.is_calm()


def test_a_crowd(explorer, tally):
    _, right = answered(explorer)

    async def all_at_once():
        visitors = [Visitor(explorer.port) for _ in range(CROWD)]
        said = await asyncio.gather(*(visitor.ask(LOOK) for visitor in visitors))
        for visitor in visitors:
            visitor.leave()
        return said

    for _ in tally.trials(f"one of {CROWD} clients that ask at once", 10):
        wait_until_usual(explorer)  # those before have left: twice as many are too many
        said = asyncio.run(asyncio.wait_for(all_at_once(), 120))
        tally.wrong += sum(one != (200, right) for one in said)
    tally.tried *= CROWD
    assert tally.wrong == 0 and explorer.is_calm()


def test_slow_clients(explorer, tally):
    """They stop anywhere in a request, or ask for much and take nothing."""
    for random in tally.trials("a client that stops in its request, or never reads", 10):
        slow = [hang(explorer.port, random) for _ in range(100)]
        tally.wrong += answered(explorer)[0] != 200
        wait_until_usual(explorer)
        tally.lost += max(0, explorer.files() - explorer.usual)
        for connection in slow:
            connection.close()
    tally.tried *= 100
    assert (tally.lost, tally.wrong) == (0, 0) and explorer.is_calm()


def hang(port, random):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((HOST, port))
    if random.random() < 0.2:
        connection.sendall(VOTES * 60)  # more than the system keeps for it
    else:
        connection.sendall(LOOK[: random.randrange(len(LOOK))])
    return connection


def test_clients_that_leave(explorer, tally):
    """What they asked for would take minutes: nobody waits for it."""
    for random in tally.trials("a client that leaves while it is answered", 10):
        for _ in range(100):
            connection = socket.create_connection((HOST, explorer.port))
            connection.sendall(FILM[: random.choice((len(FILM), random.randrange(len(FILM))))])
            connection.close()
        tally.wrong += answered(explorer)[0] != 200
    tally.tried *= 100
    assert tally.wrong == 0 and explorer.is_calm()


def test_what_is_no_http(explorer, tally):
    for random in tally.trials("bytes made up for the server", 20_000):
        said = shout(explorer.port, mangled(b"".join(random.choices(RAW, k=2)), random), random)
        tally.noticed += b"HTTP/1.1 4" in said
        tally.wrong += b"HTTP/1.1 5" in said
    assert answered(explorer)[0] == 200
    assert tally.wrong == 0 and explorer.is_calm()


def shout(port, content, random):
    """Send bytes in two parts, and return what is said to them."""
    said, cut = b"", random.randrange(len(content) + 1)
    with socket.create_connection((HOST, port), timeout=60) as connection:
        try:
            connection.sendall(content[:cut])
            connection.sendall(content[cut:])
            if random.random() < 0.7:
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(1 << 16):
                    said += part
        except TimeoutError:
            raise
        except OSError:
            pass  # the server may hang up before it has heard all
    return said
