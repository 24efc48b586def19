"""The one list of what can be reproduced. A new experiment is a file and a line here."""

from capsnet.experiments import (
    affine,
    depth,
    equivariance,
    family_multimnist,
    few_labels,
    multimnist,
    scrambled,
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
        depth,
        tune,
        tune_multimnist,
    )
}
