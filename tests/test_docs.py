import re
import shlex
import shutil
from itertools import chain
from pathlib import Path

import pytest
from PIL import Image

from capsnet.cli import VERBS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [ROOT / "docs" / f"{name}.md" for name in ("index", "tutorial", "own_model", "export")]


def commands_of(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    return [line.split("#")[0] for line in lines if line.startswith("capsnet ")]


COMMANDS = commands_of(ROOT / "README.md")
TOLD = {*COMMANDS, *chain.from_iterable(map(commands_of, GUIDES))}


@pytest.mark.parametrize("page", [PAGES[0], *GUIDES[1:]], ids=lambda path: path.stem)
def test_python_of_a_page_runs(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    assert blocks
    for block in blocks:
        exec(block, {"__name__": "page"})


@pytest.mark.parametrize("command", sorted(TOLD))
def test_commands_of_the_pages_have_their_options(command, cli):
    _, verb, *words = shlex.split(command)
    help_text = cli(verb, "--help").out
    for word in words:
        if word.startswith("--"):
            assert word in help_text


def test_commands_of_the_readme_run_one_after_the_other(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    seven = Image.new("L", (28, 28), 255)
    seven.paste(0, (12, 4, 16, 24))
    seven.save("seven.jpg")
    for i in range(40):
        folder = tmp_path / "scans" / "ab"[i % 2] / f"p{i // 4}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (28, 28), 6 * i).save(folder / f"{i}.png")
    smaller = {
        "train": ["--num-samples", "20"],
        "tune": ["--num-samples", "20", "--epochs", "1", "--trials", "2"],
        "bench": ["--batch", "1"],
    }
    ran = []
    for command in COMMANDS:
        _, verb, *words = shlex.split(command)
        if verb == "explore" or "mnist" in words:  # tests/web; data that have to be fetched
            continue
        less = ["--epochs", "1"] if verb == "train" and "--epochs" not in words else []
        done = cli(verb, *words, *smaller.get(verb, []), *less)
        assert done.status == 0, (command, done.err)
        ran.append(verb)
    assert {*ran} == {*VERBS} - {"explore", "demo", "models", "info", "reproduce"}


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code, remarks, tables = r"```.*?```", r"<[^>]*>", r"^\|.*$"
    pictures, targets = r"!\[[^]]*\]\([^)]*\)", r"\]\([^)]*\)"
    for no_prose in (code, remarks, tables, pictures, targets):
        text = re.sub(no_prose, " ", text, flags=re.S if no_prose == code else re.M)
    assert 300 < len(re.findall(r"\S*\w\S*", text)) <= 600


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_tests_named_in_the_complaints_exist():
    rows = (ROOT / "docs" / "complaints.md").read_text()
    code = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    names = re.findall(r"`(test_\w+)`", rows)
    assert len(names) > 15
    for name in names:
        assert f"def {name}(" in code
