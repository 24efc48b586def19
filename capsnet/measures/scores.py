"""The scores by name: what each means, which way is better, and which ones a task is judged by.

SCORES["auc"].title; main_scores(task) -> ("auc", "accuracy")
"""

from dataclasses import dataclass

from capsnet.tasks import Numbers, OneLabel, Task


@dataclass(frozen=True)
class Score:
    """A score: its title, one sentence on what it says, and whether more of it is better."""

    name: str
    title: str
    meaning: str
    higher_is_better: bool = True


ALL = (
    Score("accuracy", "Accuracy", "Share of answers that are right."),
    Score(
        "balanced_accuracy",
        "Balanced accuracy",
        "Mean of the classes' recalls, so that a frequent class counts no more than a rare one.",
    ),
    Score(
        "auc",
        "AUC (ROC)",
        "Chance that a picture of a class is ranked above one without it; 0.5 is guessing.",
    ),
    Score(
        "average_precision",
        "Average precision",
        "Area below the precision-recall curve; guessing gives the share of the class.",
    ),
    Score("sensitivity", "Sensitivity", "Share of positives that are found."),
    Score("specificity", "Specificity", "Share of negatives that are left alone."),
    Score(
        "sensitivity_at_90",
        "Sensitivity at 90 % specificity",
        "Share of positives found where at most one negative in ten is called positive.",
    ),
    Score(
        "sensitivity_at_95",
        "Sensitivity at 95 % specificity",
        "Share of positives found where at most one negative in twenty is called positive.",
    ),
    Score("recall", "Recall", "Share of the pictures of a class that are found."),
    Score("precision", "Precision", "Share of a class's answers that are right."),
    Score("f1", "F1", "Balance of recall and precision, 2rp / (r + p), averaged over classes."),
    Score(
        "log_loss", "Log loss", "Mean of -log of the probability of what is true; 0 is best.", False
    ),
    Score(
        "brier",
        "Brier score",
        "Mean squared distance of the probabilities from the truth; 0 is best.",
        False,
    ),
    Score(
        "ece",
        "Calibration error (ECE)",
        "Mean distance, in tenths, between how sure the answers are and how often they are right.",
        False,
    ),
    Score("mae", "Mean absolute error", "Mean distance from the truth.", False),
    Score("rmse", "Root mean squared error", "As the mean, but large errors count more.", False),
    Score("r2", "R²", "Share of the variance that is explained; the mean has 0."),
)
SCORES = {score.name: score for score in ALL}

PROBABILITY = ("log_loss", "brier", "ece")
SPECIFICITIES = {"sensitivity_at_90": 0.9, "sensitivity_at_95": 0.95}


def is_binary(task: Task) -> bool:
    """Return whether the task is one of two classes, of which the last is the positive."""
    return isinstance(task, OneLabel) and len(task.names) == 2


def scores_of(task: Task) -> tuple[str, ...]:
    """Return the scores of all answers that people judge such a task by."""
    if isinstance(task, Numbers):
        return ("mae", "rmse", "r2")
    ranked = ("auc", "average_precision")
    if is_binary(task):
        found = ("sensitivity", "specificity", *SPECIFICITIES)
        return ("accuracy", "balanced_accuracy", *ranked, *found, *PROBABILITY)
    if not isinstance(task, OneLabel):
        return ("average_precision", "auc", "f1", "accuracy", *PROBABILITY)
    return ("accuracy", "balanced_accuracy", *ranked, *PROBABILITY)


def class_scores_of(task: Task) -> tuple[str, ...]:
    """Return the scores of each class, or of each number."""
    if isinstance(task, Numbers):
        return ("mae", "rmse", "r2")
    return ("recall", "precision", *(() if is_binary(task) else ("auc", "average_precision")))


def main_scores(task: Task) -> tuple[str, ...]:
    """Return the scores that two ways of answering are compared by, the first one decides."""
    if isinstance(task, Numbers):
        return ("mae",)
    if is_binary(task):
        return ("auc", "accuracy")
    if isinstance(task, OneLabel):
        return ("balanced_accuracy", "accuracy")
    return ("average_precision", "accuracy")
