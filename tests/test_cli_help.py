import json
import re
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest

from capsnet.cli import VERBS
from capsnet.dev.__main__ import COMMAND as DEV
from capsnet.experiments.catalogue import EXPERIMENTS
from capsnet.experiments.drawings import DRAWINGS
from capsnet.training.config import GROUPS, TrainConfig
from capsnet.training.outcome import Interrupted


def python(code):
    """Run a line of Python in a fresh process and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("verb", VERBS)
def test_verb_explains_itself_with_an_example(verb, cli):
    done = cli(verb, "--help")
    assert done.status == 0 and done.err == ""
    assert re.search(rf"Example: capsnet {verb}\b", done.out)


def test_overview_names_every_verb(cli):
    done = cli("--help")
    assert done.status == 0
    assert all(re.search(rf"^  {verb} ", done.out, re.MULTILINE) for verb in VERBS)
    assert cli().status == 2
    assert cli("--version").out.startswith("capsnet ")


def test_help_is_a_verb_too(cli):
    assert cli("help") == cli("--help") == cli("-h")
    assert cli("help", "predict") == cli("predict", "--help")
    assert cli("help", "predcit").status == 2


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_no_noise(verb, cli):
    text = cli(verb, "--help").out
    assert not re.search(r"None|\(default:\s*(False|\))|--no-|\[\w+ \[", text)


def test_help_of_train_shows_every_setting_in_its_group(cli, monkeypatch):
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(
        field.name for field in fields(TrainConfig)
    )
    monkeypatch.setenv("COLUMNS", "100")
    text = cli("train", "--help").out
    titles = "|".join(GROUPS)
    words = re.findall(rf"({titles}): options|^\W{{1,3}}--([a-z][\w-]*)", text, re.M)
    expected = [("", "config"), ("", "devices"), ("", "json")]
    for title, names in GROUPS.items():
        expected += [(title, ""), *(("", name.replace("_", "-")) for name in names)]
    assert words == expected
    assert "Random rotation in degrees, each direction. (default: 0.0)" in text


def test_settings_reach_the_run(cli, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "capsnet.training.loop.train", lambda c: seen.append(c) or Interrupted(c.out)
    )
    words = "train --model m --options a=1 b=2 --num-samples 5 --lr 0.1 --resume --out x --json"
    done = cli(*words.split())
    assert done.status == 130 and json.loads(done.out) == {"interrupted": True, "folder": "x"}
    assert "--resume goes on" in done.err
    assert seen == [
        TrainConfig(
            model="m", options=("a=1", "b=2"), num_samples=5, lr=0.1, resume=True, out=Path("x")
        )
    ]


@pytest.mark.parametrize("verb", DEV.verbs)
def test_maintainers_verb_explains_itself_with_an_example(verb, dev):
    done = dev(verb, "--help")
    shared = VERBS.get(verb) is DEV.verbs[verb]
    command = "capsnet" if shared else "python -m capsnet.dev"
    assert done.status == 0 and f"Example: {command} {verb}" in done.out
    assert re.search(rf"^  {verb} ", dev("--help").out, re.MULTILINE)


def test_help_names_all_that_can_be_reproduced(cli):
    words = re.findall(r"[\w-]+", cli("reproduce", "--help").out)
    assert {*EXPERIMENTS, *DRAWINGS} <= set(words)


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"]])
def test_help_does_not_wait_for_torch(arguments):
    code = (
        "import sys\nfrom capsnet.cli import main\n"
        f"try: main({arguments})\nexcept SystemExit: pass\n"
        "print({'torch', 'numpy', 'matplotlib', 'PIL', 'pydantic'} & set(sys.modules))"
    )
    started = time.monotonic()
    assert python(code).endswith("set()")
    assert time.monotonic() - started < 5  # with room for a busy machine


def test_import_needs_neither_triton_nor_web():
    code = (
        "import sys, capsnet, capsnet.models, capsnet.data, capsnet.training.loop\n"
        "heavy = {'triton', 'fastapi', 'starlette', 'uvicorn', 'flask', 'aiohttp', 'tensorboard'}\n"
        "print(heavy & set(sys.modules))"
    )
    assert python(code) == "set()"


def test_import_of_the_package_alone_is_light():
    assert python("import sys, capsnet; print('torch' in sys.modules)") == "False"
