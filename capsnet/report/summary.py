"""The three sentences a report begins with: against the baselines, the result, and its worth.

summary = summarise(...); summary.verdict == "no better"
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from capsnet.measures.comparing import Difference
from capsnet.measures.metrics import Metrics
from capsnet.measures.resampling import Estimate
from capsnet.measures.scores import SCORES, main_scores
from capsnet.report.facts import DataFacts
from capsnet.tasks import Task

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Compared:
    """A baseline: its title, its scores, and the network's differences to it."""

    name: str
    title: str
    scores: dict[str, float | None]
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain JSON values."""
        return {
            "name": self.name,
            "title": self.title,
            "scores": self.scores,
            "differences": [x.to_json() for x in self.differences],
        }


@dataclass(frozen=True)
class Summary:
    """Three sentences; verdict: better, no better or worse than the strongest baseline."""

    verdict: str
    leaks: bool
    sentences: tuple[str, str, str]


def summarise(
    task: Task, subject: str, metrics: Metrics, compared: Sequence[Compared], facts: DataFacts
) -> Summary:
    """Return the sentences; subject: "The capsules", or what else answers."""
    verdict, first = _against(subject, compared)
    leaks, third = _worth(facts)
    return Summary(verdict, leaks, (first, _result(task, metrics, facts), third))


def _against(subject: str, compared: Sequence[Compared]) -> tuple[str, str]:
    """Say by the paired interval of the first main score whether every baseline is beaten."""
    rows = [(x, x.differences[0]) for x in compared if x.differences]
    if not rows:
        return "unknown", f"{subject} could not be compared with the baselines."
    is_one = subject.endswith("network")
    are = "is" if is_one else "are"
    higher = SCORES[rows[0][1].score].higher_is_better
    # The strongest is told first: the one with the best score.
    rows.sort(key=lambda row: row[1].theirs.value, reverse=higher)
    unbeaten = [(x, d) for x, d in rows if d.verdict != "better"]
    if not unbeaten:
        best, d = rows[0]
        beat = f"{subject} {'beats' if is_one else 'beat'} every baseline"
        return "better", f"{beat}; the strongest is {best.title}: {_told(d)}."
    worst = [(x, d) for x, d in unbeaten if d.verdict == "worse"]
    strongest, d = (worst or unbeaten)[0]
    verdict = "worse" if worst else "no better"
    others = [x.title for x, _ in unbeaten if x is not strongest]
    also = f" (nor do they beat {' or '.join(others)})" if others and not is_one else ""
    also = f" (nor does it beat {' or '.join(others)})" if others and is_one else also
    return verdict, f"{subject} {are} {verdict} than {strongest.title}{also}: {_told(d)}."


def _told(d: Difference) -> str:
    return (
        f"{in_words(d.score)} {number(d.ours.value)} against {number(d.theirs.value)}, a "
        f"difference of {signed(d.difference.value)}{between(d.difference, signed)}"
    )


def _result(task: Task, metrics: Metrics, facts: DataFacts) -> str:
    """Say the main scores with their intervals."""
    told = []
    for name in main_scores(task):
        if (found := metrics.scores[name]) is not None:
            told.append(f"{in_words(name)} {number(found.value)}{between(found)}")
    pictures = f"{metrics.num:,} test pictures of {metrics.num_groups:,} groups"
    if facts.in_shared_groups is None:  # each picture is a group of its own
        pictures = f"{metrics.num_groups:,} test pictures"
        if (times := metrics.num // metrics.num_groups) > 1:
            pictures += f", each answered by {times} networks,"
    if not told:
        return f"There are {pictures.rstrip(',')}, on which no score can be computed."
    return f"On {pictures} the result is {' and '.join(told)}."


def _worth(facts: DataFacts) -> tuple[bool, str]:
    """Say what is known against the numbers."""
    share = facts.in_shared_groups
    if share:
        part = 100 * share / facts.num_tested
        return True, (
            f"Do not trust these numbers: {share:,} test pictures ({part:.0f} %) are of groups "
            "that are also in training; split by group and train again."
        )
    if facts.copies:
        return True, (
            f"Do not trust these numbers: {facts.copies:,} of {facts.num_tested:,} test pictures "
            "are also, pixel by pixel, in training; remove the copies and train again."
        )
    if facts.checked.leaks:
        return True, f"Do not trust these numbers: {facts.checked.leaks[0]}"
    if share is None:
        return False, (
            "No test picture is also in training, but no groups are known: if several pictures are "
            "of one person or thing, the numbers are too good."
        )
    return False, "No picture and no group is in both training and test."


def in_words(score: str) -> str:
    """Return the title of a score inside a sentence."""
    title = SCORES[score].title
    return title if title[1].isupper() else title[0].lower() + title[1:]


def number(x: float) -> str:
    """Return a number in three figures after the point, or four in all if it is large."""
    text = f"{x:.3f}" if abs(x) < 100 else f"{x:,.4g}"
    return text.replace("-", MINUS)


def signed(x: float) -> str:
    """Return a number with its sign."""
    return ("+" if round(x, 3) > 0 else "") + number(x + 0.0 if round(x, 3) else 0.0)


def between(x: Estimate, told: Any = number) -> str:
    """Return the interval in brackets, or nothing where there is none."""
    if x.low is None or x.high is None:
        return ""
    return f" ({told(x.low)} to {told(x.high)})"
