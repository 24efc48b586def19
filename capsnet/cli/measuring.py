"""Verbs that measure and reproduce: bench, reproduce."""

import sys
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from capsnet.cli.output import EXIT_FAILED, check_png, show
from capsnet.errors import UserError


def bench(
    kind: Positional[Literal["routing", "step", "heads", "slots", "epoch", "stream", "inference"]],
    batch: tuple[int, ...] = (),
    capsules: tuple[int, ...] = (),
    dtype: Literal["fp32", "bf16", "fp16"] | None = None,
    peer: Path | None = None,
    data: str | None = None,
    data_folder: Path | None = None,
    device: str = "auto",
    plugin: tuple[Path, ...] = (),
    plot: Path | None = None,
    save: Path | None = None,
    commit: str | None = None,
    json: bool = False,
) -> int:
    """Measure speed and memory of networks and routings, after checking that routing is right.

    Example: capsnet bench routing --batch 128 512

    Args:
        kind: Routing alone; whole training steps; those of every head on the modern stem, or of
            every way to fill slots; epochs of training; training on images that stay on the disk
            (stream); or inference.
        batch: Batch sizes; by default 128 and 512 on a GPU, 32 on a CPU, 1 and 1024 for inference.
        capsules: Numbers of primary capsules, for routing; by default the paper's 1152.
        dtype: Type of the inputs, for routing; by default bf16 on a GPU, fp32 on a CPU.
        peer: Folder with a bench_peer.py that defines make_step(batch_size, device), for step.
        data: Data set, for epoch; by default the embedded digits.
        data_folder: Folder with the data set's files, for epoch.
        device: auto, cpu, cuda or cuda:N.
        plugin: Python files of yours that register data.
        plot: PNG file of time and memory against the batch size and capsules, for routing.
        save: File to which the result is added as one line of JSON.
        commit: Commit to note with it, where git does not know it.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.bench.report import run_bench, table
    from capsnet.bench.routing import WrongResult
    from capsnet.files import append_line
    from capsnet.lines import sealed
    from capsnet.plugins import load_plugins
    from capsnet.training.device import pick_device
    from capsnet.training.progress import WorkProgress

    load_plugins(plugin)
    given: dict[str, dict[str, object]] = {
        "routing": {"capsules": capsules, "dtype": dtype, "plot": plot},
        "step": {"peer": peer},
        "epoch": {"data": data, "data-folder": data_folder},
    }
    for owner, options in given.items():
        for option, value in options.items():
            if value and kind != owner:
                raise UserError(f"--{option} is for 'capsnet bench {owner}'; leave it out.")
    if plot is not None:
        from capsnet.figures import save_figure
        from capsnet.figures.speed import draw_speed

        check_png(plot)
    settings = (kind, pick_device(device), batch, capsules, dtype, peer, data, data_folder)
    try:
        if kind == "epoch":  # training shows its own progress
            result = run_bench(*settings)
        else:
            with WorkProgress(f"measuring {kind}") as progress:
                result = run_bench(*settings, progress=progress)
    except WrongResult as error:
        print(f"capsnet: {error}", file=sys.stderr)
        return EXIT_FAILED
    if commit is not None:
        result["commit"] = commit
    show(json, result, table(result))  # before what may fail: it took minutes
    if save is not None:
        append_line(save, sealed(result))
    if plot is not None:
        save_figure(draw_speed(result), plot)
    return 0


def reproduce(
    name: Positional[str],
    rows: tuple[str, ...] | None = None,
    seeds: int | None = None,
    minutes: float | None = None,
    results: Path | None = None,
    runs: Path = Path("runs/reproduce"),
    data_folder: Path | None = None,
    device: str = "auto",
    keep: bool = False,
    smoke: bool = False,
    commit: str | None = None,
    json: bool = False,
) -> int:
    """Make the runs of a table or figure of the paper that are not made yet.

    Started several times, on one GPU or more, the processes share the runs among them.

    Example: capsnet reproduce table1 --minutes 9

    Args:
        name: table1, multimnist, fashion, affine, few-labels, scrambled, equivariance; heads on one
            stem: family-multimnist, family, family-fashion, family-affine, family-few,
            family-cifar10; self-reading, depth, poses, synchrony; tune, tune-fashion,
            tune-multimnist; which need no GPU: family-small, family-small-slow,
            family-small-fast, synchrony-small; or to be drawn from shipped weights, without any
            other option, figure-perturbation, figure-overlap or figure-routing.
        rows: Names of the only rows to make, as in the table; by default all.
        seeds: Number of seeds per row, counted from 0; by default the experiment's own.
        minutes: Start no run that is not expected to end in this time; cut off the first if it
            does not. The same command goes on later.
        results: Folder of the results, one line of JSON per run; by default results, or
            runs/smoke for a try-out.
        runs: Folder of the runs' checkpoints.
        data_folder: Folder with the data set's files, if you placed them by hand.
        device: auto, cpu, cuda or cuda:N.
        keep: Leave the folders of finished runs, with their weights.
        smoke: A try-out: tiny models on embedded digits, whose results no table shows.
        commit: The commit of the code, where git cannot tell.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.experiments.runner.run import reproduce as run

    done = run(
        name, seeds, minutes, results, runs, data_folder, device, keep, smoke, commit, rows=rows
    )
    waiting = done.left > 0 and done.left == done.elsewhere
    others = ", which other processes are making" if waiting else ""
    show(
        json,
        {"name": name, **done._asdict()},
        f"{name}: {done.made} made, {done.found} found made already, {done.left} left{others}.",
    )
    return 0
