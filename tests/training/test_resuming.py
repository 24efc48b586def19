"""Which runs may be resumed, and that no run is overwritten."""

import json
import re
import shutil
from dataclasses import replace

import pytest
import torch
from outcome import files_in
from PIL import Image

from capsnet.data import ImageStream, Split
from capsnet.errors import UserError
from capsnet.files import locked
from capsnet.models.tensor_file import load_tensors, save_tensors
from capsnet.training import checkpoint, loop
from capsnet.training.checkpoint import (
    CHECKPOINT,
    begun_by_this_job,
    digest_of,
    saved_config,
)
from capsnet.training.loop import LOCK, train
from capsnet.training.outcome import Finished, Interrupted
from capsnet.training.settings_file import read_settings


@pytest.fixture(scope="module")
def stopped(tiny_in, tmp_path_factory):
    """A run that was stopped after its first epoch and one step."""
    config = tiny_in(tmp_path_factory.mktemp("stopped") / "run", checkpoint_seconds=0.0)
    stops = iter([False] * 3 + [True] * 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.Stop, "__bool__", lambda self: next(stops))
        assert isinstance(train(config), Interrupted)
    return config


def test_two_runs_do_not_share_a_folder(tiny):
    config = tiny()
    with locked(config.folder / LOCK), pytest.raises(UserError, match="Another process"):
        train(config)
    assert files_in(config.folder) == {}
    assert isinstance(train(config), Finished)


def test_resume_where_nothing_is(tiny):
    with pytest.raises(UserError, match="no run to resume"):
        train(tiny(resume=True))
    assert not tiny().folder.exists()


def test_a_run_is_not_overwritten(tiny):
    train(tiny())
    before = files_in(tiny().folder)
    with pytest.raises(UserError, match="already holds a run"):
        train(tiny())
    assert files_in(tiny().folder) == before


@pytest.fixture
def begun(tmp_path):
    """A folder in which a run, or runs in folders of it, were begun: begun("fold1", "fold2")."""

    def begin(*names):
        for name in names:
            (tmp_path / "run" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "run" / name / CHECKPOINT).touch()
        return tmp_path / "run"

    return begin


@pytest.mark.parametrize("resume", [False, True])
def test_no_run_comes_among_those_of_a_series(resume, tiny, begun):
    folder = begun("seed0", "seed1")
    with pytest.raises(UserError, match="continue it with its --folds or --seeds and --resume"):
        train(tiny(out=folder, resume=resume))
    assert {path.name for path in folder.iterdir()} == {"seed0", "seed1"}


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("names", [[""], ["", "baseline"]])
def test_no_series_comes_into_the_folder_of_a_run(names, resume, tiny, begun):
    with pytest.raises(UserError, match="already holds a single run; choose another --out"):
        train(tiny(out=begun(*names), seeds=2, resume=resume))


def test_settings_of_a_run_that_was_resumed_can_be_those_of_another(tiny, ctrl_c):
    with ctrl_c(2):
        train(tiny())
    train(tiny(resume=True))
    kept = read_settings(tiny().folder / "config.json")
    assert not kept["resume"] and kept["out"] == tiny().folder


def finish_first(monkeypatch, config):
    """Let the whole run be made just before another process, about to make it, takes the lock."""

    def locked_late(*arguments, **options):
        monkeypatch.undo()
        train(config)
        return locked(*arguments, **options)

    monkeypatch.setattr(loop, "locked", locked_late)


def test_a_run_made_meanwhile_is_not_overwritten(tiny, monkeypatch, at_step):
    finish_first(monkeypatch, tiny())
    with (
        at_step(7, lambda module: pytest.fail("trained over the six steps of a finished run")),
        pytest.raises(UserError, match="already holds a run"),
    ):
        train(tiny())


def test_resume_starts_from_the_last_checkpoint_of_all(tiny, monkeypatch, at_step, ctrl_c):
    config = tiny(resume=True)
    with ctrl_c(2):
        train(tiny())
    finish_first(monkeypatch, config)
    with at_step(5, lambda module: pytest.fail("the four steps left were made twice")):
        assert isinstance(train(config), Finished)


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.999])
def test_truncated_checkpoint_is_a_sentence_and_left_alone(kept, tiny, ctrl_c):
    with ctrl_c(2):
        train(tiny())
    path = tiny().folder / CHECKPOINT
    cut = path.read_bytes()[: int(kept * path.stat().st_size)]
    path.write_bytes(cut)
    with pytest.raises(UserError, match="damaged or cut short"):
        train(tiny(resume=True))
    assert path.read_bytes() == cut


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lr": 0.5}, "lr: 0.001 -> 0.5"),
        ({"epochs": 9}, "epochs: 2 -> 9"),
        ({"model": "cnn_small", "options": ()}, "model: capsnet_small -> cnn_small"),
        ({"options": ("conv_channels=9",)}, "options"),
        ({"seed": 1}, "seed: 0 -> 1"),
    ],
)
def test_resume_with_other_settings_is_refused(changes, sentence, tiny, ctrl_c):
    with ctrl_c(2):
        train(tiny())
    before = files_in(tiny().folder)
    with pytest.raises(UserError, match=sentence):
        train(tiny(resume=True, **changes))
    assert files_in(tiny().folder) == before


@pytest.mark.parametrize("change", ["renamed", "fewer"])
def test_run_is_not_resumed_on_other_data(change, tiny, tmp_path, poisoned):
    for name in "ab":
        (tmp_path / "own" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("L", (28, 28), 20 * i).save(tmp_path / "own" / name / f"{i}.png")
    config = tiny(data=str(tmp_path / "own"), num_samples=None, checkpoint_seconds=0.0)
    with poisoned(2):
        assert "checkpoint is kept" in str(train(config))
    if change == "renamed":  # its label becomes that of the other
        (tmp_path / "own" / "a").rename(tmp_path / "own" / "c")
    else:
        for i in range(5):
            (tmp_path / "own" / "a" / f"{i}.png").unlink()
    with pytest.raises(UserError, match="started with 13 images of a, b, now there are"):
        train(replace(config, resume=True))


def test_resume_on_another_kind_of_device_is_refused(tiny, ctrl_c):
    with ctrl_c(2):
        train(tiny())
    path = tiny().folder / CHECKPOINT
    tensors, record = load_tensors(path)
    assert record["device"] == "cpu"
    save_tensors(path, tensors, {**record, "device": "cuda"})
    before = files_in(tiny().folder)
    with pytest.raises(UserError, match="resume it with --device cuda, or choose another --out"):
        train(tiny(resume=True))
    assert files_in(tiny().folder) == before


def test_checkpoint_is_no_model_and_weights_are_no_checkpoint(tiny):
    from capsnet.models.weights import find_model

    config = tiny()
    train(config)
    with pytest.raises(UserError, match="holds no model"):
        find_model(str(config.folder / CHECKPOINT))
    (config.folder / "weights.safetensors").replace(config.folder / CHECKPOINT)
    with pytest.raises(UserError, match=r"no checkpoint of this run \(epoch is missing\)"):
        train(replace(config, resume=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "fp32"},
        {"shift": 2},
        {"options": ("decoder=(16,)", "primary_types=4", "conv_channels=8")},
    ],
)
def test_settings_that_mean_the_same_are_the_same(changes, tiny, stopped):
    shutil.copytree(stopped.folder, tiny().folder)
    assert isinstance(train(tiny(resume=True, **changes)), Finished)


@pytest.mark.parametrize("changes", [{"precision": "bf16"}, {"shift": 1}])
def test_settings_that_mean_something_else_are_not(changes, tiny, stopped):
    shutil.copytree(stopped.folder, tiny().folder)
    with pytest.raises(UserError, match="started with other settings"):
        train(tiny(resume=True, **changes))


def test_other_versions_and_threads_are_said(tiny, stopped, capsys):
    tensors, record = load_tensors(stopped.folder / CHECKPOINT)
    record |= {"threads": 77, "versions": {**record["versions"], "torch": "1.0"}}
    save_tensors(tiny().folder / CHECKPOINT, tensors, record)
    assert isinstance(train(tiny(resume=True)), Finished)
    said = capsys.readouterr().err
    assert (
        "torch 1.0 -> " in said
        and "threads 77 -> " in said
        and "capsnet" not in said.split("Other than before")[1].partition(";")[0]
    )


def test_other_pictures_under_the_same_names_are_refused(tiny, tmp_path, poisoned):
    for name in "ab":
        (tmp_path / "own" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("L", (28, 28), 20 * i).save(tmp_path / "own" / name / f"{i}.png")
    config = tiny(data=str(tmp_path / "own"), num_samples=None, checkpoint_seconds=0.0)
    with poisoned(2):
        assert "checkpoint is kept" in str(train(config))
    for i in range(10):
        Image.new("L", (28, 28), 20 * i + 3).save(tmp_path / "own" / "a" / f"{i}.png")
    with pytest.raises(UserError, match="The images are others than when the run"):
        train(replace(config, resume=True))


def put(path, value):
    """Return a change of a record: the value at a path of names."""

    def change(tensors, record):
        place = record
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value

    return change


def changed(name, change):
    """Return a change of one tensor."""

    def change_it(tensors, record):
        tensors[name] = change(tensors[name])

    return change_it


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (put(["epoch"], -1), "epoch must be at least 0"),
        (put(["epoch"], 99), "no step 1 of epoch 99"),
        (put(["epoch"], 2), "no step 1 of epoch 2"),
        (put(["epoch"], 0), "history does not tell of all"),
        (put(["epoch"], 1.5), "epoch must be a whole number"),
        (put(["epoch"], True), "epoch must be a whole number"),
        (put(["epoch"], None), "epoch must be a whole number"),
        (put(["step"], 10**9), "no step 1000000000 of epoch 1"),
        (put(["step"], "1"), "step must be a whole number"),
        (put(["seconds"], -1.0), "seconds must be at least 0"),
        (put(["seconds"], float("nan")), "seconds must be a number"),
        (put(["history"], []), "history does not tell of all"),
        (put(["history"], {}), "history cannot be"),
        (put(["history"], [5]), "history cannot be"),
        (put(["history", 0, "loss"], "small"), "loss of epoch 1 is no number"),
        (put(["history", 0, "epoch"], 7), "history does not tell of all"),
        (put(["config"], []), "tells no settings"),
        (put(["config", "epochs"], "two"), "epochs must be a whole number"),
        (put(["config", "epochs"], 10**15), "epochs must be less than"),
        (put(["best"], [1, 2, 3]), "best must be"),
        (put(["best"], [5, 0.1]), "its best epoch is 5 of 1"),
        (put(["best"], [1, 0.1]), "is missing"),
        (put(["device"], 5), "device must be a word"),
        (put(["data"], 5), "data must be a word"),
        (changed("average.0", lambda x: x.sum()), "average.0 is of another shape"),
        (changed("average.0", lambda x: x * float("nan")), "average.0 is NaN or infinite"),
        (changed("average.0", lambda x: x.int()), "average.0 is of another shape or type"),
        (changed("adam.step.0", lambda x: x.double()), "adam.step.0 is of another"),
        (changed("adam.step.0", lambda x: -x), "adam.step.0 is below 0"),
        (changed("adam.exp_avg.0", lambda x: x * float("nan")), "adam.exp_avg.0 is NaN or"),
        (changed("adam.exp_avg_sq.0", lambda x: x + torch.inf), "adam.exp_avg_sq.0 is NaN or"),
        (changed("adam.exp_avg_sq.0", lambda x: x - 1), "adam.exp_avg_sq.0 is below 0"),
        (changed("sums", lambda x: x[:2]), "sums is of another shape"),
        (changed("sums", lambda x: x.log() * 0 - torch.inf), "sums is NaN or infinite"),
        (changed("random.cpu", lambda x: x[:-1]), "random.cpu is of another shape"),
        (changed("random.cpu", lambda x: x * 0 + 255), "random state is none"),
        (lambda tensors, record: tensors.pop("adam.exp_avg.1"), "adam.exp_avg.1 is missing"),
        (lambda tensors, record: record.pop("history"), "history is missing"),
        (lambda tensors, record: tensors.update(new=torch.ones(1)), "new is not of it"),
        (
            lambda tensors, record: tensors.update({"sum": tensors.pop("sums")}),
            "sums is missing",
        ),
    ],
)
def test_a_checkpoint_edited_by_hand_is_refused(edit, sentence, tiny, stopped):
    tensors, record = load_tensors(stopped.folder / CHECKPOINT)
    record = json.loads(json.dumps(record))
    edit(tensors, record)
    save_tensors(tiny().folder / CHECKPOINT, tensors, record)
    before = files_in(tiny().folder)
    epochs = None if "epochs" in sentence else 2  # those of the checkpoint, or our own
    with pytest.raises(UserError, match=re.escape(sentence)):
        train(tiny(resume=True, epochs=epochs))
    assert files_in(tiny().folder) == before


def test_leftovers_of_a_killed_process_are_cleared_and_no_others(tiny, stopped):
    folder = tiny().folder
    shutil.copytree(stopped.folder, folder)
    whole = (folder / CHECKPOINT).read_bytes()
    (folder / f".unfinished-{CHECKPOINT}.abc.safetensors").write_bytes(whole[:1000])
    old = b"\0" * 8 + b'{"__metadata__":{"capsnet":"{}"}'  # as earlier versions left them
    (folder / ".tmpAb3xYz").write_bytes(old)
    others = {".tmpnotes!": b"mine", ".tmpAb3xYw": b"mine", ".tmp": old, "tmpAb3xYz": old}
    for name, content in others.items():
        (folder / name).write_bytes(content)
    assert isinstance(train(tiny(resume=True)), Finished)
    left = files_in(folder)
    assert not [name for name in left if name.startswith(".unfinished") or name == ".tmpAb3xYz"]
    assert {name: left[name] for name in others} == others


def test_run_without_pictures_keeps_the_decoder_and_goes_on(tiny, ctrl_c):
    """The decoder has no gradient then, but a place in the checkpoint."""
    whole = train(tiny("whole", reconstruction_weight=0.0, averaging=0.9))
    with ctrl_c(2):
        train(tiny("parts", reconstruction_weight=0.0, averaging=0.9))
    train(tiny("parts", reconstruction_weight=0.0, averaging=0.9, resume=True))
    expected, got = (
        load_tensors(tiny(name).folder / "weights.safetensors")[0] for name in ("whole", "parts")
    )
    assert whole.result.num_images == 1000
    assert all(torch.equal(x, got[name]) for name, x in expected.items())


def test_time_before_an_interruption_counts(tiny, ctrl_c):
    with ctrl_c(2):
        train(tiny())
    path = tiny().folder / CHECKPOINT
    tensors, record = load_tensors(path)
    assert record["seconds"] > 0
    save_tensors(path, tensors, {**record, "seconds": 1000.0})
    outcome = train(tiny(resume=True))
    assert outcome.seconds > 1000 and outcome.history[0].seconds > 1000


@pytest.mark.parametrize("edit", [{"batch_size": 0}, {"epochs": "many"}, {"patience": -1}])
def test_settings_of_a_checkpoint_are_checked_before_they_are_used(edit, stopped, tmp_path):
    tensors, record = load_tensors(stopped.out / CHECKPOINT)
    assert saved_config(stopped.out) == record["config"]
    save_tensors(tmp_path / CHECKPOINT, tensors, record | {"config": record["config"] | edit})
    with pytest.raises(UserError, match=next(iter(edit))):
        saved_config(tmp_path)
    save_tensors(tmp_path / CHECKPOINT, tensors, record | {"config": 3})
    with pytest.raises(UserError, match="it tells no settings"):
        saved_config(tmp_path)


def test_every_image_and_label_counts_in_the_digest(monkeypatch):
    def digest(images, labels=(0, 1, 0, 1, 0)):
        return digest_of(ImageStream(Split(images, torch.tensor(labels), ("a", "b"))))

    images = torch.arange(5 * 4, dtype=torch.uint8).view(5, 1, 2, 2)
    whole = digest(images)
    assert digest(images.clone()) == whole and digest(images, (0, 1, 0, 1, 1)) != whole
    assert digest(images.view(5, 1, 1, 4)) != whole

    def changed(row):
        other = images.clone()
        other[row] += 1
        return digest(other)

    assert all(changed(row) != whole for row in range(5))
    monkeypatch.setattr(checkpoint, "LOOKED_AT", 3 * 4)  # bytes of three images
    few = digest(images)
    assert [changed(row) != few for row in range(5)] == [True, False, True, False, True]


def test_only_the_same_job_or_one_started_anew_goes_on_by_itself(stopped, tmp_path, monkeypatch):
    assert not begun_by_this_job(stopped.out) and not begun_by_this_job(tmp_path)
    monkeypatch.setattr(checkpoint, "job", lambda: "night")
    assert not begun_by_this_job(stopped.out)
    tensors, record = load_tensors(stopped.out / CHECKPOINT)
    save_tensors(tmp_path / CHECKPOINT, tensors, record | {"job": "night"})
    assert begun_by_this_job(tmp_path)
    monkeypatch.setattr(checkpoint, "was_restarted", lambda: True)
    assert begun_by_this_job(stopped.out) and not begun_by_this_job(tmp_path / "none")
