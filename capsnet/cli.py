"""The command line: one verb per job, each a function whose signature and docstring are its help.

capsnet train --model capsnet_small --data digits

torch is imported inside the verbs, so that `capsnet --help` answers at once.
"""

import json as json_format
import sys
from pathlib import Path
from typing import Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from capsnet import __version__
from capsnet.errors import UserError, unknown_name
from capsnet.train.config import TrainConfig

EXIT_FAILED = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


def train(config: OmitArgPrefixes[TrainConfig], json: bool = False) -> int:
    """Train a model and read the test set once, at the end.

    Example: capsnet train --model capsnet_small --data digits --epochs 20

    Args:
        config: What to train, on what, and how.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.train.loop import Interrupted
    from capsnet.train.loop import train as run

    result = run(config)
    if isinstance(result, Interrupted):
        print(
            f"Stopped and saved in {result.folder}; the same command with --resume goes on.",
            file=sys.stderr,
        )
        return EXIT_INTERRUPTED
    show(
        json,
        result,
        f"{result['model']} on {result['data']}: {result['split']} error "
        f"{result['error_percent']:.2f} % of "
        f"{result['num_images']:,} images after {result['seconds']:.1f} s of training "
        f"({result['images_per_second']:,.0f} images/s); weights in {result['folder']}.",
    )
    return 0


def evaluate(
    weights: str,
    data: str | None = None,
    split: Literal["train", "test"] = "test",
    data_folder: Path | None = None,
    num_samples: int | None = None,
    batch_size: int = 256,
    device: str = "auto",
    precision: Literal["fp32", "bf16"] = "fp32",
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
        precision: Arithmetic of the layers.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.data import open_data
    from capsnet.models.weights import find_model
    from capsnet.train.device import pick_device, pick_precision
    from capsnet.train.evaluate import evaluate as run

    if batch_size < 1:
        raise UserError("batch-size must be at least 1.")
    where = pick_device(device)
    model, card = find_model(weights)
    data = data or card["config"]["data"]
    stream = open_data(
        data,
        split,
        folder=data_folder,
        device=where,
        num_samples=num_samples,
        image_size=model.image_shape[1],
        channels=model.image_shape[0],
        seed=card["config"].get("data_seed", 0),
    )
    result = run(model.to(where), stream, batch_size, pick_precision(precision, where))
    show(
        json,
        {"model": model.name, "weights": weights, "data": data, **result.to_json()},
        f"{model.name} on {data} ({split}): {result.error_percent:.2f} % error, "
        f"{result.num_wrong:,} of {result.num_images:,} images wrong.",
    )
    return 0


def predict(
    images: Positional[tuple[Path, ...]],
    weights: str,
    invert: bool = False,
    centre: bool = False,
    reconstruct: Path | None = None,
    device: str = "auto",
    json: bool = False,
) -> int:
    """Say what is on your own PNG or JPG pictures.

    Example: capsnet predict seven.jpg --weights runs/capsnet_small-digits-seed0 --invert --centre

    Args:
        images: Picture files.
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        invert: The pictures show dark ink on white paper.
        centre: Crop the ink and centre it as MNIST's digits are.
        reconstruct: Folder for what the winning capsule draws, one PNG per picture.
        device: auto, cpu, cuda or cuda:N.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.predict import predict_files

    if not images:
        raise UserError("No picture was given; name one or more PNG or JPG files.")
    answers = predict_files(images, weights, invert, centre, reconstruct, device)
    lines = []
    for answer in answers:
        ranked = sorted(answer["lengths"].items(), key=lambda item: -item[1])[:3]
        lengths = "  ".join(f"{name} {length:.3f}" for name, length in ranked)
        lines.append(f"{answer['file']}: {answer['decision']}   ({lengths})")
    show(json, {"predictions": answers}, "\n".join(lines))
    return 0


def data(
    action: Positional[Literal["list", "fetch", "check"]],
    name: Positional[str | None] = None,
    folder: Path | None = None,
    json: bool = False,
) -> int:
    """List the data sets, fetch one, or check the files of one.

    Example: capsnet data fetch mnist

    Args:
        action: list all data sets, fetch one from wherever it can be had, or check its files.
        name: Name of the data set to fetch or check.
        folder: Folder with the data set's files, if you placed them by hand.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.data import check, fetch, list_data

    if action == "list":
        entries = list_data()
        rows = [
            {
                "name": e.name,
                "description": e.description,
                "licence": e.licence,
                "needs": e.needs,
            }
            for e in entries
        ]
        text = "\n".join(f"{e.name:<14} {e.description:<40} needs {e.needs}" for e in entries)
        show(json, {"data": rows}, text)
        return 0
    if name is None:
        raise UserError(f"Say which data set to {action}, e.g. 'capsnet data {action} mnist'.")
    report = (fetch if action == "fetch" else check)(name, folder)
    lines = [f"{f.name:<28} {'ok' if f.ok else 'WRONG'}  {f.place}" for f in report.files]
    lines += [f"{part}: {sum(n):,} images, {n}" for part, n in report.label_counts.items()]
    show(
        json,
        {
            "name": report.name,
            "ok": report.ok,
            "files": [vars(f) for f in report.files],
            "label_counts": report.label_counts,
        },
        "\n".join(lines),
    )
    return 0 if report.ok else EXIT_FAILED


def models(json: bool = False) -> int:
    """List the models with their size.

    Example: capsnet models

    Args:
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.models import create_model, list_models, model_entry
    from capsnet.models.weights import shipped_path

    rows = []
    for name in list_models():
        count = sum(p.numel() for p in create_model(name).parameters())
        rows.append(
            {
                "name": name,
                "parameters": count,
                "description": model_entry(name).description,
                "weights_shipped": shipped_path(name).exists(),
            }
        )
    text = "\n".join(f"{r['name']:<20} {r['parameters']:>12,}  {r['description']}" for r in rows)
    show(json, {"models": rows}, text)
    return 0


def figure(
    kind: Positional[Literal["reconstructions", "perturbation", "routing", "overlap"]],
    weights: str,
    out: Path | None = None,
    data: str | None = None,
    data_folder: Path | None = None,
    index: int = 0,
) -> int:
    """Draw what a trained CapsNet sees, as a PNG.

    Example: capsnet figure perturbation --weights runs/capsnet_small-digits-seed0

    Args:
        kind: Pictures drawn back, one dimension tweaked at a time, routing step by step, or two
            digits over each other.
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        out: The PNG file; by default KIND.png.
        data: Name of the data set or a folder of images; by default what it was trained on.
        data_folder: Folder with the data set's files, if you placed them by hand.
        index: Number of the first test image to show.
    """
    from capsnet.experiments import FIGURES, open_figure_data, save_figure
    from capsnet.models.weights import find_model

    model, card = find_model(weights)
    name = data or card["config"]["data"]
    capsules, stream = open_figure_data(kind, model, name, data_folder)
    path = out or Path(f"{kind}.png")
    save_figure(FIGURES[kind](capsules, stream, index), path)
    print(f"Wrote {path}.")
    return 0


def demo(seconds: float = 60.0, out: Path = Path("runs/demo")) -> int:
    """Train a small CapsNet and a small CNN on the embedded digits and show what came out.

    Example: capsnet demo

    Args:
        seconds: Training time for each of the two.
        out: Folder for the runs and figures; an earlier demo there is replaced.
    """
    from capsnet.experiments.demo import run_demo

    run_demo(seconds, out)
    return 0


def info(weights: str | None = None, json: bool = False) -> int:
    """Tell versions, devices and folders, or what a weights file is.

    Example: capsnet info

    Args:
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        json: Print the result as one JSON object on the last line.
    """
    import torch

    from capsnet.data import cache_folder
    from capsnet.models.weights import find_model
    from capsnet.train.checkpoint import versions

    if weights is not None:
        facts = find_model(weights)[1]
    else:
        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        facts = {
            **versions(),
            "threads": torch.get_num_threads(),
            "gpus": gpus,
            "cache": str(cache_folder()),
        }
    show(json, facts, json_format.dumps(facts, indent=2))
    return 0


def bench(
    kind: Positional[Literal["routing", "step", "epoch", "inference"]],
    batch: tuple[int, ...] = (),
    capsules: tuple[int, ...] = (1152,),
    dtype: Literal["fp32", "bf16", "fp16"] | None = None,
    peer: Path | None = None,
    data: str = "digits",
    data_folder: Path | None = None,
    device: str = "auto",
    plot: Path | None = None,
    save: Path | None = None,
    json: bool = False,
) -> int:
    """Measure speed and memory of the paper's CapsNet, after checking that results are right.

    Example: capsnet bench routing --batch 128 512

    Args:
        kind: Routing alone, whole training steps, epochs of training, or inference.
        batch: Batch sizes; by default 128 and 512 on a GPU, 32 on a CPU, 1 and 1024 for inference.
        capsules: Numbers of primary capsules, for routing.
        dtype: Type of the inputs, for routing; by default bf16 on a GPU, fp32 on a CPU.
        peer: Folder with a bench_peer.py that defines make_step(batch_size, device), for step.
        data: Data set, for epoch.
        data_folder: Folder with the data set's files, for epoch.
        device: auto, cpu, cuda or cuda:N.
        plot: PNG file of time and memory against the batch size and capsules, for routing.
        save: File to which the result is added as one line of JSON.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.bench.report import draw_routing_plot, run_bench, table
    from capsnet.bench.routing import WrongResult
    from capsnet.files import append_line
    from capsnet.train.device import pick_device

    if plot is not None and kind != "routing":
        raise UserError("Only 'capsnet bench routing' draws a plot; leave --plot out.")
    if peer is not None and kind != "step":
        raise UserError("Only 'capsnet bench step' times a peer; leave --peer out.")
    try:
        result = run_bench(
            kind, pick_device(device), batch, capsules, dtype, peer, data, data_folder
        )
    except WrongResult as error:
        print(f"capsnet: {error}", file=sys.stderr)
        return EXIT_FAILED
    if save is not None:
        append_line(save, json_format.dumps(result))
    if plot is not None:
        draw_routing_plot(result, plot)
    show(json, result, table(result))
    return 0


def reproduce(
    name: Positional[str],
    seeds: int | None = None,
    minutes: float | None = None,
    results: Path = Path("results"),
    runs: Path = Path("runs/reproduce"),
    data_folder: Path | None = None,
    device: str = "auto",
    keep: bool = False,
    smoke: bool = False,
    commit: str | None = None,
    json: bool = False,
) -> int:
    """Make the runs of a table or figure of the paper that are not made yet.

    Example: capsnet reproduce table1 --minutes 9

    Args:
        name: table1, multimnist, affine, few-labels, scrambled, equivariance, tune,
            figure-perturbation, figure-overlap or figure-routing.
        seeds: Seeds per row; by default the experiment's own number.
        minutes: Start no run that is not expected to end in this time; cut off the first if it
            does not. The same command goes on later.
        results: Folder of the results, one line of JSON per run.
        runs: Folder of the runs' checkpoints.
        data_folder: Folder with the data set's files, if you placed them by hand.
        device: auto, cpu, cuda or cuda:N.
        keep: Leave the folders of finished runs, with their weights.
        smoke: A try-out: tiny models on embedded digits; choose another --results for it.
        commit: The commit of the code, where git cannot tell.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.experiments.reproduce import reproduce as run

    done = run(name, seeds, minutes, results, runs, data_folder, device, keep, smoke, commit)
    show(
        json,
        {"name": name, **done._asdict()},
        f"{name}: {done.made} made, {done.found} were there already, {done.left} left.",
    )
    return 0


def report(results: Path = Path("results"), root: Path = Path("."), check: bool = False) -> int:
    """Write the tables and plots of all results into README and docs.

    Example: capsnet report --check

    Args:
        results: Folder of the results.
        root: Folder with README.md and docs.
        check: Change nothing; say which pages disagree with the results.
    """
    from capsnet.experiments.reproduce import report as run

    stale = run(results, root, check)
    for path in stale:
        print(f"{path} {'disagrees with the results' if check else 'is new'}.")
    if not stale:
        print("All pages agree with the results.")
    return EXIT_FAILED if check and stale else 0


def ship(run: Path, name: str, root: Path = Path(".")) -> int:
    """Put the weights of a finished run into the package, in half precision, with a card.

    Example: capsnet ship --run runs/capsnet_small-digits-seed0 --name capsnet_small

    Args:
        run: Folder of the run.
        name: Name of the model whose weights they become.
        root: Folder with docs, where the page of cards is written.
    """
    from capsnet.experiments.reproduce import ship as write

    print(f"Wrote {write(run, name, root)}.")
    return 0


VERBS = {
    verb.__name__: verb
    for verb in (
        train,
        evaluate,
        predict,
        figure,
        reproduce,
        report,
        ship,
        data,
        models,
        demo,
        bench,
        info,
    )
}


def main(args: list[str] | None = None) -> int:
    """Run one verb and return the exit status; a user's mistake is one sentence and status 2."""
    args = sys.argv[1:] if args is None else args
    if not args or args[0] in ("-h", "--help"):
        print(overview())
        return 0 if args else EXIT_USER_ERROR
    if args[0] == "--version":
        print(f"capsnet {__version__}")
        return 0
    try:
        if args[0] not in VERBS:
            raise unknown_name("verb", args[0], VERBS)
        return tyro.cli(VERBS[args[0]], args=args[1:], prog=f"capsnet {args[0]}")
    except UserError as error:
        print(f"capsnet: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("capsnet: stopped.", file=sys.stderr)
        return EXIT_INTERRUPTED


def overview() -> str:
    """Return the text of `capsnet --help`."""
    verbs = [f"  {name:<10} {(verb.__doc__ or '').splitlines()[0]}" for name, verb in VERBS.items()]
    head = "usage: capsnet VERB [options]   ('capsnet VERB --help' explains a verb)"
    return "\n".join([head, "", "Capsule networks: train, use, and look inside.", "", *verbs])


def show(json: bool, facts: dict[str, Any], text: str) -> None:
    """Print facts as one line of JSON, or the text for people."""
    print(json_format.dumps(facts) if json else text)
