"""The page when answers are slow or fail: what it shows is what was chosen last."""

from screen import drag, quiet, settled, state_of, wait_for_change, winner

from capsnet.web.server import create_app

STOP = """() => {
  window.answering = window.fetch;
  window.fetch = () => Promise.reject(new TypeError("Failed to fetch"));
}"""
GO_ON = "() => { window.fetch = window.answering; }"


def test_the_curves_of_a_warp_are_of_the_slider_in_hand(visit):
    page = visit("mode=warp&sample=2")
    page.wait_for_selector(".chart polyline")
    page.get_by_role("slider", name="rotate").focus()
    for key in ("ArrowRight",) * 3 + ("Tab",) + ("ArrowRight",) * 2:
        page.keyboard.press(key)
    page.get_by_text("while “scale” changes").wait_for()
    quiet(page)
    assert "while “scale” changes" in page.inner_text(".chart h3")
    assert state_of(page)["sweep"] == "scale"
    assert page.locator(".axis-x .number").all_inner_texts() == ["0.5×", "1×", "1.5×"]


def test_a_mode_waits_until_the_server_is_back(visit):
    page = visit("mode=overlap&sample=3")
    page.wait_for_selector(".class-row.second")
    page.evaluate(STOP)
    page.get_by_role("tab", name="Tweak").click()
    page.get_by_text("The server does not answer.").wait_for()
    again = page.get_by_role("button", name="Try again")
    again.click()
    again.wait_for()
    assert page.locator(".film-row").count() == 0
    page.evaluate(GO_ON)
    again.click()
    page.wait_for_selector(".film-row")
    assert page.eval_on_selector("#input", "canvas => canvas.width") == 28
    assert winner(page) == "3"


def test_a_late_stroke_does_not_undo_a_choice(visit):
    page = visit("sample=3")
    page.wait_for_selector("#input-tools .sample")
    held = []
    page.route("**/api/picture?*", lambda r: r.continue_() if held else held.append(r))
    box = page.locator("#input").bounding_box()
    x, y, side = box["x"], box["y"], box["width"]
    drag(page, (x + 0.3 * side, y + 0.2 * side), (x + 0.6 * side, y + 0.8 * side))
    page.locator("#input-tools .sample").nth(5).click()
    while not held:
        page.wait_for_timeout(50)
    held[0].continue_()
    settled(page, "#input")
    assert page.locator("#status.error").count() == 0
    assert winner(page) == "5" and state_of(page) == {"sample": "5"}


def test_a_link_with_a_picture_of_another_size_says_so(visit):
    page = visit("sample=3&image=" + "A" * 40)
    page.get_by_text("has not the size").wait_for()
    assert winner(page) == "3"


def test_the_same_file_can_be_opened_twice(visit, picture):
    page = visit("sample=3")
    for _ in range(2):
        page.locator("#input-tools .sample").nth(3).click()
        before = settled(page, "#input")
        page.set_input_files("#input-tools input[type=file]", picture)
        wait_for_change(page, before, "#input")
    assert page.eval_on_selector("#input-tools input[type=file]", "file => file.value") == ""


def test_the_page_works_where_nothing_is_kept(visit):
    page = visit("sample=3", toured=False)
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('blocked'); } })"
    )
    page.reload()
    page.wait_for_selector(".film-row")
    page.get_by_role("button", name="Light or dark").click()
    page.get_by_role("button", name="Hide this line").click()
    page.locator(".dim-name").first.fill("width")
    page.locator(".dim-name").first.blur()
    assert not page.locator("#welcome").is_visible() and winner(page) == "3"


def test_a_sample_without_an_answer_is_not_taken(visit):
    page = visit("sample=3&which=8")
    page.wait_for_selector("#input-tools .sample")
    before = settled(page, "#input")
    page.evaluate(STOP)
    page.locator("#input-tools .sample").nth(5).click()
    page.get_by_text("The server does not answer.").wait_for()
    framed = page.locator("#input-tools .sample[aria-pressed=true]")
    assert framed.get_attribute("data-number") == "3"
    assert state_of(page) == {"sample": "3", "which": "8"} and settled(page, "#input") == before
    page.evaluate(GO_ON)
    page.locator("#input-tools .sample").nth(5).click()
    wait_for_change(page, before, "#input")
    assert winner(page) == "5" and state_of(page) == {"sample": "5"}


def test_whatever_is_asked_of_a_stopped_server_gets_the_same_sentence(browser, address):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}/#mode=morph&sample=3")
    page.get_by_text("of the way").wait_for()
    page.evaluate(STOP)
    for name in ("Others", "Save GIF"):
        page.get_by_role("button", name=name).first.click()
        page.get_by_text("The server does not answer.").wait_for()
        page.evaluate("() => { document.querySelector('#status').textContent = ''; }")
    context.close()


def test_warp_says_no_more_than_what_holds(visit, serving, colour_run):
    note = ".verdict .note"
    page = visit("mode=warp&image=" + "A" * 523)  # an empty picture
    page.wait_for_selector(note)
    assert "nothing on this picture" in page.inner_text(note)
    page.locator("#input-tools .sample").nth(3).click()
    page.get_by_text("the CNN's softmax").wait_for()
    assert "says nothing about capsules" in page.inner_text(note)  # the two were trained apart
    with serving(create_app(colour_run)) as where:
        page = visit("mode=warp&sample=1", where=where)
        page.wait_for_selector(note)
        assert page.inner_text(f"{note} >> nth=1").endswith("all of them can be short.")
        page.close()


def test_the_tour_keeps_its_place_and_goes_back(visit):
    page = visit("mode=route&sample=3")
    page.get_by_role("button", name="Tour").click()
    page.wait_for_selector(".film-row")
    left = page.locator("#tour").bounding_box()["x"]
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_function(
        "x => document.querySelector('#tour').getBoundingClientRect().left !== x", arg=left
    )
    page.keyboard.press("Escape")
    page.wait_for_selector(".formula")
    page.wait_for_function("() => document.activeElement.id === 'tour-button'")
    assert page.locator("#tour, #tour-light").count() == 0
    assert page.evaluate("document.activeElement.id") == "tour-button"


def test_the_focus_outlives_the_welcome(visit):
    page = visit(toured=False)
    page.get_by_role("button", name="Hide this line").press("Enter")
    assert page.evaluate("document.activeElement.id") == "tour-button"


def test_the_welcome_makes_room_for_who_has_begun(visit):
    page = visit(toured=False)
    assert page.locator("#welcome").is_visible()
    page.locator("#input-tools .sample").nth(3).click()
    assert page.locator("#welcome").is_hidden()
    page.reload()
    page.wait_for_selector("#welcome:not([hidden])")  # its tour was not taken


def test_a_first_picture_that_does_not_come_can_be_asked_for_again(visit):
    page = visit("sample=3")
    page.add_init_script(
        """const real = window.fetch;
        window.fetch = (path, options) => {
          if (!path.startsWith("/api/samples") || window.answers) return real(path, options);
          return Promise.reject(new TypeError("Failed to fetch"));
        };"""
    )
    page.reload()
    again = page.get_by_role("button", name="Try again")
    again.wait_for()
    page.locator("#primary").hover()
    page.locator("#primary").press("ArrowDown")
    page.get_by_role("tab", name="Route").click()
    again.wait_for()
    page.evaluate("() => { window.answers = true; }")
    again.click()
    page.wait_for_selector(".formula")
    assert winner(page) == "3"


def test_without_a_server_the_sliders_stay_where_the_picture_is(visit):
    page = visit("sample=3&which=3&range=0.25&tweak=0.2")
    page.wait_for_selector(".film-row")
    before = settled(page)
    page.evaluate(STOP)
    slider = page.get_by_label("Dimension 1", exact=True)
    slider.fill("-0.2")
    page.get_by_text("The server does not answer.").wait_for()
    page.wait_for_function(
        "() => document.querySelector('.film-row[data-dim=\"0\"] [type=range]').value === '0.2'"
    )
    assert settled(page) == before and state_of(page)["tweak"].startswith("0.2")
    page.evaluate(GO_ON)
    slider.fill("-0.2")
    wait_for_change(page, before)
    for mode, name in (("Warp", "rotate"), ("Overlap", "First digit, pixels right")):
        page.get_by_role("tab", name=mode).click()
        slider = page.get_by_label(name, exact=True)
        slider.wait_for()
        picture, place = settled(page, "#input"), slider.input_value()
        page.evaluate(STOP)
        slider.fill("5")
        page.wait_for_function(
            "([slider, place]) => slider.value === place", arg=[slider.element_handle(), place]
        )
        assert settled(page, "#input") == picture
        page.evaluate(GO_ON)
        slider.fill("5")
        wait_for_change(page, picture, "#input")


def test_test_images_are_asked_for_once(visit):
    page = visit("mode=overlap&pair=1,2")
    asked = []
    page.on("request", lambda r: "page=" in r.url and asked.append(r.url.split("/")[-1]))
    page.reload()
    page.wait_for_selector(".class-row.second")
    for name in ("Tweak", "Morph", "Tweak"):
        page.get_by_role("tab", name=name).click()
        page.wait_for_selector("#input-tools .sample")
    assert sorted(asked) == ["digits?page=0", "samples?page=0"]
