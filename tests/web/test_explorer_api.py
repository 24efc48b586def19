"""The explorer's API: what it answers, and that every bad request gets a sentence and a 4xx."""

import base64
import io
import json
import os
import re
import socket
import statistics
import time
from typing import get_args

import httpx2
import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image
from pydantic import ValidationError

from capsnet import create_model
from capsnet.data.augment import SHARP
from capsnet.errors import UserError
from capsnet.models.weights import find_model, save_weights
from capsnet.web import routes, samples, schema, server
from capsnet.web.guard import MAX_BODY
from capsnet.web.nets import Net, load_nets
from capsnet.web.schema import Warp
from capsnet.web.server import create_app
from capsnet.web.warp import bend, sweep


def floats(text):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f4").copy())


def pixels(text):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), np.uint8).copy())


@pytest.fixture(scope="module")
def seven(client):
    return client.get("/api/samples").json()[7]["image"]


def png(size=(40, 40), colour=255):
    file = io.BytesIO()
    image = Image.new("L", size)
    image.paste(colour, (size[0] // 3, size[1] // 3, size[0] // 2, size[1] * 2 // 3))
    image.save(file, "PNG")
    return file.getvalue()


def test_info_names_models_and_what_is_missing(client, runs):
    info = client.get("/api/info").json()
    assert info["capsnet"]["image_shape"] == [1, 28, 28]
    assert info["overlap"]["image_shape"] == [1, 36, 36]
    assert info["has_cnn"] and info["has_samples"]
    bare = TestClient(create_app(runs["plain"]), base_url="http://127.0.0.1")
    info = bare.get("/api/info").json()
    assert not info["capsnet"]["has_decoder"]
    query = {"pictures": [[{"which": 0, "v": [0.0] * 16}]]}
    answer = bare.post("/api/decode", json=query)
    assert answer.status_code == 422 and "decoder" in answer.json()["detail"]


def test_samples_are_one_of_each_class(client):
    first, second = (client.get(f"/api/samples?page={n}").json() for n in (0, 1))
    assert [s["label"] for s in first] == list(range(10))
    assert [s["number"] for s in second] == list(range(10, 20))
    assert first[3]["image"] != second[3]["image"]


def test_analysis_is_the_models_own(client, runs, seven):
    answer = client.post("/api/analyse", json={"image": seven}).json()
    model, _ = find_model(runs["capsnet"])
    model.eval()
    image = pixels(seven).view(1, 1, 28, 28) / 255
    with torch.inference_mode():
        output, trace = model(image), model.trace(image)
    torch.testing.assert_close(torch.tensor(answer["v"]), output.v[0], atol=1e-5, rtol=1e-4)
    I, J, R = model.class_caps.W.shape[0], 10, 3
    b = floats(answer["b"]).view(R + 1, I, J)
    torch.testing.assert_close(b[:R].softmax(-1), trace.c[:, 0], atol=1e-5, rtol=1e-4)
    agreement = torch.einsum("ije,rje->rij", trace.u_hat[0], trace.v[:, 0])
    torch.testing.assert_close(b.diff(dim=0), agreement, atol=1e-4, rtol=1e-3)
    drawn = model.reconstruct(output.v)[0].flatten()
    assert (pixels(answer["pictures"]) / 255 - drawn).abs().max() < 0.01
    assert answer["drawn"] == [int(output.lengths.argmax())]


def test_decode_draws_what_the_capsule_says(client, runs, seven):
    v = client.post("/api/analyse", json={"image": seven}).json()["v"][7]
    model, _ = find_model(runs["capsnet"])
    one, other = {"which": 7, "v": v}, {"which": 2, "v": [0.1] * 16}
    answer = client.post("/api/decode", json={"pictures": [[one], [one, other]]})
    drawn = torch.from_numpy(np.frombuffer(answer.content, np.uint8).copy()).view(2, 1, 28, 28)
    full = torch.zeros(1, 10, 16)
    full[0, 7] = torch.tensor(v)
    expected = model.reconstruct(full, 7)[0].detach()
    assert (drawn[0] / 255 - expected).abs().max() < 0.01
    assert (drawn[0] != drawn[1]).any()


def test_overlap_draws_two(client):
    image = base64.b64encode(bytes(range(256)) * 5 + bytes(16)).decode()
    answer = client.post("/api/overlap", json={"image": image}).json()
    assert len(set(answer["drawn"])) == 2
    assert len(pixels(answer["pictures"])) == 2 * 36 * 36


def test_picture_is_centred_and_inverted(client):
    paper = io.BytesIO()
    Image.eval(Image.open(io.BytesIO(png())), lambda x: 255 - x).save(paper, "PNG")
    headers = {"content-type": "image/png"}
    plain = client.post("/api/picture?centre=true", content=png(), headers=headers)
    turned = client.post(
        "/api/picture?centre=true&invert=true", content=paper.getvalue(), headers=headers
    )
    assert plain.json() == turned.json()
    assert pixels(plain.json()["image"]).view(28, 28)[14, 14] == 255


def test_warp_and_sweep_answer_for_both(client, seven):
    query = {"image": seven, "warp": {"rotate": 40.0}}
    bent = client.post("/api/warp", json=query).json()
    assert bent["analysis"]["image"] != seven
    assert sum(bent["cnn"]) == pytest.approx(1, abs=1e-4)
    swept = client.post("/api/sweep", json={**query, "over": "rotate"}).json()
    still = swept["values"].index(min(swept["values"], key=abs))
    alone = client.post("/api/analyse", json={"image": seven}).json()["lengths"]
    assert swept["capsnet"][still] == pytest.approx(alone, abs=1e-3)
    assert len(swept["capsnet"]) == len(swept["cnn"]) == len(swept["values"])


def test_bending_laws():
    image = torch.rand(3, 12, 12)
    assert torch.equal(bend(image, Warp()), image)
    assert torch.equal(bend(image, Warp(right=1, down=-2))[:, :-2, 1:], image[:, 2:, :-1])
    for rotate in (-180, -90, 90, 180):
        exact = bend(image, Warp(rotate=rotate, right=2, down=-1))
        near = bend(image, Warp(rotate=rotate * 0.999999, right=2, down=-1))
        sharpened = (0.5 + SHARP * (exact - 0.5)).clamp(0, 1)
        torch.testing.assert_close(near, sharpened, atol=1e-3, rtol=0)
    for how in (Warp(thicken=0.5), Warp(thicken=-1.5), Warp(pieces=2), Warp(pieces=4, seed=3)):
        assert not torch.allclose(bend(image, how), image, atol=0.1)
    assert not torch.equal(bend(image, Warp(pieces=4)), bend(image, Warp(pieces=4, seed=3)))


@pytest.mark.parametrize("over", schema.RANGES)
def test_a_sweep_passes_through_the_picture_itself(over):
    image = torch.rand(1, 12, 12)
    values, bent = sweep(image, Warp(), over)
    assert (values[0], values[-1]) == schema.RANGES[over]
    assert torch.equal(bent[len(values) // 2], image)


def edges(images):
    """The strength of the edges of images [N, H, W]."""
    return sum(images.diff(dim=d).square().sum().item() for d in (1, 2))


def test_bent_digits_are_as_sharp_as_they_were():
    digits = samples.digit_samples().images[:, 0] / 255
    _, turned = sweep(digits, Warp(), "rotate")
    shifted = [bend(digits, how) for how in (Warp(right=0.5), Warp(right=3, down=-0.5))]
    for bent in (*turned, *shifted):
        assert edges(bent) == pytest.approx(edges(digits), rel=0.04)


def test_page_and_server_agree_on_the_limits():
    def source(name):
        return (routes.STATIC / name).read_text()

    kinds = re.findall(r"(\w+): { min: (\S+), max: (\S+),", source("bends.js"))
    assert {name: (float(low), float(high)) for name, low, high in kinds} == schema.RANGES
    for name, (low, high) in schema.RANGES.items():
        assert Warp(**{name: low}) != Warp(**{name: high})
        for beyond in (low - 0.1, high + 0.1):
            with pytest.raises(ValidationError, match=name):
                Warp(**{name: beyond})
    pieces = f"PIECES = {list(get_args(Warp.model_fields['pieces'].annotation))};"
    assert pieces in source("bends.js")
    assert f"MAX_PICTURES = {schema.MAX_PICTURES};" in source("tweak.js")


def test_animation_is_a_gif(client):
    pictures = [[{"which": 1, "v": [x] * 16}] for x in (0.0, 0.5, 1.0)]
    answer = client.post("/api/animation", json={"pictures": pictures, "milliseconds": 100})
    with Image.open(io.BytesIO(answer.content)) as film:
        assert (film.format, film.n_frames) == ("GIF", 3)


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


def test_bad_pictures_are_refused(client):
    def send(body):
        return client.post("/api/picture", content=body, headers={"content-type": "image/png"})

    bomb = png((5000, 5000))
    for body in (b"", b"hello", png()[:60], bomb, os.urandom(500)):
        answer = send(body)
        assert answer.status_code == 422 and answer.json()["detail"].endswith(".")
    assert "pixels" in send(bomb).json()["detail"]
    blank = send(png(colour=0) + b"")
    assert blank.status_code == 200
    answer = client.post(
        "/api/picture?centre=true", content=png(colour=0), headers={"content-type": "image/png"}
    )
    assert answer.status_code == 422 and "blank" in answer.json()["detail"]
    assert send(bytes(MAX_BODY + 1)).status_code == 413


def test_pictures_say_what_they_are(client):
    def send(form, kind):
        file = io.BytesIO()
        Image.open(io.BytesIO(png())).save(file, form)
        headers = {"content-type": kind}
        return client.post("/api/picture", content=file.getvalue(), headers=headers)

    assert send("PNG", "image/png").status_code == 200
    assert send("JPEG", "image/jpeg").status_code == 200
    for kind in ("image/gif", "application/json", "text/plain", ""):
        answer = send("PNG", kind)
        assert answer.status_code == 415 and answer.json()["detail"].endswith(".")
    described = client.get("/api/openapi.json").json()["paths"]["/api/picture"]["post"]
    assert set(described["requestBody"]["content"]) == {"image/png", "image/jpeg"}


def test_a_jpeg_of_many_scans_is_refused(client):
    file = io.BytesIO()
    Image.new("L", (64, 64)).save(file, "JPEG", progressive=True)
    whole = file.getvalue()
    scan = whole[whole.rindex(b"\xff\xda") : -2]
    bomb = whole[:-2] + 1000 * scan + whole[-2:]
    for body, status in ((whole, 200), (bomb, 422)):
        headers = {"content-type": "image/jpeg"}
        answer = client.post("/api/picture", content=body, headers=headers)
        assert answer.status_code == status
    assert "scans" in answer.json()["detail"]


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


def test_answers_on_one_connection_do_not_wait_for_each_other(address):
    query = {"pictures": [[GOOD]]}
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


def test_a_cnn_is_no_capsnet(runs):
    with pytest.raises(UserError, match="no capsules"):
        create_app(runs["cnn"])


def test_network_for_pairs(runs, tmp_path):
    given = load_nets(None, runs["overlap"], None)
    assert (given.capsnet.data, given.overlap.data) == ("mnist", "multidigits")
    own = load_nets(runs["overlap"], None, None)
    assert own.overlap is own.capsnet
    shipped = load_nets(runs["capsnet"], None, None)
    assert (shipped.capsnet.data, shipped.overlap.data) == ("digits", "multimnist")
    path = tmp_path / "weights.safetensors"
    card = {"config": {"data": "multidigits"}, "classes": list("0123456789")}
    save_weights(create_model("capsnet_small", decoder=()), path, card)
    assert load_nets(str(path), None, None).overlap.data == "multimnist"
    for unfit in (runs["capsnet"], str(path)):
        with pytest.raises(UserError, match="trained on multimnist or multidigits"):
            load_nets(None, unfit, None)


def test_cnn_that_is_given_must_fit(runs, colour_run):
    assert load_nets(runs["capsnet"], None, runs["cnn"]).cnn is not None
    for weights, cnn in ((runs["capsnet"], runs["capsnet"]), (colour_run, runs["cnn"])):
        with pytest.raises(UserError, match="no CNN for the images and classes"):
            load_nets(weights, None, cnn)


def test_colour_pictures_of_ones_own(colour_run):
    client = TestClient(create_app(colour_run), base_url="http://127.0.0.1")
    info = client.get("/api/info").json()
    assert info["capsnet"]["classes"] == ["blue", "red"]
    assert not info["has_cnn"] and "--cnn-weights" in info["why_no_cnn"]
    image = client.get("/api/samples").json()[0]["image"]
    assert len(pixels(image)) == 3 * 20 * 20
    answer = client.post("/api/analyse", json={"image": image}).json()
    assert len(answer["lengths"]) == 2


def test_samples_are_the_images_the_run_was_tested_on(monkeypatch, colour_run):
    model, card = find_model(colour_run)
    seeds = []
    real = samples.open_data
    monkeypatch.setattr(
        samples, "open_data", lambda *args, **kw: seeds.append(kw["seed"]) or real(*args, **kw)
    )
    for config, seed in (({"seed": 5}, 0), ({"seed": 5, "data_seed": 3}, 3)):
        kept = {"data": card["config"]["data"], **config}
        assert samples.open_samples(Net(model, {**card, "config": kept})) is not None
        assert seeds.pop() == seed
