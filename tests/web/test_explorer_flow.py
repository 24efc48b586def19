"""The page when answers are slow or fail: what it shows is what was chosen last."""

from screen import state_of


def test_the_curves_of_a_warp_are_of_the_slider_in_hand(visit):
    page = visit("mode=warp&sample=2")
    page.wait_for_selector(".chart polyline")
    page.get_by_role("slider", name="rotate").focus()
    for key in ("ArrowRight",) * 3 + ("Tab",) + ("ArrowRight",) * 2:
        page.keyboard.press(key)
    page.get_by_text("while “scale” changes").wait_for()
    page.wait_for_timeout(500)
    assert "while “scale” changes" in page.inner_text(".chart h3")
    assert state_of(page)["sweep"] == "scale"
    assert page.locator(".axis-x .number").all_inner_texts() == ["0.5×", "1×", "1.5×"]
