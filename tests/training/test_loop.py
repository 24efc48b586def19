import json
import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from outcome import history, same_outcome

from capsnet.data import Augment, open_data
from capsnet.errors import UserError
from capsnet.models import Progress, create_model
from capsnet.models.tensor_file import load_tensors
from capsnet.models.weights import find_model
from capsnet.tasks import OneLabel
from capsnet.training.checkpoint import CHECKPOINT
from capsnet.training.evaluation import evaluate, unpack
from capsnet.training.loop import train
from capsnet.training.outcome import Finished, Interrupted
from capsnet.training.setup import build_model, open_stream
from capsnet.training.step import Lesson, TrainStep, epoch_plan

CNN = {"model": "cnn_small", "options": ("channels=4", "dropout=0.5")}


@pytest.mark.parametrize("changes", [{}, CNN], ids=["capsnet", "cnn"])
def test_seed_decides_everything(tiny, changes):
    one, again, other = tiny("1", **changes), tiny("2", **changes), tiny("3", seed=1, **changes)
    for config in (one, again, other):
        train(config)
    same_outcome(one, again)
    assert history(one) != history(other)


RUNS = {
    "plain": {},
    "averaging": {"averaging": 0.9, "schedule": "cosine"},
    "holdout": {"holdout": 30, "rotate": 10.0},
    "dropout": CNN,
    "dropout and tensorboard": {**CNN, "tensorboard": True},
    "bf16": {"precision": "bf16"},
    "overlap": {"data": "multidigits"},
}


@pytest.mark.parametrize("name", RUNS)
def test_resumed_equals_uninterrupted(name, tiny, ctrl_c):
    whole, parts = tiny("whole", **RUNS[name]), tiny("parts", **RUNS[name])
    train(whole)
    with ctrl_c(2):  # in the middle of the first of two epochs of three steps
        assert train(parts) == Interrupted(parts.folder)
    assert not (parts.folder / "weights.safetensors").exists()
    with ctrl_c(3):  # in the middle of the second
        assert isinstance(train(replace(parts, resume=True)), Interrupted)
    assert isinstance(train(replace(parts, resume=True)), Finished)
    same_outcome(whole, parts)


@pytest.mark.parametrize("step", [1, 3])
def test_stop_in_the_first_and_last_step_of_an_epoch(step, tiny, ctrl_c):
    whole, parts = tiny("whole"), tiny("parts")
    train(whole)
    with ctrl_c(step):
        assert isinstance(train(parts), Interrupted)
    train(replace(parts, resume=True))
    same_outcome(whole, parts)


def test_stops_where_the_validation_error_is_low_enough(tiny):
    whole = tiny("whole", epochs=4, holdout=50, num_samples=200, lr=3e-3)
    train(whole)
    errors = [line["validation_error_percent"] for line in history(whole)]
    goal = errors[1]
    stopped = replace(whole, out=tiny("stopped").folder, stop_at_error=goal)
    first = next(k for k, error in enumerate(errors, 1) if error <= goal)
    result = train(stopped)
    assert history(stopped) == history(whole)[:first] and first < 4
    assert train(replace(stopped, resume=True)).result.figure == result.result.figure
    assert len(history(stopped)) == first


def test_final_split_can_be_the_validation_images(tiny):
    config = tiny(holdout=50, final_split="validation")
    result = train(config)
    assert result.split == "validation" and result.result.num_images == 50
    assert result.result.figure == history(config)[-1]["validation_error_percent"]


@pytest.mark.parametrize("changes", [{"stop_at_error": 1.0}, {"final_split": "validation"}])
def test_validation_needs_a_holdout(tiny, changes):
    with pytest.raises(UserError, match="needs a holdout"):
        train(tiny(**changes))


def test_stop_in_the_very_last_step_finishes(tiny, ctrl_c):
    with ctrl_c(6):
        assert isinstance(train(tiny()), Finished)


def test_resuming_a_finished_run_changes_nothing(tiny):
    config = tiny()
    result = train(config)
    again = train(replace(config, resume=True))
    assert again.result.figure == result.result.figure
    assert len(history(config)) == 2


def test_checkpoints_between_steps_change_nothing(tiny):
    one, other = tiny("1"), tiny("2", checkpoint_seconds=0.0)
    train(one), train(other)
    same_outcome(one, other)


def test_tensorboard_changes_nothing(tiny):
    one, other = tiny("1", **CNN), tiny("2", tensorboard=True, **CNN)
    train(one), train(other)
    same_outcome(one, other)


@pytest.mark.parametrize("changes", [{}, CNN], ids=["capsnet", "cnn"])
def test_one_batch_can_be_overfitted(tiny, changes):
    changes = {**changes, "options": (*changes.get("options", tiny().options)[:2],)}
    changes |= {"schedule": "constant", "warmup_steps": 0}
    config = tiny(epochs=60, num_samples=20, shift=0, lr=5e-3, **changes)
    train(config)
    last = history(config)[-1]
    assert last["train_error_percent"] == 0
    assert last["loss"] < 0.3 * history(config)[0]["loss"]


def test_a_batch_of_one_and_a_batch_larger_than_the_data(tiny):
    for out, batch_size in (("1", 1), ("2", 64)):
        train(tiny(out, num_samples=10, batch_size=batch_size, epochs=1))
        assert math.isfinite(history(tiny(out))[0]["loss"])


def test_result_is_that_of_the_saved_weights(tiny):
    config = tiny(epochs=3, averaging=0.5)
    result = train(config)
    model, card = find_model(str(config.folder))
    again = evaluate(model, open_data("digits", "test"))
    saved = card.result
    assert again.error_percent == result.result.figure == saved["error_percent"]
    assert saved["num_images"] == 1000 and saved["num_wrong"] == again.num_wrong
    assert unpack(saved["wrong"], 1000).tolist() == again.wrong.tolist()
    assert card.task == OneLabel(tuple("0123456789")) == model.task
    assert (config.folder / "result.json").read_text() == json.dumps(result.to_json(), indent=2)


def test_averaged_weights_are_what_is_kept(tiny):
    config = tiny(averaging=0.9)
    train(config)
    kept, _ = load_tensors(config.folder / "weights.safetensors")
    state, _ = load_tensors(config.folder / CHECKPOINT)
    names = [k.removeprefix("model.") for k in state if k.startswith("model.")]
    averages = [x for k, x in state.items() if k.startswith("average.")]
    assert len(averages) == len(names) == len(kept)
    assert any(not torch.equal(kept[k], state[f"model.{k}"]) for k in names)
    assert {x.sum().item() for x in kept.values()} == {x.sum().item() for x in averages}


def test_step_averages_weights_by_the_given_share(tiny):
    config = tiny(averaging=0.9)
    stream = open_stream(config, "train", torch.device("cpu"))
    step = TrainStep(build_model(config, stream), stream, config, torch.float32)
    plan = {k: x[:20] for k, x in epoch_plan(stream, 0, 0, 60).items()}
    expected = step.average[0].clone()
    for share in (1.0, 0.5, 0.25):
        step(plan, 1e-2, share)
        expected = (1 - share) * expected + share * step.params[0].detach()
        torch.testing.assert_close(step.average[0], expected)


def test_epoch_is_decided_by_seed_and_number_and_shows_every_image(tiny):
    stream = open_stream(tiny(), "train", torch.device("cpu"))
    plan = epoch_plan(stream, 3, 5, 80)
    assert torch.equal(plan["index"], epoch_plan(stream, 3, 5, 80)["index"])
    assert not torch.equal(plan["index"], epoch_plan(stream, 3, 6, 80)["index"])
    assert not torch.equal(plan["index"], epoch_plan(stream, 4, 5, 80)["index"])
    assert sorted(plan["index"][:60].tolist()) == list(range(60))
    assert torch.equal(plan["index"][60:], plan["index"][:20])
    assert not torch.equal(plan["shift"], epoch_plan(stream, 3, 6, 80)["shift"])


def test_only_training_images_are_augmented(tiny):
    config = tiny(shift=3, rotate=20.0, scale=0.2, shear=0.2, holdout=100)
    cpu = torch.device("cpu")
    for split in ("test", "validation"):
        stream = open_stream(config, split, cpu)
        plan = stream.plan(None)
        assert plan.keys() == {"index"} and stream.mover.augment == Augment(shift=0)
        assert torch.equal(stream.batch(plan).images, stream.split.images / 255)
    test = open_stream(config, "test", cpu)
    assert torch.equal(test.split.images, open_data("digits", "test").split.images)
    training = open_stream(config, "train", cpu)
    plan = training.plan(torch.Generator().manual_seed(0))
    images = training.split.images[plan["index"]] / 255
    assert not torch.allclose(training.batch(plan).images, images)


def test_paper_shift_of_two_pixels_is_the_default(tiny):
    plan = open_stream(tiny(num_samples=500), "train", torch.device("cpu")).plan(torch.Generator())
    assert plan["shift"].unique().tolist() == [-2, -1, 0, 1, 2]


def test_test_images_are_no_training_images(tiny):
    cpu = torch.device("cpu")
    config = tiny(num_samples=None, holdout=500)
    parts = [open_stream(config, split, cpu).split for split in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [4500, 500, 1000]
    every = torch.cat([part.images for part in parts]).flatten(1)
    assert len(every.unique(dim=0)) == 6000


@pytest.mark.parametrize("changes", [{}, CNN], ids=["capsnet", "cnn"])
def test_overlapping_digits_train_with_two_labels(tiny, changes):
    config = tiny(data="multidigits", **changes)
    result = train(config)
    assert result.result.num_images == 1000
    assert find_model(str(config.folder))[0].image_shape == (1, 36, 36)
    stream = open_stream(config, "train", torch.device("cpu"))
    assert stream.batch(stream.plan(None)).labels.shape == (60, 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", 2e-3),
        ("lr_decay", 0.1),
        ("lr_decay_steps", 3),
        ("schedule", "cosine"),
        ("warmup_steps", 0),
        ("averaging", 0.0),
        ("weight_decay", 0.1),
        ("reconstruction_weight", 0.1),
        ("average_classes", True),
        ("shift", 0),
        ("rotate", 30.0),
        ("scale", 0.3),
        ("shear", 0.3),
        ("elastic", 1.0),
        ("batch_size", 30),
        ("num_samples", 40),
        ("seed", 5),
        ("holdout", 50),
        ("data_seed", 5),
        ("image_size", 32),
        ("channels", 3),
        ("precision", "bf16"),
        ("options", ("conv_channels=8", "primary_types=4", "decoder=(16,)", "num_iters=1")),
    ],
)
def test_no_setting_is_ignored(name, value, tiny, plain_run):
    config = tiny("other", **{name: value})
    train(config)
    a, _ = load_tensors(plain_run.folder / "weights.safetensors")
    b, _ = load_tensors(config.folder / "weights.safetensors")
    shapes = [{k: x.shape for k, x in w.items()} for w in (a, b)]
    assert shapes[0] != shapes[1] or any(not torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("data", ["digits", "multidigits"])
def test_contrast_and_warps_of_pairs_are_not_ignored(data, tiny):
    batches = []
    for config in (tiny(data=data, rotate=30.0), tiny(data=data, rotate=30.0, contrast=1.2)):
        stream = open_stream(config, "train", torch.device("cpu"))
        batches.append(stream.batch(epoch_plan(stream, 0, 0, stream.num_samples)).images)
    assert not torch.equal(*batches)


@pytest.fixture(scope="module")
def plain_run(tiny_in, tmp_path_factory):
    config = tiny_in(tmp_path_factory.mktemp("plain"))
    train(config)
    return config


@pytest.mark.long
def test_compiled_step_learns_the_same(tiny):
    pytest.importorskip("torch._inductor")
    one, other = tiny("1"), tiny("2", compile=True)
    train(one), train(other)
    for a, b in zip(history(one), history(other), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)


def test_every_run_of_a_process_is_compiled(monkeypatch):
    """Torch compiles a function for so many models; one more would run as it is, unsaid."""
    compiled = []

    def keep(graph, inputs):
        compiled.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=keep))
    stream = open_data("digits", "test", num_samples=4)
    batch = stream.batch(stream.plan(None))
    progress = Progress(torch.zeros(()), 1, 1)
    with torch._dynamo.config.patch(recompile_limit=2):
        for _ in range(4):
            seen = len(compiled)
            Lesson(create_model("cnn_small", channels=2).eval(), True)(batch, progress)
            assert len(compiled) > seen


def test_folder_of_own_colour_pictures_trains(tiny, tmp_path):
    from PIL import Image

    for k, colour in enumerate(((255, 0, 0), (0, 0, 255))):
        (tmp_path / "own" / "ab"[k]).mkdir(parents=True)
        for i in range(10):
            picture = Image.new("RGB", (20, 20 + i), colour)
            picture.save(tmp_path / "own" / "ab"[k] / f"{i}.png")
    config = tiny(data=str(tmp_path / "own"), num_samples=None, batch_size=4, epochs=8, lr=5e-3)
    result = train(config)
    assert result.result.num_images == 4 and result.result.figure == 0
    model, card = find_model(str(config.folder))
    assert model.image_shape == (3, 29, 29) and card.task == OneLabel(("a", "b"))


@pytest.mark.parametrize(
    "option", ["num_classes=5", "image_shape=(1,30,30)", "pretrained=True", "name=cnn_small"]
)
def test_what_a_run_sets_itself_is_no_option(option, tiny):
    with pytest.raises(UserError, match=option.split("=")[0]):
        train(tiny(options=(*tiny().options, option)))
    assert not tiny().folder.exists()


def test_a_look_at_the_average_leaves_the_last_weights(tiny):
    config = tiny(averaging=0.9)
    stream = open_stream(config, "train", torch.device("cpu"))
    step = TrainStep(build_model(config, stream), stream, config, torch.float32)
    plan = {k: x[:20] for k, x in epoch_plan(stream, 0, 0, 60).items()}
    for share in (1.0, 0.5):
        step(plan, 1e-2, share)
    last = [p.detach().clone() for p in step.params]
    with step.averaged():
        assert all(torch.equal(p, m) for p, m in zip(step.params, step.average, strict=True))
        assert not torch.equal(step.params[0], last[0])
    assert all(torch.equal(p, q) for p, q in zip(step.params, last, strict=True))
