"""What a model answered to every picture of a split, as a run keeps it.

answered = Answered.load(Path("runs/scans/answers-test.npz")); answered.answers, answered.files
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capsnet.errors import UserError
from capsnet.files import parse_json, whole_file
from capsnet.tasks import Task, task_from_json


@dataclass(frozen=True, eq=False)
class Answered:
    """Answers [M, J] of a model and the labels [M, …] of the task, in the order of `files`.

    groups: of whom each picture is; a picture without a group is its own.
    """

    task: Task
    answers: np.ndarray  # float32 [M, J], as the model gave them
    labels: np.ndarray  # as Split has them: int64 [M], a table [M, J], or float [M, K]
    files: tuple[str, ...]
    groups: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.answers)

    def save(self, path: Path) -> None:
        """Write everything as one file, whole or not at all."""
        with whole_file(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(
                file,
                task=np.array(json.dumps(self.task.to_json())),
                answers=self.answers.astype(np.float32),
                labels=self.labels,
                files=np.array(json.dumps(self.files)),
                groups=np.array(json.dumps(self.groups)),
            )

    @classmethod
    def load(cls, path: Path) -> "Answered":
        """Read what `save` wrote; a UserError says what is wrong with the file."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(
                    task_from_json(parse_json(str(file["task"]))),
                    file["answers"],
                    file["labels"],
                    tuple(parse_json(str(file["files"]))),
                    tuple(parse_json(str(file["groups"]))),
                )
        except FileNotFoundError:
            raise UserError(f"There is no {path}; finish the run with --resume first.") from None
        except Exception as error:  # numpy and zipfile raise whatever the damage makes them
            raise UserError(f"{path} cannot be read ({error}); make the run again.") from None
