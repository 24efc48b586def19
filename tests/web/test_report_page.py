"""The report in a browser: nothing runs, nothing is fetched, it fits, and all can read it."""

import csv

import pytest
from screen import check_accessible
from strange import EVIL

from capsnet.report.writing import write_report


@pytest.fixture(scope="module")
def page_file(strange_runs, tmp_path_factory):
    return write_report(strange_runs, tmp_path_factory.mktemp("page") / "report.html").page


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1600])
def test_the_report_fits_and_is_accessible(read, page_file, width, theme):
    page = read(page_file, width, theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("section").count() == 9
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back[4:-1].split(","))) > 380) == (theme == "light")
    broken = "[...document.images].filter((x) => !x.complete || !x.naturalWidth).length"
    assert page.evaluate("document.images.length") > 30 and page.evaluate(broken) == 0
    check_accessible(page_file, page.context.browser, width, theme)


def test_paper_shows_whole_tables_in_dark_on_white(read, page_file):
    page = read(page_file, 700, "dark")  # as wide as A4 between its margins
    page.emulate_media(media="print")
    cut = "[...document.querySelectorAll('#results .scroll, #baselines .scroll')].filter((x) => "
    assert page.evaluate(f"{cut} x.scrollWidth > x.clientWidth + 1).length") == 0
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 30, 35)"
    assert not page.locator("nav").is_visible()


def test_names_are_shown_and_the_table_comes_out_of_the_page(read, page_file):
    page = read(page_file, 1600, "light")
    assert page.locator("#confusion tbody th").all_inner_texts() == ["well", EVIL]
    assert page.locator("script").count() == 0
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Every prediction as CSV").click()
    with open(waiting.value.path(), encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) == 1 + 2 * (24 + 36)
    assert waiting.value.suggested_filename == "predictions.csv"
