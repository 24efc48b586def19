"""For teachers: presenting, lesson links, the tour, sizes for a lecture hall, labelled files."""

import json

import pytest
from PIL import Image
from screen import both_at_length, quiet, settled, state_of

MODES = ("tweak", "route", "overlap", "warp", "morph")
SLIDES = ("input", "primary", "routing", "classes", "reconstruction", "panel")
# Visible text below 15 px as it is drawn: in an SVG its scale counts.
SMALL = """() => [...document.querySelectorAll("body *")].filter((e) => {
  if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) return false;
  if (!e.checkVisibility({ visibilityProperty: true })) return false;
  const scale = e.ownerSVGElement ? e.getScreenCTM().d : 1;
  return scale * parseFloat(getComputedStyle(e).fontSize) < 14.95;
}).map((e) => e.outerHTML.slice(0, 200))"""
ABOVE_FOLD = "all => all.map((e) => e.getBoundingClientRect().bottom <= innerHeight)"
ON_TOP = """button => {
  const box = button.getBoundingClientRect();
  const on = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return on === button && box.right <= innerWidth && box.bottom <= innerHeight;
}"""


def shown(page):
    """The columns that are seen, or the panel."""
    return [
        name
        for name in SLIDES
        if page.locator(f"#{'' if name == 'panel' else 'column-'}{name}").is_visible()
    ]


def grave(page):
    """What axe finds that is serious."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        (v["id"], [n["html"][:150] for n in v["nodes"]][:3])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


@both_at_length
def test_present_one_column_at_a_time(visit):
    page = visit("mode=route&sample=3")
    page.get_by_role("button", name="Present").click()
    assert shown(page) == ["input"] and not page.locator("#article").is_visible()
    for name in SLIDES[1:]:
        page.keyboard.press("ArrowRight")
        assert shown(page) == [name]
    page.keyboard.press("PageDown")  # there is no further one
    assert shown(page) == ["panel"] and "6 of 6: Route" in page.inner_text("#present-bar")
    page.keyboard.press("Home")
    page.get_by_role("button", name="Next ▶").click()
    assert shown(page) == ["primary"] and state_of(page)["present"] == "2"
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert shown(page) == ["primary"]  # a link opens presenting
    page.get_by_role("tab", name="Warp").click()
    page.wait_for_function("() => document.body.dataset.mode === 'warp'")
    assert shown(page) == ["primary"]
    page.get_by_role("button", name="Next ▶").focus()
    page.keyboard.press("End")
    slider = page.get_by_label("rotate")
    slider.focus()
    page.keyboard.press("ArrowRight")  # a slider's own
    assert shown(page) == ["panel"]
    page.keyboard.press("Escape")
    assert shown(page) == list(SLIDES) and "present" not in state_of(page)
    assert page.evaluate("document.activeElement.id") == "present-button"


def test_presenting_does_not_step_the_routing(visit):
    page = visit("mode=route&sample=3&step=1&present=2")
    page.keyboard.press("ArrowRight")
    assert shown(page) == ["routing"] and page.inner_text("#sub-routing").endswith("1 of 3")


def test_back_leaves_the_presentation(visit):
    page = visit("sample=3")
    page.get_by_role("button", name="Present").click()
    page.go_back()
    page.wait_for_function("() => !document.documentElement.classList.contains('presenting')")
    assert shown(page) == list(SLIDES)


@both_at_length
def test_a_lesson_link_is_made_and_followed(visit):
    page = visit("mode=route&sample=3&step=2")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Lesson").click()
    page.get_by_label("Caption").fill("Which parts agree?")
    for name in ("the modes", "the menu of networks in Route", "the article below"):
        page.get_by_label(name).check()
    page.get_by_label("Present one column at a time").check()
    page.get_by_role("button", name="Copy", exact=True).click()
    page.get_by_text("The link is copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.get_by_label("Link", exact=True).input_value() != page.url
    page.keyboard.press("Escape")
    page.locator("#lesson-dialog").wait_for(state="detached")
    assert page.locator("#tabs").is_visible()
    assert page.evaluate("document.activeElement.id") == "lesson-button"
    page.goto(link)
    page.wait_for_function("() => document.querySelector('#caption').innerText")
    assert page.inner_text("#caption") == "Which parts agree?"
    assert shown(page) == ["input"] and not page.locator("#tabs").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#article").is_visible()
    assert page.inner_text("#sub-routing").endswith("2 of 3")
    page.get_by_role("button", name="Leave the lesson").click()
    assert page.locator("#tabs").is_visible() and page.locator("#article").is_visible()
    assert set(state_of(page)) == {"mode", "sample", "step", "capsule"}
    page.go_back()
    page.wait_for_selector("#lesson")


@pytest.mark.parametrize("width", [1280, 360])
def test_a_strangers_link_cannot_hide_the_way_out(visit, width):
    evil = "<img src=x onerror=alert(1)>" + "W%E2%80%AE%00%0A" * 300 + "a%CC%81%CC%81" * 200
    page = visit(f"caption={evil}&hide=modes+tools+lesson+pictures+article&present=99", width)
    assert page.inner_text("#caption").startswith("<img src=x onerror=alert(1)>W W")
    assert len(page.inner_text("#caption")) <= 200 and page.locator("#caption *").count() == 0
    assert page.eval_on_selector("#lesson-leave", ON_TOP)
    assert page.evaluate("document.body.dataset.hide") == "modes pictures article"
    page.get_by_role("button", name="Leave the lesson").click()
    assert not page.locator("#lesson").is_visible()


@both_at_length
def test_no_text_is_smaller_than_15_pixels(visit):
    for width in (1600, 360):
        page = visit("sample=3", width)
        for mode in MODES:
            page.evaluate(f"location.hash = 'mode={mode}&sample=3'")
            page.wait_for_function(f"() => document.body.dataset.mode === '{mode}'")
            quiet(page)
            assert page.evaluate(SMALL) == [], mode
        page.close()


def test_type_grows_to_a_projector_and_the_width_is_used(visit):
    small, large = visit("sample=3", 1280), visit("sample=3", 2560)
    size = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
    assert large.evaluate(size) > 1.4 * small.evaluate(size) >= 1.4 * 15
    assert large.locator("#columns").bounding_box()["width"] > 0.9 * 2560


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (2560, 1440)])
def test_films_and_maps_are_above_the_fold(visit, width, height):
    page = visit("sample=3", width)
    page.set_viewport_size({"width": width, "height": height})
    page.reload()
    page.wait_for_selector(".film-row")
    settled(page, ".film canvas")
    assert page.locator(".film").evaluate_all(ABOVE_FOLD) == 16 * [True]
    assert page.evaluate("scrollY") == 0 and page.evaluate(SMALL) == []
    page.get_by_role("tab", name="Route").click()
    page.wait_for_selector(".step .drawing")
    assert page.locator(".step").evaluate_all(ABOVE_FOLD) == 3 * [True]
    for mode in MODES:
        page.get_by_role("tab", name=mode.capitalize()).click()
        quiet(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


CUT = "all => all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.innerText)"


def test_no_line_above_the_pictures_is_cut(visit):
    page = visit("sample=3", 1280)
    page.set_viewport_size({"width": 1280, "height": 720})
    for mode in MODES:
        page.get_by_role("tab", name=mode.capitalize()).click()
        quiet(page)
        lines = page.locator(".title p, .columns > section > :is(h2, .sub)")
        assert lines.count() == 11 and lines.evaluate_all(CUT) == [], mode


def test_a_picture_that_is_presented_with_a_caption_is_whole(visit):
    page = visit("mode=route&sample=3&present=1&caption=Which parts agree?", 1280)
    page.set_viewport_size({"width": 1280, "height": 720})
    for picture in ("#input", "#primary", "#flow"):
        drawn, bar = (page.locator(part).bounding_box() for part in (picture, "#present-bar"))
        assert drawn["y"] + drawn["height"] <= bar["y"]
        page.keyboard.press("ArrowRight")


@pytest.mark.parametrize(
    ("width", "theme"), [(1280, "light"), pytest.param(360, "dark", marks=pytest.mark.long)]
)
def test_accessible_for_teachers(visit, width, theme):
    page = visit("mode=route&sample=3&caption=Look&hide=article", width, theme)
    for n in range(1, 7):
        page.evaluate(f"location.hash = 'mode=route&sample=3&caption=Look&present={n}'")
        page.wait_for_selector(f"#present-bar :text('{n} of 6')")
        quiet(page)
        assert grave(page) == [], json.dumps(grave(page), indent=1)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(SMALL) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Lesson", exact=True).click()
    assert grave(page) == [] and page.evaluate(SMALL) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Tour").click()
    assert grave(page) == []


# How much of the lit place the bubble covers, and whether the place is lit where it is seen.
COVERED = """() => {
  const box = (x) => document.querySelector(x).getBoundingClientRect();
  const [a, b] = [box("#tour"), box("#tour-light")];
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  return across > 0 && down > 0 ? Math.round(across * down) : 0;
}"""
# The light moves to its place, and the page scrolls there.
STILL = """() => new Promise((done) => {
  let before = "";
  const look = () => {
    const box = (x) => JSON.stringify(document.querySelector(x).getBoundingClientRect());
    const now = box("#tour-light") + box("#tour");
    if (now === before) done();
    else (before = now), setTimeout(look, 120);
  };
  look();
})"""


@pytest.mark.parametrize(
    ("address", "width", "height", "motion"),
    [
        ("served", 360, 740, "no-preference"),
        pytest.param("served", 1280, 720, "no-preference", marks=pytest.mark.long),
        pytest.param("static", 1600, 1000, "reduce", marks=pytest.mark.long),
    ],
    indirect=["address"],
)
def test_the_tour_visits_every_mode_and_covers_nothing(visit, width, height, motion):
    page = visit("mode=warp&sample=3&which=8&warp=20,1,0,0,0,0,1,0", width)
    page.emulate_media(reduced_motion=motion)
    page.set_viewport_size({"width": width, "height": height})
    quiet(page)
    start, before = state_of(page), settled(page, "#input")
    length = page.evaluate("history.length")
    page.evaluate("scrollTo(0, 50)")
    page.get_by_role("button", name="Tour").click()
    modes, count = [], int(page.inner_text("#tour .note").split()[-1])
    for n in range(count):
        page.wait_for_selector(f"#tour .note:text('{n + 1} of {count}')")
        quiet(page)
        page.evaluate(STILL)
        assert page.evaluate(COVERED) == 0, page.inner_text("#tour h3")
        light = page.locator("#tour-light").bounding_box()
        assert light["width"] > 100 and light["height"] > 20, page.inner_text("#tour h3")
        assert 0 <= light["y"] < height - 50
        if not modes or modes[-1] != state_of(page).get("mode", "tweak"):
            modes.append(state_of(page).get("mode", "tweak"))
        if modes[-1] == "route":  # it plays, from the first iteration to the last
            page.wait_for_function(
                "() => document.querySelector('#sub-routing').innerText.endsWith('3 of 3')"
                " && document.querySelector('#panel .primary').innerText.includes('Play')"
            )
            assert state_of(page)["step"] == "3"
            assert page.locator(".agreement svg").bounding_box() == pytest.approx(light, abs=1)
        for _ in range(5):  # the focus stays in the bubble
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.closest('main, header') === null")
        page.locator("#tour .primary").click()
    assert set(modes) == set(MODES)
    page.wait_for_function("() => document.activeElement.id === 'tour-button'")
    assert state_of(page) == start and page.evaluate("history.length") == length
    assert settled(page, "#input") == before and page.evaluate("scrollY") == 50


@both_at_length
def test_files_say_what_they_show(visit):
    page = visit("sample=3")
    name = page.get_by_label("Your name for dimension 1", exact=True)
    name.fill("a name of some length")
    name.blur()
    other = page.get_by_label("Your name for dimension 2", exact=True).get_attribute("placeholder")
    settled(page, ".film canvas")
    written = """() => {
      window.written = [];
      const fill = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        const { width, height } = this.canvas;
        if (text) window.written.push([text, place[0], place[1], width, height]);
        fill.call(this, text, ...place);
      };
    }"""
    page.evaluate(written)
    wanted = {
        "Tweak": ["The 16 dimensions of capsule “3”", "a name of some length", other, "0"],
        "Overlap": ["input", "both drawn", "Two digits over each other"],
        "Morph": ["From capsule “3” to capsule “", "0 %", "100 %"],
    }
    for mode, words in wanted.items():
        page.get_by_role("tab", name=mode).click()
        quiet(page)
        page.evaluate("() => { window.written = []; }")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save PNG").click()
        said = page.evaluate("window.written")
        for word in (*words, "capsnet_small, trained on "):
            assert any(text.startswith(word) for text, *_ in said), (word, said)
        assert all(0 <= x <= w and 0 <= y <= h for _, x, y, w, h in said)
        with Image.open(download.value.path()) as saved:
            assert list(saved.size) == said[0][3:]
