"""Film the explorer for the front page: Tweak bends a digit, Route lets the votes agree.

python docs/explorer/film.py [--weights …] [--out docs/explorer/film.webp]

A real mouse on the real page; the browser gives each picture with the time it was shown at. The
times of a scene are stretched to the seconds it should take, however busy the machine was.
"""

import argparse
import base64
import io
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page
from stage import browsing, opened, served

WINDOW = (1280, 720)
SIZE = (800, 450)
LEAST = 80  # milliseconds that a picture stands at least
LARGEST = 1_200_000  # bytes
POINTER = """() => {
  const dot = document.createElement("div");
  dot.style.cssText = `position: fixed; width: 22px; height: 22px; margin: -11px; z-index: 99;
    border: 3px solid #d55e00; border-radius: 50%; background: #d55e0055; pointer-events: none`;
  document.body.append(dot);
  addEventListener("mousemove", ({ clientX, clientY }) =>
    Object.assign(dot.style, { left: `${clientX}px`, top: `${clientY}px` }), true);
}"""


class Film:
    """Pictures of a page with the seconds they were shown at."""

    def __init__(self, page: Page) -> None:
        self.page, self.shown = page, list[tuple[float, bytes]]()
        self.camera = page.context.new_cdp_session(page)
        self.camera.on("Page.screencastFrame", self._take)

    def _take(self, frame: dict) -> None:
        self.shown.append((frame["metadata"]["timestamp"], base64.b64decode(frame["data"])))
        self.camera.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    def scene(self, act: Callable[[Page], None], seconds: float) -> list[tuple[Image.Image, int]]:
        """Return the pictures of what `act` does, each with its milliseconds."""
        self.shown.clear()
        self.camera.send("Page.startScreencast", {"format": "png"})
        act(self.page)
        self.camera.remove_listener("Page.screencastFrame", self._take)
        self.camera.send("Page.stopScreencast")
        times = [when for when, _ in self.shown]
        pace = 1000 * seconds / (times[-1] - times[0])
        cut, since = [], times[0]
        for (_, png), (end, _) in pairwise(self.shown):
            if pace * (end - since) >= LEAST:  # of those that came too fast the last is kept
                picture = Image.open(io.BytesIO(png)).convert("RGB")
                small = picture.resize(SIZE, Image.Resampling.LANCZOS)
                cut.append((small, round(pace * (end - since))))
                since = end
        return cut


def bend(page: Page) -> None:
    """Drag two sliders of Tweak to one end, to the other and back; the drawing stays in sight."""
    for n in range(2):
        slider = page.locator("#panel input[type=range]:visible").nth(n)
        drag(page, slider, (0.5, 0.95, 0.05, 0.5))


def drag(page: Page, slider: Locator, places: tuple[float, ...], steps: int = 12) -> None:
    """Move a slider from place to place, each a part of its width."""
    box = slider.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + places[0] * box["width"], y)
    page.mouse.down()
    for start, end in pairwise(places):
        for k in range(1, steps + 1):
            part = start + (end - start) * k / steps
            page.mouse.move(box["x"] + part * box["width"], y)
            page.wait_for_timeout(40)
    page.mouse.up()
    page.wait_for_timeout(200)


def play(page: Page) -> None:
    """Play the routing from its first iteration to the last."""
    button = page.get_by_role("button", name="Play")
    page.wait_for_timeout(300)
    button.click()
    page.get_by_role("button", name="Pause").wait_for()
    button.wait_for()  # it says Play again at the end
    page.wait_for_timeout(800)


def film(address: str) -> list[tuple[Image.Image, int]]:
    """Return both scenes."""
    scenes = (("sample=2", bend, 6), ("mode=route&sample=2", play, 5))
    frames = []
    with browsing() as browser:
        for state, act, seconds in scenes:
            page = opened(browser, address, state, WINDOW)
            page.evaluate(POINTER)
            frames += Film(page).scene(act, seconds)
            page.context.close()
    return frames


def save(frames: list[tuple[Image.Image, int]], path: Path) -> None:
    """Write an endless WebP of at most LARGEST bytes, as fine as that allows."""
    pictures, times = zip(*frames, strict=True)
    for quality in (70, 60, 50, 40, 30):
        first, *rest = pictures
        first.save(
            path,
            save_all=True,
            append_images=rest,
            duration=times,
            loop=0,
            quality=quality,
            method=4,
        )
        if path.stat().st_size <= LARGEST:
            break
    seconds, size = sum(times) / 1000, path.stat().st_size / 1e6
    print(f"{path}: {len(pictures)} pictures, {seconds:.1f} s, {size:.2f} MB, quality {quality}")


def main() -> None:
    """Serve the given weights, or those of the small network, and film the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", default="capsnet_small")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "film.webp")
    args = parser.parse_args()
    with served(args.weights) as address:
        save(film(address), args.out)


if __name__ == "__main__":
    main()
