import re

import pytest

from capsnet.bench import report, step
from capsnet.training import progress
from capsnet.training.progress import WorkProgress


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 2.0)
    return Clock()


@pytest.fixture
def always(monkeypatch):
    """Work of any length shows its progress."""
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)


def test_short_work_says_nothing(clock, capsys):
    with WorkProgress("reading", 3, "files", clock) as work:
        for done in range(4):
            clock.now = done / 2
            work(done)
    clock.now = 100.0
    work.tell()  # a thread that wakes up late
    assert capsys.readouterr() == ("", "")


def test_long_work_says_a_line_now_and_then_on_stderr(clock, capsys):
    with WorkProgress("reading", unit="files", clock=clock) as work:
        clock.now = 2.0
        work.tell()
        for second in range(3, 26):
            clock.now = float(second)
            work(1000 * second, 100_000)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "reading, 2 s",
        "reading: 12,000 of 100,000 files, 12 s",
        "reading: 22,000 of 100,000 files, 22 s",
    ]


def test_a_terminal_has_a_bar_and_no_lines(clock, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with WorkProgress("reading", 10, "files", clock) as work:
        clock.now = 60.0
        work(5, now="[/a].png")
        work.bar.refresh()
    out, err = capsys.readouterr()
    assert out == "" and "reading: 5 of 10 files, now [/a].png" in err and "60 s" not in err


def test_evaluation_shows_its_progress(always, cli, trained):
    words = ["evaluate", "--weights", trained, "--num-samples", 30, "--batch-size", 10, "--json"]
    done = cli(*words, "--device", "cpu")
    assert done.status == 0 and done.out.count("\n") == 1
    shown = re.findall(r"evaluating: (\d+) of 30 images, \d+ s", done.err)
    assert list(dict.fromkeys(shown)) == ["0", "10", "20", "30"]


def test_benchmark_shows_what_it_measures(always, cli, monkeypatch):
    monkeypatch.setattr(report, "check", lambda device, dtype: {})
    timing = step.measure(lambda: None, step.torch.device("cpu"), repeats=2)
    monkeypatch.setattr(step, "measure", lambda *x, **y: timing)
    done = cli("bench", "inference", "--batch", 1, 2, "--device", "cpu", "--json")
    assert done.status == 0 and done.out.count("\n") == 1
    shown = re.findall(r"measuring inference: (\d of 4, now [^,]+, batch \d), ", done.err)
    assert list(dict.fromkeys(shown)) == [
        "0 of 4, now float32, batch 1",
        "1 of 4, now bfloat16, batch 1",
        "2 of 4, now float32, batch 2",
        "3 of 4, now bfloat16, batch 2",
    ]


@pytest.mark.parametrize("kind", ["reconstructions", "routing"])
def test_drawing_shows_that_it_is_under_way(kind, always, cli, trained, tmp_path, monkeypatch):
    started = []
    tell = WorkProgress.__enter__
    monkeypatch.setattr(
        WorkProgress, "__enter__", lambda self: started.append(self.doing) or tell(self)
    )
    done = cli("figure", kind, "--weights", trained, "--out", tmp_path / "x.png")
    assert done.status == 0 and started == [f"drawing {kind}"]
