"""The page when things go wrong or go fast: damaged links, taps, drops, answers that come late."""

import pytest
from screen import both_at_length, drag, drawing, quiet, settled, state_of, wait_for_change, winner

from capsnet import create_model
from capsnet.models.weights import Card, save_weights
from capsnet.tasks import OneLabel
from capsnet.web.server import create_app

DROP = """async (selector) => {
  const canvas = document.createElement("canvas");
  canvas.getContext("2d").fillRect(50, 20, 90, 90);
  const png = await new Promise((done) => canvas.toBlob(done, "image/png"));
  const data = new DataTransfer();
  data.items.add(new File([png], "ink.png", { type: "image/png" }));
  const event = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
  document.querySelector(selector).dispatchEvent(event);
  return event.defaultPrevented;
}"""
ANIMALS = ["ox", "hippopotamus", "cat", "dog", "bee", "emu", "yak", "elk", "owl", "sea lion"]


def pressed(page):
    """The numbers of the test images that are marked as taken."""
    marked = page.locator("#input-tools .sample[aria-pressed=true]")
    return marked.evaluate_all("all => all.map((button) => Number(button.dataset.number))")


@pytest.mark.parametrize(
    ("link", "seen"),
    [
        ("sample=99999999999", "#panel .film-row"),
        ("sample=-3&which=1.5&tweak=100,-100&range=0.3", "#panel .film-row"),
        ("mode=route&step=1.5&capsule=2.5", ".formula"),
        ("mode=route&step=1e9&capsule=1e9", ".formula"),
        ("mode=overlap&pair=99999999999,1e300&place=1000,-1000,0.5,3", ".class-row.second"),
        ("mode=warp&warp=9999,-5,7,999,-999,50,3,-1&sweep=foo", ".chart polyline"),
        ("mode=warp&warp=0,1,0,0,0,0,3,0.5&sweep=constructor", ".chart polyline"),
        ("mode=morph&to=99999999999&along=7", "#note-reconstruction .number"),
        ("constructor=1&__proto__=2&toString=3", "#panel .film-row"),
    ],
)
def test_a_damaged_link_shows_what_it_can(visit, link, seen):
    page = visit(link)
    page.wait_for_selector(seen)
    quiet(page)
    assert page.locator("#status.error").count() == 0


def test_a_tweak_in_a_link_keeps_to_the_range(visit):
    page = visit("sample=3&range=0.25&tweak=100,-100")
    page.wait_for_selector(".film-row")
    assert state_of(page)["tweak"] == "0.25,-0.25"


@pytest.fixture(scope="module")
def large_run(tmp_path_factory):
    """A model of pictures that do not fit into a link, and whose classes have long names."""
    options = {"conv_channels": 4, "primary_types": 2, "decoder": (8,)}
    model = create_model("capsnet_small", image_shape=(3, 40, 40), **options)
    path = tmp_path_factory.mktemp("large") / "weights.safetensors"
    card = Card(model.name, model.options, OneLabel(tuple(ANIMALS)), {"data": "digits"})
    save_weights(model, path, card)
    return str(path)


def test_a_link_that_cannot_hold_the_picture_says_so(visit, serving, large_run, picture):
    with serving(create_app(large_run)) as where:
        page = visit(where=where)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=where)
        before = drawing(page, "#input")
        page.set_input_files("#input-tools input[type=file]", picture)
        wait_for_change(page, before, "#input")
        own = drawing(page, "#input")
        page.get_by_role("button", name="Copy link").click()
        page.get_by_text("too large for it").wait_for()
        page.get_by_role("tab", name="Route").click()
        page.wait_for_selector(".formula")
        assert drawing(page, "#input") == own and pressed(page) == []
        page.locator("#input-tools .sample").first.click()
        wait_for_change(page, own, "#input")
        page.go_back()
        page.wait_for_selector(".film-row")
        page.wait_for_function("x => document.querySelector('#input').toDataURL() === x", arg=own)
        page.reload()
        page.get_by_text("open its file").wait_for()
        page.locator(".bars").nth(9).wait_for()
        lefts = page.locator(".bars").evaluate_all(
            "all => all.map((bars) => bars.getBoundingClientRect().left)"
        )
        assert len(lefts) == 10 and len(set(lefts)) == 1
        page.close()


def test_the_names_of_own_classes_are_whole(visit, serving, large_run):
    with serving(create_app(large_run)) as where:
        page = visit("mode=route", where=where, width=1000)  # the classes are not beside
        page.wait_for_selector(".formula")
        names = page.locator("#flow text")
        assert names.all_text_contents() == ANIMALS
        rights = names.evaluate_all("all => all.map((x) => x.getBoundingClientRect().right)")
        flow = page.locator("#flow").bounding_box()
        assert max(rights) <= flow["x"] + flow["width"] + 1
        page.close()


def test_a_tap_holds_a_capsule(visit):
    page = visit("mode=route&sample=3", touch=True)
    box = page.locator("#primary").bounding_box()
    place = page.locator(".capsule-table h3")
    before = place.inner_text()
    page.touchscreen.tap(box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.1)
    page.wait_for_function(
        "x => document.querySelector('.capsule-table h3').innerText !== x", arg=before
    )
    held = place.inner_text()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.9)
    assert place.inner_text() == held


def test_tips_by_keyboard_and_finger(visit):
    page = visit("mode=route&sample=3", touch=True)
    page.locator(".formula .number").first.tap()
    assert "exp of the logit" in page.inner_text("#tip")
    page.locator(".agreement .number").focus()
    page.keyboard.press("Tab")
    assert "After iteration 1" in page.inner_text("#tip")
    page.locator(".class-row input").first.focus()
    page.keyboard.press("ArrowDown")
    assert "Length of capsule 1" in page.inner_text("#tip")
    assert page.locator(".formula .number").first.get_attribute("aria-description")


@both_at_length
def test_all_numbers_of_the_modes_can_be_asked(visit):
    page = visit("mode=warp&sample=3")
    page.wait_for_selector(".chart polyline")
    page.wait_for_selector(".class-row .number.cnn")  # another answer than the curves'
    assert page.locator(".plot .number, .axis-x .number").count() == 6
    shares = page.locator(".class-row .number.cnn").all_inner_texts()
    assert sum(map(float, shares)) == pytest.approx(1, abs=0.06)
    page.get_by_role("tab", name="Overlap").click()
    page.wait_for_selector(".class-row.second")
    assert page.locator(".overlap output").all_inner_texts() == ["−2", "−1", "2", "1"]
    page.get_by_role("tab", name="Route").click()
    page.wait_for_selector(".formula")
    assert page.locator(".step strong .number").count() == 3
    assert page.locator(".capsule-table h3 .number").count() == 3
    assert page.locator("#sub-primary .number").all_inner_texts()[1] == "8"


@pytest.mark.parametrize("place", ["#panel", "#column-input", "body"])
def test_a_file_may_be_dropped_anywhere(visit, place):
    page = visit()
    before = settled(page, "#input")
    assert page.evaluate(DROP, place)
    wait_for_change(page, before, "#input")


def test_a_file_dropped_on_an_overlap_is_not_taken(visit):
    page = visit("mode=overlap")
    page.wait_for_selector(".class-row.second")
    before = settled(page, "#input")
    assert page.evaluate(DROP, "#column-input")
    page.get_by_text("drop your picture in another mode").wait_for()
    quiet(page)
    assert drawing(page, "#input") == before and page.inner_text("#sub-input") == "drag a digit"
    assert "image" not in state_of(page)


def test_a_late_answer_stays_out_of_the_next_mode(visit):
    page = visit("sample=3")
    page.wait_for_selector(".film-row")
    old = settled(page, "#input")
    held = []
    page.route("**/api/analyse", lambda r: r.continue_() if held else held.append(r))
    page.locator("#input-tools .sample").nth(5).click()
    page.wait_for_function("() => document.querySelector('[data-number=\"5\"][aria-pressed=true]')")
    page.get_by_role("tab", name="Overlap").click()
    while not held:
        page.wait_for_timeout(50)
    held[0].continue_()
    page.wait_for_selector(".class-row.second")
    quiet(page)
    assert page.eval_on_selector("#input", "canvas => canvas.width") == 36
    page.get_by_role("tab", name="Tweak").click()
    wait_for_change(page, old, "#input")
    page.wait_for_function("() => document.querySelector('#input').width === 28")
    page.wait_for_selector("#input-tools .sample[aria-pressed=true]")
    assert winner(page) == "5" and pressed(page) == [5]


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_a_morph_to_nowhere_is_not_saved(visit, kind):
    page = visit("sample=3&to=12")
    page.route("**/api/samples?*", lambda r: r.fulfill(json=[]))
    page.get_by_role("tab", name="Morph").click()
    page.get_by_role("button", name=f"Save {kind}").click()
    page.wait_for_selector("#status.error")
    assert "no second picture" in page.inner_text("#status")


@both_at_length
def test_choices_outlive_the_other_modes(visit):
    page = visit("sample=3&which=8&tweak=0.25,-0.25")
    page.wait_for_selector(".film-row")
    tweaked = settled(page)
    page.get_by_role("tab", name="Overlap").click()
    page.wait_for_selector(".class-row.second")
    page.locator(".class-row").nth(2).click()
    page.get_by_role("tab", name="Warp").click()
    page.wait_for_selector(".chart polyline")
    assert settled(page) != tweaked
    page.get_by_role("tab", name="Tweak").click()
    page.wait_for_selector(".film-row")
    assert settled(page) == tweaked and winner(page) == "8"
    assert state_of(page)["tweak"] == "0.25,-0.25"


@both_at_length
def test_a_drawing_is_the_same_after_reload(visit):
    page = visit("sample=3")
    before = settled(page, "#input")
    box = page.locator("#input").bounding_box()
    x, y, side = box["x"], box["y"], box["width"]
    points = (x + 0.3 * side, y + 0.2 * side), (x + 0.6 * side, y + 0.8 * side)
    page.mouse.move(*points[0])
    page.mouse.down(button="right")
    page.mouse.move(*points[1])
    page.mouse.up(button="right")
    quiet(page)
    assert drawing(page, "#input") == before and pressed(page) == [3]
    drag(page, *points)
    wait_for_change(page, before, "#input")
    page.wait_for_selector("#seen:not([hidden])")
    lengths = "all => all.map((number) => number.innerText).join()"
    settled(page)
    drawn = page.locator(".class-row .number").evaluate_all(lengths)
    seen = settled(page, "#seen")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert settled(page, "#input") == seen and pressed(page) == []
    assert page.locator(".class-row .number").evaluate_all(lengths) == drawn
    page.locator("#input-tools .sample").first.click()
    page.get_by_role("button", name="Clear").click()
    quiet(page)
    assert pressed(page) == []


def test_the_last_iteration_promises_nothing(visit):
    page = visit("mode=route&sample=3")
    assert "last iteration" in page.inner_text(".formulas .note")
    page.get_by_role("button", name="Iteration before").click()
    assert "will send" in page.inner_text(".formulas .note")


def test_the_tour_gives_the_focus_back(visit):
    page = visit()
    page.get_by_role("button", name="Tour").click()
    for _ in range(4):
        page.get_by_role("button", name="Next", exact=True).click()
    assert page.inner_text("#tour h3") == "Drawn from 16 numbers"
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement.id === 'tour-button'")
