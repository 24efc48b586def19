"""How much memory a device has left, and whether images fit into it.

fits(stored.images.nbytes, torch.device("cuda"))
"""

import os
from pathlib import Path

import torch

SHARE = 0.5  # of the free memory that images may take
GROUPS, MINE = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")  # of Linux, with their limits


def fits(num_bytes: int, device: torch.device) -> bool:
    """Whether images of so many bytes leave half of a device's free memory to the rest.

    Processes that torchrun has started on CPUs each keep the images, in the same memory.
    """
    free = free_memory(device)
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if device.type == "cpu" else 1
    return free is None or processes * num_bytes <= SHARE * free


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that are free on a device; None where the system does not say."""
    if device.type == "cuda":
        # What torch keeps of a run before, for the next, is free too.
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    free = _number(Path("/proc/meminfo"), "MemAvailable:", 1024)
    return min([*_left_by_groups(), *([] if free is None else [free])], default=None)


def _left_by_groups() -> list[int]:
    """Return what limits of a container or a batch job leave; pages of files can go, any time."""
    try:
        mine = GROUPS / MINE.read_text(encoding="utf-8").rpartition("0::/")[2].strip()
    except OSError:
        return []
    left = []
    for group in (mine, *mine.parents):
        limit, taken = _number(group / "memory.max"), _number(group / "memory.stat", "anon")
        if limit is not None and taken is not None:
            left.append(max(0, limit - taken))
    return left


def _number(path: Path, name: str = "", unit: int = 1) -> int | None:
    """Return the number after a name in a file of the system; None if there is none."""
    try:
        words = path.read_text(encoding="utf-8").split()
        return unit * int(words[words.index(name) + 1 if name else 0])
    except (OSError, ValueError, IndexError):
        return None
