"""The tests of the tests do what they say: a fault is noticed, and no file is left with it."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import mutants
import pytest
from contexts import Contexts
from mutations import Mutation, mutations

ROOT = Path(__file__).parents[2]
TEXT = '''"""A module; 1 < 2."""

def é(x: int = 3, *, y: list[int] | None = None) -> int:
    if x < 0 and y:
        raise ValueError(f"{x + 1}")
    return max([x, 2], key=abs)
'''


def test_every_operator_number_and_statement_can_be_another():
    lines = TEXT.splitlines()
    found = [
        (m.line, m.applied(TEXT).splitlines()[m.line - 1].strip()) for m in mutations("m.py", TEXT)
    ]
    assert found == [
        (3, lines[2].replace("3", "4")),
        (4, "if (x <= 0) and y:"),
        (4, "if (x < 0 or y):"),
        (4, "if x < 1 and y:"),
        (5, "pass"),
        (6, "return None"),
        (6, "return (max([x, 2]))"),
        (6, "return max([x, 3], key=abs)"),
    ]


@pytest.mark.long
def test_mutants_of_a_file_are_killed_and_the_file_stays(tmp_path):
    def digests() -> dict[str, str]:
        files = [*(ROOT / "capsnet").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    before = digests()
    chosen = ["--files", "capsnet/ops/norms.py", "--tests", "tests/ops/test_norms.py"]
    command = [sys.executable, ROOT / "tests/mutants/mutants.py", *chosen, "--number", "3"]
    page = tmp_path / "page.md"
    page.write_text("Above.\n<!-- mutants -->\nold\n<!-- /mutants -->\nBelow.\n")
    places = ["--jobs", "1", "--out", tmp_path / "out", "--page", page]
    subprocess.run([*command, *places], check=True, timeout=300, cwd=tmp_path)
    rows = [json.loads(x) for x in (tmp_path / "out/seed-1.jsonl").read_text().splitlines()]
    assert len(rows) == 3 and all(row["was"] != row["becomes"] for row in rows)
    assert "killed" in {row["how"] for row in rows}
    text = page.read_text()
    assert text.startswith("Above.\n<!-- mutants -->\n| seed | mutants |") and "old" not in text
    assert "| 1 | 3 | " in text and text.endswith("<!-- /mutants -->\nBelow.\n")
    assert digests() == before


def test_what_only_an_import_runs_is_asked_of_the_tests_that_name_the_file():
    known = Mutation("capsnet/data/sources/known.py", 3, 4, 0, 0, "")
    assert known.module == "capsnet.data.sources.known"
    assert Mutation("capsnet/lines/__init__.py", 1, 1, 0, 0, "").module == "capsnet.lines"
    naming, other = "tests/data/test_known.py::test_a", "tests/data/test_idx.py::test_b"
    lines = {naming: {"capsnet/x.py": {1}}, other: {"capsnet/lines.py": {4}}}
    contexts = Contexts(dict.fromkeys(lines, 0.1), lines, {known.file: {3, 4}}, set())
    assert mutants.tests_of(known, contexts) == [naming]
    run = Mutation("capsnet/lines.py", 4, 4, 0, 0, "")
    assert mutants.tests_of(run, contexts) == [other]
    imported = Mutation("capsnet/lines.py", 9, 9, 0, 0, "")
    contexts.imported["capsnet/lines.py"] = {9}
    assert mutants.tests_of(imported, contexts) == [other]
    assert mutants.tests_of(Mutation("capsnet/lines.py", 5, 5, 0, 0, ""), contexts) == []
