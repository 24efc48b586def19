"""From settings to a trained model in a folder, with one look at the test set at the end.

outcome = train(TrainConfig(model="capsnet_small", data="digits", epochs=20))
"""

import json
from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256

import torch

from capsnet.data import Own, Stream
from capsnet.errors import UserError
from capsnet.files import clear_leftovers, locked, write_text
from capsnet.models.weights import WEIGHTS, Card, save_weights
from capsnet.plugins import load_plugins
from capsnet.provenance import device_name, versions
from capsnet.training.board import Board
from capsnet.training.checkpoint import (
    CHECKPOINT,
    Position,
    begun_by_this_job,
    data_in_words,
    load_checkpoint,
    saved_config,
)
from capsnet.training.config import SettledConfig, TrainConfig
from capsnet.training.device import pick_device, pick_precision
from capsnet.training.distributed.world import (
    from_leader,
    joined,
    leads,
    rank,
    require_alike,
    size,
    was_restarted,
)
from capsnet.training.evaluation import answer, check_fit, measured
from capsnet.training.keeping import keep_answers, keep_pictures, keep_reference, open_pictures
from capsnet.training.outcome import Diverged, Finished, Interrupted, Outcome
from capsnet.training.planning import look_ahead, settle
from capsnet.training.progress import WorkProgress
from capsnet.training.run import Broken, Run, Watch
from capsnet.training.series import holds_series, is_series, train_baseline, train_series
from capsnet.training.setup import build_model, open_stream
from capsnet.training.step import TrainStep
from capsnet.training.stopping import Stop

LOCK = ".lock"  # held by the process that trains into the folder
OF_A_MACHINE = {"device", "data_folder", "plugin"}  # settings that processes may differ in


def train(config: TrainConfig) -> Outcome:
    """Train a model, evaluate it once, and write weights and result into the run's folder.

    Processes that torchrun started train one model together; each of them gets the outcome.

    Args:
        config: What to train, on what, how long and where: a `TrainConfig`.

    Returns:
        `Finished` (result, history, folder, …), `Interrupted` if a signal asked to stop and the
        state was saved, `Diverged` if the loss is no longer a number, or, of folds or several
        seeds, the `Series` of them. Each says itself in words by `str()` and has `to_json()`. A
        mistake in the settings raises a `UserError`.

    Example:
        >>> config = TrainConfig(model="capsnet_small", data="digits", num_samples=500, epochs=1)
        >>> outcome = train(config)  # into runs/capsnet_small-digits-seed0
        >>> isinstance(outcome, Finished) and outcome.result.num_images
        1000
    """
    config.check()
    with joined(config.device):
        settings = config.to_json()
        require_alike({k: x for k, x in settings.items() if k not in OF_A_MACHINE} | versions())
        load_plugins(config.plugin)
        # Torchrun starts a job anew with the command of its first start.
        if (is_series(config) and was_restarted()) or from_leader(
            lambda: begun_by_this_job(config.folder)
        ):
            config = replace(config, resume=True)
        if is_series(config):
            return train_series(config, train_one)
        outcome = train_one(config)
        stopped = train_baseline(config, train_one) if isinstance(outcome, Finished) else None
        return stopped or outcome


def train_one(
    config: TrainConfig, watch: Watch = lambda epoch: None
) -> Finished | Interrupted | Diverged:
    """Make one run."""
    config.check()
    load_plugins(config.plugin)
    if config.exchange != "fp32" and size() == 1:
        raise UserError("One process exchanges nothing; leave --exchange out.")
    from_leader(lambda: check_folder(config))
    device = pick_device(config.device)
    precision = pick_precision(config.precision, device)
    own = open_pictures(config, device)
    stream = open_stream(config, "train", device, own)
    held = config.holdout if own is None else "validation" in own.splits
    validation = open_stream(config, "validation", device, own) if held else None
    saved = saved_config(config.folder) if config.resume else None
    config = settle(config, stream, validation, saved)
    split = b"" if own is None else own.split_text().encode(errors="surrogateescape")
    digest = sha256(split).hexdigest()[:16]
    require_alike({"device": device.type, "data": f"{data_in_words(stream)}, split {digest}"})
    torch.manual_seed(config.seed)
    model = build_model(config, stream).to(device)
    step = TrainStep(model, stream, config, precision)
    with ExitStack() as stack:
        lock = locked(config.folder / LOCK, wait=False)
        if not from_leader(lambda: stack.enter_context(lock)):
            raise UserError(f"Another process trains into {config.folder}; choose another --out.")
        from_leader(lambda: check_folder(config))  # again: another process may have come first
        if rank():  # what a model draws by chance, as dropout does, is another's in each process
            torch.manual_seed(config.seed * 1_000_003 + rank())
        position = load_checkpoint(config.folder, step, config) if config.resume else Position()
        try:
            return _train(config, step, position, validation, own, watch)
        except Broken:
            return Diverged(config.folder, from_leader(lambda: holds(config)))


def holds(config: TrainConfig) -> bool:
    """Whether the folder holds a run that was begun."""
    return (config.folder / CHECKPOINT).exists()


def check_folder(config: TrainConfig) -> None:
    """Raise a UserError unless the folder holds a run to resume, or none to overwrite."""
    folder, holds_run = config.folder, holds(config)
    if not holds_run and holds_series(folder):
        raise UserError(
            f"{folder} already holds a series; continue it with its --folds or --seeds and "
            "--resume, or choose another --out."
        )
    if config.resume and not holds_run:
        raise UserError(f"There is no run to resume in {folder}; start it without --resume.")
    if holds_run and not config.resume:
        raise UserError(
            f"{folder} already holds a run; continue it with --resume or choose another --out."
        )


def _train(
    config: SettledConfig,
    step: TrainStep,
    position: Position,
    validation: Stream | None,
    own: Own | None,
    watch: Watch,
) -> Finished | Interrupted:
    folder, model, stream = config.folder, step.model, step.stream
    from_leader(lambda: begin_folder(config, own))
    layers = str(step.precision).removeprefix("torch.")
    plan = look_ahead(config, model, stream, validation, layers)

    with Stop() as stop, Board(config, model, stream) as board:
        run = Run(config, step, position, validation, stop, board, plan, watch)
        if size() > 1 and not config.resume:
            run.save()  # so that whatever becomes of the others, there is a run to go on with
        finished = run.go()
        run.save()
    if not finished:
        return Interrupted(folder)
    taken = run.take_weights()
    final = open_stream(config, config.final_split, step.device, own)
    check_fit(model, final)
    doing = f"evaluating ({config.final_split})"
    with WorkProgress(doing, final.num_samples, "images") as progress:
        said = answer(model, final, precision=step.precision, progress=progress)
    calibration = None
    if own is not None:
        calibration = keep_answers(
            model, validation, final, said, config.final_split, folder, step.precision
        )
    result = measured(final.task, said, calibration)
    outcome = Finished(
        model,
        folder,
        config.model,
        config.data,
        config.final_split,
        result,
        tuple(position.history),
        device_name(step.device),
        layers,
        taken,
        plan,
    )
    if not leads():
        return outcome
    facts = outcome.to_json()
    card = Card(
        model.name,
        model.options,
        stream.task,
        config.to_json(),
        facts,
        versions(),
        reading=None if own is None else own.stored.reading,
        calibration=calibration,
        more=keep_reference(model, validation or stream) if own is not None else {},
    )
    save_weights(model, folder / WEIGHTS, card)
    write_text(folder / "result.json", json.dumps(facts, indent=2))
    return outcome


def begin_folder(config: SettledConfig, own: Own | None) -> None:
    """Write what a run's folder holds before its first step."""
    clear_leftovers(config.folder)
    if own is not None:
        keep_pictures(own, config)
    settings = config.to_json() | {"resume": False}  # so that the file can be used as --config
    write_text(config.folder / "config.json", json.dumps(settings, indent=2))
