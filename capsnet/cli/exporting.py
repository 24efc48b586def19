"""The verb that hands a trained model to other programs: export."""

from pathlib import Path
from typing import Literal

from capsnet.cli.output import show


def export(
    weights: str,
    format: Literal["onnx", "torch-export", "safetensors"],
    out: Path | None = None,
    force: bool = False,
    plugin: tuple[Path, ...] = (),
    json: bool = False,
) -> int:
    """Write a trained model for other programs, compared with the original.

    Example: capsnet export --weights runs/capsnet_small-digits-seed0 --format onnx

    The file takes any number of images, has routing and calibration in it, and holds as JSON
    (under "capsnet") the names of the classes and how a picture has to be prepared.

    Args:
        weights: Folder of a run, a weights file, or the name of a model with shipped weights.
        format: For ONNX Runtime and its like, for torch.export.load, or weights and card alone.
        out: The file; by default called as the weights are, in this folder.
        force: Replace a file that is there.
        plugin: Python files of yours that register models.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.exporting import export as run
    from capsnet.plugins import load_plugins
    from capsnet.training.progress import WorkProgress

    load_plugins(plugin)
    with WorkProgress("exporting", unit="steps") as progress:
        exported = run(weights, format, out, force, progress)
    show(json, exported.to_json(), str(exported))
    return 0
