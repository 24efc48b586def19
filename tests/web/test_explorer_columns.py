"""What the columns and panels say and how they are touched, in a real browser."""


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
