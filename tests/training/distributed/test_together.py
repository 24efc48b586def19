"""Several processes train one model: the same weights as one, whoever dies or is stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from capsnet.errors import UserError
from capsnet.training.distributed import world
from capsnet.training.distributed.meeting import Meeting

HERE = Path(__file__).parent
SECONDS = 180  # on a busy machine
SMALL = ("conv_channels=4", "primary_types=2", "decoder=(16,)")
MODELS = {
    "capsnet_small": " ".join(SMALL),
    "capsnet_modern_small": "channels=(4,8) primary_types=2 decoder=(16,)",
    "vb_capsnet": "A=4 B=2 C=2 D=2",
}
# Of these the norm that follows takes away all that they do; their gradients are rounding alone.
IDLE = ("beta_a", "beta_u")


def run(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | more,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def torchrun(processes: int, *words: object) -> subprocess.CompletedProcess[str]:
    place = ("--standalone", "--nproc-per-node", processes)
    return run("-m", "torch.distributed.run", *place, *words)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    jobs = [f"{name}|{options}|{folder / name}" for name, options in MODELS.items()]
    done = run(HERE / "several_steps.py", *jobs)
    assert done.returncode == 0, done.stderr
    return {name: load_file(folder / name) for name in MODELS}


@pytest.mark.parametrize("processes", [2, 4])
def test_weights_are_those_of_one_process(processes, alone, tmp_path):
    jobs = [f"{name}|{options}|{tmp_path / name}" for name, options in MODELS.items()]
    done = torchrun(processes, HERE / "several_steps.py", *jobs)
    assert done.returncode == 0, done.stderr
    for name, wanted in alone.items():
        made = load_file(tmp_path / name)
        for key in wanted:
            if not key.endswith(IDLE):
                torch.testing.assert_close(made[key], wanted[key], rtol=0, atol=1e-9, msg=key)


def words(folder: Path, *more: object) -> list[object]:
    settings = ["--model", "capsnet_small", "--options", *SMALL, "--data", "digits"]
    length = ["--num-samples", 300, "--batch-size", 20, "--epochs", 4, "--holdout", 40]
    where = ["--device", "cpu", "--out", folder, "--checkpoint-seconds", 0]
    return ["-m", "capsnet", "train", *settings, *length, *where, *more]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    done = run(*words(folder))
    assert done.returncode == 0, done.stderr
    return folder


def assert_same_run(folder: Path, whole: Path) -> None:
    made, wanted = (load_file(x / "weights.safetensors") for x in (folder, whole))
    for key in wanted:
        torch.testing.assert_close(made[key], wanted[key], rtol=0, atol=2e-4, msg=key)
    losses = [
        [json.loads(line)["loss"] for line in (x / "log.jsonl").read_text().splitlines()]
        for x in (folder, whole)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def start(folder: Path, processes: int) -> subprocess.Popen[str]:
    """Start a run and return once its first epoch is behind it."""
    job = subprocess.Popen(
        [sys.executable, *map(str, words(folder, "--devices", processes))],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    end = time.monotonic() + SECONDS
    while not (folder / "log.jsonl").exists():
        assert job.poll() is None and time.monotonic() < end, job.communicate()[1]
        time.sleep(0.01)
    return job


def workers(job: subprocess.Popen[str]) -> list[int]:
    """Return the processes that train, by their numbers in the system."""
    found = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True)
    pids = [int(line) for line in found.stdout.split()]
    return [p for p in pids if b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the processes in /proc")
def test_a_killed_process_ends_all_and_others_go_on(uninterrupted, tmp_path):
    job = start(tmp_path / "run", 2)
    os.kill(workers(job)[1], signal.SIGKILL)
    began = time.monotonic()
    said = job.communicate(timeout=30)[1]
    assert job.returncode == 2 and time.monotonic() - began < 30
    assert "--resume" in said and "Traceback" not in said
    assert not (tmp_path / "run" / "weights.safetensors").exists()
    done = run(*words(tmp_path / "run", "--resume", "--devices", 3))
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "run", uninterrupted)


def test_a_signal_saves_once_and_one_process_goes_on(uninterrupted, tmp_path):
    job = start(tmp_path / "run", 2)
    job.terminate()
    said = job.communicate(timeout=SECONDS)[1]
    assert job.returncode == 130
    assert said.count("Stopped and saved") == 1 and "Traceback" not in said
    done = run(*words(tmp_path / "run", "--resume"))
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "run", uninterrupted)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the processes in /proc")
def test_torchrun_starts_a_job_anew(uninterrupted, tmp_path):
    folder = tmp_path / "run"
    place = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    job = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *place, *map(str, words(folder))],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    while not (folder / "log.jsonl").exists():
        assert job.poll() is None
        time.sleep(0.01)
    found = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True)
    os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
    assert job.wait(timeout=SECONDS) == 0
    assert_same_run(folder, uninterrupted)


SRUN = """#!/bin/bash
# Two machines in one: the command of each task, side by side.
"$@" & "$@" & wait -n; first=$?; wait -n; exit $((first + $?))
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="SLURM's script is for bash")
def test_the_script_for_slurm_joins_two_machines_and_goes_on(uninterrupted, tmp_path):
    tools = {"srun": SRUN, "scontrol": "#!/bin/bash\necho 127.0.0.1\n"}
    for name, text in tools.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    script = HERE.parents[2] / "examples" / "cluster" / "slurm.sh"
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"SLURM_JOB_NODELIST": "a,b", "SLURM_NNODES": "2", "SLURM_JOB_ID": "7"}
    settings = [str(x) for x in words(tmp_path / "run")[3:]]
    for epochs in ("1", "4"):  # the same job again, as after a machine was lost
        settings[settings.index("--epochs") + 1] = epochs
        done = subprocess.run(
            ["bash", script, *settings, "--schedule", "constant"],
            env=os.environ | given | {"PATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        if epochs == "1":
            assert done.returncode == 0, done.stderr
    # It went on from what it found, and refused the other number of epochs.
    assert "other settings (epochs: 1 -> 4)" in done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_two_processes_share_a_gpu(tmp_path):
    for name, more in (("one", ()), ("two", ("--devices", 2))):
        given = words(tmp_path / name, "--precision", "fp32", *more)
        given[given.index("cpu")] = "cuda:0"
        done = run(*given)
        assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "two", tmp_path / "one")


@pytest.mark.long
def test_gradients_in_bf16_train_nearly_the_same(uninterrupted, tmp_path):
    done = run(*words(tmp_path / "run", "--devices", 2, "--exchange", "bf16"))
    assert done.returncode == 0, done.stderr
    made, wanted = (load_file(x / "weights.safetensors") for x in (tmp_path / "run", uninterrupted))
    apart = torch.cat([(made[k] - wanted[k]).flatten() for k in wanted]).norm()
    size = torch.cat([wanted[k].flatten() for k in wanted]).norm()
    assert 1e-7 * size < apart < 0.1 * size


def test_answers_are_those_of_one_process(uninterrupted, tmp_path):
    said = {}
    for devices in (1, 2):
        verb = ["-m", "capsnet", "evaluate", "--weights", uninterrupted, "--device", "cpu"]
        done = run(*verb, "--devices", devices, "--json", "--batch-size", 64)
        assert done.returncode == 0, done.stderr
        said[devices] = json.loads(done.stdout.splitlines()[-1])
    assert said[1] == said[2]


def test_predictions_are_those_of_one_process(uninterrupted, tmp_path):
    from PIL import Image

    from capsnet.data.sets.digits import load_digits

    shown = tmp_path / "shown"
    shown.mkdir()
    for n, image in enumerate(load_digits("test").images[:7, 0].numpy()):
        Image.fromarray(image).save(shown / f"{n}.png")
    (shown / "bad.png").write_bytes(b"no picture")
    tables = []
    for devices in (1, 2):
        verb = ["-m", "capsnet", "predict", shown, "--weights", uninterrupted, "--skip-bad"]
        table = tmp_path / f"{devices}.csv"
        where = ["--device", "cpu", "--devices", devices]
        done = run(*verb, *where, "--csv", table, "--save-input", tmp_path / f"seen{devices}")
        assert done.returncode == 0 and "1 of 8 files were left out" in done.stderr, done.stderr
        tables.append(table.read_text().replace(f"seen{devices}", "seen"))
        assert len(list((tmp_path / f"seen{devices}").iterdir())) == 7
    assert tables[0] == tables[1]


def test_processes_that_differ_end_before_the_first_step(tmp_path):
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    jobs = []
    for number, rate in enumerate(("0.001", "0.002")):
        own = {"RANK": str(number), "LOCAL_RANK": str(number), "OMP_NUM_THREADS": "1"}
        jobs.append(
            subprocess.Popen(
                [sys.executable, *map(str, words(tmp_path / "run", "--lr", rate))],
                env=os.environ | place | own,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for job in jobs:
        said = job.communicate(timeout=SECONDS)[1]
        assert job.returncode == 2 and "lr: 0.00" in said and "Traceback" not in said
    assert not (tmp_path / "run").exists()


def free_port() -> int:
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.fixture
def second_of_two(monkeypatch):
    for name, value in zip(world.ENVIRONMENT, ("1", "2", "1", "127.0.0.1"), strict=False):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", str(free_port()))


def test_an_address_that_nobody_answers(second_of_two, monkeypatch):
    monkeypatch.setattr(world, "CONNECT", world.timedelta(seconds=1))
    began = time.monotonic()
    with pytest.raises(UserError, match="did not find each other"), world.joined("cpu"):
        pass
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [("RANK", "7", "no process 7 among 2"), ("WORLD_SIZE", "two", "no number")],
)
def test_an_environment_that_cannot_be(name, value, sentence, second_of_two, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=sentence), world.joined("cpu"):
        pass


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_every_row_is_one_process_s(size, monkeypatch):
    monkeypatch.setattr(world, "size", lambda: size)
    for num in (0, 1, 5, 14, 100):
        rows = []
        for rank in range(size):
            monkeypatch.setattr(world, "rank", lambda rank=rank: rank)
            rows.append(list(range(num))[world.share(num)])
        assert [k for part in rows for k in part] == list(range(num))
        assert max(map(len, rows)) - min(map(len, rows)) <= 1


def test_one_process_never_waits():
    meet = Meeting()
    assert meet(True, False) == (True, False) and meet(False, True) == (False, True)


def test_mistakes_with_devices(capsys, tmp_path):
    from capsnet.cli import main

    for given, sentence in (
        (["--devices", "0"], "at least 1"),
        (["--exchange", "bf16"], "One process exchanges nothing"),
    ):
        out = ["--out", str(tmp_path / "run"), "--device", "cpu"]
        assert main(["train", "--data", "digits", *given, *out]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
