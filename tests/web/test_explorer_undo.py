"""Undo and redo of what a visitor changes, and what the class under the mouse would draw."""

import pytest
from screen import both_at_length, drag, drawing, quiet, settled, state_of, wait_for_change, winner


def scribble(page, *points):
    box = page.locator("#input").bounding_box()
    x, y, side = box["x"], box["y"], box["width"]
    drag(page, *((x + right * side, y + down * side) for right, down in points))


SHOWN = """([picture, digit]) =>
  document.querySelector("#input").toDataURL() === picture &&
  document.querySelector(".chosen .class-name").innerText === digit"""


def seen(page):
    """The picture and the class that is found."""
    return settled(page, "#input"), winner(page)


def wait_for(page, picture_and_class):
    page.wait_for_function(SHOWN, arg=list(picture_and_class))
    quiet(page)


@both_at_length
def test_strokes_samples_and_sliders_are_undone_and_done_again(visit):
    page = visit("sample=3")
    quiet(page)
    steps = [seen(page)]
    scribble(page, (0.3, 0.15), (0.7, 0.15))
    page.wait_for_selector("#seen:not([hidden])")
    steps.append(seen(page))
    scribble(page, (0.7, 0.15), (0.4, 0.85))
    wait_for_change(page, steps[-1][0], "#input")
    steps.append(seen(page))
    before = settled(page)
    page.locator(".film-row input[type=range]").first.press("ArrowRight")
    wait_for_change(page, before)
    moved, tweak = settled(page), state_of(page)["tweak"]
    page.locator("#input-tools .sample").nth(5).click()
    page.wait_for_function("() => document.querySelector('.chosen .class-name').innerText === '5'")

    page.keyboard.press("Control+z")
    wait_for(page, steps[2])
    assert settled(page) == moved and state_of(page)["tweak"] == tweak
    page.get_by_role("button", name="Undo").click()
    wait_for_change(page, moved)
    assert settled(page) == before
    for step in (steps[1], steps[0]):
        page.keyboard.press("Control+z")
        wait_for(page, step)
    assert page.locator("#seen").is_hidden()
    pressed = page.locator("#input-tools .sample[aria-pressed=true]")
    assert pressed.get_attribute("data-number") == "3"
    assert page.get_by_role("button", name="Undo").get_attribute("aria-disabled") == "true"
    for key, step in (("Shift+Z", steps[1]), ("y", steps[2]), ("y", steps[2])):
        page.keyboard.press(f"Control+{key}")
        wait_for(page, step)
    assert settled(page) == moved
    page.get_by_role("button", name="Redo").click()
    page.wait_for_function("() => document.querySelector('.chosen .class-name').innerText === '5'")


@both_at_length
def test_other_modes_undo_too_and_back_leads_to_the_mode_before(visit):
    page = visit("mode=tweak&sample=3&to=8")
    page.get_by_role("tab", name="Morph").click()
    page.get_by_text("of the way").wait_for()
    length = page.evaluate("history.length")
    slider = page.get_by_label("Way from the first")
    slider.press("End")
    assert state_of(page)["along"] == "1"
    page.keyboard.press("Control+z")
    page.wait_for_function("() => document.querySelector('.morph [type=range]').value === '0.5'")
    page.get_by_text("50 % of the way").wait_for()
    assert "along" not in state_of(page) and page.evaluate("history.length") == length
    page.go_back()
    page.wait_for_selector(".film-row")
    assert page.get_by_role("button", name="Undo").get_attribute("aria-disabled") == "true"


@both_at_length
def test_a_class_under_the_mouse_previews_its_drawing(visit):
    page = visit("sample=3")
    before = settled(page)
    rows = page.locator(".class-row")
    rows.nth(8).hover()
    page.wait_for_selector("#preview:not([hidden])")
    quiet(page)
    asked = page.evaluate("window.askedAt")
    shown = [drawing(page, "#preview-canvas")]
    for j in (5, 6):
        rows.nth(j).hover()
        assert page.inner_text("#preview-name") == f"capsule {j}"
        shown.append(drawing(page, "#preview-canvas"))
    assert len(set(shown)) == 3 and page.evaluate("window.askedAt") == asked  # all came at once
    rows.nth(3).hover()  # the chosen one is on the screen
    assert page.locator("#preview").is_hidden()
    rows.nth(8).hover()
    page.mouse.move(5, 5)
    assert page.locator("#preview").is_hidden() and drawing(page) == before
    rows.nth(8).click()
    wait_for_change(page, before)
    assert settled(page) == shown[0] and state_of(page)["which"] == "8"


@pytest.mark.parametrize("e", [0, 9])
def test_a_bar_and_its_film_light_each_other(visit, e):
    page = visit("sample=3")
    quiet(page)
    page.locator("#vector rect").nth(e).hover(force=True)
    lit = page.locator(".film-row.lit")
    assert lit.count() == 1 and lit.get_attribute("data-dim") == str(e)
    assert f"dimension {e + 1}" in page.inner_text("#tip")
    page.get_by_label(f"Dimension {e + 2}", exact=True).hover()
    assert page.locator("#vector rect.lit").get_attribute("data-dim") == str(e + 1)
    assert f"dimension {e + 2}" in page.inner_text("#tip")
    page.mouse.move(5, 5)
    assert page.locator(".lit").count() == 0
