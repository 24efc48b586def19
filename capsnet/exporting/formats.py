"""The formats: how each writes an `Answering` to a file, and how such a file is run.

FORMATS["onnx"].write(answering, card, facts, path); FORMATS["onnx"].load(path)(images)
"""

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capsnet.errors import UserError, needs
from capsnet.exporting.answering import Answering
from capsnet.exporting.facts import INPUT
from capsnet.models.tensor_file import HEADER
from capsnet.models.weights import Card, load_weights, save_weights

Run = Callable[[Tensor], dict[str, Tensor]]
LARGEST_BATCH = 2**20  # a bound that torch.export asks for


@dataclass(frozen=True)
class Format:
    """How files are called, written, and run."""

    suffix: str
    write: Callable[[Answering, Card, dict[str, Any], Path], None]
    load: Callable[[Path], Run]


def write_onnx(answering: Answering, card: Card, facts: dict[str, Any], path: Path) -> None:
    """Write an ONNX file, one file with its weights, the facts among its metadata."""
    with needs("ONNX files need onnx, onnxscript and onnxruntime", extra="export"):
        for package in ("onnx", "onnxscript", "onnxruntime"):
            import_module(package)
    with exporting(answering, "onnx"):
        program = torch.onnx.export(
            answering,
            (example(answering),),
            input_names=[INPUT],
            output_names=list(answering.outputs),
            dynamic_shapes=any_batch(),
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        program.model.metadata_props[HEADER] = json.dumps(facts)
        program.save(path, external_data=False)


def load_onnx(path: Path) -> Run:
    """Return an ONNX file as a function of images, run by ONNX Runtime on the CPU."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(images: Tensor) -> dict[str, Tensor]:
        said = session.run(names, {INPUT: images.numpy()})
        return {name: torch.from_numpy(x) for name, x in zip(names, said, strict=True)}

    return run


def write_program(answering: Answering, card: Card, facts: dict[str, Any], path: Path) -> None:
    """Write torch.export's own file, the facts as its extra file `capsnet.json`."""
    with exporting(answering, "torch-export"):
        program = torch.export.export(
            answering, (example(answering),), dynamic_shapes=any_batch(), strict=False
        )
    file = io.BytesIO()  # torch's own writer says a full disk in words of its own
    torch.export.save(program, file, extra_files={f"{HEADER}.json": json.dumps(facts)})
    path.write_bytes(file.getbuffer())


def load_program(path: Path) -> Run:
    """Return torch.export's file as a function of images."""
    return torch.export.load(path).module()


def write_weights(answering: Answering, card: Card, facts: dict[str, Any], path: Path) -> None:
    """Write the weights alone with their card, which holds the facts as `use`."""
    save_weights(answering.model, path, replace(card, more={**card.more, "use": facts}))


def load_saved(path: Path) -> Run:
    """Return weights as a function of images, by the model that this package rebuilds."""
    model, card = load_weights(path)
    return Answering(model, card.calibration)


FORMATS = {
    "onnx": Format(".onnx", write_onnx, load_onnx),
    "torch-export": Format(".pt2", write_program, load_program),
    "safetensors": Format(".safetensors", write_weights, load_saved),
}


def example(answering: Answering) -> Tensor:
    """Return two images: of one alone, torch would take the batch for fixed."""
    return torch.rand(2, *answering.model.image_shape)


def any_batch() -> dict[str, Any]:
    """Return which dimension of the input may be any number."""
    return {INPUT: {0: torch.export.Dim("batch", min=1, max=LARGEST_BATCH)}}


@contextmanager
def exporting(answering: Answering, format: str) -> Iterator[None]:
    """Keep the exporters' own words off the screen; what they cannot do is a UserError."""
    logger = logging.getLogger("torch.onnx")  # it warns of every package that it could use
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (UserError, OSError):
        raise
    except Exception as error:  # whatever a user's model does in its forward
        why = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UserError(
            f"{answering.model.name} cannot be written as {format} ({why}); use plain torch "
            "operations in its forward, or --format safetensors."
        ) from error
    finally:
        logger.setLevel(level)
