import os
import subprocess
import sys

import pytest


@pytest.fixture
def pass_in_interpreter(request):
    """Run the `interpreted` tests of this file where Triton interprets its kernels on the CPU.

    That is a process of its own: the interpreter must be chosen before Triton is imported.
    """

    def run() -> None:
        pytest.importorskip("triton", reason="the kernels need Triton")
        command = [sys.executable, "-m", "pytest", str(request.path), "-k", "interpreted"]
        result = subprocess.run(
            [*command, "-p", "no:cacheprovider"],
            env=os.environ | {"TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]

    return run
