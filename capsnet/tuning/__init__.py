"""Tuning: many short runs that look for better settings, shared by any number of workers.

tuned = tune(TrainConfig(data="digits"), trials=20) of capsnet.tuning.worker does it.
"""

import warnings

from capsnet.errors import needs

with needs("Tuning needs Optuna", extra="tune"):
    import optuna

# What is experimental of it (the heartbeat of workers) is held by our tests.
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
optuna.logging.set_verbosity(optuna.logging.ERROR)  # the worker says itself what it does
