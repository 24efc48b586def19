"""Which tests run which lines: found by running them once under coverage, and kept in a folder.

record(["tests/ops/test_losses.py"], Path("build/mutants/contexts")); contexts = merged(…)

What is kept of a test file is made anew when it has changed, or anything that is no test.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import coverage
import pytest


@dataclass(frozen=True)
class Contexts:
    """Of every test that passed its seconds and its lines; which lines an import runs."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, set[int]]]
    imported: dict[str, set[int]]
    modules: set[str]  # of others, that tests import


class Watch:
    """A plugin of pytest that tells coverage which test is being run."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = {}  # of a processor, with what is set up for it
        self.passed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun = _processor_seconds()
        self.measured.switch_context(item.nodeid)
        told = yield
        self.measured.switch_context("")
        self.seconds[item.nodeid] = round(_processor_seconds() - begun, 3)
        return told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


def record(tests: list[str], folder: Path) -> None:
    """Run test files once, and write down for each which lines its tests run."""
    measured = coverage.Coverage(data_file=None, source=["capsnet"])
    watch = Watch(measured)
    measured.start()
    pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not long", *tests], plugins=[watch])
    measured.stop()
    files = {name: str(getattr(m, "__file__", "")) for name, m in sys.modules.items()}
    modules = sorted(name for name, file in files.items() if "/lib/python3" in file)
    lines: dict[str, dict[str, list[int]]] = {test: {} for test in ("", *watch.passed)}
    data = measured.get_data()
    for file in data.measured_files():
        name = str(Path(file).relative_to(Path.cwd()))
        for line, ran in data.contexts_by_lineno(file).items():
            for test in lines.keys() & ran:  # "" is an import
                lines[test].setdefault(name, []).append(line)
    for test in tests:
        own = [x for x in lines if x.partition("::")[0] == test]
        kept = {
            "digest": _digest(test),
            "modules": modules,
            "imported": lines[""],
            "tests": {x: {"seconds": watch.seconds[x], "lines": lines[x]} for x in own},
        }
        _place(test, folder).write_text(json.dumps(kept), encoding="utf-8")


def stale(tests: list[str], folder: Path) -> list[str]:
    """Return the test files of which too little is known, and forget what is no longer true."""
    paths = [Path(test) for test in tests]
    files = {f for path in paths for f in ([path] if path.is_file() else path.rglob("test_*.py"))}
    known = {}
    for place in folder.glob("*.json"):
        known[place] = json.loads(place.read_text(encoding="utf-8"))["digest"]
    true = {_place(str(file), folder): str(file) for file in sorted(files)}
    for place in known.keys() - true.keys():
        place.unlink()
    return [file for place, file in true.items() if known.get(place) != _digest(file)]


def merged(folder: Path) -> Contexts:
    """Return what is known of all test files together."""
    found = Contexts({}, {}, {}, set())
    for place in sorted(folder.glob("*.json")):
        kept = json.loads(place.read_text(encoding="utf-8"))
        found.modules.update(kept["modules"])
        for file, lines in kept["imported"].items():
            found.imported.setdefault(file, set()).update(lines)
        for test, ran in kept["tests"].items():
            found.seconds[test] = ran["seconds"]
            found.lines[test] = {file: set(lines) for file, lines in ran["lines"].items()}
    return found


def _processor_seconds() -> float:
    """Return what this process has taken, and those that it has waited for."""
    return sum(os.times()[:4])


def _place(test: str, folder: Path) -> Path:
    return folder / f"{test.replace('/', '.')}.json"


def _digest(test: str) -> str:
    return hashlib.sha256(_code() + Path(test).read_bytes()).hexdigest()


@cache
def _code() -> bytes:
    """Return all but the tests: what they test, and what they have in common."""
    files = [*sorted(Path("capsnet").rglob("*.py")), *sorted(Path("tests").rglob("*.py"))]
    tests = lambda file: file.name.startswith("test_") or file.parent.name == "mutants"  # noqa: E731
    return b"".join(file.read_bytes() for file in files if not tests(file))
