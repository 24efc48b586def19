"""The documentation site builds without a warning, asks no other host, and its notebooks run."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import capsnet
from capsnet import data, layers, models, ops, tasks

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
LOADS = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}


class Links(HTMLParser):
    """What a page loads by itself, where it leads to, and the places it has."""

    def __init__(self, page):
        super().__init__()
        self.loaded, self.followed, self.places = [], [], {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        facts = dict(attributes)
        self.places.add(facts.get("id"))
        if facts.get(LOADS.get(tag)):
            self.loaded.append(facts[LOADS[tag]])
        elif tag == "a" and facts.get("href"):
            self.followed.append(facts["href"])


def test_the_site_builds_and_stands_alone(tmp_path):
    pytest.importorskip("sphinx")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs/site", "."]
    built = subprocess.run([*command, site], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = {page: Links(page) for page in site.rglob("*.html")}
    assert len(pages) > 40
    for page, links in pages.items():
        for link in links.loaded:
            assert not urlsplit(link).netloc, (page, link)
        for link in [*links.loaded, *links.followed]:
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            target = page if not to.path else (page.parent / unquote(to.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), (page, link)
            if target in pages and "explorer" not in target.parts:
                assert unquote(to.fragment) in pages[target].places, (page, link)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", sheet.read_text()), sheet


@pytest.mark.parametrize("package", [capsnet, ops, layers, models, data, tasks])
def test_every_public_name_is_in_the_reference(package):
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\.\. auto\w+:: (\w+)", page, re.M))
    plain = {"NOBODY", "Plan", "SplitName", "__version__"}  # numbers and names of types
    assert not set(package.__all__) - named - plain


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_as_it_is_shown(path, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    shown = nbformat.read(path, as_version=4)
    ran = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        ran, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    for before, after in zip(shown.cells, ran.cells, strict=True):
        assert kinds(before) == kinds(after), before.source
    assert not re.search(r"/(tmp|home|root|work|Users)/", path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 400_000


def kinds(cell):
    """Return what came out of a cell: printed text, an error, a picture, a value."""
    out = []
    for output in cell.get("outputs", ()):
        assert output.get("name") != "stderr", output.text
        picture = "image/png" in output.get("data", {})
        out.append("picture" if picture else output.output_type)
    return out
