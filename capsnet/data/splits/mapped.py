"""Images that stay in a file: mapped, and read when they are asked for.

images = Mapped(np.load("images.npy", mmap_mode="r"), np.arange(1000)); images[torch.tensor([3, 1])]
"""

import os
import weakref

import numpy as np
import torch
from torch import Tensor

CHUNK_BYTES = 2**24  # at a time where all images are read


class Mapped:
    """Rows of a mapped array [·, C, H, W] as images [M, C, H, W] for a device.

    What is asked for by an index is read there and then, and is a tensor on the device.
    """

    def __init__(
        self, array: np.memmap, rows: np.ndarray, device: torch.device | str = "cpu"
    ) -> None:
        self.array, self.rows, self.device = array, rows, torch.device(device)
        self.shape = torch.Size((len(rows), *array.shape[1:]))
        self.ndim = len(self.shape)
        self.dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
        self.file = os.open(str(array.filename), os.O_RDONLY)  # to tell the system what comes next
        weakref.finalize(self, os.close, self.file)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """What all images would take in memory."""
        return len(self) * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """What one image takes."""
        return int(np.prod(self.shape[1:])) * self.array.itemsize

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        """Return images [N, C, H, W] on the device, read now."""
        chosen = index if isinstance(index, slice) else index.cpu().numpy()
        places = np.arange(len(self))[chosen]
        out = np.empty((*places.shape, *self.shape[1:]), self.array.dtype)
        self.read(places, out)
        return torch.from_numpy(out).to(self.device)

    def read(self, index: np.ndarray, out: np.ndarray) -> None:
        """Read the images at index [N, …] into out [N, …, C, H, W]; needs no torch."""
        rows = self.rows[index]
        if hasattr(os, "posix_fadvise"):
            # Told of all rows at once, a disk reads them side by side, and no more than them.
            start, size = self.array.offset, self.row_bytes
            for row in rows.ravel().tolist():
                os.posix_fadvise(self.file, start + row * size, size, os.POSIX_FADV_WILLNEED)
        # "clip" writes straight into out; "raise" would go through a copy.
        np.take(np.asarray(self.array), rows, axis=0, out=out, mode="clip")

    def load(self) -> Tensor:
        """Return all images as a tensor on the device; the host needs memory for a few only."""
        out = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        step = max(1, CHUNK_BYTES // self.row_bytes)
        for start in range(0, len(self), step):
            out[start : start + step] = self[start : start + step]
        return out

    def subset(self, indices: Tensor) -> "Mapped":
        """Return the images at indices [K], in that order; nothing is read."""
        return Mapped(self.array, self.rows[indices.cpu().numpy()], self.device)

    def to(self, device: torch.device | str) -> "Mapped":
        """Return the same images for another device; nothing is read."""
        return Mapped(self.array, self.rows, device)
