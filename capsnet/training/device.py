"""Which device and which arithmetic a command uses, and how it uses memory."""

import ctypes
import platform

import torch

from capsnet.errors import UserError
from capsnet.training.distributed.world import local_device


def pick_device(name: str = "auto") -> torch.device:
    """Return the device called `name`; auto: the first GPU, or else the CPU.

    Of several processes of one machine each has, by auto, a GPU of its own.
    """
    if name == "auto":
        return local_device()
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"There is no device '{name}'; use auto, cpu, cuda or cuda:N.") from error
    if device.type != "cuda" and name != "cpu":
        raise UserError(f"The device '{name}' is not supported; use auto, cpu, cuda or cuda:N.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"This machine has no device '{name}'; use --device cpu.")
    return device


def pick_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the type the layers compute in; auto: bf16 on a GPU, fp32 on a CPU."""
    bf16 = name == "bf16" or (name == "auto" and device.type == "cuda")
    return torch.bfloat16 if bf16 else torch.float32


def keep_freed_memory() -> None:
    """Let the C library keep what a step frees for the next one, instead of giving it back.

    On a CPU a step would otherwise spend a tenth of its time on page faults. glibc only.
    """
    if platform.libc_ver()[0] == "glibc":
        trim_threshold, mmap_threshold = -1, -3  # names of malloc.h
        libc = ctypes.CDLL(None)
        libc.mallopt(trim_threshold, 1 << 30)
        libc.mallopt(mmap_threshold, 32 << 20)  # the most it takes
