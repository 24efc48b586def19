"""Small trained networks, the explorer on a free port, and a browser."""

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient
from screen import COUNT_WAITS

from capsnet.training.config import TrainConfig
from capsnet.training.loop import train
from capsnet.web.page import write_page
from capsnet.web.server import configured, create_app, listen

SMALL = ("conv_channels=16", "primary_types=8", "decoder=(64,)")
CHROMIUM_ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def runs(once) -> dict[str, str]:
    """The folders of a CapsNet, a CapsNet for overlaps and a CNN that know most digits."""
    settings = {"batch_size": 25, "lr": 3e-3, "schedule": "linear", "warmup_steps": 20}
    plans = {
        "capsnet": ("capsnet_small", "digits", SMALL, {"num_samples": 2500, "epochs": 4}),
        "overlap": ("capsnet_small", "multidigits", SMALL, {"num_samples": 2500, "epochs": 4}),
        "cnn": ("cnn_small", "digits", ("channels=8",), {"num_samples": 2500, "epochs": 2}),
        "plain": (
            "capsnet_small",
            "digits",
            (*SMALL[:2], "decoder=()"),
            {"num_samples": 50, "epochs": 1},
        ),
    }

    def make(name):
        model, data, options, size = plans[name]
        choice = {"model": model, "data": data, "options": options, **settings, **size}
        return once(f"web-{name}", lambda out: train(TrainConfig(**choice, out=out, device="cpu")))

    # The second of two processes begins at the other end, so that they share the work.
    names = sorted(plans, reverse=os.environ.get("PYTEST_XDIST_WORKER") == "gw1")
    return {name: str(make(name)) for name in names}


@pytest.fixture(scope="session")
def app(runs):
    return create_app(runs["capsnet"], runs["overlap"], runs["cnn"])


@pytest.fixture(scope="session")
def client(app) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1")


@pytest.fixture(scope="session")
def seven(client) -> str:
    """A test image of a seven, as the API packs it."""
    return client.get("/api/samples").json()[7]["image"]


@pytest.fixture(scope="session")
def built(runs, once) -> Path:
    """The folder of the same networks as a page without a server."""
    names = (runs["capsnet"], runs["overlap"], runs["cnn"])
    return once("web-page", lambda out: write_page(out / "page", *names)) / "page"


@pytest.fixture(scope="session")
def address(request) -> Iterator[str]:
    """Where the explorer is for the browser: served, or with @both also a folder of files."""
    if getattr(request, "param", "served") == "static":
        with given_out(request.getfixturevalue("built")) as where:
            yield where
    else:
        with served(request.getfixturevalue("app")) as where:
            yield where


class served:
    """Serve an app on a free port of loopback: with served(app) as address."""

    def __init__(self, app) -> None:
        self.socket = listen("127.0.0.1", 0)
        self.server = uvicorn.Server(configured(app))
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.02)
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def __exit__(self, *problem) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


@contextmanager
def given_out(folder: Path) -> Iterator[str]:
    """Give out the files of a folder, as any host of files does."""

    class Silent(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def giving_out():
    """Give out a folder for a while: with giving_out(folder) as address."""
    return given_out


@pytest.fixture(scope="session")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        reason = "NO BROWSER TEST WAS RUN: install Chromium ('apt-get install chromium' on Debian)."
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(CHROMIUM_ARGS))
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, address):
    """Open the page at what its address says: visit("mode=route"); fails on any console error."""
    contexts, problems = [], []

    def open_page(state="", width=1600, theme="light", where=address, toured=True, touch=False):
        context = browser.new_context(
            viewport={"width": width, "height": 1000},
            color_scheme=theme,
            accept_downloads=True,
            has_touch=touch,
            service_workers="block",
        )
        context.set_default_timeout(60_000)  # a busy machine is no failure
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: r.url.startswith((where, "blob:")) or problems.append(r.url))
        page.add_init_script(COUNT_WAITS)
        if toured:
            page.add_init_script("localStorage.setItem('capsnet:toured', 'yes')")
        page.goto(f"{where}/#{state}")
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture(scope="session")
def picture(tmp_path_factory) -> Path:
    """A photograph-like file: a dark zero on white paper."""
    from PIL import Image, ImageDraw

    path = tmp_path_factory.mktemp("pictures") / "zero.png"
    image = Image.new("RGB", (300, 200), "white")
    ImageDraw.Draw(image).ellipse((100, 30, 190, 170), outline="black", width=16)
    image.save(path)
    return path


@pytest.fixture(scope="session")
def colour_run(tmp_path_factory) -> str:
    """The folder of a run on somebody's own pictures: colour, 20×20, two classes."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("colour")
    for name, colour in (("red", (200, 30, 30)), ("blue", (20, 40, 220))):
        (folder / "data" / name).mkdir(parents=True)
        for n in range(4):
            image = Image.new("RGB", (20, 20))
            image.paste(colour, (n, n, n + 10, n + 10))
            image.save(folder / "data" / name / f"{n}.png")
    config = TrainConfig(
        model="capsnet_small",
        data=str(folder / "data"),
        options=("conv_channels=4", "primary_types=2", "decoder=(8,)"),
        epochs=1,
        out=folder / "run",
        device="cpu",
    )
    train(config)
    return str(folder / "run")


@pytest.fixture(scope="session")
def serving():
    """Serve an app for a while: with serving(app) as address."""
    return served


@pytest.fixture
def read(browser):
    """Open a page of the disk; fails on a console message, a dialog, or any request."""
    contexts, problems = [], []

    def open_page(path, width, theme):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message) or dialog.dismiss())
        page.on("request", lambda r: r.url.startswith(("file:", "data:")) or problems.append(r.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
