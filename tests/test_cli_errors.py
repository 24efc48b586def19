import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from capsnet.cli import VERBS
from capsnet.data.registry import DATA
from capsnet.data.sources.known import MNIST
from capsnet.training.loop import train


def one_sentence(done):
    """A user's mistake: status 2, nothing on stdout, one line on stderr."""
    assert done.status == 2 and done.out == ""
    assert done.err.startswith("capsnet: ") and done.err.endswith("\n")
    assert done.err.count("\n") == 1 and "Traceback" not in done.err
    return done.err


@pytest.fixture
def tiny_pictures(tmp_path):
    for name in "ab":
        (tmp_path / "own" / name).mkdir(parents=True)
        for i in range(4):
            pixels = np.full((8, 8), 60 * i, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "own" / name / f"{i}.png")
    return tmp_path / "own"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("tarin", "did you mean 'train'"),
        ("train --model capsnet_smal --data digits", "did you mean 'capsnet_small'"),
        ("train --model capsnet_small --data digit", "did you mean 'digits'"),
        ("train --model capsnet_small --data digits --options num_iter=1", "'num_iters'"),
        ("train --model capsnet_small --data digits --options num_iters", "NAME=VALUE"),
        (
            "train --model capsnet_small --data digits --options num_iters=two",
            "num_iters must be a whole number, not 'two'",
        ),
        ("train --model capsnet_small --data digits --options gradient=foo", "full, last"),
        (
            "train --model capsnet_small --data digits --options decoder={[]:1}",
            "numbers in brackets",
        ),
        ("train --model capsnet_small --data digits --options num_classes=5", "leave num_classes"),
        ("train --model capsnet_small --data digits --options pretrained=True", "new weights"),
        ("train --model capsnet_small --data digits --options name=x", "called 'name'"),
        ("train --model cnn_small --data digits --options dropout=2.0", "less than 1"),
        ("train --data digits --seed 4294967295 --seeds 2", "start from a smaller seed"),
        ("train --model capsnet_small --data digits --device cuda:77", "cpu"),
        ("train --model capsnet_small --data digits --device gpu", "no device 'gpu'"),
        ("train --model capsnet_small --data digits --device mps", "not supported"),
        ("train --model capsnet_small --data digits --device cpu:3", "not supported"),
        ("train --model capsnet_small --data digits --num-samples 9999", "9999 of 5000"),
        ("train --model capsnet_small --data digits --holdout 5001", "5001 of 5000"),
        ("train --model capsnet_small --data digits --resume", "no run to resume"),
        ("train --model capsnet_small --data digits --image-size 20", "28 or more"),
        ("train --model capsnet_small --data multidigits --shift 3", "own rules"),
        ("train --model capsnet_small --data multidigits --shift 0", "own rules"),
        ("train --model capsnet_small --data smallnorb", "folder"),
        ("train --model capsnet_small --data folder:nowhere", "no folder nowhere"),
        ("train --model capsnet_small --data ''", "no name"),
        ("train --model capsnet_small --data folder:", "no name"),
        ("train --model capsnet_small --data digits/", "no folder digits"),
        ("train --model capsnet_small --data ~nobody-at-all/pets", "no folder ~nobody-at-all/pets"),
        ("data check folder:~nobody-at-all", "no folder ~nobody-at-all"),
        ("train --model capsnet_small --data ./digits", "no folder digits"),
        ("train --model capsnet_small --data OWN --image-size 0", "ask for 1 to"),
        ("train --model capsnet_small --data OWN --image-size -5", "ask for 1 to"),
        ("train --model capsnet_small --data OWN --image-size 100000000000", "ask for 1 to"),
        ("train --model capsnet_mnist --data OWN", "9×9 kernel does not fit a 8×8 picture"),
        ("train --model capsnet_small --data OWN --channels 2", "1 or 3 channels"),
        ("evaluate --weights nowhere/run", "no file or folder nowhere/run"),
        ("evaluate --weights capsnet_smal", "did you mean 'capsnet_small'"),
        ("evaluate --weights cnn_baseline", "No weights are shipped"),
        ("evaluate --weights TEXT", "cannot be read"),
        ("evaluate --weights RUN --data digit", "did you mean 'digits'"),
        ("evaluate --weights RUN --data multidigits", "36 or more"),
        ("evaluate --weights RUN --data OWN", "10 classes, the data has 2"),
        ("evaluate --weights RUN --data ''", "no name"),
        ("evaluate --weights RUN --batch-size 0", "at least 1"),
        (f"evaluate --weights {300 * 'x'}", "Could not use x.*File name too long; check the name"),
        ("evaluate --weights RUN --num-samples 0", "one or more"),
        ("evaluate --weights RUN --device cuda:77", "cpu"),
        ("predict --weights RUN", "No picture"),
        ("predict nowhere.png --weights RUN", "no picture nowhere.png"),
        ("predict TEXT --weights RUN", "not a readable picture"),
        ("predict OWN/a/0.png --weights nowhere/run", "no file or folder"),
        ("predict OWN/a/0.png --weights RUN --centre", "blank"),
        ("figure routing --weights nowhere/run", "no file or folder"),
        ("figure routing --weights RUN --index 1000", "no image 1000; choose 0 to 999"),
        ("figure overlap --weights RUN --data OWN", "10 classes, the data has 2"),
        ("figure reconstructions --weights RUN --data OWN", "10 classes, the data has 2"),
        ("figure routing --weights RUN --out TEXT/x.png", "Could not write"),
        ("figure routing --weights RUN --out x.jpg", "ends in .png"),
        ("figure routing --weights RUN --data ''", "no name"),
        ("data list mnist", "leave name and folder out"),
        ("data list --folder nowhere", "leave name and folder out"),
        ("data check", "which data set"),
        ("data check mnist --folder nowhere", "no folder nowhere"),
        ("data fetch mnits", "did you mean 'mnist'"),
        ("data check digits --folder OWN", "need no folder"),
        ("info nowhere/run", "no file or folder"),
        ("demo --seconds 0", "greater than 0"),
        ("demo --seconds nan", "greater than 0"),
        ("demo --seconds inf", "greater than 0"),
        ("train --epochs 0", "epochs must be at least 1"),
        ("train --rotate nan", "rotate must be a number"),
        ("train --lr 1e300", "lr must be less than"),
        ("train --lr 1e-7", "lr must be at least 1e-06"),
        ("train --batch-size 100000000000000000000", "batch-size must be less than"),
        ("train --checkpoint-seconds -5", "checkpoint-seconds must be at least 0"),
        ("train --holdout 5 --stop-at-error -3", "stop-at-error must be at least 0"),
        ("train --data OWN --holdout 6", "Cannot hold out 6 of 6 images; hold out fewer"),
        ("train --model capsnet_small --data digits --channels 0", "ask for 1 or more"),
        ("train --data digits --options num_iters=1 num_iters=2", "num_iters is given twice"),
        (f"train --data digits --options num_iters={10**20}", "num_iters must be at most 1,000"),
        ("train --seed 99999999999999999999", "seed must be less than 4,294,967,296"),
        ("train --data-seed -1", "data-seed must be at least 0"),
        ("train --model capsnet_small --data digits --shift 28", "out of sight"),
        ("train --model capsnet_small --data digits --contrast 1.2", "contrast needs rotate"),
        ("train --model capsnet_small --data digits --rotate -5", "rotate must be at least 0"),
        ("train --schedule linear --lr-decay 0.9", "leave them out"),
        ("train --model cnn_small --data digits --average-classes", "has no margin loss"),
        (
            "train --model cnn_small --data digits --reconstruction-weight 0.1",
            "draws no pictures",
        ),
        ("bench step --dtype fp32", "--dtype is for 'capsnet bench routing'"),
        ("bench routing --batch 0", "batch and capsules must be at least 1"),
        ("bench inference --batch -1", "batch and capsules must be at least 1"),
        (f"bench routing --batch {10**20}", "batch and capsules must be at least 1 and below"),
        (f"bench routing --capsules {10**20}", "batch and capsules must be at least 1 and below"),
        ("bench routing --plot x.jpg", "ends in .png"),
        ("bench routing --data mnist", "--data is for 'capsnet bench epoch'"),
        ("reproduce table2", "did you mean 'table1'"),
        ("reproduce table1 --seeds 0", "seeds must be 1 to 1,000"),
        ("reproduce table1 --seeds 1001", "seeds must be 1 to 1,000"),
        ("reproduce scrambled --smoke --minutes 0", "minutes must be greater than 0"),
        ("reproduce scrambled --smoke --minutes nan", "minutes must be greater than 0"),
        ("reproduce scrambled --smoke --minutes inf", "leave it out for no limit"),
        ("reproduce scrambled --smoke --minutes 1e300", "leave it out for no limit"),
        ("reproduce scrambled --smoke --rows", "No row was named"),
        ("reproduce scrambled --rows CNN RNN", "no row 'RNN'; choose from: 'CapsNet', 'CNN'"),
        ("reproduce figure-routing --rows X --seeds 0 --keep", "leave seeds, keep, rows out"),
        (
            "reproduce figure-routing --minutes 1 --device nonsense --smoke --commit x",
            "leave minutes, device, smoke, commit out",
        ),
        ("reproduce figure-routing --results x --runs x", "leave results, runs out"),
    ],
)
def test_mistake_is_one_sentence(
    arguments, sentence, cli, trained, tiny_pictures, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no picture and no weights")
    places = {"RUN": trained, "OWN": tiny_pictures, "TEXT": tmp_path / "text"}
    words = [re.sub("RUN|OWN|TEXT", lambda m: str(places[m[0]]), w) for w in shlex.split(arguments)]
    assert re.search(sentence, one_sentence(cli(*words)))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("train --nonsense 3", "--nonsense"),
        ("train --lr abc", "'abc'"),
        ("train --schedule foo", "'paper'"),
        ("evaluate", "--weights"),
        ("figure portrait --weights x", "'perturbation'"),
        ("data mend", "'fetch'"),
    ],
)
def test_arguments_that_do_not_parse_have_status_2(arguments, words, cli):
    done = cli(*arguments.split())
    assert done.status == 2 and done.out == "" and words in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("verb", ["evaluate", "figure reconstructions"])
def test_data_of_other_classes_is_refused(verb, cli, trained, tmp_path):
    for name in "abcdefghij":
        (tmp_path / "letters" / name).mkdir(parents=True)
        for i in range(2):
            picture = Image.new("L", (28, 28), i)
            picture.save(tmp_path / "letters" / name / f"{i}.png")
    data = tmp_path / "letters"
    sentence = one_sentence(cli(*verb.split(), "--weights", trained, "--data", data))
    assert "The model knows 0, 1" in sentence and "the data has a, b" in sentence


def test_cnn_has_no_capsules_to_draw(cli, tiny, tiny_pictures, tmp_path):
    run = train(tiny(model="cnn_small", options=("channels=2",), epochs=1)).folder
    assert "no routing" in one_sentence(cli("figure", "routing", "--weights", run))
    picture = tiny_pictures / "a" / "0.png"
    done = cli("predict", picture, "--weights", run, "--reconstruct", tmp_path / "drawn")
    assert "no decoder" in one_sentence(done)


def test_model_without_decoder_draws_no_pictures(cli, tiny):
    options = ("conv_channels=8", "primary_types=4", "decoder=()")
    run = train(tiny(options=options, epochs=1)).folder
    done = cli("figure", "reconstructions", "--weights", run)
    assert "draws no pictures" in one_sentence(done)


@pytest.mark.parametrize("words", [("--class-from", "1"), ("--fit", "crop"), ("--skip-bad",)])
def test_what_is_for_own_pictures_is_not_ignored_elsewhere(cli, tmp_path, words):
    asked = ("train", "--model", "capsnet_small", "--data", "digits", "--out", tmp_path / "run")
    assert f"{words[0]} is for pictures of your own" in one_sentence(cli(*asked, *words))


def test_maintainers_mistake_is_one_sentence_too(dev, cli, tmp_path):
    assert "no folder nowhere" in one_sentence(dev("ship", "--run", "nowhere", "--name", "x"))
    assert "no folder nowhere" in one_sentence(dev("report", "--results", "nowhere"))
    assert "no verb called 'reprot'; did you mean 'report'" in one_sentence(dev("reprot"))
    assert "no verb called 'ship'" in one_sentence(cli("ship"))


def test_process_ends_with_the_status(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "capsnet", "evaluate", "--weights", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("capsnet: There is no weights.safetensors")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_under_the_output_is_one_sentence():
    command = f"{sys.executable} -m capsnet data list > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("capsnet: The disk")
    assert done.stderr.count("\n") == 1


def test_closed_output_is_no_mistake():
    command = f"{sys.executable} -m capsnet data list >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_bench_that_cannot_be_saved_is_still_shown(cli, tmp_path, monkeypatch):
    result = {"rows": [{"batch": 1}]}
    monkeypatch.setattr("capsnet.bench.report.run_bench", lambda *settings, **more: result)
    (tmp_path / "text").write_text("no folder")
    done = cli("bench", "routing", "--save", tmp_path / "text" / "bench.jsonl", "--json")
    assert done.status == 2 and done.err.startswith("capsnet: Could not write")
    assert json.loads(done.out) == result


@pytest.mark.parametrize("wrong", [False, True])
def test_check_tells_missing_files_from_wrong_ones(wrong, cli, tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSNET_CACHE", str(tmp_path))
    source = replace(MNIST, system_folder=str(tmp_path / "system"))
    monkeypatch.setitem(DATA, "mnist", replace(DATA["mnist"], source=source))
    if wrong:
        (tmp_path / "mnist").mkdir()
        for name in MNIST.raw_md5:
            (tmp_path / "mnist" / name).write_bytes(b"wrong")
    done = cli("data", "check", "mnist")
    assert done.status == 2 and done.out.count(" WRONG " if wrong else " missing ") == 4
    assert done.err.startswith("capsnet: Files of mnist") and done.err.count("\n") == 1
    report = json.loads(cli("data", "check", "mnist", "--json").out)
    assert [file["missing"] for file in report["files"]] == [not wrong] * 4


def test_board_that_cannot_be_written_is_one_sentence(cli, tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "tensorboard").write_text("in the way")
    words = "train --model capsnet_small --data digits --tensorboard --device cpu --out"
    assert "Could not write" in one_sentence(cli(*words.split(), tmp_path))


def ask_for_too_much():
    torch.empty(1 << 60, dtype=torch.uint8)


def fill_the_gpu():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def fill_python():
    raise MemoryError


def fail():
    raise RuntimeError("a mistake of ours")


@pytest.mark.parametrize("verb", [ask_for_too_much, fill_the_gpu, fill_python])
def test_too_little_memory_is_one_sentence(verb, cli, monkeypatch):
    monkeypatch.setitem(VERBS, "models", verb)
    assert "smaller batch" in one_sentence(cli("models"))


def test_a_mistake_of_ours_keeps_its_traceback(cli, monkeypatch):
    monkeypatch.setitem(VERBS, "models", fail)
    with pytest.raises(RuntimeError, match="of ours"):
        cli("models")
