"""Tests of the tests: a fault is put into the code, and some test has to fail.

python tests/mutants/mutants.py --number 300 --seed 1 --out build/mutants

A copy of the repository is mutated, never the repository. This process imports what is large once
and forks for each mutant; the child imports the package anew and runs the tests that run the line,
the most special ones first. Kernels for GPUs are left out (docs/decisions/0017).
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
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random

from contexts import Contexts, merged, record, stale
from mutations import Mutation, mutations

TIMED_OUT = "timed out"
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
TESTS = (
    "tests/ops",
    "tests/data",
    "tests/layers",
    "tests/models",
    "tests/pictures",
    "tests/training",
    "tests/soak",
    "tests/test_files.py",
    "tests/test_lines.py",
)
FIRST, MOST = 12, 120  # tests that are tried before the others, and tests in all
SECONDS = 10.0  # of tests per mutant, as they took without one


def population(root: Path, patterns: list[str]) -> list[Mutation]:
    """Return every mutation of the files that are mutated."""
    files = [file for pattern in patterns for file in sorted(root.glob(pattern))]
    chosen = [file for file in files if not any(f"/{x}" in str(file) for x in NEED_A_GPU)]
    return [
        mutation
        for file in chosen
        for mutation in mutations(str(file.relative_to(root)), file.read_text(encoding="utf-8"))
    ]


def sample(everything: list[Mutation], number: int, seed: int) -> list[Mutation]:
    """Choose evenly: one of each of so many stretches of the code."""
    number, random = min(number, len(everything)), Random(seed)
    edges = [k * len(everything) // number for k in range(number + 1)]
    return [everything[random.randrange(a, b)] for a, b in pairwise(edges)]


def difference(mutation: Mutation, text: str) -> tuple[str, str]:
    """Return the lines that are others, as they were and as they are."""
    before, after = text.splitlines(), mutation.applied(text).splitlines()
    lines = [x for x in difflib.ndiff(before, after) if x[0] in "-+"]
    was, becomes = (" ".join(x[2:].strip() for x in lines if x[0] == sign) for sign in "-+")
    return was, becomes


def tests_of(mutation: Mutation, contexts: Contexts) -> list[str]:
    """Return the tests that run the line; of what an import runs, the file's.

    First those of whose lines the most are in this file: they are about it.
    """
    of_file = contexts.lines.get(mutation.file, {})
    span = range(mutation.statement, mutation.line + 1)
    ran = [of_file[line] for line in span if line in of_file]
    tests = set().union(*ran) or (set().union(*of_file.values()) if ran else set())
    here = Counter(test for ran in of_file.values() for test in ran)
    chosen, total = [], 0.0
    for test in sorted(tests, key=lambda x: (-here[x] / contexts.num_lines[x], x)):
        if chosen and (total + contexts.seconds[test] > SECONDS or len(chosen) == MOST):
            break
        chosen.append(test)
        total += contexts.seconds[test]
    return chosen


def in_child(work: Callable[[], int], log: Path, seconds: float) -> str:
    """Run work in a fork, and say how it ended: "0", another status, or "timed out"."""
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        status = 3
        try:
            status = int(work() or 0)
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
        return TIMED_OUT
    status = os.waitstatus_to_exitcode(ended[1])
    return TIMED_OUT if status in (-signal.SIGXCPU, -signal.SIGKILL) else str(status)


class Copy:
    """A copy of the repository that can be mutated, and the tests run in it."""

    def __init__(self, folder: Path) -> None:
        self.root, self.scratch = folder / "capsnet", folder / "scratch"
        self.log = folder / "log"
        ignored = shutil.ignore_patterns(".*", "node_modules", "build", "runs", "*.egg-info")
        shutil.copytree(ROOT, self.root, ignore=ignored)
        os.environ.update(PYTHONPATH=str(self.root), OMP_NUM_THREADS="1")
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # or a mutant's would be taken for the next's
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(self.root))
        os.chdir(self.root)

    def contexts(self, tests: tuple[str, ...], kept: Path) -> Contexts:
        """Return which tests run which lines, from what is kept where that is still true."""
        if missing := stale(tests, kept):
            print(f"Runs {len(missing)} test files to see which lines they run.", flush=True)
            in_child(lambda: record(missing, kept), kept.with_suffix(".log"), 7200)
        return merged(kept)

    def tried(self, mutation: Mutation, tests: list[str]) -> str:
        """Return what the tests say of a mutant: killed, survived, timed out."""
        import pytest

        if not tests:
            return "survived"
        path = self.root / mutation.file
        text = path.read_text(encoding="utf-8")
        path.write_text(mutation.applied(text), encoding="utf-8")
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        options.append(f"--basetemp={self.scratch}")
        try:
            for some in filter(None, (tests[:FIRST], tests[FIRST:])):
                run = partial(pytest.main, [*options, *some])
                ended = in_child(run, self.log, 6 * SECONDS)
                if ended != "0":
                    break
        finally:
            path.write_text(text, encoding="utf-8")
            shutil.rmtree(self.scratch, ignore_errors=True)
        gone = ended == "4" and "Error" not in self.log.read_text()  # a test has another name now
        return "survived" if gone else {"0": "survived", TIMED_OUT: TIMED_OUT}.get(ended, "killed")


def known(was: str, becomes: str, file: str) -> bool:
    """Tell whether a mutant was judged to do the same as the code."""
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    return any((m["file"], m["was"], m["becomes"]) == (file, was, becomes) for m in listed)


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
    out.mkdir(parents=True, exist_ok=True)
    out, page = out.resolve(), page and page.resolve()
    results = out / f"seed-{seed}.jsonl"
    chosen = sample(population(ROOT, files), number, seed)
    with tempfile.TemporaryDirectory() as folder:
        contexts = Copy(Path(folder)).contexts(tuple(tests), out / "contexts.json")
        os.chdir(ROOT)
    results.unlink(missing_ok=True)
    for name in ("torch", *sorted(contexts.modules)):  # once, and not in every child
        with suppress(Exception):
            importlib.import_module(name)
    gc.freeze()  # what is here now is nothing that a child has to look through
    workers = []
    for k in range(jobs):
        if not (worker := os.fork()):
            failed = 1
            try:
                work(chosen[k::jobs], contexts, results)
                failed = 0
            finally:
                os._exit(failed)
        workers.append(worker)
    lost = [worker for worker in workers if os.waitpid(worker, 0)[1]]
    assert not lost, "a worker has failed"
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
    ends = Counter(
        "equivalent" if known(row["was"], row["becomes"], row["file"]) else row["how"]
        for row in rows
    )
    counts = [ends[how] for how in ("killed", TIMED_OUT, "equivalent", "survived")]
    return Score(int(results.stem.partition("-")[2]), len(rows), *counts)


def write(page: Path, scores: list[Score]) -> None:
    """Write the table of a page anew, between its two marks."""
    names = [field.name for field in fields(Score)]
    rows = [" | ".join(f"{x:,}" for x in astuple(s)) + f" | {s.noticed:.1%}" for s in scores]
    head = f"| {' | '.join(names).replace('_', ' ')} | noticed |\n|{' --: |' * (len(names) + 1)}\n"
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    table = head + "".join(f"| {row} |\n" for row in rows)
    page.write_text(f"{before}{START}\n{table}{END}{rest.partition(END)[2]}", encoding="utf-8")


def work(chosen: list[Mutation], contexts: Contexts, results: Path) -> None:
    """Try mutants one by one in a copy, and add a line for each to the results."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for mutation in chosen:
            was, becomes = difference(mutation, (copy.root / mutation.file).read_text("utf-8"))
            tests, begun = tests_of(mutation, contexts), time.monotonic()
            if known(was, becomes, mutation.file):
                how = "equivalent"
            else:
                how = copy.tried(mutation, tests)
            row = {"how": how, "file": mutation.file, "line": mutation.line}
            row |= {"was": was, "becomes": becomes, "tests": len(tests)}
            row["seconds"] = round(time.monotonic() - begun, 1)
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{how}: {mutation.file}:{mutation.line}", flush=True)
            if how == "survived":
                print(f"  - {was}\n  + {becomes}", flush=True)


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
