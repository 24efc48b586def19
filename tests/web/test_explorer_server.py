"""Where the explorer listens, and that it answers without waiting."""

import socket
import statistics
import time

import httpx2
import pytest
import torch

from capsnet.errors import UserError
from capsnet.web import server


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
    server.serve(runs["plain"], host="0.0.0.0", port=port)
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
