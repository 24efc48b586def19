"""The page as a folder of files: what is in it, what it waits for, and that it works offline."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from screen import COUNT_WAITS, quiet, settled, winner

from capsnet import create_model
from capsnet.data import open_data
from capsnet.errors import UserError
from capsnet.exporting.browser import browser_program
from capsnet.models.weights import Card, save_weights
from capsnet.web.guard import HEADERS
from capsnet.web.page import FIRST, write_page
from capsnet.web.routes import STATIC

MODES = {
    "tweak": ".film-row",
    "route": ".formula",
    "overlap": ".class-row.second",
    "warp": ".chart polyline.cnn",
    "morph": "#note-reconstruction .number",
}
PIXELS = """canvas => [
  ...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]"""
SERVING = """() => navigator.serviceWorker.ready.then(() => new Promise((done) =>
  navigator.serviceWorker.controller
    ? done() : navigator.serviceWorker.addEventListener("controllerchange", () => done())))"""

# Prints the modules that are not the same tokens in two folders; acorn comes with eslint.
DIFFERING = """
const acorn = require("acorn"), { readFileSync } = require("fs");
const [, ours, theirs, ...names] = process.argv;
const known = { ecmaVersion: "latest", sourceType: "module" };
const tokens = (path) => JSON.stringify(
  [...acorn.tokenizer(readFileSync(path, "utf8"), known)].map((x) => [x.type.label, x.value]));
for (const x of names) if (tokens(`${ours}/${x}`) !== tokens(`${theirs}/${x}`)) console.log(x);"""
ROOT = Path(__file__).parents[2]


def test_the_policy_is_the_servers(built):
    page = (built / "index.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    served = HEADERS["Content-Security-Policy"]
    assert served.startswith(policy) and served.removeprefix(policy) == "; frame-ancestors 'none'"


def test_every_file_is_named_relative_to_the_page(built):
    page = (built / "index.html").read_text()
    named = re.findall(r'<(?!a )[^>]*?(?:href|src)="([^"#]+)', page)  # but for links to elsewhere
    assert "static/app.js" in named and FIRST in named
    assert [name for name in named if not (built / name).is_file()] == []
    assert not re.search(r'(?:href|src)="/', page)


def test_what_a_build_holds_does_not_depend_on_when_it_was_made(built, runs, tmp_path):
    again = write_page(tmp_path / "page", runs["capsnet"], runs["overlap"], runs["cnn"])
    files = {path.relative_to(built): path.read_bytes() for path in built.rglob("*.*")}
    assert files == {x.relative_to(again.out): x.read_bytes() for x in again.out.rglob("*.*")}
    assert again.first_bytes < again.small_bytes <= again.num_bytes
    write_page(tmp_path / "page", runs["plain"], runs["overlap"])  # over the first one
    other = (tmp_path / "page" / "service.js").read_bytes()
    assert other != files[(built / "service.js").relative_to(built)]  # another version


def test_a_build_is_the_same_program_without_its_comments(built):
    names = [str(x.relative_to(STATIC)) for x in STATIC.rglob("*.js") if x.name != "service.js"]
    comment = re.compile(r"^\s*(//|\*/)", re.M)
    assert comment.search((STATIC / "app.js").read_text())
    assert [x for x in names if comment.search((built / "static" / x).read_text())] == []
    if not (ROOT / "node_modules" / "acorn").is_dir():
        pytest.skip("npm has not installed what make check needs")
    words = [shutil.which("node"), "-e", DIFFERING, STATIC, built / "static", *names]
    assert subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout == ""


def test_a_folder_with_something_else_is_left_alone(tmp_path, runs):
    (tmp_path / "thesis.tex").write_text("precious")
    for out in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(UserError, match="something else"):
            write_page(out, runs["plain"])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_networks_that_the_page_cannot_run(tmp_path, cli):
    model = create_model("capsnet_modern_small", routing="em")
    path = tmp_path / "weights.safetensors"
    task = open_data("digits", "test").task
    save_weights(model, path, Card(model.name, model.options, task, {"data": "digits"}))
    done = cli("explore", "--static", tmp_path / "page", "--weights", path)
    assert done.status == 2 and "RoutedCaps" in done.err and "paper's routing" in done.err
    assert not (tmp_path / "page").exists()
    done = cli("explore", "--static", tmp_path / "page", "--port", 9000)
    assert done.status == 2 and "serves nothing" in done.err


def test_a_class_that_computes_more_than_its_layers_is_refused():
    model = create_model("capsnet_small").eval()
    assert browser_program(model).steps[-1]["do"] == "route"
    model.forward = lambda images: type(model).forward(model, 1 - images)
    with pytest.raises(UserError, match="more than its layers"):
        browser_program(model)


def test_weights_of_half_precision_stay_so_and_no_other_lose(runs):
    halves = browser_program(create_model("capsnet_small", pretrained=True).eval()).tables
    assert {table.dtype for table in halves.values()} == {torch.float16}
    whole = browser_program(create_model("capsnet_small").eval()).tables
    assert whole["0.weight"].dtype == torch.float32


@pytest.fixture(scope="module")
def modern_page(tmp_path_factory):
    """A page of colour pictures that a stem with norms reads and convolutions draw; its model."""
    torch.manual_seed(0)
    options = {"channels": (4, 8), "primary_types": 3, "decoder": "conv"}
    model = create_model("capsnet_modern", image_shape=(3, 19, 19), num_classes=3, **options)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean, -0.3, 0.3)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
    folder = tmp_path_factory.mktemp("modern")
    path = folder / "weights.safetensors"
    task = type(open_data("digits", "test").task)(("ox", "emu", "yak"))
    save_weights(model, path, Card(model.name, model.options, task, {"data": "digits"}))
    return write_page(folder / "page", str(path)).out, model.eval()


def test_norms_and_drawing_by_convolutions(browser, giving_out, modern_page):
    folder, model = modern_page
    image = torch.randint(0, 256, (1, 3, 19, 19), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        output = model(image / 255)
        drawn = model.reconstruct(output.v)[0]
    ask = """async (image) => {
      const { post, toBytes, toText } = await import(new URL("static/api.js", document.baseURI));
      const answer = await post("analyse", { image: toText(Uint8Array.from(image)) });
      return [answer.v, [...toBytes(answer.pictures)]];
    }"""
    with giving_out(folder) as where:
        context = browser.new_context(service_workers="block")
        page = context.new_page()
        page.goto(where)
        page.wait_for_selector("body[data-ready]")
        v, pictures = page.evaluate(ask, image.flatten().tolist())
        context.close()
    torch.testing.assert_close(torch.tensor(v), output.v[0], atol=1e-4, rtol=1e-4)
    near = torch.tensor(pictures).view(3, 19, 19) / 255
    torch.testing.assert_close(near, drawn, atol=1 / 255, rtol=0)


def test_a_large_network_is_loaded_on_request(visit, giving_out, modern_page):
    with giving_out(modern_page[0]) as where:
        page = visit("mode=overlap", where=where)
        asked = []
        page.on("request", lambda r: r.url.endswith(".safetensors") and asked.append(r.url))
        button = page.get_by_role("button", name="Load capsnet_multimnist (23 MB)")
        quiet(page)
        assert asked == [] and page.locator(".overlap").count() == 0
        button.click()
        page.wait_for_selector(".class-row.second")
        assert len(asked) == 1 and "both right" in page.inner_text(".verdict")
        page.get_by_role("tab", name="Tweak").click()
        page.wait_for_selector(".film-row")
        page.get_by_role("tab", name="Overlap").click()
        page.wait_for_selector(".class-row.second")
        assert button.count() == 0
        page.close()


@pytest.mark.long
def test_the_menu_of_networks_says_what_would_be_loaded(visit, giving_out, tmp_path):
    with giving_out(write_page(tmp_path / "page").out) as where:
        page = visit("mode=route&sample=2", where=where)
        menu = page.get_by_label("Network", exact=True)
        menu.locator("option", has_text="MB").wait_for(state="attached")
        assert menu.locator("option").all_inner_texts() == [
            "capsnet_small",
            "capsnet_mnist (16 MB)",
        ]
        menu.select_option("1")
        page.wait_for_function(
            "() => document.querySelector('#model').innerText.includes('_mnist')"
        )


def test_colour_pictures_of_ones_own(visit, giving_out, colour_run, tmp_path):
    page = write_page(tmp_path / "page", colour_run)
    with giving_out(page.out) as where:
        page = visit("mode=warp", where=where)
        page.wait_for_selector(".chart polyline.capsnet")
        assert page.locator(".chart polyline.cnn").count() == 0
        assert "--cnn-weights" in page.inner_text(".verdict")
        page.get_by_role("tab", name="Morph").click()
        page.get_by_text("of the way").wait_for()
        with page.expect_download() as download:
            page.get_by_role("button", name="Save GIF").click()
        strip = page.eval_on_selector(".morph .film canvas", PIXELS)
        page.close()
    with Image.open(download.value.path()) as film:
        assert (film.size, film.n_frames) == ((224, 224), 60)
        near = np.asarray(film.convert("RGB").resize((20, 20), Image.Resampling.BOX), dtype=float)
    first = np.array(strip).reshape(20, -1, 4)[:, :20, :3]
    assert np.abs(near - first).max() < 30  # the colours of the film are 43 to 51 levels apart


def test_the_first_picture_waits_for_no_network(browser, built, giving_out):
    with giving_out(built) as where:
        context = browser.new_context(service_workers="block")
        page = context.new_page()
        held = []
        page.route("**/*.safetensors", lambda route: held.append(route))
        page.goto(where)
        page.wait_for_selector("body[data-ready]")
        first = json.loads((built / FIRST).read_text())["first"]
        told = next(one["answer"] for one in first if one["path"] == "analyse")
        assert winner(page) == told["said"]
        blank = "canvas => canvas.toDataURL() === document.createElement('canvas').toDataURL()"
        assert not page.eval_on_selector("#reconstruction", blank)
        while not held:  # the films of Tweak ask for it
            page.wait_for_timeout(50)
        context.close()


@pytest.fixture
def kept_page(browser, built, giving_out):
    """A page that was opened once, and whose host is gone since."""
    context = browser.new_context()
    context.set_default_timeout(60_000)
    with giving_out(built) as where:
        page = context.new_page()
        page.goto(where)
        page.wait_for_selector("body[data-ready]")
        page.evaluate(SERVING)
    yield page
    context.close()


def test_every_mode_works_offline_after_the_first_visit(kept_page):
    for mode, shown in MODES.items():
        kept_page.goto(f"{kept_page.url.partition('#')[0]}#mode={mode}&sample=13")
        kept_page.reload()
        kept_page.wait_for_selector("body[data-ready]")
        kept_page.wait_for_selector(shown)
        assert kept_page.locator("#status.error").count() == 0


def test_what_cannot_be_loaded_is_said_and_asked_for_again(browser, built, giving_out):
    with giving_out(built) as where:
        context = browser.new_context(service_workers="block")
        page = context.new_page()
        page.route("**/*.safetensors", lambda route: route.abort())
        page.goto(f"{where}/#mode=overlap")
        page.get_by_text("could not be loaded").wait_for()
        page.unroute("**/*.safetensors")
        page.get_by_role("button", name="Another pair").click()
        page.wait_for_selector(".class-row.second")
        context.close()


def test_a_served_page_has_no_mark_of_a_build():
    assert 'name="answers"' not in (STATIC / "index.html").read_text()


def test_the_page_moves_within_its_folder(browser, built, giving_out, tmp_path):
    """A host of many pages gives each a folder of its own."""
    (tmp_path / "somebody").mkdir()
    (tmp_path / "somebody" / "capsules").symlink_to(built)
    with giving_out(tmp_path) as where:
        context = browser.new_context(service_workers="block")
        page = context.new_page()
        page.add_init_script(COUNT_WAITS)
        problems = []
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.goto(f"{where}/somebody/capsules/#sample=3")
        page.wait_for_selector(".film-row")
        quiet(page)
        assert settled(page, "#input") and winner(page) == "3" and problems == []
        context.close()
