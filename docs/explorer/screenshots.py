"""Take the explorer's screenshots anew: every mode, both widths, both themes.

python docs/explorer/screenshots.py [--weights …] [--overlap-weights …] [--cnn-weights …]
"""

import argparse
import io
import shutil
import socket
import threading
import time
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from capsnet.web.server import create_app

STATES = {
    "tweak": "sample=2&which=2&tweak=0,0,0,0,0,0,-0.1",
    "route": "mode=route&sample=2&net=1",
    "overlap": "mode=overlap",
    "warp": "mode=warp&sample=2&warp=20,1,0,0,0,0,1,0",
    "morph": "mode=morph&sample=3&to=8",
}
ARGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
WIDTHS = {"wide": 1600, "phone": 360}


def main() -> None:
    """Serve the given weights, or the shipped ones, and photograph the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("weights", "overlap-weights", "cnn-weights"):
        parser.add_argument(f"--{name}")
    args = parser.parse_args()
    app = create_app(args.weights, args.overlap_weights, args.cnn_weights)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    threading.Thread(target=server.run, args=([listener],), daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    photograph(f"http://127.0.0.1:{listener.getsockname()[1]}", Path(__file__).parent)
    server.should_exit = True


def photograph(address: str, folder: Path) -> None:
    """Write MODE-WIDTH-THEME.png for all of them."""
    with sync_playwright() as driver:
        chromium = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=list(ARGS))
        for theme in ("light", "dark"):
            for width, pixels in WIDTHS.items():
                size = {"width": pixels, "height": 900}
                context = browser.new_context(viewport=size, color_scheme=theme)
                context.add_init_script("localStorage.setItem('capsnet:toured', 'yes')")
                for mode, state in STATES.items():
                    page = context.new_page()
                    page.goto(f"{address}/#{state}")
                    page.wait_for_selector("body[data-ready]")
                    page.wait_for_timeout(1200)
                    save(page.screenshot(full_page=True), folder / f"{mode}-{width}-{theme}.png")
                    page.close()
        browser.close()


def save(png: bytes, path: Path) -> None:
    """Write a screenshot with 256 colours, which is small and looks the same."""
    with Image.open(io.BytesIO(png)) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
