"""The browser's Back and Forward: they go from mode to mode, and nothing that was made is lost."""

from screen import both_at_length, drag, settled, state_of, wait_for_change, winner

PANELS = {
    "tweak": ".film-row",
    "route": ".formula",
    "overlap": ".overlap",
    "warp": ".warp",
    "morph": ".morph",
}


def tab(page, name):
    page.get_by_role("tab", name=name).click()
    page.wait_for_selector(PANELS[name.lower()])


def step(page, way, mode):
    """Press Back or Forward; the mode that is then shown."""
    page.go_back() if way == "back" else page.go_forward()
    page.wait_for_selector(PANELS[mode])
    assert page.get_by_role("tab", selected=True).inner_text().lower() == mode


def scribble(page, *points):
    box = page.locator("#input").bounding_box()
    x, y, side = box["x"], box["y"], box["width"]
    drag(page, *((x + right * side, y + down * side) for right, down in points))


def test_back_and_forward_go_between_the_modes(visit):
    page = visit("sample=3&range=0.25")
    page.wait_for_selector(".film-row")
    page.get_by_label("Dimension 2", exact=True).fill("0.2")
    tweaked = settled(page)
    before = page.evaluate("history.length")
    tab(page, "Warp")
    for degrees in (10, 20, 30):  # small changes make no entries
        page.get_by_label("rotate").fill(str(degrees))
        state_of(page)
    tab(page, "Route")
    page.locator(".step").first.click()
    assert state_of(page)["step"] == "1"
    assert page.evaluate("history.length") == before + 2
    step(page, "back", "warp")
    page.wait_for_selector(".chart polyline")
    assert page.get_by_label("rotate").input_value() == "30"
    step(page, "back", "tweak")
    assert page.get_by_label("Dimension 2", exact=True).input_value() == "0.2"
    assert settled(page) == tweaked
    step(page, "forward", "warp")
    step(page, "forward", "route")
    assert page.inner_text("#sub-routing").endswith("1 of 3")
    assert "Route" in page.title()


@both_at_length
def test_back_keeps_the_drawing(visit):
    page = visit("sample=3")
    start = settled(page, "#input")
    tab(page, "Route")
    scribble(page, (0.52, 0.15), (0.5, 0.85))
    page.wait_for_selector("#seen:not([hidden])")
    drawn, seen, digit = settled(page, "#input"), settled(page, "#seen"), winner(page)
    tab(page, "Morph")
    step(page, "back", "route")
    assert settled(page, "#input") == drawn and winner(page) == digit  # the strokes themselves
    step(page, "back", "tweak")
    wait_for_change(page, drawn, "#input")
    assert settled(page, "#input") == start and winner(page) == "3"
    assert page.locator("#seen").is_hidden()
    pressed = page.locator("#input-tools .sample[aria-pressed=true]")
    assert pressed.get_attribute("data-number") == "3"
    step(page, "forward", "route")
    wait_for_change(page, start, "#input")
    assert settled(page, "#input") == seen and winner(page) == digit
    page.wait_for_function("() => !document.querySelector('.sample[aria-pressed=true]')")


@both_at_length
def test_back_from_overlap_shows_the_picture_again(visit):
    page = visit("sample=3")
    before = settled(page, "#input")
    tab(page, "Overlap")
    page.wait_for_selector(".class-row.second")
    step(page, "back", "tweak")
    page.wait_for_selector(".film-row")
    assert settled(page, "#input") == before and winner(page) == "3"


def test_back_without_an_answer_offers_to_try_again(visit):
    page = visit("sample=3")
    tab(page, "Route")
    page.locator("#input-tools .sample").nth(5).click()
    page.wait_for_function("() => document.querySelector('.chosen .class-name').innerText === '5'")
    page.evaluate("() => { window.real = fetch; window.fetch = () => Promise.reject(); }")
    page.go_back()
    again = page.get_by_role("button", name="Try again")
    again.wait_for()
    page.evaluate("() => { window.fetch = window.real; }")
    again.click()
    page.wait_for_selector(".film-row")
    assert winner(page) == "3" and state_of(page) == {"sample": "3"}


def test_another_address_is_shown_without_a_reload(visit):
    page = visit("sample=3")
    page.evaluate("() => { window.kept = true; location.hash = 'mode=route&sample=5&step=1'; }")
    page.wait_for_selector(PANELS["route"])
    assert winner(page) == "5" and page.inner_text("#sub-routing").endswith("1 of 3")
    assert page.evaluate("window.kept")


def test_alt_and_an_arrow_is_not_for_the_tabs(visit):
    page = visit("sample=3")
    tab(page, "Route")
    page.get_by_role("tab", name="Route").focus()
    page.get_by_role("tab", name="Route").dispatch_event(
        "keydown", {"key": "ArrowLeft", "altKey": True, "bubbles": True}
    )
    assert state_of(page)["mode"] == "route"


def test_back_holds_the_capsule_of_its_mode(visit):
    page = visit("sample=3")
    box = page.locator("#primary").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.1)
    capsule = state_of(page)["capsule"]
    tab(page, "Warp")
    assert page.locator("#field").is_hidden()
    step(page, "back", "tweak")
    assert page.locator("#field").is_visible() and state_of(page)["capsule"] == capsule
    page.locator("#primary").hover()
    page.mouse.move(5, 5)
    assert page.locator("#field").is_visible()


def test_the_tour_ends_at_back_and_leaves_no_entries(visit):
    page = visit("sample=3")
    tab(page, "Route")
    length = page.evaluate("history.length")
    page.get_by_role("button", name="Tour").click()
    page.wait_for_selector(".film-row")
    page.keyboard.press("Escape")
    page.wait_for_selector(".formula")
    assert page.evaluate("history.length") == length
    page.get_by_role("button", name="Tour").click()
    step(page, "back", "tweak")
    assert page.locator("#tour").count() == 0


def test_a_change_right_before_reload_or_back_is_kept(visit):
    page = visit("mode=warp&sample=3")
    page.wait_for_selector(".chart polyline")
    page.get_by_label("rotate").focus()
    page.evaluate(
        """() => {
          const slider = document.activeElement;
          for (const degrees of [10, 20, 30]) {
            slider.value = degrees;
            slider.dispatchEvent(new Event("input"));
          }
          slider.dispatchEvent(new Event("pointerup", { bubbles: true }));
          location.reload();
        }"""
    )
    page.wait_for_function("() => document.querySelector('[aria-label=rotate]')?.value === '30'")
    tab(page, "Route")
    page.locator("#primary").focus()
    capsule = page.evaluate(
        """async () => {
          for (let n = 0; n < 3; n++)
            for (const name of ["keydown", "keyup"])
              document.activeElement.dispatchEvent(
                new KeyboardEvent(name, { key: "PageDown", bubbles: true, cancelable: true }));
          const capsule = new URLSearchParams(location.hash.slice(1)).get("capsule");
          history.back();
          return capsule;
        }"""
    )
    page.wait_for_selector(PANELS["warp"])
    step(page, "forward", "route")
    assert state_of(page)["capsule"] == capsule
