"""What a trained model says of picture files: read on threads, answered in batches.

predict([Path("photos")], "runs/mine")[0].decision
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import torch

from capsnet.data.registry import shows_digits
from capsnet.errors import UserError, require
from capsnet.models.reference import drawing_errors
from capsnet.models.weights import find_model
from capsnet.prediction.answer import Prediction, confidence, decided
from capsnet.prediction.pngs import distinct_stems, staged, write_png
from capsnet.prediction.seeing import Look, Seen, pictures_in
from capsnet.prediction.trust import doubts, find_reference
from capsnet.tasks import Labels
from capsnet.training.device import pick_device
from capsnet.training.distributed.world import share, size, together

BATCH_SIZE = 64
PART = 16  # files that a thread reads at a time
AHEAD = 16  # parts that are read while a batch is answered
OnBad = Callable[[Path, UserError], None]


@torch.inference_mode()
def predict(
    files: Sequence[Path | str],
    weights: str | Path,
    invert: bool = False,
    centre: bool = False,
    reconstruct: Path | None = None,
    device: str = "auto",
    progress: Callable[[int], None] | None = None,
    *,
    as_is: bool = False,
    save_input: Path | None = None,
    on_bad: OnBad | None = None,
) -> list[Prediction]:
    """Say what a trained model sees on picture files.

    A model that reads ink, as all of digits do, is given the ink alone: paper and shadows are
    removed, dark ink becomes bright, and the drawing is placed as MNIST's digits are. Processes
    that torchrun started share the files out, and each gets all answers.

    Args:
        files: Pictures of any size, and folders of them; each is brought to the model's (C, H, W).
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        invert: The pictures show dark ink on white paper; nothing else is done to them.
        centre: Crop the ink and centre it as MNIST's digits are; nothing else is done to it.
        reconstruct: Folder for what the winning capsule draws, one PNG per picture.
        device: auto, cpu, cuda or cuda:N.
        progress: Called after each batch with the number of files done.
        as_is: Pictures are scaled and padded only.
        save_input: Folder for what the model saw, one PNG per picture.
        on_bad: Called for each file that cannot be read, which is then left out; by default the
            first one is an error.

    Returns:
        A `Prediction` for each file, in order: decision, one answer for each of the J classes or
        numbers of the model's task, and the reasons not to trust it.

    Example:
        >>> predict(["seven.jpg"], "capsnet_mnist")[0].decision
        '7'
    """
    model, card = find_model(str(weights))
    artist = model.draws
    if reconstruct is not None:
        artist = require(
            artist, f"{model.name} has no decoder to draw with; leave --reconstruct out."
        )
    look = Look.of(model, card, as_is, invert, centre)
    where = pick_device(device)
    model = model.to(where).eval()
    paths = pictures_in(files)
    names = distinct_stems(paths) if reconstruct or save_input else []
    reference = find_reference(model, card, shows_digits(card.data))
    task, calibration = model.task, card.calibration
    known = calibration is not None and calibration.is_known
    mine = share(len(paths))

    def ask(drawn_in: Path | None, seen_in: Path | None) -> list[Prediction]:
        said: list[Prediction] = []
        for rows, seen in read_batches(paths, mine, look, on_bad):
            images = torch.stack([x.pixels for x in seen]).to(where)
            output = model(images)
            errors = drawing_errors(model, images, output)
            answers = output.answers.cpu()
            shown, decisions = decided(task, calibration, answers)
            plain = answers.tolist()
            misses = [None] * len(rows) if errors is None else errors.tolist()
            for n, row in enumerate(rows):
                drawn = saw = None
                if reconstruct is not None and drawn_in is not None and artist is not None:
                    drawn = reconstruct / f"{names[row]}-reconstruction.png"
                    write_png(artist.reconstruct(output.v[n : n + 1])[0], drawn_in / drawn.name)
                if save_input is not None and seen_in is not None:
                    saw = save_input / f"{names[row]}-input.png"
                    write_png(seen[n].pixels, seen_in / saw.name)
                said.append(
                    Prediction(
                        paths[row],
                        decisions[n],
                        dict(zip(task.names, shown[n], strict=True)),
                        isinstance(task, Labels),
                        drawn,
                        confidence(task, shown[n], decisions[n], calibration),
                        doubts(
                            model,
                            plain[n],
                            misses[n],
                            reference,
                            seen[n].doubts,
                            (decisions[n], shown[n]) if known else None,
                        ),
                        saw,
                        calibration is not None,
                    )
                )
            if progress is not None:
                progress((rows[-1] + 1 - mine.start) * size())
        return said

    with staged(reconstruct) as drawn_in, staged(save_input) as seen_in:
        parts = together(lambda: ask(drawn_in, seen_in))
    return [answer for part in parts for answer in part]


def read_batches(
    paths: Sequence[Path], mine: slice, look: Look, on_bad: OnBad | None
) -> Iterator[tuple[list[int], list[Seen]]]:
    """Yield the rows and pictures of one batch of `mine` after the other, while threads read on.

    Pillow decodes and scales without Python's lock, so that threads use all cores.
    """
    rows: list[int] = []
    seen: list[Seen] = []
    for row, result in enumerate(read_ahead(paths[mine], look), mine.start):
        if isinstance(result, Seen):
            rows.append(row)
            seen.append(result)
        elif on_bad is None:
            raise result
        else:
            on_bad(paths[row], result)
        if len(rows) == BATCH_SIZE:
            yield rows, seen
            rows, seen = [], []
    if rows:
        yield rows, seen


def read_ahead(paths: Sequence[Path], look: Look) -> Iterator[Seen | UserError]:
    """Yield what was seen of each file, or why it cannot be read, in order."""

    def read(part: Sequence[Path]) -> list[Seen | UserError]:
        found: list[Seen | UserError] = []
        for path in part:
            try:
                found.append(look(path))
            except UserError as error:
                found.append(error)
        return found

    parts = [paths[start : start + PART] for start in range(0, len(paths), PART)]
    coming = iter(parts)
    waiting: deque[Future[list[Seen | UserError]]] = deque()
    with ThreadPoolExecutor(max(2, os.cpu_count() or 1), "reading") as pool:
        try:
            waiting.extend(pool.submit(read, part) for part in islice(coming, AHEAD))
            while waiting:
                yield from waiting.popleft().result()
                waiting.extend(pool.submit(read, part) for part in islice(coming, 1))
        finally:
            pool.shutdown(cancel_futures=True)
