"""`capsnet` in which Triton compiles a kernel in the first step and SIGTERM comes in the third.

Prints whether the compiler's handlers are still in place at the end: they take themselves away
when one of them has run, and SIGUSR2 is one that only they look after.
"""

import os
import signal
import sys
from pathlib import Path

import triton
import triton.language as tl
from torch.nn.modules.module import register_module_forward_hook
from triton.backends.compiler import GPUTarget

from capsnet.cli import main
from capsnet.models.capsnet import CapsNet

steps = []


@triton.jit
def kernel(x):
    tl.store(x, 1.0)


def compile_then_stop(module, arguments, output):
    if isinstance(module, CapsNet) and module.training:
        steps.append(module)
        if len(steps) == 1:
            source = triton.compiler.ASTSource(kernel, {"x": "*fp32"})
            triton.compile(source, target=GPUTarget("cuda", 90, 32))
            assert caught(signal.SIGUSR2), "the compiler leaves signals alone now"
        elif len(steps) == 3:
            os.kill(os.getpid(), signal.SIGTERM)


def caught(number):
    lines = Path("/proc/self/status").read_text().splitlines()
    mask = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(mask, 16) >> (number - 1) & 1)


if __name__ == "__main__":
    register_module_forward_hook(compile_then_stop)
    status = main(sys.argv[1:])
    print("in place" if caught(signal.SIGUSR2) else "gone")
    sys.exit(status)
