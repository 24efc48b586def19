import torch

from capsnet.models import Progress, create_model
from capsnet.tasks import Batch
from capsnet.training.loop import train
from capsnet.training.norms import has_norms, refresh_norms
from capsnet.training.setup import open_stream
from capsnet.training.step import epoch_plan

TINY = {"channels": (4,), "primary_types": 2, "decoder": ()}


def labels_of(images):
    return torch.arange(len(images)) % 10


def batches(images):
    return [Batch(part, labels_of(part)[:, None]) for part in images.split(4)]


def test_statistics_are_those_of_the_images():
    torch.manual_seed(0)
    model = create_model("capsnet_modern", **TINY)
    images = torch.rand(12, 1, 28, 28)
    model(3 * images)  # statistics of something else
    refresh_norms(model, batches(images), Progress.at(0, 1))
    norm, conv = model.stem.layers[1], model.stem.layers[0]
    means = conv(images).unflatten(0, (3, 4)).mean(dim=(0, 1, 3, 4))
    spreads = conv(images).unflatten(0, (3, 4)).var(dim=(1, 3, 4)).mean(dim=0)
    torch.testing.assert_close(norm.running_mean, means)
    torch.testing.assert_close(norm.running_var, spreads)
    assert norm.momentum == 0.1


def test_norms_of_the_decoder_are_measured_too():
    torch.manual_seed(0)
    model = create_model("capsnet_modern", **{**TINY, "decoder": "conv"})
    images = torch.rand(8, 1, 28, 28)
    refresh_norms(model, batches(images), Progress.at(0, 1))
    linear, _, _, norm = model.decoder.layers.start
    drawn = []
    with torch.no_grad():
        for part in images.split(4):
            v = model(part).v[torch.arange(4), labels_of(part)]
            masked = torch.zeros(4, 10, 16)
            masked[torch.arange(4), labels_of(part)] = v
            drawn.append(linear(masked.flatten(1)).relu().unflatten(1, (norm.num_features, -1)))
    torch.testing.assert_close(norm.running_mean, torch.cat(drawn).mean(dim=(0, 2)))


def test_norms_that_no_batch_comes_by_stay():
    model = create_model("capsnet_modern", **{**TINY, "decoder": "conv"}, reconstruction_weight=0.0)
    norm = model.decoder.layers.start[3]
    norm.running_mean.fill_(3.0)
    refresh_norms(model, batches(torch.rand(8, 1, 28, 28)), Progress.at(0, 1))
    assert (norm.running_mean == 3).all() and norm.momentum == 0.2


def test_what_is_frozen_keeps_its_statistics():
    model = create_model("capsnet_modern", **TINY)
    model.freeze()
    before = {k: x.clone() for k, x in model.state_dict().items()}
    assert not has_norms(model)
    refresh_norms(model, batches(torch.rand(4, 1, 28, 28)), Progress.at(0, 1))
    assert all(torch.equal(x, before[k]) for k, x in model.state_dict().items())


def test_a_model_without_norms_has_nothing_to_measure():
    assert not has_norms(create_model("capsnet_small", conv_channels=4))


def test_averaged_weights_are_kept_with_statistics_of_their_own(tiny):
    config = tiny(
        "norms",
        model="capsnet_modern",
        options=("channels=(4, 4)", "primary_types=2", "decoder=()"),
        num_samples=60,
        epochs=3,
        batch_size=20,
        lr=5e-3,
        averaging=0.9,
    )
    trained = train(config).trained
    stream = open_stream(config, "train", torch.device("cpu"))
    images = stream.batch(epoch_plan(stream, config.seed, 3, 60)).images
    conv, norm = trained.stem.layers[:2]
    means = conv(images).mean(dim=(0, 2, 3))
    torch.testing.assert_close(norm.running_mean, means, atol=1e-5, rtol=1e-4)
