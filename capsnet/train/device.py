"""Which device and which arithmetic a command uses."""

import torch

from capsnet.errors import UserError


def pick_device(name: str = "auto") -> torch.device:
    """Return the device called `name`; auto: the first GPU, or else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"There is no device '{name}'; use auto, cpu, cuda or cuda:N.") from error
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"The device '{name}' is not supported; use auto, cpu, cuda or cuda:N.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"This machine has no device '{name}'; use --device cpu.")
    return device


def pick_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the type the layers compute in; auto: bf16 on a GPU, fp32 on a CPU."""
    bf16 = name == "bf16" or (name == "auto" and device.type == "cuda")
    return torch.bfloat16 if bf16 else torch.float32
