"""The explorer on networks with other routings than the paper's, and on other stems."""

import base64

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from capsnet.data import open_data
from capsnet.models import create_model
from capsnet.models.weights import Card, save_weights
from capsnet.web.server import create_app

TINY = {"channels": (4, 8), "primary_types": 3, "decoder": (16,)}
NAMES = {
    "dynamic": "dynamic",
    "em": "EM routing",
    "vb": "variational-Bayes routing",
    "self": "self-routing",
    "ida": "inverted attention",
    "attention": "self-attention",
}


def floats(text):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f4").copy())


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Return where the weights of an untrained network are: weights("em")."""

    def save(routing, name="capsnet_modern", **options):
        torch.manual_seed(0)
        chosen = {"routing": routing, **TINY} if name == "capsnet_modern" else {}
        model = create_model(name, **chosen, **options)
        with torch.no_grad():
            for p in model.class_caps.parameters():
                p.add_(0.3 * torch.randn_like(p))  # where some start at zero
        path = tmp_path_factory.mktemp(name) / "weights.safetensors"
        task = open_data("digits", "test").task
        save_weights(model, path, Card(name, model.options, task, {"data": "digits"}))
        return str(path), model.eval()

    return save


@pytest.mark.parametrize(
    "routing",
    [pytest.param(r, marks=pytest.mark.long if r in ("vb", "self", "ida") else ()) for r in NAMES],
)
def test_every_routing_is_told_as_it_is(routing, weights):
    path, model = weights(routing)
    client = TestClient(create_app(path), base_url="http://127.0.0.1")
    card = client.get("/api/info").json()["capsnet"]
    assert card["routing"] == NAMES[routing] and card["grid"] == list(model.grid)
    sample = client.get("/api/samples").json()[3]
    answer = client.post("/api/analyse", json={"image": sample["image"]}).json()
    seen = np.frombuffer(base64.b64decode(answer["image"]), np.uint8).copy()
    with torch.inference_mode():
        trace = model.trace(torch.from_numpy(seen).view(1, 1, 28, 28) / 255)
    R, _, I, J = trace.c.shape
    b = floats(answer["b"]).view(R + 1, I, J)
    c = floats(answer["c"]).view(R, I, J) if answer["c"] else b[:R].softmax(-1)
    assert bool(answer["c"]) == (routing != "dynamic")
    torch.testing.assert_close(c, trace.c[:, 0], atol=1e-5, rtol=1e-4)
    agreement = torch.einsum("ije,rje->rij", trace.u_hat[0], trace.v[:, 0])
    torch.testing.assert_close(b.diff(dim=0), agreement, atol=1e-4, rtol=1e-3)
    told = client.post("/api/votes", json={"image": sample["image"]})
    assert told.status_code == (200 if routing == "dynamic" else 422)
    lengths = torch.tensor(answer["v_steps"])
    torch.testing.assert_close(lengths, trace.a[:, 0], atol=1e-5, rtol=1e-4)


def test_efficient_capsnet_is_opened_too(weights):
    path, model = weights("", "efficient_capsnet")
    client = TestClient(create_app(path), base_url="http://127.0.0.1")
    card = client.get("/api/info").json()["capsnet"]
    assert card["routing"] == "self-attention" and card["grid"] == list(model.grid)


def test_route_explains_no_other_routing_by_the_papers_lines(visit, serving, weights):
    path, model = weights("em")
    with serving(create_app(path)) as where:
        page = visit("mode=route&sample=3", where=where)
        assert page.locator(".panel-head h2").inner_text() == "EM routing, one iteration at a time"
        lines = page.locator(".formula").all_inner_texts()
        assert page.locator(".agreement").is_hidden()
        assert len(lines) == 4 and not any("squash" in line for line in lines)
        assert "EM routing" in page.locator(".formulas .note").inner_text()
        side, _, start = model.field
        page.locator("#primary").hover(position={"x": 5, "y": 5})
        box = page.locator("#field").bounding_box()
        image = page.locator("#field").locator("..").bounding_box()
        assert box["x"] >= image["x"] - 2 and start < 0 < start + side
        page.close()
