"""The one list of what can be reproduced. A new experiment is a file and a line here."""

from capsnet.experiments import (
    affine,
    depth,
    equivariance,
    family,
    family_multimnist,
    fashion,
    few_labels,
    multimnist,
    poses,
    scrambled,
    self_reading,
    synchrony,
    table1,
    tune,
    tune_multimnist,
)
from capsnet.experiments.runner.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        table1.EXPERIMENT,
        multimnist.EXPERIMENT,
        fashion.EXPERIMENT,
        affine.EXPERIMENT,
        few_labels.EXPERIMENT,
        scrambled.EXPERIMENT,
        equivariance.EXPERIMENT,
        family_multimnist.EXPERIMENT,
        *family.EXPERIMENTS,
        self_reading.EXPERIMENT,
        depth.EXPERIMENT,
        poses.EXPERIMENT,
        *synchrony.EXPERIMENTS,
        *tune.EXPERIMENTS,
        tune_multimnist.EXPERIMENT,
    )
}
