"""Which tests run which lines: found by running them once under coverage, and kept in a file.

contexts = record(["tests/ops/test_losses.py"], "build/mutants/contexts.json"); merged(…)

What is kept of a test file is made anew when it has changed, or anything that is no test.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest


@dataclass(frozen=True)
class Contexts:
    """Of every test that passed its seconds and how many lines it runs; of every line its tests."""

    seconds: dict[str, float]
    num_lines: Counter[str]
    lines: dict[str, dict[int, set[str]]]
    modules: set[str]  # of others, that tests import


class Watch:
    """A plugin of pytest that tells coverage which test is being run."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.seconds: dict[str, float] = {}  # with what is set up for it
        self.passed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.measured.switch_context(item.nodeid)
        told = yield
        self.measured.switch_context("")
        return told

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self.seconds.get(report.nodeid, 0.0)
        self.seconds[report.nodeid] = round(before + report.duration, 3)
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


def record(tests: list[str], out: Path) -> None:
    """Run test files once, and write down for each which lines its tests run."""
    measured = coverage.Coverage(data_file=None, source=["capsnet"])
    watch = Watch(measured)
    measured.start()
    pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not long", *tests], plugins=[watch])
    measured.stop()
    imported = {name: str(getattr(m, "__file__", "")) for name, m in sys.modules.items()}
    modules = sorted(name for name, file in imported.items() if "/lib/python3" in file)
    found = {
        test: {"digest": _digest([Path(test)]), "modules": modules, "seconds": {}, "lines": {}}
        for test in tests
    }
    for test in watch.passed:
        found[test.partition("::")[0]]["seconds"][test] = watch.seconds[test]
    data = measured.get_data()
    for file in data.measured_files():
        name = str(Path(file).relative_to(Path.cwd()))
        for line, ran in data.contexts_by_lineno(file).items():
            for test in watch.passed.intersection(ran):
                lines = found[test.partition("::")[0]]["lines"]
                lines.setdefault(name, {}).setdefault(line, []).append(test)
            if "" in ran:  # an import
                for of_test in found.values():
                    of_test["lines"].setdefault(name, {}).setdefault(line, [])
    kept = _kept(out)
    kept["files"] |= found
    out.write_text(json.dumps(kept), encoding="utf-8")


def stale(tests: tuple[str, ...], out: Path) -> list[str]:
    """Return the test files of which too little is known."""
    paths = [Path(test) for test in tests]
    files = [f for path in paths for f in ([path] if path.is_file() else path.rglob("test_*.py"))]
    known = _kept(out)["files"]
    return sorted(
        str(file) for file in files if known.get(str(file), {}).get("digest") != _digest([file])
    )


def merged(out: Path) -> Contexts:
    """Return what is known of all test files together."""
    files = _kept(out)["files"].values()
    lines: dict[str, dict[int, set[str]]] = {}
    for of_test in files:
        for name, by_line in of_test["lines"].items():
            for line, tests in by_line.items():
                lines.setdefault(name, {}).setdefault(int(line), set()).update(tests)
    ran = (test for by_line in lines.values() for tests in by_line.values() for test in tests)
    return Contexts(
        {test: s for of_test in files for test, s in of_test["seconds"].items()},
        Counter(ran),
        lines,
        {name for of_test in files for name in of_test["modules"]},
    )


def _kept(out: Path) -> dict:
    """Return what was written before, or nothing if all but tests is no longer the same."""
    code = [*sorted(Path("capsnet").rglob("*.py")), *sorted(Path("tests").rglob("*.py"))]
    tests = lambda file: file.name.startswith("test_") or file.parent.name == "mutants"  # noqa: E731
    digest = _digest([file for file in code if not tests(file)])
    kept = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    return kept if kept.get("code") == digest else {"code": digest, "files": {}}


def _digest(files: list[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
