"""Where the explorer listens, and that it answers without waiting."""

import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress

import httpx2
import pytest
import torch
import uvicorn

from capsnet.errors import UserError
from capsnet.web import patience, server

HALF_HEAD = b"POST /api/analyse HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_BODY = HALF_HEAD + b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"


def test_answers_on_one_connection_do_not_wait_for_each_other(address):
    query = {"pictures": [[{"which": 0, "v": [0.0] * 16}]]}
    waits = []
    with httpx2.Client(base_url=address) as visitor:
        for _ in range(30):
            start = time.perf_counter()
            assert visitor.post("/api/decode", json=query).status_code == 200
            waits.append(time.perf_counter() - start)
    assert statistics.median(waits) < 0.02  # a delayed acknowledgement takes 0.04 s


def test_serve_warns_outside_loopback(runs, monkeypatch, capsys):
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: sockets[0].close())
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match="another port"):
            server.serve(runs["plain"], port=port)
    server.serve(runs["plain"], port=port)
    assert "Warning" not in capsys.readouterr().out
    server.serve(runs["plain"], host="0.0.0.0", port=port, names=["caps.example.org"])
    assert "Warning" in capsys.readouterr().out
    with pytest.raises(UserError, match="no port"):
        server.serve(runs["plain"], port=99999)
    with pytest.raises(UserError, match="another host"):
        server.serve(runs["plain"], host="nowhere.invalid", port=port)


def test_address_that_a_browser_can_open():
    names = {"127.0.0.1": "localhost", "0.0.0.0": "localhost", "::": "[::1]", "::1": "[::1]"}
    assert {host: server.url_name(host) for host in names} == names
    assert server.url_name("fe80::2") == "[fe80::2]"
    assert server.url_name("10.0.0.7") == "10.0.0.7"


def half_sent(port):
    """Connections that stop in the middle of a request, or before it."""
    for part in (b"", HALF_HEAD, HALF_BODY):
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.sendall(part)
        yield connection


def test_who_does_not_send_a_whole_request_is_not_waited_for(app, monkeypatch):
    monkeypatch.setattr(patience, "PATIENCE", 0.3)
    listener = server.listen("127.0.0.1", 0)
    running = uvicorn.Server(server.configured(app))
    thread = threading.Thread(target=running.run, args=([listener],), daemon=True)
    thread.start()
    where = listener.getsockname()[1]
    with httpx2.Client(base_url=f"http://127.0.0.1:{where}") as visitor:
        assert visitor.get("/api/info").status_code == 200
        for connection in half_sent(where):
            with connection, suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        assert visitor.get("/api/info").status_code == 200
    running.should_exit = True
    thread.join()


def test_more_connections_than_a_process_can_have_are_not_taken(app, serving, monkeypatch):
    monkeypatch.setattr(patience, "MAX_CONNECTIONS", 3)
    with serving(app) as where, ExitStack() as open_ones:
        port = int(where.rpartition(":")[2])
        for _ in range(3):
            open_ones.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        one_more = open_ones.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        with suppress(ConnectionResetError):
            assert one_more.recv(1) == b""
        open_ones.close()
        while not answers(port):  # the server has yet to notice that they left
            pass


def test_ctrl_c_ends_at_once_whatever_is_half_sent(runs):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["explore", "--weights", runs["plain"], "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "capsnet", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert "The explorer is at" in process.stdout.readline()
    while not answers(port):
        assert process.poll() is None
    held = list(half_sent(port))
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    for connection in held:
        connection.close()
    assert rest == "capsnet: stopped.\n" and process.returncode == 130


def answers(port):
    try:
        return httpx2.head(f"http://127.0.0.1:{port}/").status_code == 200
    except httpx2.TransportError:
        return False


def test_large_answers_are_compressed_for_those_who_are_far(address, client, seven):
    far = client.post("/api/analyse", json={"image": seven})  # its address is "testclient"
    assert far.headers["content-encoding"] == "gzip"
    with httpx2.Client(base_url=address) as visitor:
        near = visitor.post("/api/analyse", json={"image": seven})
        assert "content-encoding" not in near.headers and near.json() == far.json()
        assert visitor.head("/").status_code == 200
