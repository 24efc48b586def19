import signal

import pytest


@pytest.fixture
def ctrl_c(at_step):
    """Press Ctrl-C in the k-th step."""
    return lambda k: at_step(k, lambda module: signal.raise_signal(signal.SIGINT))


@pytest.fixture
def poisoned(at_step):
    """Break the weights in the k-th step."""

    def poison(module):
        module.class_caps.W.data[0, 0, 0, 0] = float("nan")

    return lambda k: at_step(k, poison)
