"""The page in a real browser: every mode from end to end, both widths, both themes."""

import io
import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from screen import both, drag, drawing, quiet, settled, state_of, wait_for_change, winner

from capsnet.data.streams.geometry import place
from capsnet.models.weights import find_model
from capsnet.web.samples import digit_samples
from capsnet.web.schema import unpack_pixels
from capsnet.web.server import create_app

MODES = ("tweak", "route", "overlap", "warp", "morph")


@both
def test_tweak_a_slider(visit):
    page = visit("sample=3&range=0.25")
    page.wait_for_selector(".film-row")
    before, film = settled(page), settled(page, ".film-row:nth-child(2) canvas")
    slider = page.locator(".film-row input[type=range]").first
    e = int(page.locator(".film-row").first.get_attribute("data-dim"))
    slider.hover()  # waits until the page no longer moves
    box = slider.bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    drag(page, middle, (middle[0] + box["width"] * 0.4, middle[1]))
    wait_for_change(page, before)
    wait_for_change(page, film, ".film-row:nth-child(2) canvas")
    tweak = [float(x) for x in state_of(page)["tweak"].split(",")]
    assert tweak.pop(e) > 0.1 and not any(tweak)

    after = settled(page)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    wait_for_change(page, before)
    page.wait_for_function(
        "x => document.querySelector('#reconstruction').toDataURL() === x", arg=after
    )
    page.get_by_role("button", name="Reset").click()
    wait_for_change(page, after)
    assert settled(page) == before


@both
def test_tweak_by_click_keyboard_and_chance(visit):
    page = visit("sample=3&range=0.25")
    quiet(page)  # what comes late may move the slider
    slider = page.get_by_label("Dimension 2", exact=True)
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] * 9.2 / 11, box["y"] + 5)
    assert state_of(page)["tweak"].split(",")[1] == "0.2"
    slider.press("ArrowLeft")
    assert state_of(page)["tweak"].split(",")[1] == "0.19"
    before = drawing(page)
    page.get_by_role("button", name="Randomise").click()
    wait_for_change(page, before)
    page.get_by_label("Range of the sliders").select_option("1")
    assert slider.get_attribute("max") == "1"
    page.locator(".class-row:has(.class-name:text-is('8'))").click()
    assert winner(page) == "8" and "tweak" not in state_of(page)


@both
def test_names_of_dimensions_are_kept(visit):
    page = visit()
    name = page.get_by_label("Your name for dimension 1", exact=True)
    name.fill("stroke thickness")
    name.blur()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert name.input_value() == "stroke thickness"


@both
def test_draw_a_digit(visit):
    page = visit()
    box = page.locator("#input").bounding_box()
    x, y, side = box["x"], box["y"], box["width"]
    drag(page, (x + 0.52 * side, y + 0.15 * side), (x + 0.5 * side, y + 0.85 * side))
    page.wait_for_function(
        "() => document.querySelector('.class-row.chosen .class-name')?.textContent === '1'"
    )
    image = state_of(page)["image"]
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert winner(page) == "1" and state_of(page)["image"] == image
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("() => document.querySelector('.class-row .number').textContent < '0.5'")


@both
def test_open_a_picture_file(visit, picture):
    page = visit()
    before = drawing(page, "#input")
    page.set_input_files("#input-tools input[type=file]", picture)
    wait_for_change(page, before, "#input")
    quiet(page)
    assert winner(page) == "0"
    page.set_input_files("#input-tools input[type=file]", __file__)
    page.wait_for_selector("#status.error")
    assert "not a picture" in page.inner_text("#status")


@both
def test_route_steps(visit):
    page = visit("mode=route&sample=3")
    steps = page.locator(".step")
    assert steps.count() == 3 and steps.nth(2).get_attribute("aria-pressed") == "true"
    coupling = page.locator(".formula").first.locator(".number").last
    last = float(coupling.inner_text())
    page.locator("#column-input").click(position={"x": 5, "y": 5})
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#sub-routing").endswith("1 of 3")
    assert float(coupling.inner_text()) == pytest.approx(0.1)
    assert last > 0.1
    before, formula = drawing(page, "#primary"), page.inner_text(".capsule-table h3")
    box = page.locator("#primary").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.1)
    wait_for_change(page, before, "#primary")
    assert page.inner_text(".capsule-table h3") != formula
    assert page.locator("#field").is_visible()
    page.locator("#primary").press("ArrowDown")
    assert "row 3" in page.inner_text(".capsule-table h3")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(
        "() => document.querySelector('#sub-routing').textContent.endsWith('2 of 3')"
    )
    page.get_by_role("button", name="Pause").click()
    assert state_of(page)["step"] == "2"


@pytest.fixture(scope="module")
def right_pair(runs):
    """Two digits that the small overlap network gets right when laid over each other."""
    model, _ = find_model(runs["overlap"])
    digits = [s for n in range(6) for s in digit_samples().page(n)]
    images = torch.stack([unpack_pixels(s.image, (1, 28, 28)) for s in digits])
    shifts = [torch.tensor([[dy, dx]]).expand(len(digits), 2) for dy, dx in ((-1, -2), (1, 2))]
    first, second = (place(images, shift, (36, 36)) for shift in shifts)
    for a, digit in enumerate(digits):
        with torch.inference_mode():
            lengths = model.eval()((first[a] + second).clamp(max=1)).lengths
        values, classes = lengths.topk(3)
        for b, other in enumerate(digits):
            found, wanted = set(classes[b, :2].tolist()), {digit.label, other.label}
            if len(wanted) == 2 and found == wanted and values[b, 1] - values[b, 2] > 0.05:
                return digit, other
    raise AssertionError("The overlap network of the tests gets no pair right.")


@both
def test_overlap_finds_both(visit, right_pair):
    a, b = right_pair
    page = visit(f"mode=overlap&pair={a.number},{b.number}")
    page.wait_for_selector(".class-row.second")
    assert page.inner_text(".class-row.first .class-name") == str(a.label)
    assert page.inner_text(".class-row.second .class-name") == str(b.label)
    assert "both right" in page.inner_text(".verdict") and "80 %" in page.inner_text(".verdict")
    before = drawing(page)
    box = page.locator("#input").bounding_box()
    x, y, side = box["x"], box["y"], box["width"]
    drag(page, (x + side / 2, y + side / 2), (x + side * 0.6, y + side * 0.65))
    wait_for_change(page, before)
    assert "place" in state_of(page)
    before = drawing(page)
    page.get_by_role("button", name="Another pair").click()
    wait_for_change(page, before)
    page.get_by_role("tab", name="Tweak").click()
    page.wait_for_selector(".film-row")
    assert page.locator(".class-row.second").count() == 0


@both
def test_warp_bends_and_compares(visit):
    page = visit("mode=warp&sample=3")
    page.wait_for_selector(".chart polyline.cnn")
    before = drawing(page, "#input")
    page.get_by_label("rotate").fill("60")
    wait_for_change(page, before, "#input")
    assert page.locator(".bar.cnn").first.is_visible()
    assert "The CNN is cnn_small, trained on digits" in page.inner_text(".verdict")
    assert "cnn_small" in page.inner_text(".chart figcaption")
    turned, curve = (
        drawing(page, "#input"),
        page.locator("polyline.capsnet").get_attribute("points"),
    )
    page.get_by_label("scale").fill("0.7")
    wait_for_change(page, turned, "#input")
    page.wait_for_function(
        "x => document.querySelector('polyline.capsnet').getAttribute('points') !== x", arg=curve
    )
    whole = drawing(page, "#input")
    page.get_by_role("button", name="2×2 pieces").click()
    wait_for_change(page, whole, "#input")
    assert state_of(page)["warp"].startswith("60,0.7,0,0,0,0,2,")
    page.get_by_role("button", name="Reset").click()
    page.wait_for_function("x => document.querySelector('#input').toDataURL() === x", arg=before)
    box = page.locator("#handles").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    drag(page, middle, (middle[0] + 30, middle[1]))
    wait_for_change(page, before, "#input")
    assert float(state_of(page)["warp"].split(",")[3]) > 1


@both
def test_morph_walks_and_exports(visit):
    page = visit("mode=morph&sample=3&to=8")
    page.get_by_text("of the way").wait_for()
    before = drawing(page)
    page.get_by_label("Way from the first").fill("1")
    wait_for_change(page, before)
    assert "100 %" in page.inner_text("#note-reconstruction")
    end = drawing(page)
    page.get_by_role("button", name="Play").click()
    wait_for_change(page, end)
    page.get_by_role("button", name="Pause").click()
    for kind in ("PNG", "GIF"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save {kind}").click()
        with Image.open(io.BytesIO(Path(download.value.path()).read_bytes())) as saved:
            assert saved.format == kind and min(saved.size) > 50


@both
def test_link_theme_and_tour(visit):
    page = visit("sample=3", toured=False)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_selector("#status:not(:empty)")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(background) != light
    page.get_by_role("button", name="Take the one-minute tour").click()
    page.get_by_role("button", name="Close", exact=True).click()
    assert page.locator("#tour").count() == 0
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert not page.locator("#welcome").is_visible() and page.evaluate(background) != light


@both
def test_tabs_by_keyboard(visit):
    page = visit()
    page.get_by_role("tab", name="Tweak").focus()
    for mode in MODES[1:]:
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", selected=True).inner_text().lower() == mode
        assert state_of(page)["mode"] == mode
    for key, mode in (("Home", "tweak"), ("End", "morph"), ("ArrowRight", "tweak")):
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.id") == f"tab-{mode}"


SHIFTS = """new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) {
    if (!shift.hadRecentInput) window.shifted = (window.shifted ?? 0) + shift.value;
  }
}).observe({ type: "layout-shift", buffered: true });"""


@pytest.mark.parametrize("width", [1280, 360, pytest.param(1600, marks=pytest.mark.long)])
def test_nothing_jumps_on_the_first_visit(visit, width):
    page = visit("", width, toured=False)
    page.add_init_script(SHIFTS)
    for mode in MODES:
        page.evaluate(f"location.hash = 'mode={mode}'")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        quiet(page)
        assert page.locator("#welcome").is_visible()
        assert page.evaluate("window.shifted ?? 0") < 0.1, mode


def test_numbers_have_tooltips(visit):
    for mode in MODES:
        page = visit(f"mode={mode}")
        quiet(page)
        bare = page.locator(".number:not([data-tip])").all_inner_texts()
        assert bare == []
    page.locator(".class-row .number").first.hover()
    assert "Length of capsule" in page.inner_text("#tip")


@both
def test_nonsense_in_the_address_is_no_error(visit):
    page = visit("mode=constructor&sample=abc&which=99&tweak=NaN,1&step=-4&range=7&image=%25%25")
    assert page.get_by_role("tab", selected=True).inner_text() == "Tweak"
    assert winner(page) == "7"


def test_a_missing_decoder_is_explained(visit, runs, serving):
    with serving(create_app(runs["plain"])) as where:
        page = visit("", where=where)
        assert page.get_by_role("tab").all_inner_texts()[0] == "Route"
        assert page.get_by_role("tab", selected=True).inner_text() == "Route"
        assert not page.locator("#reconstruction").is_visible()
        page.get_by_role("tab", name="Tweak").click()
        assert "without a decoder" in page.inner_text("#note-reconstruction")
        page.locator("#panel").get_by_text("nothing to draw with").wait_for()
        assert page.locator("#panel button").count() == 0
        page.get_by_role("tab", name="Warp").click()
        page.wait_for_selector(".verdict p")
        page.get_by_role("tab", name="Morph").click()
        page.get_by_text("there is nothing to draw with").wait_for()
        page.close()


def test_colour_pictures_of_ones_own(visit, colour_run, serving):
    with serving(create_app(colour_run)) as where:
        for mode in MODES:
            page = visit(f"mode={mode}", where=where)
            assert page.locator(".class-row").count() in (2, 10)
            quiet(page)
            said = page.inner_text("main")
            assert ("digit" in said) == (mode == "overlap")
            assert ("Here capsnet_multimnist answers" in said) == (mode == "overlap")
            page.close()


@pytest.mark.parametrize(
    ("address", "width", "theme"),
    [
        ("served", 1600, "light"),
        ("served", 360, "dark"),
        pytest.param("static", 1600, "dark", marks=pytest.mark.long),
    ],
    indirect=["address"],
)
def test_accessible(visit, width, theme):
    from axe_playwright_python.sync_playwright import Axe

    page = visit("", width, theme)
    for mode in MODES:
        page.get_by_role("tab", name=mode.capitalize()).click()
        quiet(page)
        found = Axe().run(page).response["violations"]
        grave = [v for v in found if v["impact"] in ("serious", "critical")]
        nodes = [(v["id"], [n["html"][:150] for n in v["nodes"]][:3]) for v in grave]
        assert nodes == [], f"{mode}: {json.dumps(nodes, indent=1)}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
