"""The explorer as a folder of files that any web server can give out, with no Python behind it.

write_page(Path("build/page"), weights="capsnet_small"); then: python -m http.server -d build/page

The page is the served one; its networks, test images and first answers are files in answers/, and
static/browser/ answers from them instead of a server
(docs/decisions/0014-answers-in-the-browser.md).
"""

import json
import re
import shutil
import tempfile
from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from capsnet.errors import UserError
from capsnet.exporting.browser import browser_program
from capsnet.models import Model
from capsnet.models.reference import Reference
from capsnet.models.weights import save_tensors
from capsnet.prediction.seeing import Look
from capsnet.tasks import Calibration
from capsnet.web.dimensions import Known, measure_dimensions
from capsnet.web.guard import HEADERS
from capsnet.web.look import analyse
from capsnet.web.nets import Net, Nets, load_nets
from capsnet.web.routes import STATIC, describe
from capsnet.web.samples import Samples, digit_samples, open_samples
from capsnet.web.schema import RANGES, pack_floats, unpack_pixels

SMALL_NET = "capsnet_small"  # what a visitor of a page without a server waits for
FIRST_SAMPLE = 7  # the test image that state.js begins with
MAX_PER_CLASS = 100  # test images
KEPT_AT_ONCE = 3_000_000  # bytes of a file that is kept for offline use before it is asked for
FIRST = "answers/first.json"
FINE = 2**13  # tables of the first answer are told to half of 1/FINE, in half the bytes
SERVICE = STATIC / "browser" / "service.js"
BUILD_LINE = re.compile(r"^const BUILD = .*$", re.M)
# Comments that have lines of their own; modules and styles are a sixth smaller without, compressed.
COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)[ \t]*\n", re.M)
IMPORT = re.compile(r'^(?:import|export)\b[^;]*?from "(\.[^"]+)";$', re.M | re.S)


@dataclass(frozen=True)
class Page:
    """A written page: where, of which network, and how many bytes."""

    out: Path
    model: str
    num_bytes: int  # in all
    first_bytes: int  # before the first picture
    small_bytes: int  # without large networks, which come when they are asked for

    def __str__(self) -> str:
        return (
            f"Wrote {self.out}, the page of {self.model}: {self.first_bytes / 1e6:.1f} MB come "
            f"before the first picture, {self.small_bytes / 1e6:.1f} MB with all small files, "
            f"{self.num_bytes / 1e6:.1f} MB with large networks, which come on request.\n"
            f"Give it to any web server, or try it: python -m http.server -d {self.out} 8001, then "
            "http://localhost:8001"
        )


def write_page(
    out: Path,
    weights: str | None = None,
    overlap_weights: str | None = None,
    cnn_weights: str | None = None,
) -> Page:
    """Write the page of trained runs, weights files or names; by default of small ones.

    The folder is there whole or not at all; one that holds another page of ours is replaced.
    """
    if out.exists() and not (out / FIRST).exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} holds something else than a page; give a folder that is new.")
    nets = load_nets(weights or SMALL_NET, overlap_weights, cnn_weights)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".unfinished-") as temporary:
            folder = Path(temporary) / "page"
            _write(folder, nets)
            if out.exists():
                shutil.rmtree(out)
            folder.replace(out)
    except OSError as error:
        raise UserError(
            f"Could not write {out}: {error.strerror or error}; free some space or choose a folder "
            "you can write to."
        ) from error
    return _measure(out, nets)


def _write(folder: Path, nets: Nets) -> None:
    """Write all files of a page."""
    for path in STATIC.rglob("*"):
        if path.suffix not in (".js", ".css", ".svg") or path == SERVICE:
            continue
        target = folder / "static" / path.relative_to(STATIC)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(COMMENT.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "answers").mkdir()
    site = _site(folder, nets)
    (folder / FIRST).write_text(json.dumps(site, separators=(",", ":")), encoding="utf-8")
    (folder / "index.html").write_text(_page(folder), encoding="utf-8")
    service = _service(folder, site["nets"]["capsnet"]["path"])
    (folder / "service.js").write_text(service, encoding="utf-8")


def _site(folder: Path, nets: Nets) -> dict[str, Any]:
    """Write networks and test images; return what the browser must know to answer from them."""
    main, pairs = nets.capsnet, nets.overlap
    samples = open_samples(main)
    look = Look.of(main.model, main.card)
    known = measure_dimensions(main, samples)
    return {
        "first": _first_answers(nets, samples, known),
        "nets": {
            "capsnet": _net_file(folder, main, known.poses.model_dump()),
            "others": [_net_file(folder, net) for net in nets.others],
            "overlap": _net_file(folder, pairs),
            "cnn": None if nets.cnn is None else _model_file(folder, nets.cnn),
        },
        "samples": None if samples is None else _shelf(folder, samples),
        "digits": _shelf(folder, digit_samples()),
        "bends": {name: slider.model_dump() for name, slider in RANGES.items()},
        "reading": {
            "size": look.reading.size,
            "channels": look.reading.channels,
            "fit": look.reading.fit,
            "ink": look.ink,
            "share": look.share,
        },
    }


def _first_answers(nets: Nets, samples: Samples | None, known: Known) -> list[dict[str, Any]]:
    """Return the answers to what a visitor's page asks first: no network is loaded for them."""
    main = nets.capsnet
    info = describe(nets, samples is not None, num_mistakes=0)
    answers: list[dict[str, Any]] = [
        {"path": "info", "answer": info.model_dump()},
        {"path": "dimensions", "answer": known.dimensions.model_dump()},
    ]
    if samples is None:
        return answers
    number = FIRST_SAMPLE // len(main.classes)
    page = samples.page(number)
    chosen = next((one for one in page if one.number == FIRST_SAMPLE), page[0])
    pixels = unpack_pixels(chosen.image, main.model.image_shape)
    analysis = analyse(main, pixels, num_drawn=1).model_dump()
    analysis |= {name: _rounded(analysis[name]) for name in ("u", "votes", "b", "c")}
    answers.append({"path": f"samples?page={number}", "answer": [x.model_dump() for x in page]})
    answers.append({"path": "analyse", "body": {"image": chosen.image}, "answer": analysis})
    return answers


def _rounded(text: str) -> str:
    """Return a packed table, rounded so that it compresses well."""
    table = torch.frombuffer(bytearray(b64decode(text)), dtype=torch.float32) if text else None
    return text if table is None else pack_floats((table * FINE).round() / FINE)


def _net_file(folder: Path, net: Net, poses: dict[str, str] | None = None) -> dict[str, Any]:
    return _model_file(folder, net.model, net.card.calibration, net.reference, poses)


def _model_file(
    folder: Path,
    model: Model,
    calibration: Calibration | None = None,
    reference: Reference | None = None,
    poses: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Write a network as the page runs it; return its file."""
    program = browser_program(model)
    record = {
        "steps": program.steps,
        "drawing": program.drawing,
        "image_shape": model.image_shape,
        "task": {"kind": model.task.kind, "names": model.task.names},
        "calibration": None if calibration is None else calibration.to_json(),
        "usual_error": None if reference is None else reference.drawing_error,
        "poses": poses,
    }
    written = folder / "answers" / "net.safetensors"
    save_tensors(written, program.tables, record)
    return _named(folder, written, model.name)


def _shelf(folder: Path, samples: Samples) -> dict[str, Any]:
    """Write test images, class after class; return their file, their number and their labels."""
    groups = [rows[:MAX_PER_CLASS] for rows in samples.groups]
    order = torch.tensor([row for rows in groups for row in rows])
    written = folder / "answers" / "images.bin"
    written.write_bytes(samples.images[order].numpy().tobytes())
    said = [[samples.sample(0, 0, row).said for row in rows] for rows in groups]
    return {
        "file": _named(folder, written, "the test images"),
        "image_shape": list(samples.images.shape[1:]),
        "counts": [len(rows) for rows in groups],
        "said": [[names[0]] if len(set(names)) == 1 else names for names in said],
    }


def _named(folder: Path, written: Path, name: str) -> dict[str, Any]:
    """Name a file after its content, so that no browser keeps an old one; return its facts."""
    content = written.read_bytes()
    path = written.with_stem(f"{written.stem}-{sha256(content).hexdigest()[:12]}")
    written.replace(path)
    return {"path": path.relative_to(folder).as_posix(), "name": name, "bytes": len(content)}


def _page(folder: Path) -> str:
    """Return index.html with a strict policy, who answers, and all that is loaded at once."""
    policy = HEADERS["Content-Security-Policy"].partition("; frame-ancestors")[0]
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{policy}" />',
        '<meta name="answers" content="browser" />',
        f'<link rel="preload" href="{FIRST}" as="fetch" crossorigin="anonymous" />',
        *(f'<link rel="modulepreload" href="{path}" />' for path in modules(folder)),
    ]
    start = '<meta charset="utf-8" />'
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    return html.replace(start, "\n    ".join([start, *head]))


def modules(folder: Path, start: str = "static/app.js") -> list[str]:
    """Return the modules that a module asks for, and those that these ask for, and itself."""
    found, waiting = [start], [start]
    while waiting:
        path = folder / waiting.pop(0)
        for name in IMPORT.findall(path.read_text(encoding="utf-8")):
            other = (path.parent / name).resolve().relative_to(folder.resolve()).as_posix()
            if other not in found:
                found.append(other)
                waiting.append(other)
    return found


def _service(folder: Path, needed: str) -> str:
    """Return the service worker, with a line that names the version and all small files.

    needed: one that is kept at once though it may be large, since the page has loaded it anyway.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    digest = sha256()
    for path in paths:
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        digest.update(sha256(path.read_bytes()).digest())
    kept = [x for x in paths if x.stat().st_size <= KEPT_AT_ONCE or x == folder / needed]
    names = [path.relative_to(folder).as_posix().replace("index.html", "") for path in kept]
    build = json.dumps({"version": digest.hexdigest()[:16], "files": names})
    return BUILD_LINE.sub(lambda _: f"const BUILD = {build};", SERVICE.read_text(encoding="utf-8"))


def _measure(out: Path, nets: Nets) -> Page:
    sizes = {path: path.stat().st_size for path in out.rglob("*") if path.is_file()}
    first = [out / name for name in ("index.html", FIRST, *modules(out))]
    first += out.glob("static/*.css")
    return Page(
        out,
        nets.capsnet.model.name,
        sum(sizes.values()),
        sum(sizes[path] for path in first),
        sum(size for size in sizes.values() if size <= KEPT_AT_ONCE),
    )
