"""Tests of the tests: a fault is put into the code, and some test has to fail.

python tests/mutants/mutants.py --number 300 --seed 1 --out build/mutants

A copy of the repository is mutated, never the repository. This process imports what is large once
and forks for each mutant; the child imports the package anew and runs the tests that run the line,
the most special ones first. A test that also fails without the fault tells nothing, and is not
asked again. Kernels for GPUs are left out (docs/decisions/0017).
"""

import argparse
import difflib
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from contexts import Contexts, merged, record, stale
from mutations import Mutation, mutations

START, END = "<!-- mutants -->", "<!-- /mutants -->"
ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
MUTATED = (
    "capsnet/ops/**/*.py",
    "capsnet/data/**/*.py",
    "capsnet/training/checkpoint.py",
    "capsnet/models/tensor_file.py",
    "capsnet/lines.py",
)
NEED_A_GPU = ("kernels", "fused", "wide", "narrow", "gpu", "conv/geometry")
FOLDERS = ("ops", "data", "layers", "models", "pictures", "training", "soak")
FILES = ("files", "lines", "own_pictures", "predict")
TESTS = [
    *(f"tests/{name}" for name in FOLDERS),
    *(f"tests/test_{name}.py" for name in FILES),
    *sorted(str(file.relative_to(ROOT)) for file in ROOT.glob("tests/test_cli*.py")),
]
FIRST = 12  # tests that are tried before the others
SECONDS = 8.0  # of a processor, of tests per mutant, as they took without one


def population(patterns: list[str]) -> list[Mutation]:
    """Return every mutation of the files that are mutated."""
    files = [file for pattern in patterns for file in sorted(ROOT.glob(pattern))]
    return [
        mutation
        for file in files
        if not any(f"/{x}" in str(file) for x in NEED_A_GPU)
        for mutation in mutations(str(file.relative_to(ROOT)), file.read_text(encoding="utf-8"))
    ]


def sample(everything: list[Mutation], number: int, seed: int) -> list[Mutation]:
    """Choose evenly: one of each of so many stretches of the code; in any order.

    So a run that is stopped leaves the results of a smaller sample.
    """
    number, random = min(number, len(everything)), Random(seed)
    edges = [k * len(everything) // number for k in range(number + 1)]
    chosen = [everything[random.randrange(a, b)] for a, b in pairwise(edges)]
    random.shuffle(chosen)
    return chosen


def difference(mutation: Mutation) -> tuple[str, str]:
    """Return the lines that are others, as they were and as they are."""
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    before, after = text.splitlines(), mutation.applied(text).splitlines()
    lines = [x for x in difflib.ndiff(before, after) if x[0] in "-+"]
    was, becomes = (" ".join(x[2:].strip() for x in lines if x[0] == sign) for sign in "-+")
    return was, becomes


def tests_of(mutation: Mutation, contexts: Contexts) -> list[str]:
    """Return the tests that run the line; of what only an import runs, the file's.

    Where an import runs all of a file, these are the tests in files that name it. First those of
    whose lines the most are in this file: they are about it. The variants of a test come last.
    """
    here = {t: ran[mutation.file] for t, ran in contexts.lines.items() if mutation.file in ran}
    span = set(range(mutation.statement, mutation.line + 1))
    tests = [test for test, lines in here.items() if lines & span]
    if not tests and span & contexts.imported.get(mutation.file, set()):
        tests = list(here) or [x for x in contexts.lines if mutation.module in text_of(x)]
    ran = {t: max(1, sum(len(x) for x in contexts.lines[t].values())) for t in tests}
    share = {t: len(here.get(t, ())) / ran[t] for t in tests}
    variants: Counter[str] = Counter()
    order = []
    for test in sorted(tests, key=lambda x: (-share[x], x)):
        order.append((variants[name := test.partition("[")[0]], test))
        variants[name] += 1
    chosen, left = [], SECONDS
    for _, test in sorted(order, key=lambda x: x[0]):
        if not chosen or contexts.seconds[test] <= left:
            chosen.append(test)
            left -= contexts.seconds[test]
    return chosen


@cache
def text_of(test: str) -> str:
    """Return the text of the file of a test."""
    return (ROOT / test.partition("::")[0]).read_text(encoding="utf-8")


class Chosen:
    """A plugin of pytest that runs some tests in their order, and writes down which one fails."""

    def __init__(self, tests: list[str], failed: Path) -> None:
        self.place, self.failed = {test: k for k, test in enumerate(tests)}, failed

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.place]
        items.sort(key=lambda item: self.place[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.write_text(report.nodeid, encoding="utf-8")


def in_child(work: Callable[[], int], log: Path, seconds: float) -> str:
    """Run work in a fork, and say how it ended: "survived", "killed" or "timed out"."""
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        status = 3
        try:
            status = int(work())
        finally:
            sys.stdout.flush()
            os._exit(status)
    late = time.monotonic() + 3 * seconds  # of a machine that is busy
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < late:
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also what tests have started
    if not ended[0]:
        os.waitpid(child, 0)
        return "timed out"
    status = os.waitstatus_to_exitcode(ended[1])
    none = pytest.ExitCode.NO_TESTS_COLLECTED  # they have other names now
    how = {0: "survived", none: "survived", -signal.SIGXCPU: "timed out"}
    return how.get(status, "timed out" if status == -signal.SIGKILL else "killed")


def at_once(works: list[Callable[[], None]]) -> None:
    """Run each work in a fork of its own, all at the same time."""
    children = []
    for work in works:
        if not (child := os.fork()):
            status = 1
            try:
                work()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    lost = [child for child in children if os.waitpid(child, 0)[1]]
    assert not lost, "a worker has failed"


class Copy:
    """A copy of the repository that can be mutated, and the tests run in it."""

    def __init__(self, folder: str) -> None:
        self.root, self.scratch = Path(folder, "capsnet"), Path(folder, "scratch")
        self.log, self.failed = Path(folder, "log"), Path(folder, "failed")
        self.passing: set[str] = set()  # without a fault
        self.failing: set[str] = set()
        ignored = shutil.ignore_patterns(".*", "node_modules", "build", "runs", "*.egg-info")
        shutil.copytree(ROOT, self.root, ignore=ignored)
        os.environ.update(PYTHONPATH=str(self.root), OMP_NUM_THREADS="1")
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # or a mutant's would be taken for the next's
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(self.root))
        os.chdir(self.root)

    def run(self, tests: list[str], seconds: float) -> str:
        """Return how tests end that took so many seconds when they were recorded."""
        self.failed.unlink(missing_ok=True)
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={self.scratch}"]
        main = partial(pytest.main, [*options, *files], plugins=[Chosen(tests, self.failed)])
        ended = in_child(main, self.log, 20 + 3 * seconds)
        shutil.rmtree(self.scratch, ignore_errors=True)
        return ended

    def tried(self, mutation: Mutation, tests: list[str], seconds: dict[str, float]) -> str:
        """Return what the tests say of a mutant: killed, survived, timed out."""
        path = self.root / mutation.file
        text = path.read_text(encoding="utf-8")
        tests = [test for test in tests if test not in self.failing]
        for some in filter(None, (tests[:FIRST], tests[FIRST:])):
            took = sum(seconds[test] for test in some)
            path.write_text(mutation.applied(text), encoding="utf-8")
            ended = self.run(some, took)
            path.write_text(text, encoding="utf-8")
            if ended == "survived":
                continue
            asked = {self.failed.read_text("utf-8")} if self.failed.exists() else set(some)
            if asked <= self.passing or self.run(sorted(asked), took) == "survived":
                self.passing |= asked
                return ended
            print(f"fails without a fault: {', '.join(asked)}", flush=True)
            self.failing |= asked
            return self.tried(mutation, tests, seconds)
        return "survived"


@cache
def judged() -> dict:
    """Return what was judged to do the same as the code, or to need a GPU."""
    return tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))


def is_equivalent(file: str, was: str, becomes: str) -> bool:
    """Tell whether a mutant is among what was judged."""
    mutants = [(m["file"], m["was"], m["becomes"]) for m in judged()["mutant"]]
    return was in judged()["needs_a_gpu"].get(file, ()) or (file, was, becomes) in mutants


def record_all(tests: list[str], folder: Path) -> None:
    """Write down which lines test files run."""
    with tempfile.TemporaryDirectory() as place:
        Copy(place)
        record(tests, folder)


def try_all(chosen: list[Mutation], contexts: Contexts, results: Path) -> None:
    """Try mutants one by one in a copy, and add a line for each to the results."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(folder)
        for mutation in chosen:
            was, becomes = difference(mutation)
            tests, begun = tests_of(mutation, contexts), time.monotonic()
            same = is_equivalent(mutation.file, was, becomes)
            how = "equivalent" if same else copy.tried(mutation, tests, contexts.seconds)
            row = {"how": how, "file": mutation.file, "line": mutation.line}
            row |= {"was": was, "becomes": becomes, "tests": len(tests)}
            row["seconds"] = round(time.monotonic() - begun, 1)
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{how}: {mutation.file}:{mutation.line}", flush=True)
            if how == "survived":
                print(f"  - {was}\n  + {becomes}", flush=True)


def main(
    number: int,
    seed: int,
    jobs: int,
    files: list[str],
    tests: list[str],
    out: Path,
    page: Path | None,
) -> None:
    """Try a sample of mutants, write each as a line of JSON, and print the survivors."""
    out, page = out.resolve(), page and page.resolve()
    folder, results = out / "contexts", out / f"seed-{seed}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    if missing := stale(tests, folder):
        print(f"Runs {len(missing)} test files to see which lines they run.", flush=True)
        parts = filter(None, (missing[k::jobs] for k in range(jobs)))
        at_once([partial(record_all, part, folder) for part in parts])
    contexts = merged(folder)
    for name in ("torch", *sorted(contexts.modules)):  # once, and not in every child
        with suppress(Exception):
            importlib.import_module(name)
    gc.freeze()  # what is here now is nothing that a child has to look through
    results.unlink(missing_ok=True)
    chosen = sample(population(files), number, seed)
    at_once([partial(try_all, chosen[k::jobs], contexts, results) for k in range(jobs)])
    print(score(results), flush=True)
    if page:
        write(page, [score(file) for file in sorted(out.glob("seed-*.jsonl"))])


@dataclass(frozen=True)
class Score:
    """How many mutants of a sample came to which end."""

    seed: int
    mutants: int
    killed: int
    timed_out: int
    equivalent: int
    survived: int

    @property
    def noticed(self) -> float:
        """The share of the mutants that are not equivalent."""
        return (self.killed + self.timed_out) / max(1, self.mutants - self.equivalent)


def score(results: Path) -> Score:
    """Count what a run wrote down; of survivors that were judged since, the judgement."""
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    same = [is_equivalent(row["file"], row["was"], row["becomes"]) for row in rows]
    ends = Counter("equivalent" if x else row["how"] for x, row in zip(same, rows, strict=True))
    counts = [ends[how] for how in ("killed", "timed out", "equivalent", "survived")]
    return Score(int(results.stem.partition("-")[2]), len(rows), *counts)


def write(page: Path, scores: list[Score]) -> None:
    """Write the table of a page anew, between its two marks."""
    names = [field.name for field in fields(Score)]
    rows = [" | ".join(f"{x:,}" for x in astuple(s)) + f" | {s.noticed:.1%}" for s in scores]
    head = f"| {' | '.join(names).replace('_', ' ')} | noticed |\n|{' --: |' * (len(names) + 1)}\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    table = head + "".join(f"| {row} |\n" for row in rows)
    page.write_text(f"{before}{START}\n{table}{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--number", type=int, default=300)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--files", nargs="+", default=MUTATED)
    options.add_argument("--tests", nargs="+", default=TESTS)
    options.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    options.add_argument("--page", type=Path)
    main(**vars(options.parse_args()))
