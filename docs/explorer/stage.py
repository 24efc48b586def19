"""The explorer on a stage: served, opened in a real browser, and left alone until nothing moves.

with served("capsnet_small") as address, browsing() as browser:
    page = opened(browser, address, "mode=route", (1280, 720))
"""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from capsnet.web.server import create_app

ARGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
TRIES = 40


@contextmanager
def served(
    weights: str | None = None, overlap: str | None = None, cnn: str | None = None
) -> Iterator[str]:
    """Serve these weights, or the shipped ones, and give the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(weights, overlap, cnn)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    threading.Thread(target=server.run, args=([listener],), daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True


@contextmanager
def browsing() -> Iterator[Browser]:
    """Give Debian's Chromium."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGS))
        yield browser
        browser.close()


def opened(
    browser: Browser,
    address: str,
    state: str,
    size: tuple[int, int],
    theme: str = "light",
    first_visit: bool = False,
) -> Page:
    """Return a page of its own context, at rest; `page.context.close()` ends it."""
    window = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=window, color_scheme=theme)
    if not first_visit:
        context.add_init_script("localStorage.setItem('capsnet:toured', 'yes')")
    page = context.new_page()
    page.goto(f"{address}/#{state}")
    page.wait_for_selector("body[data-ready]")
    page.wait_for_load_state("networkidle")
    at_rest(page)
    return page


def at_rest(page: Page) -> None:
    """Wait until two pictures of the page, a moment apart, are the same."""
    before = None
    for _ in range(TRIES):
        if before == (now := page.screenshot()):
            return
        before = now
        page.wait_for_timeout(250)
