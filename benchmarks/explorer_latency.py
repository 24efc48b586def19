"""How long a visitor of the explorer waits, in a real browser, and with fifty visitors at once.

python benchmarks/explorer_latency.py [--weights runs/mine]
python benchmarks/explorer_latency.py --static [--weights capsnet_small]

Without --weights a paper-sized CapsNet with random weights is served: the speed is the same. With
--static the page is a folder of files, by default of capsnet_small, and instead of the fifty there
is one visitor with a slow processor and a slow connection. The result is printed and appended as
one JSON line to results/explorer.jsonl.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2
import torch
from playwright.sync_api import Page, sync_playwright

from capsnet import create_model
from capsnet.files import append_line
from capsnet.lines import sealed
from capsnet.models.weights import save_weights
from capsnet.provenance import git_commit
from capsnet.web.page import write_page

VISITORS, SECONDS, MOVES, STROKES = 50, 10, 100, 20
ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
SERVE = (
    "from capsnet.web.server import serve; import sys; serve(sys.argv[1], port=int(sys.argv[2]))"
)

# Resolves with the milliseconds from an action in the page to new pixels on a canvas, and to the
# end of all drawing that came with them.
TIME_TO_PIXELS = """() => new Promise((done) => {
  const paint = CanvasRenderingContext2D.prototype.putImageData;
  const target = document.querySelector("%s");
  let start;
  CanvasRenderingContext2D.prototype.putImageData = function (...args) {
    paint.apply(this, args);
    if (this.canvas !== target) return;
    CanvasRenderingContext2D.prototype.putImageData = paint;
    queueMicrotask(() => done(performance.now() - start));
  };
  start = performance.now();
  %s
})"""
MOVE_SLIDER = """
  const slider = document.querySelectorAll(".film input")[%d];
  slider.value = %.2f;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
"""
DRAW_DOT = """
  target.setPointerCapture = () => {};
  const box = target.getBoundingClientRect();
  for (const name of ["pointerdown", "pointerup"]) {
    const place = { clientX: box.left + box.width * %.2f, clientY: box.top + box.height / 2 };
    target.dispatchEvent(new PointerEvent(name, { pointerId: 1, bubbles: true, ...place }));
  }
"""
# When the drawing of the first capsule is on the screen, from the moment the address was entered.
FIRST_PICTURE = """(() => {
  const paint = CanvasRenderingContext2D.prototype.putImageData;
  CanvasRenderingContext2D.prototype.putImageData = function (...args) {
    paint.apply(this, args);
    if (this.canvas.id === "reconstruction") window.pictureAt ??= performance.now();
  };
})()"""
VISITOR = {"viewport": {"width": 1600, "height": 1000}, "ignore_https_errors": True}
SLOW_CPU = 4  # times slower
# Bytes a second and milliseconds of a request: “Fast 3G” as its makers give it (1.6 Mbit/s, 150 ms
# there and back), and as Chrome's developer tools emulate it, which delay every request by more.
CONNECTIONS = {"fast_3g": (200_000, 150), "devtools_fast_3g": (180_000, 562.5)}
VISITS = 15
READY = """new MutationObserver((changes, observer) => {
  if (!document.body?.dataset.ready) return;
  window.readyAt = performance.now();
  observer.disconnect();
}).observe(document, { subtree: true, childList: true, attributes: true })"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", help="run, file or name; by default random weights")
    parser.add_argument("--static", action="store_true", help="the page as files, no server")
    parser.add_argument("--out", type=Path, default=Path("results/explorer.jsonl"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.static:
            name = args.weights or "capsnet_small"
            page = write_page(Path(folder) / "page", name)
            with host(page.out) as address:
                result = {**in_browser(address), **slow_visitor(address)}
            result |= {"first_bytes": page.first_bytes, "small_bytes": page.small_bytes}
        else:
            name = args.weights or "capsnet_mnist, random"
            with server(args.weights or random_weights(Path(folder))) as address:
                result = {**in_browser(address), **asyncio.run(fifty_visitors(address))}
    line = {
        "benchmark": "explorer_latency_static" if args.static else "explorer_latency",
        "weights": name,
        **{name: round(value, 1) for name, value in result.items()},
        "commit": git_commit(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "machine": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    append_line(args.out, sealed(line))
    print(json.dumps(line, indent=2))


def random_weights(folder: Path) -> str:
    card = {
        "config": {"data": "digits", "data_folder": None, "seed": 0},
        "classes": [str(digit) for digit in range(10)],
    }
    path = folder / "weights.safetensors"
    save_weights(create_model("capsnet_mnist"), path, card)
    return str(path)


@contextmanager
def server(weights: str):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", SERVE, weights, str(port)])
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                httpx2.get(f"{address}/api/info")
                break
            except httpx2.TransportError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


@contextmanager
def host(folder: Path):
    """Give out files as hosts of files do, by HTTP/2 and compressed; needs node and openssl."""
    key, certificate = folder.with_name("key.pem"), folder.with_name("certificate.pem")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    made += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    words = [
        "node",
        str(Path(__file__).with_name("host.mjs")),
        *map(str, (folder, key, certificate)),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"https://localhost:{int(process.stdout.readline())}"
        process.terminate()


def slow_visitor(address: str) -> dict[str, float]:
    """Milliseconds to the first picture with an empty cache: here, and slowed down."""
    found = {}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
        for name, connection in {"here": None, **CONNECTIONS}.items():
            waits = []
            for _ in range(VISITS):
                context = browser.new_context(**VISITOR)
                page = context.new_page()
                page.add_init_script(FIRST_PICTURE)
                if connection is not None:
                    throttle(page, *connection)
                page.goto(address)
                page.wait_for_function("() => window.pictureAt")
                waits.append(page.evaluate("window.pictureAt"))
                context.close()
            found[f"first_picture_{name}_ms"] = statistics.median(waits)
        browser.close()
    return found


def throttle(page: Page, bytes_per_s: int, latency_ms: float) -> None:
    """Make the processor and the connection of a page slower."""
    tools = page.context.new_cdp_session(page)
    tools.send("Emulation.setCPUThrottlingRate", {"rate": SLOW_CPU})
    tools.send("Network.enable")
    conditions = {"offline": False, "latency": latency_ms, "downloadThroughput": bytes_per_s}
    conditions["uploadThroughput"] = bytes_per_s / 2
    tools.send("Network.emulateNetworkConditions", conditions)


def in_browser(address: str) -> dict[str, float]:
    """Milliseconds from the address to the first analysis, from a move and a stroke to pixels."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS)
        page = browser.new_page(**VISITOR)
        page.add_init_script(READY)
        paints = []
        for _ in range(6):
            page.goto("about:blank")
            page.goto(address)
            page.wait_for_selector("body[data-ready]")
            paints.append(page.evaluate("window.readyAt"))
        page.wait_for_timeout(1000)
        # Back to back, as while dragging: pauses would hide a connection that delays answers.
        moves = measure(
            page,
            "#reconstruction",
            # To another value each time: a value that a slider has already draws nothing.
            [MOVE_SLIDER % (n % 16, 0.1 * (-1) ** (n // 16)) for n in range(MOVES)],
        )
        strokes = []
        for n in range(STROKES):
            page.wait_for_timeout(100)
            strokes += measure(page, "#input", [DRAW_DOT % (0.2 + 0.03 * n)])
        browser.close()
    return {
        "first_paint_ms": statistics.median(paints[1:]),
        "slider_median_ms": statistics.median(moves),
        "slider_p95_ms": p95(moves),
        "drawing_median_ms": statistics.median(strokes),
        "drawing_p95_ms": p95(strokes),
    }


def measure(page: Page, canvas: str, acts: list[str]) -> list[float]:
    """Milliseconds from each act to its pixels; the next follows at once."""
    steps = [f"waits.push(await ({TIME_TO_PIXELS % (canvas, act)})());" for act in acts]
    return page.evaluate(f"async () => {{ const waits = []; {' '.join(steps)} return waits; }}")


async def fifty_visitors(address: str) -> dict[str, float]:
    """Every visitor drags a slider: the next request goes out when the answer has come."""
    waits: list[float] = []
    errors = 0
    body = {"pictures": [[{"which": 7, "v": [0.1] * 16}]]}

    async def drag(client: httpx2.AsyncClient) -> None:
        nonlocal errors
        while time.perf_counter() < end:
            start = time.perf_counter()
            answer = await client.post(f"{address}/api/decode", json=body)
            errors += answer.status_code != 200
            waits.append(1000 * (time.perf_counter() - start))

    limits = httpx2.Limits(max_connections=VISITORS)
    async with httpx2.AsyncClient(limits=limits, timeout=30) as client:
        end = time.perf_counter() + SECONDS
        await asyncio.gather(*(drag(client) for _ in range(VISITORS)))
    return {
        "visitors": VISITORS,
        "visitors_requests_per_s": len(waits) / SECONDS,
        "visitors_median_ms": statistics.median(waits),
        "visitors_p95_ms": p95(waits),
        "visitors_errors": errors,
    }


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * (len(values) - 1))]


if __name__ == "__main__":
    main()
