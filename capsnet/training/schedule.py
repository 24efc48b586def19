"""What changes from step to step: the learning rate and the weight of the running average."""

from math import cos, pi

from capsnet.training.config import LOWEST_LR, TrainConfig


def learning_rate(config: TrainConfig, step: int, total_steps: int) -> float:
    """Return the learning rate of step 0 … total_steps - 1: the schedule's, less at the start."""
    warmup_steps = min(config.warmup_steps, total_steps // 2)
    rising = min(1.0, (step + 1) / (warmup_steps + 1))
    if config.schedule == "paper":
        decayed = config.lr * config.lr_decay ** (step / config.lr_decay_steps)
        return rising * max(decayed, LOWEST_LR)
    done = step / total_steps
    falling = {"linear": 1 - done, "cosine": (1 + cos(pi * done)) / 2, "constant": 1.0}
    return rising * config.lr * falling[config.schedule]


def average_weight(config: TrainConfig, step: int) -> float:
    """Return how much of the weights after `step` goes into the average: 1 at first, then less.

    The growing window keeps the untrained weights of the first steps out of the average.
    """
    return 1 - min(config.averaging, step / (step + 10))
