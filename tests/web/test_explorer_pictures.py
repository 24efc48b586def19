"""Picture files that are sent to the explorer: brought to the model's size, or refused."""

import base64
import io
import os
import struct
from zlib import crc32

import numpy as np
import torch
from PIL import Image

from capsnet.web.guard import MAX_BODY


def png(size=(40, 40), colour=255):
    file = io.BytesIO()
    image = Image.new("L", size)
    image.paste(colour, (size[0] // 3, size[1] // 3, size[0] // 2, size[1] * 2 // 3))
    image.save(file, "PNG")
    return file.getvalue()


def header(side):
    """The beginning of a PNG that says how large it is, and has no more."""
    size = struct.pack(">4sII5B", b"IHDR", side, side, 8, 0, 0, 0, 0)
    head = struct.pack(">I", 13) + size + struct.pack(">I", crc32(size))
    return b"\x89PNG\r\n\x1a\n" + head + struct.pack(">I4s", 9, b"IDAT")


def pixels(text):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), np.uint8).copy())


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


def test_bad_pictures_are_refused(client):
    def send(body):
        return client.post("/api/picture", content=body, headers={"content-type": "image/png"})

    bomb = png((5000, 5000))
    for body in (b"", b"hello", png()[:60], bomb, os.urandom(500)):
        answer = send(body)
        assert answer.status_code == 422 and answer.json()["detail"].endswith(".")
    assert "pixels" in send(bomb).json()["detail"]
    assert "too large" in send(header(30_000)).json()["detail"]
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
