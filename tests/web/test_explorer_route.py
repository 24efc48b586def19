"""What Route shows of the votes, also where one capsule outweighs all others."""

import pytest
from screen import drawing, wait_for_change

from capsnet.web.server import create_app

COLOURS = """canvas => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = new Set();
  for (let p = 0; p < data.length; p += 4) found.add(data.slice(p, p + 4).join());
  return found.size;
}"""


def value(locator):
    return float(locator.inner_text().replace("−", "-").removesuffix(" %"))


@pytest.fixture(scope="module")
def shipped(serving):
    with serving(create_app()) as where:
        yield where


def test_the_maps_of_the_shipped_network_show_more_than_one_dot(visit, shipped):
    page = visit("mode=route&sample=2", where=shipped)
    page.wait_for_selector(".legend")
    assert page.eval_on_selector("#primary", COLOURS) > 50
    first, *_, last = (page.locator(".step canvas").nth(n).evaluate(COLOURS) for n in range(3))
    assert first == 2 and last > 50  # at first all couplings are even
    note = page.locator(".legend .note")
    assert "One strong capsule" in note.inner_text() and "capsnet_small" in note.inner_text()
    assert value(note.locator(".number").first) < value(note.locator(".number").last)
    assert value(note.locator(".number").last) == value(page.locator(".formula .aside .number"))
    page.close()


def test_the_legend_says_what_the_ends_of_the_scale_are(visit):
    page = visit("mode=route&sample=3")
    ends = page.locator(".legend .ends .number").all_inner_texts()
    low, even, high = (float(end.split()[-1]) for end in ends)
    assert low < even == 0.1 < high
    assert low * high == pytest.approx(even**2, rel=0.1)
    sent = [float(x) for x in page.locator("#note-primary .number").all_inner_texts()]
    assert 0 < sent[0] <= sent[1]
    before = drawing(page, ".step:last-child canvas")
    page.locator(".class-row").first.click()
    wait_for_change(page, before, ".step:last-child canvas")


def test_the_share_of_a_capsule_follows_from_the_other_numbers(visit):
    page = visit("mode=route&sample=3")
    lines = page.locator(".formula")
    c, s, v, agreement = (
        value(lines.nth(line).locator(".number").nth(place))
        for line, place in ((0, 2), (1, 0), (2, 0), (3, 1))
    )
    share = value(lines.nth(1).locator(".aside .number"))
    assert share == pytest.approx(100 * c * agreement / (s * v), abs=2)
