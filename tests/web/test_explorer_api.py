"""What the explorer's API answers."""

import base64
import io

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from PIL import Image

from capsnet.models.weights import find_model
from capsnet.web.server import create_app


def floats(text):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f4").copy())


def pixels(text):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), np.uint8).copy())


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


def test_votes_and_bias_add_up_to_s(seven):
    client = TestClient(create_app(), base_url="http://127.0.0.1")  # the authors' has a bias
    told = client.post("/api/votes", json={"image": seven}).json()
    analysis = client.post("/api/analyse", json={"image": seven}).json()
    votes, bias = floats(told["votes"]).view(-1, 10, 16), floats(told["bias"]).view(10, 16)
    assert bias.abs().max() > 0.01
    c = floats(analysis["b"]).view(4, -1, 10)[:3].softmax(-1)
    s = torch.einsum("rij,ije->rje", c, votes) + bias
    expected = torch.tensor(analysis["s_steps"])
    torch.testing.assert_close(s.norm(dim=-1), expected, atol=1e-4, rtol=1e-4)


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


def test_animation_is_a_gif(client):
    pictures = [[{"which": 1, "v": [x] * 16}] for x in (0.0, 0.5, 1.0)]
    answer = client.post("/api/animation", json={"pictures": pictures, "milliseconds": 100})
    with Image.open(io.BytesIO(answer.content)) as film:
        assert (film.format, film.n_frames) == ("GIF", 3)


def test_colour_pictures_of_ones_own(colour_run):
    client = TestClient(create_app(colour_run), base_url="http://127.0.0.1")
    info = client.get("/api/info").json()
    assert info["capsnet"]["classes"] == ["blue", "red"]
    assert not info["has_cnn"] and "--cnn-weights" in info["why_no_cnn"]
    image = client.get("/api/samples").json()[0]["image"]
    assert len(pixels(image)) == 3 * 20 * 20
    answer = client.post("/api/analyse", json={"image": image}).json()
    assert len(answer["lengths"]) == 2
