"""The one list of what can be reproduced. A new experiment is a file and a line here."""

from capsnet.experiments import (
    affine,
    equivariance,
    family_multimnist,
    few_labels,
    multimnist,
    scrambled,
    self_reading,
    table1,
    tune,
    tune_multimnist,
)
from capsnet.experiments.runner.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        table1,
        multimnist,
        affine,
        few_labels,
        scrambled,
        equivariance,
        family_multimnist,
        self_reading,
        tune,
        tune_multimnist,
    )
}
