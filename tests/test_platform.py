"""The package stays off what only POSIX systems have; stands in for systems that are not here."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import capsnet
from capsnet.training import run
from capsnet.training.checkpoint import CHECKPOINT
from capsnet.training.loop import train

PACKAGE = Path(capsnet.__file__).parent
TINY = ("conv_channels=8", "primary_types=4", "decoder=(16,)")
FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = ["fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"]
SIGNALS = ["SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGUSR1", "SIGUSR2"]
FUNCTIONS = [
    "chown",
    "fchmod",
    "fork",
    "geteuid",
    "getuid",
    "getgid",
    "killpg",
    "mkfifo",
    "setsid",
    "uname",
]

# A Python without Triton, in which our code finds nothing of POSIX; libraries still do.
ELSEWHERE = """
import builtins, json, pkgutil, signal, sys
from importlib import import_module
import capsnet

modules, signals, arguments = map(json.loads, sys.argv[1:])
real = builtins.__import__
def import_there(name, globals=None, *rest, **named):
    ours = (globals or {}).get("__name__", "").startswith("capsnet")
    if name == "triton" or ours and name.split(".")[0] in modules:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real(name, globals, *rest, **named)
builtins.__import__ = import_there
sys.modules["triton"] = None
for name in signals:
    delattr(signal, name)

missing = []
for module in pkgutil.walk_packages(capsnet.__path__, "capsnet."):
    if module.name != "capsnet.__main__":
        try:
            import_module(module.name)
        except ModuleNotFoundError as error:
            missing.append((module.name, error.name.split(".")[0]))
from capsnet.cli import main
status = main(arguments)
print(json.dumps({"status": status, "missing": missing}))
"""


@pytest.mark.slow
def test_every_module_and_a_run_without_posix(tmp_path):
    arguments = ["train", "--model", "capsnet_small", "--data", "digits", "--num-samples", "60"]
    arguments += ["--epochs", "1", "--options", *TINY, "--out", str(tmp_path / "run")]
    lists = [json.dumps(x) for x in (MODULES, SIGNALS, arguments)]
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *lists],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["status"] == 0, done.stderr
    assert (tmp_path / "run" / "weights.safetensors").exists()
    for name, needed in result["missing"]:  # the kernels, and what launches them
        text = PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py").read_text()
        assert needed == "triton" and re.search(r"^(import|from) triton", text, re.M), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_of_posix_is_named(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not {alias.name for alias in node.names} & {*MODULES}
        elif isinstance(node, ast.ImportFrom):
            assert node.module not in MODULES
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            forbidden = {"signal": SIGNALS, "os": FUNCTIONS}.get(node.value.id, ())
            assert node.attr not in forbidden, f"line {node.lineno}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_text_is_utf8_whatever_the_system_prefers(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and is_about_text(node):
            assert "encoding" in {word.arg for word in node.keywords}, f"line {node.lineno}"


def is_about_text(call):
    """Whether a call reads or writes text in an encoding that it could name."""
    if {word.arg for word in call.keywords} & {"text", "universal_newlines"}:
        return True  # subprocess
    if isinstance(call.func, ast.Name):
        return call.func.id == "open" and not is_binary(call.args[1:])
    name = getattr(call.func, "attr", "")
    owner = getattr(getattr(call.func, "value", None), "id", "")
    if name == "open" and owner not in ("Image", "archive", "os", "tarfile", "webbrowser"):
        return not is_binary(call.args)
    return name in ("read_text", "write_text")


def is_binary(modes):
    return any(isinstance(mode, ast.Constant) and "b" in str(mode.value) for mode in modes)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of open maps")
def test_checkpoint_is_not_in_use_when_it_is_replaced(tiny, monkeypatch):
    """Windows refuses to replace a file that is open or mapped into memory."""
    real, replaced = run.save_checkpoint, []

    def save(folder, *rest):
        path = str(folder / CHECKPOINT)
        assert path not in Path("/proc/self/maps").read_text()
        assert path not in [os.path.realpath(x) for x in Path("/proc/self/fd").iterdir()]
        replaced.append(path)
        real(folder, *rest)

    train(tiny())
    monkeypatch.setattr(run, "save_checkpoint", save)
    train(tiny(resume=True))
    assert replaced
