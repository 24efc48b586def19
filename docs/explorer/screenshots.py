"""Take the explorer's screenshots anew: every mode, four widths, both themes.

python docs/explorer/screenshots.py [--weights …] [--overlap-weights …] [--cnn-weights …]
"""

import argparse
import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import FloatRect, Page
from stage import browsing, opened, served

STATES = {
    "tweak": "sample=2&which=2&tweak=0,0,0,0,0,0,-0.1",
    "route": "mode=route&sample=2&net=1",
    "overlap": "mode=overlap",
    "warp": "mode=warp&sample=2&warp=20,1,0,0,0,0,1,0",
    "morph": "mode=morph&sample=3&to=8",
}
SIZES = ((360, 740), (1280, 720), (1600, 900), (2560, 1440))
LARGEST = 1600  # px of a picture that is kept


def main() -> None:
    """Serve the given weights, or the shipped ones, and write MODE-WIDTH-THEME.webp of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("weights", "overlap-weights", "cnn-weights"):
        parser.add_argument(f"--{name}")
    args = parser.parse_args()
    folder = Path(__file__).parent / "screens"
    folder.mkdir(exist_ok=True)
    weights = (args.weights, args.overlap_weights, args.cnn_weights)
    with served(*weights) as address, browsing() as browser:
        for theme in ("light", "dark"):
            for size in SIZES:
                for mode, state in STATES.items():
                    page = opened(browser, address, state, size, theme)
                    path = folder / f"{mode}-{size[0]}-{theme}.webp"
                    save(page.screenshot(full_page=True, clip=seen(page, size)), path)
                    page.context.close()


def seen(page: Page, size: tuple[int, int]) -> FloatRect:
    """What is kept: a screen, or all that a phone scrolls through before the article."""
    width, height = size
    if width == min(SIZES)[0]:
        height = page.eval_on_selector("#article", "all => all.getBoundingClientRect().top")
    return {"x": 0, "y": 0, "width": width, "height": height}


def save(png: bytes, path: Path) -> None:
    """Write a screenshot as a small picture, of a projector scaled down."""
    with Image.open(io.BytesIO(png)) as picture:
        picture.thumbnail((LARGEST, picture.height), Image.Resampling.LANCZOS)
        picture.convert("RGB").save(path, quality=70, method=6)


if __name__ == "__main__":
    main()
