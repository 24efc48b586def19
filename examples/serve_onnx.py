"""Serve an exported network over http, without this package: POST a picture, get its classes.

capsnet export --weights capsnet_mnist --format onnx
pip install onnxruntime numpy pillow; python examples/serve_onnx.py capsnet_mnist.onnx 8000
curl --data-binary @seven.png http://127.0.0.1:8000
"""

import io
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
from onnxruntime import InferenceSession
from PIL import Image, ImageOps

SESSION = InferenceSession(sys.argv[1])
FACTS = json.loads(SESSION.get_modelmeta().custom_metadata_map["capsnet"])
RULES = FACTS["picture"]  # how a picture becomes an image; RULES["in_words"] says it to people
FITS: Any = {"pad": ImageOps.pad, "crop": ImageOps.fit, "stretch": Image.Image.resize}


class Server(BaseHTTPRequestHandler):
    """Answers a picture in the body of a request with a JSON object: a number for each name."""

    def do_POST(self) -> None:
        """Read the picture by the rules in the file, run the network, and say what it says."""
        body = io.BytesIO(self.rfile.read(int(self.headers["Content-Length"])))
        picture = ImageOps.exif_transpose(Image.open(body))
        if RULES["ink"] and np.mean(picture.convert("L")) > 127:  # dark ink on white paper
            picture = ImageOps.invert(picture.convert("L"))
        picture = picture.convert("F" if RULES["channels"] == 1 else "RGB")  # F keeps 16 bits
        picture = FITS[RULES["fit"]](picture, tuple(RULES["size"]), Image.Resampling.BILINEAR)
        levels = np.atleast_3d(np.asarray(picture, np.float32)).transpose(2, 0, 1)
        images = (levels - RULES["black"]) / (RULES["white"] - RULES["black"])
        (answers,) = SESSION.run([FACTS["answer"]], {"images": images[None].clip(0, 1)})
        named = dict(zip(FACTS["task"]["names"], answers[0].tolist(), strict=True))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(named).encode())


server = HTTPServer(("127.0.0.1", int(sys.argv[2])), Server)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
