"""Images that stay on the disk, read one part of a plan ahead while the device works on another.

Two buffers take turns: a thread reads the images of the next part into one while those of this part
are used from the other. For a GPU both are pinned, and their content is copied on a stream of its
own, so that neither the disk nor the copy is waited for if they are fast enough.

Usage: for part in ahead(stream, plan, cut(stream.num_samples, 128)): batch = stream.batch(part)
"""

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from capsnet.data.splits.mapped import Mapped
from capsnet.data.streams.augmentation import Plan
from capsnet.data.streams.stream import Stream


def cut(num_rows: int, size: int, first: int = 0) -> list[slice]:
    """Return the parts of a plan's rows.

    Args:
        num_rows: Of the plan.
        size: Of each part, but for the last.
        first: The row to start from.

    Returns:
        A slice for each part.

    Example:
        >>> cut(10, 4)
        [slice(0, 4, None), slice(4, 8, None), slice(8, 10, None)]
    """
    return [slice(k, min(k + size, num_rows)) for k in range(first, num_rows, size)]


def ahead(stream: Stream, plan: Plan, parts: Sequence[slice]) -> Generator[Plan, None, None]:
    """Yield parts of a plan, with the "images" they speak of where these stay on the disk.

    The images of a part are good until the next one is asked for.

    Args:
        stream: What the plan is of.
        plan: Choices of any number of rows.
        parts: Which rows to take, one after the other.

    Returns:
        What yields a plan for `stream.batch` for each part.

    Example:
        >>> digits = open_data("digits", "test")
        >>> parts = ahead(digits, digits.plan(None), cut(digits.num_samples, 400))
        >>> [len(digits.batch(part).images) for part in parts]
        [400, 400, 200]
    """
    images = stream.split.images
    if not isinstance(images, Mapped) or not parts:
        for part in parts:
            yield {name: x[part] for name, x in plan.items()}
        return
    index = plan["index"].cpu().numpy()  # once: to ask a GPU for each part would be to wait for it
    most = max(len(index[part]) for part in parts)
    places = _Places((most, *index.shape[1:], *images.shape[1:]), images.dtype, images.device)

    def read(k: int) -> None:
        rows = index[parts[k]]
        images.read(rows, places.arrays[k % 2][: len(rows)])

    with ThreadPoolExecutor(1, "images") as reader:
        coming = reader.submit(read, 0)
        for k, part in enumerate(parts):
            coming.result()
            read_now = places.give(k, len(index[part]))
            if k + 1 < len(parts):
                coming = reader.submit(read, k + 1)
            yield {name: x[part] for name, x in plan.items()} | {"images": read_now}
            places.used(k)


class _Places:
    """Two buffers on the host that are filled in turn and, for a GPU, two on the device.

    Part k is in those of number k % 2. All that concerns a GPU is done by the thread that trains:
    another one must not call it while a CUDA graph is captured.
    """

    def __init__(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"
        self.host = [torch.empty(shape, dtype=dtype, pin_memory=self.cuda) for _ in range(2)]
        self.arrays = [x.numpy() for x in self.host]
        if self.cuda:
            self.there = [torch.empty(shape, dtype=dtype, device=device) for _ in range(2)]
            self.side = torch.cuda.Stream(device)
            self.side.wait_stream(torch.cuda.current_stream(device))
            self.copied = [torch.cuda.Event() for _ in range(2)]
            self.done = [torch.cuda.Event() for _ in range(2)]

    def give(self, k: int, num: int) -> Tensor:
        """Return the images of part k, which have been read; part k + 1 may be read after this."""
        now, other = k % 2, 1 - k % 2
        if not self.cuda:
            return self.host[now][:num]
        self.side.wait_event(self.done[now])  # part k - 2 was computed from the same memory
        with torch.cuda.stream(self.side):
            self.there[now][:num].copy_(self.host[now][:num], non_blocking=True)
            self.copied[now].record(self.side)
        torch.cuda.current_stream(self.device).wait_event(self.copied[now])
        self.copied[other].synchronize()  # part k - 1 has left the host's memory
        return self.there[now][:num]

    def used(self, k: int) -> None:
        """Remember that all work on part k has been given to the device."""
        if self.cuda:
            self.done[k % 2].record(torch.cuda.current_stream(self.device))
