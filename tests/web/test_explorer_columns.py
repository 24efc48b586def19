"""What the columns and panels say and how they are touched, in a real browser."""

from math import hypot

import pytest
from screen import both_at_length, drag, drawing, quiet, settled, state_of, wait_for_change

from capsnet.web.samples import digit_samples
from capsnet.web.schema import unpack_pixels
from capsnet.web.server import create_app


@both_at_length
def test_route_says_what_follows_from_the_agreement(visit):
    page = visit("mode=route&sample=3&step=1")
    note = page.locator(".formulas .note")
    coupling = page.locator(".formula").first.locator(".number").last
    shown = page.locator(".capsule-table tr.chosen td").last.inner_text()
    agreement = float(shown.replace("−", "-"))
    word = "grows" if agreement > 0 else "falls" if agreement < 0 else "stays"
    assert f"the logit {word}" in note.inner_text()
    promised = note.locator(".number").inner_text()
    page.keyboard.press("ArrowRight")
    assert coupling.inner_text() == promised
    page.keyboard.press("ArrowRight")
    assert "nothing follows" in note.inner_text()


def test_route_shows_the_bias_of_a_network_that_has_one(visit, serving):
    page = visit("mode=route&sample=3")
    assert "β" not in page.inner_text(".formulas")
    with serving(create_app()) as where:  # the shipped network, the authors'
        page = visit("mode=route&sample=3", where=where)
        page.wait_for_selector(".formula")
        assert "β" in page.inner_text(".formulas")
        page.close()


@both_at_length
def test_a_press_takes_the_digit_with_the_nearest_ink(visit):
    """Just left of the first digit and just right of the second; the corner takes neither."""
    page = visit("mode=overlap&pair=1,11&place=-8,0,8,0")
    page.wait_for_selector(".class-row.second")
    digits = [digit_samples().page(n)[1] for n in (0, 1)]
    images = [unpack_pixels(digit.image, (1, 28, 28))[0] for digit in digits]
    middles = [(image[14] > 0.5).nonzero().flatten() for image in images]
    box = page.locator("#input").bounding_box()
    unit = box["width"] / 36

    def pull(column, row):
        start = (box["x"] + (column + 0.5) * unit, box["y"] + (row + 0.5) * unit)
        drag(page, start, (start[0], start[1] + 3 * unit))
        return [int(x) for x in state_of(page)["place"].split(",")]

    assert pull(0, 35) == [-8, 0, 8, 0]
    assert pull(4 - 8 + int(middles[0].min()) - 3, 18) == [-8, 3, 8, 0]
    assert pull(4 + 8 + int(middles[1].max()) + 3, 18) == [-8, 3, 8, 3]


@both_at_length
def test_overlap_says_what_it_cannot_answer(visit):
    page = visit("mode=overlap&pair=4,14&place=0,0,4,4")
    page.wait_for_selector(".class-row.second")
    verdict = page.locator(".verdict")
    assert "both are 4" in verdict.inner_text() and "two different" in verdict.inner_text()
    assert "not in training" not in verdict.inner_text()
    page.get_by_label("Second digit, pixels right").fill("5")
    page.get_by_text("such places were not in training").wait_for()


def test_the_numbers_of_a_capsule_have_its_colour(visit):
    page = visit("mode=overlap")
    for rank in ("second", "first"):
        page.locator(f".class-row.{rank}").click()
        page.wait_for_selector(f"#vector svg.{rank}")
    page.locator(".class-row:not(.first):not(.second)").first.click()
    page.wait_for_selector("#vector svg.other")
    page.get_by_role("tab", name="Tweak").click()
    page.wait_for_selector("#vector svg.chosen")


def test_the_frame_of_a_capsule_goes_with_the_mouse(visit):
    page = visit("sample=3")
    field = page.locator("#field")
    box = page.locator("#primary").bounding_box()
    inside = (box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.1)
    page.mouse.move(*inside)
    field.wait_for()
    page.mouse.move(5, 5)
    field.wait_for(state="hidden")
    assert "capsule" not in state_of(page)
    page.mouse.click(*inside)
    page.mouse.move(5, 5)
    assert field.is_visible() and "capsule" in state_of(page)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert field.is_visible()
    page.get_by_role("tab", name="Route").click()
    page.wait_for_selector(".capsule-table table")
    assert field.is_visible()
    page.get_by_role("tab", name="Morph").click()
    field.wait_for(state="hidden")
    page.locator("#primary").press("ArrowDown")
    field.wait_for()
    page.get_by_role("tab", name="Morph").focus()
    field.wait_for(state="hidden")


def test_route_keeps_the_focus_and_its_tip(visit):
    page = visit("mode=route&sample=3&step=1")
    for part in (".formula .number", ".capsule-table th .number", "#sub-routing .number"):
        page.locator(part).last.focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(part).last.evaluate("x => x === document.activeElement")
    page.locator(".formula .number").first.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert page.locator("#tip").is_visible()
    page.evaluate("document.querySelector('.formulas').replaceChildren()")
    page.locator("#tip").wait_for(state="hidden")


def test_the_tip_of_what_has_the_focus_scrolls_along(visit):
    page = visit("mode=route&sample=3&step=1")
    number, tip = page.locator(".formula .number").first, page.locator("#tip")
    number.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    apart = "number => document.querySelector('#tip').getBoundingClientRect().top - " + (
        "number.getBoundingClientRect().bottom"
    )
    for far in (30, -30):
        page.evaluate(
            "far => new Promise(done => { scrollBy(0, far);"
            " requestAnimationFrame(() => requestAnimationFrame(done)) })",
            far,
        )
        assert tip.is_visible()
        assert number.evaluate(apart) == pytest.approx(6, abs=1)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    tip.wait_for(state="hidden")


def test_a_tip_stays_in_a_low_window(visit):
    page = visit("mode=route&sample=3", width=640)
    page.set_viewport_size({"width": 640, "height": 360})
    page.keyboard.press("Tab")
    page.eval_on_selector(
        ".step",  # scrolling hides the tip, and is told before a frame is drawn
        "step => new Promise((done) => { step.scrollIntoView({ block: 'center' });"
        " requestAnimationFrame(() => requestAnimationFrame(done)); })",
    )
    page.eval_on_selector(".step", "step => step.focus({ preventScroll: true })")
    assert page.locator("#tip").bounding_box()["y"] >= 0


def test_route_says_which_iteration_the_drawing_is_of(visit):
    page = visit("mode=route&sample=3&step=1")
    parts = [page.locator(part) for part in ("#vector .note", "#sub-reconstruction")]
    assert all("after iteration 1" in part.inner_text() for part in parts)
    page.locator(".step").last.click()
    assert not any("iteration" in part.inner_text() for part in parts)


def test_the_test_error_is_readable_in_a_narrower_window(visit):
    page = visit("", width=1280)
    for mode in ("tweak", "overlap"):
        page.get_by_role("tab", name=mode.capitalize()).click()
        page.wait_for_selector(".film-row" if mode == "tweak" else ".class-row.second")
        error = page.get_by_text("% test error").last.bounding_box()
        model, tabs = (page.locator(part).bounding_box() for part in ("#model", "#tabs"))
        assert error["x"] + error["width"] <= min(model["x"] + model["width"], tabs["x"]) + 1


def test_a_focused_dimension_is_not_under_the_heading(visit):
    page = visit("sample=3", width=1280)
    for height in (560, 400):
        page.set_viewport_size({"width": 1280, "height": height})
        page.locator(".film-row input[type=range]").last.focus()
        for _ in range(24):
            page.keyboard.press("Shift+Tab")
            top = page.evaluate("document.activeElement.getBoundingClientRect().top")
            heads = page.locator("header, .panel-head.sticky").evaluate_all(
                "heads => heads.map((head) => head.getBoundingClientRect().bottom)"
            )
            assert top >= max(heads), height


@both_at_length
def test_a_class_chosen_in_overlap_is_marked_and_in_the_link(visit):
    page = visit("mode=overlap")
    page.wait_for_selector(".class-row.second")
    row = page.locator(".class-row:not(.first):not(.second)").first
    row.click()
    name = page.inner_text(".class-row.looked-at .class-name")
    assert name == row.locator(".class-name").inner_text() == state_of(page)["other"]
    page.reload()
    page.wait_for_selector(".class-row.looked-at")
    assert page.inner_text(".class-row.looked-at .class-name") == name
    page.get_by_role("button", name="Another pair").click()
    page.wait_for_selector(".class-row.first.looked-at, .class-row.second.looked-at")
    assert "other" not in state_of(page)
    page.get_by_role("tab", name="Tweak").click()
    page.wait_for_selector(".film-row")
    assert page.locator(".looked-at").count() == 0


@both_at_length
def test_a_morph_to_itself_says_that_nothing_changes(visit):
    page = visit("mode=morph&sample=2&to=2")
    page.get_by_text("Both ends are the same picture").wait_for()
    page.locator(".morph .sample").nth(3).click()
    page.get_by_text("fades out while").wait_for()
    page.locator(".morph .sample").nth(2).click()
    page.get_by_text("Both ends are the same picture").wait_for()
    page.locator(".class-row").nth(8).click()
    page.get_by_text("Capsule “8” fades out").wait_for()


def test_the_bar_of_a_tweaked_capsule_is_as_long_as_its_vector(visit):
    page = visit("sample=3&which=3&tweak=0.25,-0.25,0.25,0.25,0.25")
    page.wait_for_selector(".film-row")
    tips = page.locator("#vector rect").evaluate_all("all => all.map((bar) => bar.dataset.tip)")
    v = [float(tip.split()[-1]) for tip in tips]
    bar = page.locator(".class-row.chosen .number").first
    assert float(bar.inner_text()) == pytest.approx(hypot(*v), abs=0.006)
    page.get_by_role("button", name="Reset").click()
    assert float(bar.inner_text()) != pytest.approx(hypot(*v), abs=0.006)


def test_the_knob_of_a_warp_can_be_taken_wherever_the_picture_is(visit):
    page = visit("mode=warp&sample=3&warp=45,1.5,0,0,0,0,1,0")
    page.wait_for_selector(".chart polyline")
    knob = page.locator("#knob").bounding_box()
    screen = page.locator("#column-input .screen").bounding_box()
    assert screen["x"] <= knob["x"] <= screen["x"] + screen["width"] - knob["width"]
    assert screen["y"] <= knob["y"] <= screen["y"] + screen["height"] - knob["height"]
    x, y = knob["x"] + knob["width"] / 2, knob["y"] + knob["height"] / 2
    drag(page, (x, y), (x - 60, y + 40))
    rotate, scale = state_of(page)["warp"].split(",")[:2]
    assert float(rotate) > 45 and float(scale) < 1.5


@both_at_length
def test_a_click_on_the_curves_of_a_warp_takes_that_place(visit):
    page = visit("mode=warp&sample=3")
    page.wait_for_selector(".chart .place")
    place = page.locator(".chart .place").nth(14)
    place.hover(position={"x": 5, "y": 5})  # above the curves, which say other things
    said = page.inner_text("#tip")
    values = [float(part.split()[-1]) for part in said.partition(": ")[2].split(", ")]
    assert said.startswith("rotate 30°") and len(values) == 2
    place.click(position={"x": 5, "y": 5})
    page.wait_for_function("() => document.querySelector('[aria-label=rotate]').value === '30'")
    page.get_by_text("CapsNet says").first.wait_for()
    quiet(page)
    assert state_of(page)["warp"].startswith("30,")
    row = page.locator(".class-row").nth(3)  # the class that the curves are of
    shown = [float(x) for x in row.locator(".number").all_inner_texts()]
    assert shown == pytest.approx(values, abs=0.011)
    box = page.locator(".chart svg").bounding_box()
    ends = [box["x"] + part * box["width"] for part in (0.5, 0.8, 0.95)]
    drag(page, *((x, box["y"] + 3) for x in ends))
    page.wait_for_function("() => document.querySelector('[aria-label=rotate]').value > '150'")
    quiet(page)
    assert state_of(page)["warp"].startswith("165,")


def test_a_curve_says_whose_it_is_and_lights_its_network(visit):
    page = visit("mode=warp&sample=3")
    page.wait_for_selector(".chart polyline.cnn")
    for style, other, name in (("capsnet", "cnn", "capsnet_small"), ("cnn", "capsnet", "cnn_")):
        page.locator(f".chart .{style} .touch").dispatch_event("pointerover")
        assert page.inner_text("#tip").startswith(name)
        curves = [page.locator(f".chart polyline.{one}") for one in (style, other)]
        opacities = [float(x.evaluate("x => getComputedStyle(x).opacity")) for x in curves]
        assert opacities == [1, 0.25]
    page.get_by_role("tab", name="Morph").click()
    page.wait_for_selector(".morph")
    assert page.locator("[data-network]").count() == 0


@both_at_length
def test_a_square_of_the_couplings_is_looked_at_everywhere(visit):
    page = visit("mode=route&sample=3")
    page.wait_for_selector(".agreement .dots circle")
    quiet(page)
    canvas = page.locator(".step").nth(1).locator("canvas").first
    before, last = settled(page, "#primary"), settled(page, ".step:last-child canvas")
    canvas.hover(position={"x": 10, "y": 10})
    wait_for_change(page, before, "#primary")
    assert drawing(page, ".step:last-child canvas") != last
    i = int(state_of(page)["capsule"])
    said = page.inner_text("#tip")
    assert f"type {i % 8 + 1} at row" in said and "in iteration 2" in said
    page.locator(".step").nth(1).press("Enter")
    coupling = page.locator(".formula").first.locator(".number").last
    assert coupling.inner_text() == said.split()[-1]


def test_ribbons_say_how_much_they_carry(visit):
    page = visit("mode=route&sample=3")
    page.wait_for_selector("#flow path")
    tips = {
        part: page.locator(f"#flow {part}").evaluate_all("all => all.map((x) => x.dataset.tip)")
        for part in ("path", "rect.type", "rect:not(.type)")
    }
    for part in tips.values():
        shares = [float(tip.partition(": ")[2].split()[0]) for tip in part]
        assert sum(shares) == pytest.approx(100, abs=0.051 * len(shares))


BOXES = "all => all.map((x) => { const b = x.getBoundingClientRect(); return b.top + b.bottom; })"


@both_at_length
def test_ribbons_end_at_the_rows_of_their_classes(visit):
    page = visit("mode=route&sample=3", width=1280)
    page.emulate_media(reduced_motion="reduce")
    for mode in ("Route", "Warp", "Overlap"):  # the bars of the CNN make rows higher
        page.get_by_role("tab", name=mode).click()
        quiet(page)
        caps, rows = page.evaluate(  # both at one moment: ribbons are drawn anew
            f"parts => parts.map((part) => ({BOXES})([...document.querySelectorAll(part)]))",
            ["#flow rect:not(.type)", ".class-row"],
        )
        assert len(caps) == 10 and caps == pytest.approx(rows, abs=1)
        assert page.locator("#flow text").count() == 0
    page.set_viewport_size({"width": 1000, "height": 900})  # the classes are below
    page.wait_for_selector("#flow text")
    assert page.locator("#flow text").all_text_contents() == list("0123456789")


def lit(page):
    """The types and classes of all ribbons that are lit, and the rows that are."""
    ways = page.locator("#flow.lighting path.lit").evaluate_all(
        "all => all.map((x) => [Number(x.dataset.type), Number(x.dataset.which)])"
    )
    rows = page.locator(".class-row.lit .class-name").all_inner_texts()
    return {k for k, _ in ways}, {j for _, j in ways}, rows


@both_at_length
def test_what_is_pointed_at_lights_what_belongs_to_it(visit):
    page = visit("sample=3")
    every = set(range(10))
    plain = settled(page, "#primary")
    page.locator("#flow rect.type").nth(5).hover()
    assert lit(page) == ({5}, every, []) and drawing(page, "#primary") != plain
    assert page.inner_text("#tip").startswith("All capsules of type 6:")
    page.locator(".class-row").nth(4).hover()
    assert lit(page) == (set(range(8)), {4}, ["4"]) and drawing(page, "#primary") == plain
    page.locator("#flow path[data-type='2'][data-which='3']").dispatch_event("pointerover")
    assert lit(page) == ({2}, {3}, ["3"])
    page.mouse.move(5, 5)
    assert lit(page) == (set(), set(), [])
    page.locator("#primary").hover(position={"x": 12, "y": 12})
    assert lit(page)[0] == {0}
    said = page.inner_text("#tip")
    assert said.startswith("Capsule of type 1 at row") and "length" in said
    page.locator("#primary").press("PageDown")
    assert lit(page)[0] == {1} and page.inner_text("#tip").startswith("Capsule of type 2 at")
    page.locator(".class-row input").nth(3).focus()
    page.keyboard.press("ArrowDown")
    assert lit(page)[1:] == ({4}, ["4"])
