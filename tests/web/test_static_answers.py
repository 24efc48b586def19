"""The browser answers what the server answers: the same questions, the same numbers."""

import base64
import io
import re
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from photos import make_photo
from PIL import Image, ImageDraw, ImageOps

from capsnet import create_model
from capsnet.models.reference import Reference
from capsnet.prediction.answer import decided
from capsnet.prediction.trust import doubts
from capsnet.tasks import Calibration, OneLabel, Pairs, SeveralLabels
from capsnet.web.page import write_page
from capsnet.web.routes import STATIC
from capsnet.web.server import create_app

ASK = """async ([path, body, file]) => {
  const { askBrowser } = await import(new URL("static/browser/ask.js", document.baseURI));
  if (file) body = new Blob([Uint8Array.from(atob(file), (x) => x.charCodeAt(0))]);
  const answer = await askBrowser(path, body ?? undefined);
  if (!(answer instanceof ArrayBuffer)) return answer;
  const text = Array.from(new Uint8Array(answer), (x) => String.fromCharCode(x)).join("");
  return { bytes: btoa(text) };
}"""
CLOSE = 1e-4
LEVEL = 1.01 / 255  # what rounding to bytes may make of a difference
BENDS = [
    {},
    {"rotate": 90.0, "right": 3.0},
    {"rotate": -180.0, "down": -2.0},
    {"rotate": 33.0, "scale": 0.8, "shear": 0.3, "right": 1.5, "down": -2.0},
    {"thicken": 1.3},
    {"thicken": -0.7, "rotate": -45.0},
    {"pieces": 2, "seed": 12345},
    {"pieces": 4, "seed": 0, "scale": 1.3},
]


def floats(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


def pixels(text):
    return np.frombuffer(base64.b64decode(text), np.uint8) / 255


def assert_alike(ours, theirs):
    """Compare two analyses number by number."""
    assert ours.keys() == theirs.keys()
    for name in ("said", "doubts", "drawn", "c"):
        assert ours[name] == theirs[name]
    for name in ("lengths", "v", "s_steps", "v_steps"):
        np.testing.assert_allclose(ours[name], theirs[name], atol=CLOSE, rtol=CLOSE)
    for name in ("u", "votes", "b"):
        np.testing.assert_allclose(floats(ours[name]), floats(theirs[name]), atol=CLOSE, rtol=CLOSE)
    for name in ("image", "pictures"):
        np.testing.assert_allclose(pixels(ours[name]), pixels(theirs[name]), atol=LEVEL)


@pytest.fixture(scope="module")
def ask(browser, built, giving_out):
    """Ask the browser what the server would be asked: ask("analyse", {"image": …})."""
    with asking(browser, giving_out, built) as question:
        yield question


@contextmanager
def asking(browser, giving_out, folder):
    """Ask the page in a folder."""
    with giving_out(folder) as where:
        context = browser.new_context(service_workers="block")
        page = context.new_page()
        page.goto(where)
        page.wait_for_selector("body[data-ready]")

        def question(path, body=None, file=None):
            return page.evaluate(ASK, [path, body, file and base64.b64encode(file).decode()])

        question.page = page
        yield question
        context.close()


@pytest.fixture(scope="module")
def server(client):
    def ask(path, body=None, file=None):
        if file is not None:
            return client.post(f"/api/{path}", content=file, headers={"content-type": "image/png"})
        return (
            client.get(f"/api/{path}") if body is None else client.post(f"/api/{path}", json=body)
        )

    return ask


def strange():
    """Pictures that are no digits: nothing, noise, one bright place."""
    draw = np.random.default_rng(0)
    dot = np.zeros((28, 28), np.uint8)
    dot[14, 14] = 255
    noise = draw.integers(0, 256, (28, 28)).astype(np.uint8)
    return [base64.b64encode(x.tobytes()).decode() for x in (np.zeros_like(dot), noise, dot)]


def test_all_that_is_asked_of_the_server_can_be_asked_of_the_browser(client):
    paths = client.get("/api/openapi.json").json()["paths"]
    table = (STATIC / "browser" / "worker.js").read_text().partition("const QUESTIONS = {")[2]
    answered = set(re.findall(r"^  (\w+):", table.partition("\n};")[0], re.M))
    files = {"info", "dimensions"}
    assert answered == {path.removeprefix("/api/") for path in paths} - files


def test_what_there_is(ask, server):
    assert ask("info") == server("info").json()
    for path in ("samples?page=0", "samples?page=3", "samples?page=1234", "digits?page=2"):
        assert ask(path) == server(path).json()
    for path in ("mistakes?page=0", "dimensions", "poses"):
        assert ask(path) == server(path).json()


def test_analyses(ask, server):
    images = [x["image"] for n in (0, 5) for x in server(f"samples?page={n}").json()]
    told = [server("analyse", {"image": image}).json() for image in [*images, *strange()]]
    assert sum(bool(answer["doubts"]) for answer in told) > 3
    for image, theirs in zip([*images, *strange()], told, strict=True):
        assert_alike(ask("analyse", {"image": image}), theirs)


def test_votes(ask, server, seven):
    ours, theirs = (question("votes", {"image": seven}) for question in (ask, server))
    np.testing.assert_allclose(
        floats(ours["votes"]), floats(theirs.json()["votes"]), atol=CLOSE, rtol=CLOSE
    )
    assert ours["bias"] == theirs.json()["bias"] == ""


def test_overlaps(ask, server):
    digits = [pixels(x["image"]).reshape(28, 28) for x in server("digits?page=0").json()]
    for a, b in ((2, 7), (0, 1), (4, 4)):
        both = np.zeros((36, 36))
        both[2:30, 3:31] += digits[a]
        both[6:34, 5:33] += digits[b]
        image = base64.b64encode(
            (255 * both.clip(0, 1)).round().astype(np.uint8).tobytes()
        ).decode()
        theirs = server("overlap", {"image": image}).json()
        assert len(theirs["drawn"]) == 2
        assert_alike(ask("overlap", {"image": image}), theirs)


@pytest.mark.long
def test_the_large_networks(browser, giving_out, tmp_path):
    page = write_page(tmp_path / "page", "capsnet_mnist")  # and capsnet_multimnist for pairs
    server = TestClient(create_app("capsnet_mnist"), base_url="http://127.0.0.1")
    digits = [x["image"] for x in server.get("/api/samples?page=2").json()]
    grey = np.zeros((36, 36))
    for corner, digit in ((2, digits[3]), (6, digits[8])):
        grey[corner : corner + 28, corner : corner + 28] += 255 * pixels(digit).reshape(28, 28)
    pair = base64.b64encode(grey.clip(0, 255).round().astype(np.uint8).tobytes()).decode()
    with asking(browser, giving_out, page.out) as ask:
        for path, image in (("overlap", pair), *(("analyse", digit) for digit in digits)):
            theirs = server.post(f"/api/{path}", json={"image": image}).json()
            assert_alike(ask(path, {"image": image}), theirs)


def test_drawings(ask, server, seven):
    v = server("analyse", {"image": seven}).json()["v"][7]
    one, other = {"which": 7, "v": v}, {"which": 2, "v": [0.3, -0.1] * 8}
    body = {"pictures": [[one], [one, other], [other], [{"which": 0, "v": [0.0] * 16}]]}
    theirs = np.frombuffer(server("decode", body).content, np.uint8)
    np.testing.assert_allclose(pixels(ask("decode", body)["bytes"]), theirs / 255, atol=LEVEL)


@pytest.mark.parametrize("how", BENDS, ids=lambda how: " ".join(how) or "none")
def test_bent_pictures(ask, server, seven, how):
    body = {"image": seven, "warp": how}
    usual = {"rotate": 0, "scale": 1, "shear": 0, "right": 0, "down": 0, "thicken": 0}
    full = {"image": seven, "warp": {**usual, "pieces": 1, "seed": 0, **how}}
    ours, theirs = ask("warp", full), server("warp", body).json()
    assert_alike(ours["analysis"], theirs["analysis"])
    np.testing.assert_allclose(ours["cnn"], theirs["cnn"], atol=CLOSE)
    for over in ("rotate", "thicken"):
        ours, theirs = ask("sweep", {**full, "over": over}), server("sweep", {**body, "over": over})
        theirs = theirs.json()
        assert ours["values"] == theirs["values"]
        for name in ("capsnet", "cnn"):
            np.testing.assert_allclose(ours[name], theirs[name], atol=CLOSE, rtol=CLOSE)


def test_films(ask, server):
    pictures = [[{"which": 1, "v": [x] * 16}] for x in (0.0, 0.3, 0.6)]
    films = [
        base64.b64decode(ask("animation", {"pictures": pictures})["bytes"]),
        server("animation", {"pictures": pictures}).content,
    ]
    frames = []
    for film in films:
        with Image.open(io.BytesIO(film)) as file:
            assert (file.format, file.n_frames, file.info["duration"]) == ("GIF", 3, 60)
            assert file.info["loop"] == 0
            frames.append([])
            for n in range(3):
                file.seek(n)
                frames[-1].append(np.asarray(file.convert("L"), dtype=float))
    # Pillow may take fewer grey levels than there are; ours has all.
    assert np.abs(np.array(frames[0]) - np.array(frames[1])).max() <= 4


CLASSES = ("owl", "cat", "emu")
WORDS = """async ([net, answers, error]) => {
  const { told } = await import(new URL("static/browser/words.js", document.baseURI));
  return told(net, answers, error, false);
}"""


@pytest.mark.parametrize(
    "rule", [None, Calibration(), Calibration(1.7), Calibration(0.6, (0.3, 0.8, 0.55))], ids=str
)
@pytest.mark.parametrize(
    "task", [OneLabel(CLASSES), SeveralLabels(CLASSES), Pairs(CLASSES)], ids=str
)
def test_words(ask, task, rule):
    model = create_model("capsnet_small", num_classes=3, decoder=())
    model.set_task(task)
    net = {"task": {"kind": task.kind, "names": CLASSES}, "usual_error": 0.2}
    net["calibration"] = None if rule is None else rule.to_json()
    draw = np.random.default_rng(3)
    for error in (0.1, 0.4, 0.9):
        answers = draw.random(3).astype(np.float32)
        shown, said = decided(task, rule, torch.from_numpy(answers[None]))
        sure = (said[0], shown[0]) if rule is not None and rule.is_known else None
        theirs = doubts(model, answers.tolist(), error, Reference(0.2), (), sure)
        ours = ask.page.evaluate(WORDS, [net, answers.tolist(), error])
        assert (ours["said"], ours["doubts"]) == (said[0], list(theirs))


def png(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("seed", range(6))
def test_photos(ask, server, seed):
    photo = png(make_photo(seed, light_on_dark=seed % 2 == 1).picture)
    theirs = pixels(server("picture?", file=photo).json()["image"])
    ours = pixels(ask("picture?", file=photo)["image"])
    assert theirs.max() == 1
    np.testing.assert_allclose(ours, theirs, atol=2.01 / 255)


def test_a_blank_page_and_a_clean_digit_stay_so(ask, server, seven):
    digit = Image.fromarray((255 * pixels(seven)).round().astype(np.uint8).reshape(28, 28))
    clear = Image.new("RGBA", (64, 64))
    ImageDraw.Draw(clear).line([(20, 10), (40, 50)], fill=(0, 0, 0, 255), width=5)
    for image in (Image.new("L", (300, 200), 230), digit, ImageOps.invert(digit), clear):
        theirs = pixels(server("picture?", file=png(image)).json()["image"])
        ours = pixels(ask("picture?", file=png(image))["image"])
        np.testing.assert_allclose(ours, theirs, atol=LEVEL)


@pytest.mark.parametrize("how", ["centre=true", "as_is=true"])
def test_pictures(ask, server, how):
    draw = np.random.default_rng(1)
    for size in ((280, 280), (90, 41), (33, 200)):
        image = Image.new("RGB", size)
        ends = [(int(x * size[0]), int(y * size[1])) for x, y in draw.random((5, 2))]
        ImageDraw.Draw(image).line(ends, fill=(250, 240, 200), width=max(size) // 14)
        theirs = server(f"picture?{how}", file=png(image)).json()["image"]
        ours = ask(f"picture?{how}", file=png(image))["image"]
        np.testing.assert_allclose(pixels(ours), pixels(theirs), atol=LEVEL)
