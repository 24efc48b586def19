"""Whom the explorer answers: every bad request gets a sentence and a 4xx."""

import json

import pytest
from fastapi.testclient import TestClient

from capsnet.errors import UserError
from capsnet.web import guard, routes
from capsnet.web.server import create_app, serve

GOOD = {"which": 0, "v": [0.0] * 16}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("analyse", {"image": "AAAA"}),
        ("analyse", {"image": "not base64!"}),
        ("analyse", {"image": "A==="}),
        ("analyse", {"image": 3}),
        ("analyse", {}),
        ("decode", {"pictures": []}),
        ("decode", {"pictures": [[GOOD]] * 300}),
        ("decode", {"pictures": [[GOOD] * 3]}),
        ("decode", {"pictures": [[{**GOOD, "which": 10}]]}),
        ("decode", {"pictures": [[{**GOOD, "v": [0.0] * 15}]]}),
        ("decode", {"pictures": [[{**GOOD, "v": [float("nan")] * 16}]]}),
        ("decode", {"pictures": [[{**GOOD, "v": [float("inf")] * 16}]]}),
        ("decode", {"pictures": [[{**GOOD, "v": [1e30] * 16}]]}),
        ("decode", {"pictures": [[GOOD]], "net": 1}),  # there are no others beside one's own
        ("warp", {"image": "", "warp": {}}),
        ("sweep", {"image": "", "warp": {}, "over": "colour"}),
    ],
)
def test_bad_requests_get_a_sentence(client, path, body):
    answer = client.post(
        f"/api/{path}", content=json.dumps(body), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith(".")


def test_only_its_own_page_may_ask(client):
    def status(**headers):
        return client.get("/api/info", headers=headers).status_code

    assert status(origin="http://127.0.0.1") == 200
    assert status(origin="http://evil.example") == 403
    assert status(origin="null") == 403
    assert status(host="evil.example") == 403
    assert status(host="[") == 403
    assert status(host="localhost:8000") == 200
    assert client.post("/api/analyse", headers={"origin": "http://evil.example"}).status_code == 403
    assert status(host="10.0.0.7:8000") == 200  # no site can point its name there
    assert status(host="127.0.0.1.evil.example") == status(host="localhost.evil.example") == 403
    assert status(host="localhost:8000", origin="http://localhost:3000") == 403


def test_names_that_were_allowed(runs):
    app = create_app(runs["plain"], names=["Caps.example.org"])
    client = TestClient(app, base_url="https://caps.example.org")

    def status(**headers):
        return client.get("/api/info", headers=headers).status_code

    assert status() == status(origin="https://caps.example.org") == 200
    assert status(host="127.0.0.1:8000", origin="https://caps.example.org") == 200  # by a proxy
    assert status(host="127.0.0.1:8000", origin="https://example.org") == 403
    assert status(host="example.org") == 403


def test_a_name_is_given_alone(runs):
    with pytest.raises(UserError, match="no name of a host"):
        serve(runs["plain"], names=["https://caps.example.org"])


def test_headers_of_every_answer(client):
    for path in ("/", "/static/app.js", "/api/info", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_files_outside_static_are_not_served(client):
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd"):
        assert client.get(path).status_code == 404


def test_too_much_work_is_refused(client, seven, monkeypatch):
    monkeypatch.setattr(routes, "MAX_WAITING", 0)
    answer = client.post("/api/analyse", json={"image": seven})
    assert answer.status_code == 429 and answer.json()["detail"].endswith(".")


def test_too_many_bytes_are_refused(client, seven, monkeypatch):
    monkeypatch.setattr(guard, "MAX_BODIES", 1000)
    answer = client.post("/api/analyse", json={"image": seven})
    assert answer.status_code == 429 and answer.json()["detail"].endswith(".")
    monkeypatch.undo()
    assert client.post("/api/analyse", json={"image": seven}).status_code == 200


def test_a_mistake_of_ours_is_said_and_the_next_request_answered(app, seven, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError

    client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    with monkeypatch.context() as patch:
        patch.setattr(routes, "analyse", fails)
        answer = client.post("/api/analyse", json={"image": seven})
    assert answer.status_code == 500 and answer.json()["detail"].endswith(".")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert client.post("/api/analyse", json={"image": seven}).status_code == 200
