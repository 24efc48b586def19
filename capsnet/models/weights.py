"""Weights on disk: one safetensors file whose header says, in JSON, which model they belong to.

save_weights(model, path, card); model, card = load_weights(path)
"""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from capsnet.errors import UserError
from capsnet.files import known_digest
from capsnet.models.model import Model
from capsnet.models.registry import create_model, model_entry, option_of
from capsnet.models.tensor_file import load_tensors, save_tensors
from capsnet.options import check_values, tuples
from capsnet.pictures.layout import NO_GROUPS, Layout, is_table
from capsnet.pictures.reading import Reading
from capsnet.tasks import Calibration, OneLabel, Pairs, Task, task_from_json

WEIGHTS = "weights.safetensors"  # in the folder of a finished run
SHELF = Path(__file__).resolve().parent.parent / "assets" / "weights"  # those of the package
SPLIT_FILE = "split.csv"  # beside it: the split of every picture, if they are the user's own


LARGEST_SIDE = 8192  # of an image: more pixels than a picture may have

# What the parts of a card must be, and the settings in it that we read.
PARTS: dict[str, Any] = {
    "model": str,
    "options": dict[str, Any],
    "config": dict[str, Any] | None,
    "classes": list[str],
    "result": dict[str, Any],
    "versions": dict[str, Any],
}
SETTINGS = {
    **get_type_hints(Layout, include_extras=True),
    "data": str,
    "data_folder": str | None,
    "data_seed": Annotated[int, Ge(0), Lt(2**32)],
    "fold": int,
    "folds": int,
    "holdout": int | None,
}


def shipped_path(name: str) -> Path:
    """Return where the package keeps the weights of a model, shipped or not."""
    return SHELF / f"{name}.safetensors"


def is_shipped(path: Path) -> bool:
    """Return whether a weights file comes with the package."""
    return path.resolve().parent == SHELF


@dataclass(frozen=True)
class Card:
    """What stands in the header of weights: which model, what it was trained on, what came out.

    task and config are None in weights that were saved without a run.
    """

    model: str
    options: dict[str, Any]
    task: Task | None = None
    config: dict[str, Any] | None = None  # the settings of the run, as TrainConfig.to_json
    result: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)  # where it comes from, if that is known
    reading: Reading | None = None  # how its pictures were read, if they are the user's own
    calibration: Calibration | None = None
    folder: Path | None = field(default=None, compare=False)  # where it was found

    @property
    def data(self) -> str:
        """The name of the data set that it was trained on."""
        return str((self.config or {})["data"])

    @property
    def data_seed(self) -> int:
        """The seed of the choice of images."""
        return int((self.config or {}).get("data_seed", 0))

    def opening(self, data: str) -> dict[str, Any]:
        """Return what `open_data` takes to show data as the run would have had it.

        The seed that chose images, and of the user's own pictures all that was said of them; if
        they are the run's, also their split; others are all for testing, without groups. What was
        said of folders says nothing of a table, and the other way round.
        """
        if self.reading is None:
            return {"seed": self.data_seed}
        config = self.config or {}
        said = {f.name: tuples(config[f.name]) for f in fields(Layout) if f.name in config}
        layout = Layout(**said)
        layout = replace(layout, fit=self.reading.fit, window=self.reading.window)
        if data != self.data:
            layout = replace(layout, split_from=None, group_from=NO_GROUPS)
            if is_table(Path(data)) != is_table(Path(self.data)):
                layout = replace(layout, class_from=None, numbers_from=None, file_from=None)
            return {"seed": self.data_seed, "layout": layout, "parted": False}
        if self.folder is not None and (self.folder / SPLIT_FILE).exists():
            layout = replace(layout, split_from=str(self.folder / SPLIT_FILE), allow_leak=True)
        fold = (config["fold"], config["folds"]) if config.get("folds") else None
        return {
            "seed": self.data_seed,
            "layout": layout,
            "holdout": config.get("holdout"),
            "fold": None if layout.split_from else fold,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the card as plain JSON values."""
        facts = {"model": self.model, "options": self.options}
        if self.task is not None:
            facts |= {"task": self.task.to_json(), "classes": self.task.names}
        if self.config is not None:
            facts["config"] = self.config
        for name in ("reading", "calibration"):
            if (kept := getattr(self, name)) is not None:
                facts[name] = kept.to_json()
        named = {"result": self.result, "versions": self.versions}
        return {**facts, **{name: x for name, x in named.items() if x}, **self.more}

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Card":
        """Return the card that `to_json` wrote, now or before tasks had names."""
        facts = dict(facts)
        check_values(PARTS, facts)
        check_values(SETTINGS, {name: tuples(x) for name, x in (facts.get("config") or {}).items()})
        config, classes = facts.pop("config", None), facts.pop("classes", None)
        told = facts.pop("task", None)
        task: Task | None = None
        if told is not None:
            task = task_from_json(told)
        elif classes is not None:
            overlap = (config or {}).get("data") in ("multimnist", "multidigits")
            task = (Pairs if overlap else OneLabel)(tuple(classes))
        options = plain_options(facts.pop("options"))
        named = {name: facts.pop(name, {}) for name in ("result", "versions")}
        reading, calibration = facts.pop("reading", None), facts.pop("calibration", None)
        return cls(
            facts.pop("model"),
            options,
            task,
            config,
            **named,
            reading=None if reading is None else Reading.from_json(reading),
            calibration=None if calibration is None else Calibration.from_json(calibration),
            more=facts,
        )


def find_model(where: str) -> tuple[Model, Card]:
    """Return model and card from the folder of a run, a weights file or a shipped model's name."""
    path = find_weights(where)
    model, card = load_weights(path)
    if card.config is None or card.task is None or "data" not in card.config:
        raise UserError(f"{path} does not say what it was trained on; give weights of a run.")
    if card.reading is not None and card.reading.image_shape != model.image_shape:
        raise UserError(f"The card in {path} tells of images of another size; use another copy.")
    return model, replace(card, folder=path.parent)


def find_weights(where: str) -> Path:
    """Return the weights file of a run's folder, of a path or of a shipped model's name."""
    path = Path(where)
    if path.is_dir():
        path = path / WEIGHTS
        if not path.exists():
            if runs := sorted(inner.parent for inner in Path(where).glob(f"*/{WEIGHTS}")):
                raise UserError(
                    f"{where} holds several runs; choose one, e.g. --weights {runs[0]}."
                )
            raise UserError(
                f"There is no {WEIGHTS} in {where}; finish the run with --resume or choose another."
            )
    elif not path.exists():
        if path.suffix or len(path.parts) > 1:
            raise UserError(f"There is no file or folder {where}; train a model first.")
        path = shipped(where)
    elif not path.is_file():  # a pipe would be waited for without end
        raise UserError(f"{where} is a pipe or a device; give a weights file.")
    return path


def start_from(where: str, name: str, options: dict[str, Any], task: Task) -> Model:
    """Build the model `name` for a task from the weights of one that was trained before.

    Args:
        where: The folder of a run, a weights file or a shipped model's name.
        name: The model, which must be the one of these weights.
        options: Options of the new model; all others are those of the weights.
        task: What it will be trained for; if classes or image size are others than those of the
            weights, the trunk is kept and the head is new.

    Example:
        >>> start_from("capsnet_small", "capsnet_small", {"num_classes": 2}, OneLabel(("a", "b")))
    """
    path = find_weights(where)
    tensors, card = read_weights(path)
    if card.model != name:
        raise UserError(
            f"{where} holds weights of {card.model}, not of {name}; start from weights of {name}, "
            f"or train {card.model}."
        )
    model = create_model(name, **{**card.options, **options})
    before = option_of(model_entry(name), card.options, "image_shape")
    if before[0] != model.image_shape[0]:
        raise UserError(
            f"{where} was trained on images with {before[0]} channel{'s' * (before[0] > 1)}, "
            f"these have {model.image_shape[0]}; ask for --channels {before[0]}."
        )
    same = before == model.image_shape and card.task == task
    try:
        set_weights(model, tensors, path, keep_head=same)
    except UserError as error:
        if before == model.image_shape:
            raise
        raise UserError(
            f"The trunk of {where} is made for images of {before[1]}×{before[2]}, these have "
            f"{model.image_shape[1]}×{model.image_shape[2]}; ask for --image-size {before[1]}."
        ) from error
    return model


def shipped(name: str) -> Path:
    """Return the shipped weights of a model; a UserError if there are none."""
    path = shipped_path(model_entry(name).name)
    if not path.exists():
        raise UserError(f"No weights are shipped for {name}; train it with 'capsnet train'.")
    return path


def save_weights(
    model: Model, path: Path, card: Card | None = None, dtype: torch.dtype | None = None
) -> None:
    """Write the model's weights with a card; by default one that says the model alone."""
    tensors = model.state_dict()
    if dtype is not None:
        tensors = {k: x.to(dtype) if x.is_floating_point() else x for k, x in tensors.items()}
    save_tensors(path, tensors, (card or Card(model.name, model.options)).to_json())


def read_weights(path: Path) -> tuple[dict[str, Tensor], Card]:
    """Return the tensors and the card of a weights file."""
    tensors, facts = load_tensors(path, known_digest(path) if is_shipped(path) else None)
    if "model" not in facts or not isinstance(facts.get("options"), dict):
        raise UserError(f"{path} holds no model; give the weights.safetensors of a run.")
    try:
        return tensors, Card.from_json(facts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"The card in {path} is damaged ({error}); use another copy.") from error


def load_weights(path: Path) -> tuple[Model, Card]:
    """Rebuild the model that a weights file belongs to; returns it with its card."""
    tensors, card = read_weights(path)
    model = _model_of(card, tensors, path)
    set_weights(model, tensors, path)
    if card.task is not None:
        model.set_task(card.task)
    return model, card


def _model_of(card: Card, tensors: dict[str, Tensor], path: Path) -> Model:
    """Build the model of a card; a UserError, before it takes any memory, if it is another."""
    classes, shape = card.options.get("num_classes"), card.options.get("image_shape")
    most = sum(x.numel() for x in tensors.values())  # each class has a weight, or more
    if type(classes) is int and classes > most:
        raise UserError(f"The card in {path} tells of {classes:,} classes; use another copy.")
    if isinstance(shape, tuple) and any(type(x) is int and x > LARGEST_SIDE for x in shape):
        raise UserError(f"The card in {path} tells of images of {shape}; use another copy.")
    try:
        with torch.device("meta"):
            model = create_model(card.model, **card.options)
    except UserError:
        raise
    except Exception:  # a model may look at its weights, and here there are none
        pass
    else:
        _require_same(model, model.state_dict(), tensors, path)
    try:
        return create_model(card.model, **card.options)
    except UserError:
        raise
    except Exception as error:  # whatever comes of options that nobody gave
        raise UserError(
            f"The card in {path} tells of a model that cannot be built ({error}); use another copy."
        ) from error


def _require_same(
    model: Model, own: dict[str, Tensor], tensors: dict[str, Tensor], path: Path
) -> None:
    if {k: x.shape for k, x in own.items()} != {k: x.shape for k, x in tensors.items()}:
        raise UserError(
            f"{path} holds the weights of another model than {model.name} with these options; "
            "give the model and options it was trained with."
        )


def set_weights(
    model: Model, tensors: dict[str, Tensor], path: Path, keep_head: bool = True
) -> None:
    """Load tensors into the model; a UserError if they are those of another one.

    They must be numbers, of the names, shapes and kind of the model's own. Without `keep_head`
    those of its head are left as they are.
    """
    own = model.state_dict()
    if not keep_head:
        heads = tuple(f"{name}." for name in model.head)
        tensors = {name: x for name, x in tensors.items() if not name.startswith(heads)}
        own = {name: x for name, x in own.items() if not name.startswith(heads)}
    _require_same(model, own, tensors, path)
    for name, x in tensors.items():
        if x.is_floating_point() != own[name].is_floating_point():
            raise UserError(
                f"{path} says that {name} is of type {x.dtype}, which weights of {model.name} are "
                "not; use another copy."
            )
        if not is_finite(x) and is_finite(own[name]):  # a buffer may be infinite by design
            raise UserError(
                f"{path} holds weights that are no numbers ({name} has NaN or infinite ones); "
                "use another copy, or train again."
            )
    model.load_state_dict({k: x.to(own[k].dtype) for k, x in tensors.items()}, strict=keep_head)


def is_finite(x: Tensor) -> bool:
    """Return whether a tensor has neither NaN nor infinite elements."""
    # A finite sum has finite terms, and is far quicker to make than a mask.
    return bool(x.sum().isfinite() or x.isfinite().all())


def plain_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return options read from JSON as they were given: lists are tuples."""
    return {name: tuples(x) for name, x in options.items()}
