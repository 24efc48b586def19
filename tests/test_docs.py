import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = [line.split("#")[0] for line in README.splitlines() if line.startswith("capsnet ")]


def test_python_of_the_readme_runs():
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert blocks
    for block in blocks:
        exec(block, {})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_readme_have_their_options(command, cli):
    _, verb, *words = shlex.split(command)
    help_text = cli(verb, "--help").out
    for word in words:
        if word.startswith("--"):
            assert word in help_text


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
