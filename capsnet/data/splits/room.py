"""How much memory a device has left, and whether images fit into it.

fits(stored.images.nbytes, torch.device("cuda"))
"""

from pathlib import Path

import torch

SHARE = 0.5  # of the free memory that images may take


def fits(num_bytes: int, device: torch.device) -> bool:
    """Whether images of so many bytes leave half of a device's free memory to the rest."""
    free = free_memory(device)
    return free is None or num_bytes <= SHARE * free


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that are free on a device; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    known = [x for x in (_machine_free(), _group_free()) if x is not None]
    return min(known, default=None)


def _machine_free() -> int | None:
    return _number(Path("/proc/meminfo"), "MemAvailable:", 1024)


def _group_free() -> int | None:
    """Return what the limit of a container leaves: pages of files do not count, they can go."""
    group = Path("/sys/fs/cgroup")
    limit, taken = _number(group / "memory.max"), _number(group / "memory.stat", "anon")
    return None if limit is None or taken is None else max(0, limit - taken)


def _number(path: Path, name: str = "", unit: int = 1) -> int | None:
    """Return the number after a name in a file of the system; None if there is none."""
    try:
        words = path.read_text(encoding="utf-8").split()
        return unit * int(words[words.index(name) + 1 if name else 0])
    except (OSError, ValueError, IndexError):
        return None
