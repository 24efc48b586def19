import signal
from contextlib import contextmanager

import pytest
from torch.nn.modules.module import register_module_forward_hook

from capsnet.models import Classifier


@pytest.fixture
def at_step():
    """Do something right after the k-th forward pass in training: with at_step(k, do): train()."""

    @contextmanager
    def context(k, do):
        count = 0

        def hook(module, arguments, output):
            nonlocal count
            if isinstance(module, Classifier) and module.training:
                count += 1
                if count == k:
                    do(module)

        handle = register_module_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()

    return context


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
