"""What an experiment is: named recipes, what is measured after training, and how it is shown.

for row, config in experiment.recipes(seed).items(): ...
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from matplotlib.figure import Figure

from capsnet.data import Plan, SplitName, Stream
from capsnet.experiments.runner.records import Results
from capsnet.models import Model
from capsnet.training.config import TrainConfig
from capsnet.training.evaluation import Answers, answer
from capsnet.training.setup import open_stream

BATCH = 512


@dataclass(frozen=True)
class Trained:
    """A finished run: the model with its final weights, ready on its device."""

    model: Model
    config: TrainConfig
    device: torch.device
    precision: torch.dtype
    at_most: int | None = None  # test images to measure on, for a try-out

    def count(self, num_images: int) -> int:
        """Return how many of `num_images` to measure on."""
        return num_images if self.at_most is None else min(num_images, self.at_most)

    def stream(self, split: SplitName) -> Stream:
        """Return data of the run on its device."""
        return open_stream(self.config, split, self.device)

    def answers(self, stream: Stream, plan: Plan | None = None) -> Answers:
        """Return the model's answers to a plan of a stream, by default the fixed one."""
        return answer(self.model, stream, BATCH, self.precision, plan)


def nothing_more(trained: Trained) -> dict[str, Any]:
    """Measure nothing beyond what training itself reports."""
    return {}


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper, or a claim about capsules put to the test."""

    name: str
    title: str
    recipes: Callable[[int], dict[str, TrainConfig]]  # seed -> row -> what to train
    table: Callable[[Results], str]  # all results -> markdown
    measure: Callable[[Trained], dict[str, Any]] = nothing_more
    plot: Callable[[Results], Figure] | None = None
    seeds: int = 3
    own_seeds: Mapping[str, int] = field(default_factory=dict)  # row -> its own number of seeds
    columns: Mapping[str, str] = field(  # heading -> key of the result, in the list of all runs
        default_factory=lambda: {"test error %": "error_percent"}
    )
