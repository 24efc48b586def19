"""Verbs that train a model and use it: train, evaluate, predict, figure, demo, explore."""

import sys
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from capsnet.cli.launching import on_devices
from capsnet.cli.output import EXIT_INTERRUPTED, check_png, show
from capsnet.cli.settings import Settings, SettingsFile
from capsnet.errors import UserError


@on_devices
def train(config: Settings, file: SettingsFile = None, devices: int = 1, json: bool = False) -> int:
    """Train a model and read the test set once, at the end.

    Example: capsnet train --model capsnet_small --data digits --epochs 20

    Args:
        config: What to train, on what, and how.
        file: Settings as JSON, such as the best.json of a tuning; options given here win.
        devices: Train on so many GPUs of this machine together, or with so many processes on its
            CPU; on several machines start the command with torchrun.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.training.loop import train as run
    from capsnet.training.outcome import Diverged, Interrupted

    outcome = run(config)
    if isinstance(outcome, Interrupted):
        print(outcome, file=sys.stderr)
        if json:
            show(json, outcome.to_json(), "")
        return EXIT_INTERRUPTED
    if isinstance(outcome, Diverged):
        raise UserError(str(outcome))
    show(json, outcome.to_json(), str(outcome))
    return 0


@on_devices
def evaluate(
    weights: str,
    data: str | None = None,
    split: Literal["train", "test"] = "test",
    data_folder: Path | None = None,
    num_samples: int | None = None,
    batch_size: int = 256,
    device: str = "auto",
    devices: int = 1,
    precision: Literal["fp32", "bf16"] = "fp32",
    plugin: tuple[Path, ...] = (),
    json: bool = False,
) -> int:
    """Measure the error of a trained model on a data set.

    Example: capsnet evaluate --weights runs/capsnet_small-digits-seed0 --data digits

    Args:
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        data: Name of the data set or a folder of images; by default what it was trained on.
        split: Part of the data set.
        data_folder: Folder with the data set's files, if you placed them by hand.
        num_samples: Take that many images, or make that many overlapping pairs.
        batch_size: Images at a time.
        device: auto, cpu, cuda or cuda:N.
        devices: Share the images out among so many GPUs, or processes on the CPU.
        precision: Arithmetic of the layers.
        plugin: Python files of yours that register models or data.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.data import open_data
    from capsnet.models.weights import find_model
    from capsnet.plugins import load_plugins
    from capsnet.training.device import pick_device, pick_precision
    from capsnet.training.evaluation import check_names
    from capsnet.training.evaluation import evaluate as run
    from capsnet.training.progress import WorkProgress

    load_plugins(plugin)
    if batch_size < 1:
        raise UserError("batch-size must be at least 1.")
    where = pick_device(device)
    with WorkProgress("evaluating", unit="images") as progress:
        model, card = find_model(weights)
        data = card.data if data is None else data
        stream = open_data(
            data,
            split,
            folder=data_folder,
            device=where,
            num_samples=num_samples,
            image_size=model.image_shape[1],
            channels=model.image_shape[0],
            **card.opening(data),
        )
        check_names(model.task.names, stream)
        progress(0, stream.num_samples)
        layers = pick_precision(precision, where)
        result = run(model.to(where), stream, batch_size, layers, progress, card.calibration)
    show(
        json,
        {"model": model.name, "weights": weights, "data": data, **result.to_json()},
        f"{model.name} on {data} ({split}): {result}.",
    )
    return 0


@on_devices
def predict(
    images: Positional[tuple[Path, ...]],
    weights: str,
    as_is: bool = False,
    invert: bool = False,
    centre: bool = False,
    csv: Path | None = None,
    save_input: Path | None = None,
    reconstruct: Path | None = None,
    skip_bad: bool = False,
    device: str = "auto",
    devices: int = 1,
    plugin: tuple[Path, ...] = (),
    json: bool = False,
) -> int:
    """Say what is on your own pictures, and when not to trust that.

    Example: capsnet predict seven.jpg --weights capsnet_mnist

    Args:
        images: Picture files, and folders of them. For networks of digits the ink is found on
            whatever paper, dark on light or light on dark, and placed as MNIST's digits are.
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        as_is: Take the pictures as they are: scaled and padded only.
        invert: The pictures show dark ink on white paper; as they are but for that.
        centre: Crop the ink and centre it as MNIST's digits are; as it is but for that.
        csv: File for a table: file, prediction, confidence, and a column for each class.
        save_input: Folder for what the network saw, one PNG per picture.
        reconstruct: Folder for what the winning capsule draws, one PNG per picture.
        skip_bad: Leave files out that cannot be read, and name them.
        device: auto, cpu, cuda or cuda:N.
        devices: Share the pictures out among so many GPUs, or processes on the CPU.
        plugin: Python files of yours that register models.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.cli.predicting import predict_files

    if not images:
        raise UserError("No picture was given; name one or more picture files or folders.")
    return predict_files(
        images,
        weights,
        {"as_is": as_is, "invert": invert, "centre": centre, "device": device}
        | {"save_input": save_input, "reconstruct": reconstruct},
        csv,
        skip_bad,
        plugin,
        json,
    )


def figure(
    kind: Positional[Literal["reconstructions", "perturbation", "routing", "overlap", "curve"]],
    weights: str,
    out: Path | None = None,
    data: str | None = None,
    data_folder: Path | None = None,
    index: int = 0,
    plugin: tuple[Path, ...] = (),
) -> int:
    """Draw what a trained CapsNet sees, as a PNG.

    Example: capsnet figure perturbation --weights runs/capsnet_small-digits-seed0

    Args:
        kind: Pictures drawn back, one dimension tweaked at a time, routing step by step, two
            digits over each other, or how the run went, epoch by epoch.
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        out: The PNG file; by default KIND.png.
        data: Name of the data set or a folder of images; by default what it was trained on.
        data_folder: Folder with the data set's files, if you placed them by hand.
        index: Number of the first test image to show.
        plugin: Python files of yours that register models or data.
    """
    from capsnet.figures import FIGURES, open_figure_data, save_figure
    from capsnet.figures.curve import draw_curve
    from capsnet.models.weights import find_model
    from capsnet.plugins import load_plugins
    from capsnet.training.evaluation import check_names
    from capsnet.training.progress import WorkProgress

    path = out or Path(f"{kind}.png")
    check_png(path)
    load_plugins(plugin)
    if kind == "curve":
        if data is not None or data_folder is not None or index:
            raise UserError("The curve is drawn from a run's log; leave data and index out.")
        save_figure(draw_curve(Path(weights)), path)
        print(f"Wrote {path}.")
        return 0
    with WorkProgress(f"drawing {kind}"):
        model, card = find_model(weights)
        name = card.data if data is None else data
        stream = open_figure_data(kind, model, name, data_folder, card)
        check_names(model.task.names, stream)
        save_figure(FIGURES[kind](model, stream, index), path)
    print(f"Wrote {path}.")
    return 0


def demo(seconds: float = 45.0, out: Path = Path("runs/demo"), json: bool = False) -> int:
    """Train a small CapsNet and a small CNN on the embedded digits, and make a page of it.

    Example: capsnet demo

    Args:
        seconds: Training time for each of the two, if that is enough for twelve epochs.
        out: Folder for the runs and the page; an earlier demo there is replaced.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.experiments.demo import run_demo

    made = run_demo(seconds, out)
    show(json, made.to_json(), str(made))
    return 0


def explore(
    weights: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    open: bool = False,
    overlap_weights: str | None = None,
    cnn_weights: str | None = None,
    plugin: tuple[Path, ...] = (),
    static: Path | None = None,
    allow_host: tuple[str, ...] = (),
) -> int:
    """See and touch what a trained CapsNet knows, in the browser.

    Example: capsnet explore --weights runs/capsnet_small-digits-seed0 --open

    Args:
        weights: Folder of a run, a weights file, or a shipped model's name; by default shipped.
        host: Address to listen on; anything but loopback lets others in.
        port: Port to listen on.
        open: Open the page in a browser.
        overlap_weights: The same for pairs of digits; by default --weights if that draws pairs.
        cnn_weights: The same for a CNN to compare with.
        plugin: Python files of yours that register models.
        static: Serve nothing, but write the page to this folder, for any web server: the networks
            then run in the browser. By default that of capsnet_small, which loads quickly.
        allow_host: Names that the page may be opened under, as behind a proxy; addresses, localhost
            and --host need none.
    """
    from capsnet.plugins import load_plugins

    load_plugins(plugin)
    if static is not None:
        from capsnet.web.page import write_page

        if open or allow_host or (host, port) != ("127.0.0.1", 8000):
            raise UserError(
                "--static serves nothing; leave --host, --port, --open and --allow-host out."
            )
        print(write_page(static, weights, overlap_weights, cnn_weights))
        return 0
    from capsnet.web.server import serve

    serve(weights, host, port, open, overlap_weights, cnn_weights, allow_host)
    return 0
