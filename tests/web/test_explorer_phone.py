"""The page on a phone: what a slider changes is in sight while a finger moves it."""

import pytest
from screen import both_at_length, drawing, quiet, settled, wait_for_change

IN_SIGHT = """canvas => {
  const box = canvas.getBoundingClientRect();
  const on = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return box.top >= 0 && box.bottom <= innerHeight && on === canvas;
}"""
COPIES = (".mini[data-of=input]", ".mini[data-of=reconstruction]")


@pytest.mark.parametrize("width", [360, 768])
@pytest.mark.parametrize(
    ("mode", "sliders"),
    [
        ("warp", ("rotate", "scale", "shear", "right", "down", "thicken")),
        ("overlap", ("First digit, pixels right", "Second digit, pixels down")),
        ("morph", ("Way from the first to the second picture",)),
    ],
)
def test_the_pictures_are_in_sight_while_sliders_move(visit, width, mode, sliders):
    page = visit(f"mode={mode}&sample=3", width=width, touch=True)
    page.set_viewport_size({"width": width, "height": 640})
    page.wait_for_selector(".watch p:not(:empty)" if mode == "morph" else ".slider-row")
    quiet(page)  # what comes late moves what is below it
    for name in sliders:
        slider = page.get_by_label(name, exact=True)
        slider.evaluate("slider => slider.scrollIntoView({ block: 'end' })")
        assert all(page.eval_on_selector(copy, IN_SIGHT) for copy in COPIES), name
        slider.evaluate("slider => slider.scrollIntoView({ block: 'start' })")
        assert all(page.eval_on_selector(copy, IN_SIGHT) for copy in COPIES), name
        assert slider.evaluate(IN_SIGHT), name
    before = [settled(page, copy) for copy in COPIES]
    slider.fill("1" if mode == "morph" else "2")
    for copy, old in zip(COPIES, before, strict=True):
        if (mode, copy) != ("morph", COPIES[0]):  # a walk does not change the input
            wait_for_change(page, old, copy)
    for copy, column in zip(COPIES, ("#input", "#reconstruction"), strict=True):
        assert settled(page, copy) == drawing(page, column)


def test_a_wide_window_needs_no_copies(visit):
    page = visit("mode=warp&sample=3")
    page.wait_for_selector(".slider-row")
    assert not any(page.locator(copy).is_visible() for copy in COPIES)


@both_at_length
def test_a_tap_on_a_slider_draws_its_curves(visit):
    page = visit("mode=warp&sample=3", width=400, touch=True)
    page.get_by_text("while “rotate” changes").wait_for()
    page.get_by_label("thicken").tap()  # in its middle, where it already is
    page.get_by_text("while “thicken” changes").wait_for()


def test_tweak_is_no_endless_page(visit):
    page = visit("sample=3", width=360, touch=True)
    quiet(page)
    assert page.locator("main").bounding_box()["height"] < 2600
    input_, drawn = (page.locator(part).bounding_box() for part in ("#input", "#reconstruction"))
    assert abs(input_["y"] - drawn["y"]) < 30  # side by side
    below = [page.locator(part).bounding_box()["y"] for part in ("#panel", "#column-primary")]
    assert drawn["y"] < below[0] < below[1]  # what the first line asks to drag is not far
    assert page.eval_on_selector(".film-row", "row => row.getBoundingClientRect().top") < 1000


def test_the_copy_above_the_films_is_there_at_once(visit):
    page = visit("sample=3", width=360)
    page.wait_for_selector(".film-row")
    assert settled(page, COPIES[1]) == drawing(page)
