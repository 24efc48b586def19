"""Starting from trained weights, with a new head where it must be, and freezing the trunk."""

from dataclasses import replace

import pytest
import torch
from outcome import same_outcome

from capsnet.errors import UserError
from capsnet.models.tensor_file import load_tensors
from capsnet.models.weights import find_model
from capsnet.training.loop import train
from capsnet.training.setup import build_model, open_stream

TRUNK = ("conv.", "primary_caps.")
HEAD = ("class_caps.", "decoder.")


@pytest.fixture(scope="module")
def first(tiny_in, tmp_path_factory):
    """A short run on digits."""
    config = tiny_in(tmp_path_factory.mktemp("first") / "run", epochs=1)
    train(config)
    return config.folder


def weights(folder):
    return load_tensors(folder / "weights.safetensors")[0]


def built(config):
    return build_model(config, open_stream(config, "train", torch.device("cpu")))


def test_same_classes_and_size_keep_all_weights(first, tiny):
    model = built(tiny(start_from=str(first), options=()))
    kept = weights(first)
    assert all(torch.equal(x, kept[k]) for k, x in model.state_dict().items())
    assert model.options["conv_channels"] == 8  # those of the weights


@pytest.mark.parametrize("change", [{"image_size": 32}, {"data": "fewer"}])
def test_other_images_or_classes_get_a_new_head(change, first, tiny, monkeypatch):
    import capsnet
    from capsnet.data import registry
    from capsnet.data.sets.digits import load_digits

    monkeypatch.setattr(registry, "DATA", {**registry.DATA})

    @capsnet.register_data("fewer")
    def fewer(split, ask):
        digits = load_digits(split)
        rows = (digits.labels < 3).nonzero().flatten()
        return capsnet.Split(digits.images[rows], digits.labels[rows], ("0", "1", "2"))

    model = built(tiny(start_from=str(first), options=(), **change))
    kept = weights(first)
    for name, x in model.state_dict().items():
        same = x.shape == kept[name].shape and torch.equal(x, kept[name])
        assert same == name.startswith(TRUNK), name


def test_the_same_number_of_other_classes_gets_a_new_head(first, tiny, tmp_path):
    from PIL import Image

    for k in range(10):
        (tmp_path / "own" / f"kind {k}").mkdir(parents=True)
        for i in range(4):
            Image.new("L", (28, 28), 20 * k + i).save(tmp_path / "own" / f"kind {k}" / f"{i}.png")
    config = tiny(start_from=str(first), options=(), data=str(tmp_path / "own"), num_samples=None)
    assert not torch.equal(built(config).class_caps.W, weights(first)["class_caps.W"])


def test_a_frozen_trunk_is_bit_equal_after_training_and_resuming(first, tiny, ctrl_c):
    made = {"start_from": str(first), "freeze": True, "image_size": 32, "weight_decay": 0.1}
    whole, parts = tiny("whole", **made), tiny("parts", **made)
    outcome = train(whole)
    before, after = weights(first), weights(whole.folder)
    for name, x in after.items():
        assert (x.shape == before[name].shape and torch.equal(x, before[name])) == (
            name.startswith(TRUNK)
        ), name
    trained = sum(x.numel() for name, x in after.items() if name.startswith(HEAD))
    assert outcome.plan.trained_parameters == trained < outcome.plan.parameters
    with ctrl_c(2):
        train(parts)
    train(replace(parts, resume=True))
    same_outcome(whole, parts)


def test_shipped_weights_are_a_start_too(tiny):
    config = tiny(start_from="cnn_small", model="cnn_small", options=(), freeze=True, epochs=1)
    train(config)
    model, _ = find_model("cnn_small")
    same = [k for k, x in weights(config.folder).items() if torch.equal(x, model.state_dict()[k])]
    assert len(same) == len(model.state_dict()) - 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": "cnn_small", "options": ()}, "weights of capsnet_small, not of cnn_small"),
        ({"channels": 3}, "images with 1 channel, these have 3; ask for --channels 1"),
        ({"options": ("conv_channels=9",)}, "another model"),
        ({"start_from": "nowhere/at/all"}, "no file or folder"),
        ({"start_from": None, "freeze": True}, "give start-from too"),
    ],
)
def test_what_does_not_fit_is_a_sentence(changes, sentence, first, tiny):
    with pytest.raises(UserError, match=sentence):
        train(tiny(**{"start_from": str(first), **changes}))
    assert not tiny().folder.exists()


def test_a_trunk_made_for_another_size_says_which(tiny):
    with pytest.raises(UserError, match="ask for --image-size 28"):
        built(tiny(start_from="cnn_small", model="cnn_small", options=(), image_size=36))
