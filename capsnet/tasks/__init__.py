"""Tasks: what is asked of a model. A task owns its labels, its metrics, and how a result is told.

task = OneLabel(("cat", "dog")); task.measure(output.answers, labels).error_percent
"""

from capsnet.errors import UserError
from capsnet.tasks.calibration import Calibration
from capsnet.tasks.labels import Labels, LabelsResult, OneLabel, Pairs, SeveralLabels
from capsnet.tasks.numbers import Numbers, NumbersResult
from capsnet.tasks.sets import NOBODY, Sets
from capsnet.tasks.task import Batch, Result, Task

__all__ = [
    "NOBODY",
    "Batch",
    "Calibration",
    "Labels",
    "LabelsResult",
    "Numbers",
    "NumbersResult",
    "OneLabel",
    "Pairs",
    "Result",
    "Sets",
    "SeveralLabels",
    "Task",
    "task_from_json",
]

KINDS: dict[str, type[Task]] = {
    task.kind: task for task in (OneLabel, Pairs, SeveralLabels, Sets, Numbers)
}


def task_from_json(facts: dict[str, object]) -> Task:
    """Return the task that `Task.to_json` wrote; a ValueError if it did not.

    Args:
        facts: What it wrote.

    Returns:
        The task.

    Example:
        >>> task_from_json(OneLabel(("cat", "dog")).to_json())
        OneLabel(names=('cat', 'dog'))
    """
    if not isinstance(facts, dict):
        raise UserError(f"a task must be an object, not {facts!r}.")
    kind = KINDS.get(str(facts.get("kind")))
    if kind is None:
        raise ValueError(f"there is no task called {facts.get('kind')!r}")
    return kind.from_json(facts)
