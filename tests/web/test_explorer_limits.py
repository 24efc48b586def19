"""How far everything goes is said once, by the server: the page's sliders and links follow it."""

from math import ceil

import pytest
from fastapi.testclient import TestClient
from screen import COUNT_WAITS, state_of

from capsnet.web import schema
from capsnet.web.server import create_app


@pytest.fixture(params=["as shipped", "changed"])
def limited(request, monkeypatch, runs, serving):
    """An explorer whose limits are the shipped or other ones: its address, and what it says."""
    if request.param == "changed":
        monkeypatch.setattr(schema.RANGES["rotate"], "high", 90.0)
        monkeypatch.setattr(schema.RANGES["shear"], "step", 0.25)
        monkeypatch.setattr(schema.RANGES["down"], "unit", " dots")
        monkeypatch.setattr(schema.PLACE, "low", -3.0)
        monkeypatch.setattr(schema.TWEAKS[2], "high", 2.0)
    app = create_app(runs["capsnet"], runs["overlap"], runs["cnn"])
    with serving(app) as where:
        info = TestClient(app, base_url="http://127.0.0.1").get("/api/info").json()
        yield where, info["limits"]


def goes(slider):
    """How far a slider of the page goes: low, high and step."""
    return [float(slider.get_attribute(name)) for name in ("min", "max", "step")]


def said(limit):
    return [limit["low"], limit["high"], limit["step"]]


def test_sliders_of_warp_and_links_to_them(visit, limited):
    where, limits = limited
    bends = limits["bends"]
    assert list(bends) == list(schema.RANGES)
    page = visit(f"mode=warp&warp={'999,' * len(bends)}3,99999999", where=where)
    for name, bend in bends.items():
        slider = page.get_by_label(name, exact=True)
        assert goes(slider) == said(bend)
        assert float(slider.input_value()) == bend["high"]  # not what the link says
        row = page.locator(".slider-row", has=slider)
        assert row.locator("output").inner_text().endswith(bend["unit"])
    cuts = page.locator("[data-pieces]")
    assert [int(cut.get_attribute("data-pieces")) for cut in cuts.all()] == limits["pieces"]
    assert cuts.first.get_attribute("aria-pressed") == "true"
    page.get_by_label("rotate", exact=True).fill("1")
    assert state_of(page)["warp"].endswith(f",{limits['max_number']}")
    page.get_by_role("button", name="Reset").click()
    for name, bend in bends.items():
        assert float(page.get_by_label(name, exact=True).input_value()) == bend["usual"]
    assert "warp" not in state_of(page)
    page.close()


def test_sliders_of_overlap_and_tweak(visit, limited):
    where, limits = limited
    page = visit("mode=overlap&place=-99,0,0,99", where=where)
    page.wait_for_selector(".class-row.second")
    sliders = page.locator(".overlap input[type=range]").all()
    assert [goes(slider) for slider in sliders] == 4 * [said(limits["place"])]
    places = [float(slider.input_value()) for slider in sliders]
    assert places == [limits["place"]["low"], 0, 0, limits["place"]["high"]]
    assert f"more than {limits['trained_shift']} pixels" in page.inner_text(".verdict")
    page.get_by_role("tab", name="Tweak").click()
    widths = page.get_by_label("Range of the sliders")
    for limit in limits["tweaks"]:
        widths.select_option(f"±{limit['high']:g}")
        assert goes(page.get_by_label("Dimension 2", exact=True)) == said(limit)
    assert widths.locator("option").count() == len(limits["tweaks"]) + 1  # and spreads
    page.close()


def test_a_slider_goes_as_far_as_its_number_varies(visit, runs, serving):
    app = create_app(runs["capsnet"], runs["overlap"], runs["cnn"])
    with serving(app) as where:
        known = TestClient(app, base_url="http://127.0.0.1").get("/api/dimensions").json()
        page = visit("sample=3&which=8&tweak=0,0,9,-9", where=where)
        page.wait_for_selector(".film-row")
        for e in (0, 1):
            far = ceil(250 * known["spreads"][8][e] - 1e-6) / 100
            low, high, _ = goes(page.get_by_label(f"Dimension {e + 1}", exact=True))
            assert high == -low == pytest.approx(min(far, 1))
        assert state_of(page)["tweak"] == "0,0,1,-1"  # no link goes further
        page.get_by_label("Range of the sliders").select_option("0.25")
        assert state_of(page)["tweak"] == "0,0,0.25,-0.25"
        page.close()


def test_the_address_stays_while_nothing_is_known(browser, address):
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(COUNT_WAITS)
    page.route("**/api/info", lambda route: route.abort())
    page.goto(f"{address}/#mode=warp&warp=30,1,0,0,0,0,1,0")
    page.wait_for_selector("#status.error")
    before = page.url
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("tab", name="Route").click()
    page.keyboard.press("ArrowRight")
    assert state_of(page)["mode"] == "warp" and page.url == before
    context.close()
