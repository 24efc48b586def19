"""Drawing with mouse or finger: strokes add to the visitor's own picture, wherever it is from."""

import io

import pytest
from PIL import Image, ImageChops
from screen import both_at_length, drag, quiet, settled, state_of, wait_for_change

from capsnet.web.server import create_app

BAR, DASH = ((0.5, 0.2), (0.5, 0.8)), ((0.2, 0.5), (0.4, 0.5))


def scribble(page, points):
    box = page.locator("#input").bounding_box()
    x, y, side = box["x"], box["y"], box["width"]
    before = state_of(page).get("image")
    drag(page, *((x + right * side, y + down * side) for right, down in points))
    while state_of(page).get("image") == before:
        pass
    settled(page, "#input")


def ink(page, left, top, right, bottom):
    """Whether there is ink in a part of what is drawn on; sides from 0 to 1."""
    with Image.open(io.BytesIO(page.locator("#input").screenshot())) as shot:
        grey = shot.convert("L")
    W, H = grey.size
    part = grey.crop((int(left * W), int(top * H), int(right * W), int(bottom * H)))
    return ImageChops.invert(part).getextrema()[0] < 128


def reload(page):
    page.reload()
    page.wait_for_selector("body[data-ready]")


def through_warp(page):
    for name in ("Warp", "Tweak"):
        page.get_by_role("tab", name=name).click()
        page.wait_for_selector(".warp" if name == "Warp" else ".film-row")


@pytest.mark.parametrize("leave", [reload, through_warp])
def test_a_stroke_adds_to_a_drawing_that_is_back(visit, leave):
    page = visit("sample=3")
    scribble(page, BAR)
    leave(page)
    before = settled(page, "#input")
    assert not ink(page, 0.15, 0.4, 0.35, 0.6)
    scribble(page, DASH)
    assert settled(page, "#input") != before
    assert ink(page, 0.15, 0.4, 0.35, 0.6)  # the dash
    assert ink(page, 0.45, 0.2, 0.55, 0.35) and ink(page, 0.45, 0.65, 0.55, 0.8)  # the bar


def test_a_stroke_after_clear_or_on_a_test_image_begins_anew(visit):
    page = visit("sample=3")
    scribble(page, BAR)
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("() => document.querySelector('#input').width === 28")
    settled(page, "#input")
    scribble(page, DASH)
    assert ink(page, 0.15, 0.4, 0.45, 0.6) and not ink(page, 0.5, 0.1, 0.9, 0.7)
    page.locator("#input-tools .sample").nth(8).click()
    page.wait_for_function("() => document.querySelector('#input').width === 28")
    settled(page, "#input")
    scribble(page, DASH)
    assert ink(page, 0.15, 0.4, 0.45, 0.6) and not ink(page, 0.5, 0.1, 0.9, 0.7)


@both_at_length
def test_a_stroke_adds_to_an_opened_file(visit, picture):
    page = visit("sample=3")
    before = settled(page, "#input")
    page.set_input_files("#input-tools input[type=file]", picture)
    wait_for_change(page, before, "#input")
    settled(page, "#input")
    assert not ink(page, 0.45, 0.4, 0.55, 0.6)  # it is a ring
    scribble(page, ((0.5, 0.45), (0.5, 0.55)))
    assert ink(page, 0.45, 0.4, 0.55, 0.6) and ink(page, 0.25, 0.1, 0.75, 0.3)


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_pad_stays_where_it_is_while_drawing(visit, width):
    page = visit("sample=3", width=width)
    before = page.locator("#input").bounding_box()
    scribble(page, BAR)
    page.wait_for_selector("#seen:not([hidden])")
    assert page.locator("#input").bounding_box() == before


def test_a_stroke_right_after_clear_does_not_wait_for_the_answer(visit):
    page = visit("sample=3")
    scribble(page, BAR)
    held = []
    page.route("**/api/analyse", lambda r: held.append(r))
    page.get_by_role("button", name="Clear").click()
    box = page.locator("#input").bounding_box()
    x, y, side = box["x"], box["y"], box["width"]
    drag(page, *((x + right * side, y + down * side) for right, down in DASH))
    assert ink(page, 0.15, 0.4, 0.35, 0.6) and not ink(page, 0.45, 0.2, 0.55, 0.8)
    while not held:
        page.wait_for_timeout(20)
    page.route("**/api/analyse", lambda r: r.continue_())
    held.pop().continue_()
    settled(page, "#input")
    assert ink(page, 0.15, 0.4, 0.35, 0.6) and not ink(page, 0.45, 0.2, 0.55, 0.8)


def test_a_dot_is_called_a_dot(visit):
    page = visit("sample=3")
    box = page.locator("#input").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.get_by_text("there is only a dot on the picture").wait_for()
    scribble(page, BAR)
    assert "a dot" not in page.inner_text("#column-classes")


def draw_on(page, pad, *points):
    """Draw a line on a pad, through points from 0 to 1."""
    page.locator(pad).scroll_into_view_if_needed()
    box = page.locator(pad).bounding_box()
    side = box["width"]
    drag(page, *((box["x"] + x * side, box["y"] + y * side) for x, y in points))


BRIGHT = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const sums = [0, 0, 0];
  for (let p = 0; p < data.length; p++) if (p % 4 < 3) sums[p % 4] += data[p];
  return sums;
}"""


@both_at_length
def test_two_digits_of_ones_own_in_overlap(visit):
    """A bar and, as the second digit, a dash: each is where it is said to be."""
    page = visit("mode=overlap&place=-8,0,8,0")
    page.wait_for_selector(".class-row.second")
    assert "in truth" in page.inner_text(".verdict") or "both right" in page.inner_text(".verdict")
    before = settled(page, "#input")
    draw_on(page, ".first .pad", (0.3, 0.2), (0.3, 0.8))
    wait_for_change(page, before, "#input")
    draw_on(page, ".second .pad", (0.3, 0.5), (0.7, 0.5))
    quiet(page)
    image = page.eval_on_selector(
        "#input", "x => [...x.getContext('2d').getImageData(0, 0, 36, 36).data]"
    )
    lit = {(p % 36, p // 36) for p in range(36 * 36) if image[4 * p] > 128}
    middle = {x for x, y in lit if y == 11}  # the bar alone, centred, then moved left
    assert 0 < len(middle) <= 4 and sum(middle) / len(middle) == pytest.approx(10, abs=1.5)
    assert {x for x, y in lit if y == 18} >= set(range(22, 30))  # the dash, moved right
    assert page.locator(".overlap .sample[aria-pressed=true]").count() == 0
    said = page.inner_text(".verdict")
    assert "It says" in said and "truth" not in said and "both right" not in said
    settled(page, "#input")
    own = state_of(page)["own"]
    page.reload()
    page.wait_for_selector(".class-row.second")
    quiet(page)
    again = page.eval_on_selector(
        "#input", "x => [...x.getContext('2d').getImageData(0, 0, 36, 36).data]"
    )
    assert again == image and state_of(page)["own"] == own
    page.locator(".first .sample").nth(3).click()
    quiet(page)
    assert state_of(page)["own"].startswith(".")
    page.get_by_role("button", name="Another pair").click()
    page.wait_for_selector(".overlap .second .sample[aria-pressed=true]")
    assert "own" not in state_of(page)


def test_the_pen_has_a_colour_where_the_network_sees_colours(visit, serving, colour_run):
    page = visit("sample=3")
    page.wait_for_selector("#input-tools .sample")
    assert page.get_by_label("Colour of the pen").count() == 0
    with serving(create_app(colour_run)) as where:
        page = visit("", where=where)
        page.get_by_role("button", name="Clear").click()
        quiet(page)
        page.get_by_label("Colour of the pen").fill("#ff0000")
        scribble(page, BAR)
        red, green, blue = page.eval_on_selector("#input", BRIGHT)
        assert red > 1000 and green == blue == 0
        page.get_by_label("Colour of the pen").fill("#0000ff")
        scribble(page, DASH)
        red, green, blue = page.eval_on_selector("#seen", BRIGHT)
        assert min(red, blue) > 500 and green < 0.2 * blue
        page.close()
