"""Whatever stands in a file that can be read: a sentence or a model, never a traceback.

The files have no digest, as those of earlier versions: with one, none of this is even looked at.
"""

import json
import struct
from dataclasses import replace

import pytest
import torch
from mangling import changed
from test_damage import step_of

from capsnet.models.tensor_file import load_tensors, save_tensors
from capsnet.models.weights import WEIGHTS, find_model, shipped_path
from capsnet.prediction.trust import find_reference
from capsnet.training.checkpoint import CHECKPOINT, load_checkpoint, saved_config
from capsnet.training.loop import train


def parts_of(path):
    """Return the header and the data of a file; the record of the header is JSON in JSON."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = {"capsnet": json.loads(header["__metadata__"]["capsnet"])}
    return header, content[8 + size :]


def write(path, header, data):
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if isinstance(metadata, dict) and "capsnet" in metadata:
        text = json.dumps(metadata["capsnet"])
        header = {**header, "__metadata__": {**metadata, "capsnet": text}}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def use(path):
    """Do with weights what verbs do."""
    model, card = find_model(str(path))
    with torch.inference_mode():
        output = model.eval()(torch.zeros(1, *model.image_shape))
    assert output.answers.isfinite().all()
    find_reference(model, card, shows_digits=False)
    card.opening(card.data)
    card.to_json()
    model.task.decide(output.answers[0])
    if card.calibration is not None:
        said = card.calibration.probabilities(model.task, output.answers)
        card.calibration.decide(model.task, said[0])


NETS = {
    "capsnet_small": {"conv_channels": 2, "primary_types": 1, "decoder": (8,)},
    "cnn_small": {"channels": 2},
    "capsnet_modern_small": {},
    "matrixcaps": {},
}


@pytest.fixture(scope="module")
def cards(trained, tmp_path_factory):
    """Headers and data of weights of several models, with all that a card can hold."""
    from capsnet.models import create_model
    from capsnet.models.weights import load_weights, save_weights
    from capsnet.pictures.reading import Reading
    from capsnet.tasks import Calibration, OneLabel

    card = load_weights(trained / WEIGHTS)[1]
    found = [parts_of(shipped_path("cnn_small")), parts_of(trained / WEIGHTS)]
    for k, (name, options) in enumerate(NETS.items()):
        task = OneLabel(("a", "b", "c"))
        model = create_model(name, image_shape=(1, 28, 28), num_classes=3, **options)
        full = replace(
            card,
            model=name,
            options=model.options,
            task=task,
            reading=Reading(28, 1, window=(0.0, 4095.0)),
            calibration=Calibration(1.5, (0.2, 0.3, 0.4)),
            more={"reference": {"drawing_error": 0.3, "spreads": [[0.1, 0.2]]}},
        )
        path = tmp_path_factory.mktemp("cards") / f"{k}.safetensors"
        save_weights(model, path, full)
        use(path)
        found.append(parts_of(path))
    return found


def test_cards(tally, cards, tmp_path):
    path = tmp_path / WEIGHTS
    for random in tally.trials("a card made up: types, names, sizes, ranges", 10_000):
        header, data = random.choice(cards)
        card = changed(header["__metadata__"]["capsnet"], random)
        write(path, {**header, "__metadata__": {"capsnet": card}}, data)
        with tally.sentence():
            use(path)


def test_headers(tally, cards, tmp_path):
    path = tmp_path / WEIGHTS
    for random in tally.trials("a header made up: tensors that are not there, or others", 10_000):
        header, data = random.choice(cards)
        tensors = {name: x for name, x in header.items() if name != "__metadata__"}
        told = changed(tensors, random)
        if isinstance(told, dict):
            told["__metadata__"] = header["__metadata__"]
        write(path, told, data)
        with tally.sentence():
            use(path)


@pytest.fixture(scope="module")
def checkpoint(tiny_in, tmp_path_factory):
    """A finished run of two epochs with patience, and a step to load its checkpoint into."""
    out = tmp_path_factory.mktemp("checkpoint") / "run"
    config = tiny_in(out, holdout=20, patience=5)
    train(config)
    return step_of(config)


def test_checkpoints(tally, checkpoint, tmp_path):
    config, step = checkpoint
    tensors, record = load_tensors(config.folder / CHECKPOINT)
    config = replace(config, out=tmp_path)
    for random in tally.trials("a checkpoint made up: position, history, tensors", 10_000):
        other, kept = changed(record, random), dict(tensors)
        if random.random() < 0.5:
            name = random.choice(list(kept))
            kept[random.choice((name, name + "x"))] = odd_tensor(kept.pop(name), random)
        if not isinstance(other, dict):
            continue
        save_tensors(tmp_path / CHECKPOINT, kept, other)
        with tally.sentence():
            saved_config(tmp_path)
            position = load_checkpoint(tmp_path, step, config)
            assert 0 <= position.epoch == len(position.history) <= config.epochs
            assert step.weights_are_finite()


def odd_tensor(x, random):
    return random.choice(
        (
            lambda: x.double() if x.is_floating_point() else x.float(),
            lambda: x.reshape(-1)[:1],
            lambda: x[None],
            lambda: x * float("nan") if x.is_floating_point() else x,
            lambda: torch.full_like(x, 255 if x.dtype == torch.uint8 else 10**9),
            lambda: x.new_zeros(0),
        )
    )()
