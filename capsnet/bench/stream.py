"""Training on images that stay on the disk against the same images in memory."""

import mmap
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capsnet.bench.routing import WrongResult
from capsnet.bench.timing import Shown, counted
from capsnet.data import ImageStream, Plan, Split, Stream, ahead, cache_folder, cut
from capsnet.data.splits.mapped import Mapped
from capsnet.errors import UserError
from capsnet.models import create_model
from capsnet.training.config import TrainConfig
from capsnet.training.device import pick_precision
from capsnet.training.step import WARM_UP, TrainStep, epoch_plan

NUM, SHAPE = 20_000, (3, 64, 64)
NAMES = tuple("0123456789")
ALONE = "none, batches alone"
MODELS: dict[str, dict[str, Any]] = {
    ALONE: {},
    "cnn_small": {"channels": 8},  # fast, so that reading has little time
    "capsnet_modern_small": {},
}
ROUNDS = 21
STEPS = 10  # of training in a turn on a CPU; all else is an epoch
Work = Callable[[Plan], object]
MEMORY, CACHED, DISK = "in memory", "on disk, cached by the system", "on disk"


def bench_stream(
    batches: tuple[int, ...], device: torch.device, progress: Shown | None = None
) -> dict[str, Any]:
    """Time training on images in memory and on the disk, turn and turn about.

    Where they are on disk and not cached, the system forgets the file before each turn: every image
    comes from the disk, as in a folder larger than memory.
    """
    if not hasattr(os, "posix_fadvise"):
        raise UserError("This system cannot be told to forget a file; measure it on Linux.")
    tell = counted(len(MODELS) * len(batches) * ROUNDS, progress)
    rows = []
    place = cache_folder()  # own pictures are kept there, so that it is about its disk
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        streams = _streams(Path(folder), device)
        for model in MODELS:
            for batch in batches:
                rows += _compare(model, batch, streams, tell)
    return {"bench": "stream", "images": NUM, "image_shape": list(SHAPE), "rows": rows}


def _compare(
    name: str, batch: int, streams: dict[str, Stream], tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    trained_on_cpu = name != ALONE and streams[MEMORY].device.type == "cpu"
    count = STEPS if trained_on_cpu else ceil(NUM / batch)
    works = {place: _work(name, batch, stream) for place, stream in streams.items()}
    speeds, work, read = ({place: list[float]() for place in streams} for _ in range(3))
    for k in range(ROUNDS):
        tell(f"{name}, batch {batch}, round {k + 1}")
        for place in _turned([*streams], k):
            if place == DISK:
                _forget(streams[place])
            before, start, worked = _bytes_read(), time.perf_counter(), time.process_time()
            _run(works[place], streams[place], batch, k, count)
            speeds[place].append(count * batch / (time.perf_counter() - start))
            work[place].append(1e3 * (time.process_time() - worked) / (count * batch))
            read[place].append((_bytes_read() - before) / 1e6)
    rows = []
    for place in streams:
        low, median, high = statistics.quantiles(speeds[place], n=4)
        shares = [x / y for x, y in zip(speeds[place], speeds[MEMORY], strict=True)]
        rows.append(
            {
                "model": name,
                "images": place,
                "batch": batch,
                "images_per_second": median,
                "quartiles": f"{low:,.0f} to {high:,.0f}",
                "times_memory": statistics.median(shares),
                "host_ms_per_image": statistics.median(work[place]),
                "MB_read": statistics.median(read[place]),
            }
        )
    return rows


def _streams(folder: Path, device: torch.device) -> dict[str, Stream]:
    """Return streams of the same images in all places."""
    cached, disk = folder / "cached.npy", folder / "disk.npy"
    array = np.lib.format.open_memmap(cached, "w+", np.uint8, (NUM, *SHAPE))
    rng = np.random.default_rng(0)
    for part in cut(NUM, 1000):
        array[part] = rng.integers(0, 256, (part.stop - part.start, *SHAPE), dtype=np.uint8)
    del array
    shutil.copyfile(cached, disk)
    mapped = {
        place: Mapped(np.load(path, mmap_mode="r"), np.arange(NUM), device)
        for place, path in ((CACHED, cached), (DISK, disk))
    }
    for x in mapped.values():
        os.fsync(x.file)  # what is not written yet cannot be forgotten
    images: dict[str, Tensor | Mapped] = {MEMORY: mapped[CACHED].load(), **mapped}
    labels = torch.arange(NUM, device=device) % len(NAMES)
    streams: dict[str, Stream] = {
        place: ImageStream(Split(x, labels, NAMES)) for place, x in images.items()
    }
    plan = epoch_plan(streams[MEMORY], 0, 0, 100)
    first = [
        stream.batch(part).images
        for stream in streams.values()
        for part in ahead(stream, plan, cut(100, 100))
    ]
    if not all(torch.equal(first[0], x) for x in first):
        raise WrongResult("Images on the disk are not those in memory; no time is printed.")
    return streams


def _turned(names: list[str], k: int) -> list[str]:
    """Return names in the order of turn k: none always comes first."""
    k %= len(names)
    return names[k:] + names[:k]


def _work(name: str, batch: int, stream: Stream) -> Work:
    """Return what is done with parts of a plan, with all that happens once behind it."""
    if name == ALONE:
        return stream.batch
    torch.manual_seed(0)
    device = stream.device
    model = create_model(name, image_shape=SHAPE, **MODELS[name]).to(device)
    step = TrainStep(model, stream, TrainConfig(), pick_precision("auto", device))

    def work(part: Plan) -> None:
        step(part, 1e-3, 1.0)

    _run(work, stream, batch, 0, WARM_UP + 1)
    return work


def _run(work: Work, stream: Stream, batch: int, epoch: int, count: int) -> None:
    """Go through so many steps of an epoch as `capsnet train` does."""
    plan = epoch_plan(stream, 0, epoch, count * batch)
    for part in ahead(stream, plan, cut(count * batch, batch)):
        work(part)
    if stream.device.type == "cuda":
        torch.cuda.synchronize(stream.device)


def _forget(stream: Stream) -> None:
    """Have the system drop a mapped file from memory."""
    images = stream.split.images
    assert isinstance(images, Mapped) and isinstance(images.array.base, mmap.mmap)
    images.array.base.madvise(mmap.MADV_DONTNEED)  # what is mapped would be kept
    os.posix_fadvise(images.file, 0, 0, os.POSIX_FADV_DONTNEED)


def _bytes_read() -> int:
    """Return what this process has had read from disks; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
        return int(dict(line.split(": ") for line in lines)["read_bytes"])
    except (OSError, KeyError, ValueError):
        return 0
