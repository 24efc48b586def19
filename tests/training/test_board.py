import pytest

from capsnet.training.loop import train


def test_board_has_scalars_images_and_graph(tiny):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = tiny(tensorboard=True, holdout=20, epochs=3)
    train(config)
    events = EventAccumulator(str(config.folder / "tensorboard")).Reload()
    tags = events.Tags()
    assert {"loss", "train_error_percent", "validation_error_percent", "lr"} <= set(tags["scalars"])
    assert {"input", "reconstruction"} <= {tag.split("/")[0] for tag in tags["images"]}
    assert tags["graph"]
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3]


def test_no_board_unless_asked(tiny):
    train(tiny())
    assert not (tiny().folder / "tensorboard").exists()
