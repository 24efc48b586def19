"""Weights on disk: one safetensors file whose header says, in JSON, which model they belong to.

save_weights(model, path, card); model, card = load_weights(path)
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from capsnet.errors import UserError
from capsnet.files import whole_file
from capsnet.models.classifier import Classifier
from capsnet.models.registry import create_model, model_entry

WEIGHTS = "weights.safetensors"  # in the folder of a finished run
HEADER = "capsnet"  # the key of our JSON among the metadata of the file


def save_tensors(path: Path, tensors: dict[str, Tensor], record: dict[str, Any]) -> None:
    """Write tensors and a JSON record as one safetensors file, whole or not at all."""
    plain = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
    with whole_file(path) as temporary:
        try:
            save_file(plain, temporary, {HEADER: json.dumps(record)})
        except SafetensorError as error:  # how a full disk shows
            raise OSError(str(error)) from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote; a UserError says what is wrong with the file."""
    try:
        path.open("rb").close()  # its errors say more than those of safetensors
        with safe_open(path, "pt") as file:
            record = dict(json.loads((file.metadata() or {})[HEADER]))
            return {name: file.get_tensor(name) for name in file.keys()}, record  # noqa: SIM118
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}; train a model first.") from error
    except PermissionError as error:
        raise UserError(f"You may not read {path}; ask its owner, or use another copy.") from error
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read ({error}); it is damaged or cut short: use another copy."
        ) from error
    except (KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path} was not written by capsnet; give a file that was.") from error


def shipped_path(name: str) -> Path:
    """Return where the package keeps the weights of a model, shipped or not."""
    return Path(__file__).parent.parent / "assets" / "weights" / f"{name}.safetensors"


def find_model(where: str) -> tuple[Classifier, dict[str, Any]]:
    """Return model and card from the folder of a run, a weights file or a shipped model's name."""
    path = Path(where)
    if path.is_dir():
        path = path / WEIGHTS
        if not path.exists():
            raise UserError(
                f"There is no {WEIGHTS} in {where}; finish the run with --resume or choose another."
            )
    elif not path.exists():
        if path.suffix or len(path.parts) > 1:
            raise UserError(f"There is no file or folder {where}; train a model first.")
        path = shipped(where)
    model, card = load_weights(path)
    if not {"config", "classes"} <= card.keys():
        raise UserError(f"{path} does not say what it was trained on; give weights of a run.")
    return model, card


def shipped(name: str) -> Path:
    """Return the shipped weights of a model; a UserError if there are none."""
    path = shipped_path(model_entry(name).name)
    if not path.exists():
        raise UserError(f"No weights are shipped for {name}; train it with 'capsnet train'.")
    return path


def save_weights(
    model: Classifier, path: Path, card: dict[str, Any], dtype: torch.dtype | None = None
) -> None:
    """Write the model's weights with a card: what they were trained on and what came out."""
    tensors = {k: x if dtype is None else x.to(dtype) for k, x in model.state_dict().items()}
    save_tensors(path, tensors, {"model": model.name, "options": model.options, **card})


def load_weights(path: Path) -> tuple[Classifier, dict[str, Any]]:
    """Rebuild the model that a weights file belongs to; returns it with its card."""
    tensors, card = load_tensors(path)
    if "model" not in card or not isinstance(card.get("options"), dict):
        raise UserError(f"{path} holds no model; give the weights.safetensors of a run.")
    model = create_model(card["model"], **plain_options(card["options"]))
    set_weights(model, tensors, path)
    return model, card


def set_weights(model: Classifier, tensors: dict[str, Tensor], path: Path) -> None:
    """Load tensors into the model; a UserError if they are those of another one."""
    own = {name: x.shape for name, x in model.state_dict().items()}
    if own != {name: x.shape for name, x in tensors.items()}:
        raise UserError(
            f"{path} holds the weights of another model than {model.name} with these options; "
            "give the model and options it was trained with."
        )
    model.load_state_dict({name: x.float() for name, x in tensors.items()})


def plain_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return options read from JSON as they were given: lists are tuples."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
