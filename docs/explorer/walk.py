"""Walk through the explorer as a stranger would, and take the pictures of docs/explorer/walk.md.

python docs/explorer/walk.py
"""

from pathlib import Path

from playwright.sync_api import Page
from screenshots import save
from stage import at_rest, browsing, opened, served

FOLDER = Path(__file__).parent / "walk"
SIZE = (1280, 720)


def main() -> None:
    """Serve the shipped networks to a first visitor and follow the steps."""
    FOLDER.mkdir(exist_ok=True)
    with served("capsnet_small") as address, browsing() as browser:
        page = opened(browser, address, "", SIZE, first_visit=True)
        take(page, "open")
        drag_the_first(page)
        take(page, "drag")
        page.get_by_role("tab", name="Route").click()
        at_rest(page)
        page.get_by_role("button", name="Play").click()
        page.get_by_role("button", name="Pause").wait_for()
        page.get_by_role("button", name="Play").wait_for()
        take(page, "route")
        page.locator("#primary").hover(position={"x": 90, "y": 90})
        take(page, "part")
        page.get_by_label("Iterations of the routing").select_option("1")
        page.mouse.move(5, 400)
        take(page, "off")
        page.get_by_role("button", name="How does it work?").click()
        take(page, "article")


def take(page: Page, name: str) -> None:
    """Photograph what the visitor sees now."""
    at_rest(page)
    save(page.screenshot(), FOLDER / f"{name}.webp")


def drag_the_first(page: Page) -> None:
    """Drag the slider of the dimension that changes most from the middle to the right."""
    slider = page.locator("#panel input[type=range]:visible").first
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], y, steps=10)
    page.mouse.up()


if __name__ == "__main__":
    main()
