"""The first line and the article below the explorer: true of the network, alive, easy to read."""

import re
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest
from screen import both_at_length, drawing, quiet, settled, wait_for_change

from capsnet.web.routes import STATIC
from capsnet.web.server import create_app

ROOT = Path(__file__).parents[2]
TITLES = [
    "What a capsule is",
    "Why pooling loses pose",
    "Votes and agreement",
    "Routing, picture by picture",
    "What the 16 numbers mean",
    "What holds, and what does not",
    "Colour key",
    "Sources",
]
NUMBERS = "[data-figure=numbers]"
# Text below 15 px, and steps of more than one from a heading to the next.
SMALL = """all => all.filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())
  && parseFloat(getComputedStyle(e).fontSize) < 15).map((e) => e.outerHTML)"""
LEVELS = "all => all.map((heading) => Number(heading.tagName[1]))"


def figure(page, name):
    """Go to a figure, wait until it is drawn, and return it."""
    found = page.locator(f"[data-figure={name}]")
    found.scroll_into_view_if_needed()
    found.locator(".live > *").first.wait_for()
    quiet(page)
    return found


@both_at_length
def test_the_figures_follow_the_picture(visit):
    page = visit("sample=3")
    assert page.inner_text("#lead") == "This network redraws your digit from 16 numbers. Drag one."
    page.locator("#read-on").click()
    assert page.evaluate("document.activeElement.id") == "title-article"
    assert page.locator("#article h3").all_inner_texts() == TITLES
    said = page.locator("#classes .number:not(.cnn)").all_inner_texts()
    assert figure(page, "lengths").locator(".length").all_inner_texts() == said
    first = drawing(page, "[data-figure=lengths] canvas")
    assert first == drawing(page, "#input")
    assert drawing(page, "[data-figure=pooling] canvas:last-of-type") != first
    assert figure(page, "votes").locator("svg").count() == 2
    assert figure(page, "routing").locator(".iteration").count() == 3
    page.locator("#input-tools .sample").nth(5).click()
    quiet(page)
    now = page.locator("#classes .number:not(.cnn)").all_inner_texts()
    assert figure(page, "lengths").locator(".length").all_inner_texts() == now != said
    assert drawing(page, "[data-figure=lengths] canvas") == drawing(page, "#input") != first
    assert "“5”" in figure(page, "routing").locator("figcaption").inner_text()


@both_at_length
def test_one_number_is_moved_by_hand(visit):
    page = visit("sample=3")
    moved = figure(page, "numbers")
    unmoved = settled(page, f"{NUMBERS} canvas")
    assert unmoved == drawing(page, "#reconstruction")
    moved.get_by_role("slider").fill("0.25")
    wait_for_change(page, unmoved, f"{NUMBERS} canvas")
    one = settled(page, f"{NUMBERS} canvas")
    films = page.locator(".film-row").evaluate_all("rows => rows.map((row) => row.dataset.dim)")
    assert moved.get_by_role("combobox").input_value() == films[0]  # that which changes most
    moved.get_by_role("combobox").select_option(films[1])
    wait_for_change(page, one, f"{NUMBERS} canvas")
    two = settled(page, f"{NUMBERS} canvas")
    tweak = int(films[1]) * "0," + "0.25"
    page.goto(page.url.split("#")[0] + f"#sample=3&which=3&tweak={tweak}")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert settled(page) == two


def test_what_is_sent_agrees_as_route_says(visit):
    page = visit("mode=route&sample=3")
    quiet(page)
    agreed = page.inner_text(".agreement .note .number")
    told = figure(page, "votes").locator("figcaption").inner_text()
    assert f"agrees by {agreed} for “3”" in told


@both_at_length
def test_overlap_has_its_own_network(visit):
    page = visit("mode=overlap")
    said = page.locator("#classes .number:not(.cnn)").all_inner_texts()
    assert figure(page, "lengths").locator(".length").all_inner_texts() == said
    assert drawing(page, "[data-figure=lengths] canvas") == drawing(page, "#input")
    page.locator(NUMBERS).scroll_into_view_if_needed()
    page.locator(NUMBERS).get_by_text("in any other mode").wait_for()
    page.get_by_role("tab", name="Tweak").click()
    figure(page, "numbers").get_by_role("slider").wait_for()


def test_buttons_lead_to_the_modes(visit):
    page = visit("sample=3")
    page.get_by_role("button", name="Look closer in Route").click()
    assert page.get_by_role("tab", selected=True).inner_text() == "Route"
    assert page.evaluate("[scrollY, document.activeElement.id]") == [0, "tab-route"]


@pytest.mark.parametrize(("width", "theme"), [(1600, "light"), (360, "dark")])
def test_the_article_is_easy_to_read(visit, width, theme):
    from axe_playwright_python.sync_playwright import Axe

    page = visit("sample=3", width, theme)
    for name in ("lengths", "pooling", "votes", "routing", "numbers"):
        figure(page, name)
    found = Axe().run(page).response["violations"]
    assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []
    assert page.locator("#article *").evaluate_all(SMALL) == []
    levels = page.locator(":is(h1, h2, h3, h4):visible").evaluate_all(LEVELS)
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_is_said_fits_the_network(visit, serving, colour_run, runs):
    with serving(create_app(colour_run)) as where:
        page = visit("", where=where)
        assert "redraws your picture from" in page.inner_text("#lead")
        assert figure(page, "lengths").locator("li").count() == 2
        assert "has 2 class capsules" in page.inner_text("#article section >> nth=0")
        page.close()
    with serving(create_app(runs["plain"])) as where:
        page = visit("mode=tweak", where=where)
        assert "redraws" not in page.inner_text("#lead")
        page.locator(NUMBERS).scroll_into_view_if_needed()
        page.locator(NUMBERS).get_by_text("without a decoder").wait_for()
        page.close()


def test_the_claims_are_those_of_the_docs():
    def plain(text):
        return " ".join(re.sub(r"<[^>]+>|\*\*", "", unescape(text)).split())

    page = (STATIC / "index.html").read_text(encoding="utf-8")
    claims = re.findall(r"<li>(.+?)</li>", page, re.S)
    docs = " ".join(plain((ROOT / x).read_text()) for x in ("README.md", "docs/when_capsules.md"))
    assert len(claims) == 9
    assert [claim for claim in map(plain, claims) if claim not in docs] == []
