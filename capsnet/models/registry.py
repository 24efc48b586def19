"""Models by name: presets of classes, those of the package and anyone's.

@register_model("my_net")
class MyNet(Model): …

model = create_model("my_net", width=16)
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_type_hints, overload

from capsnet.errors import UserError, unknown_name
from capsnet.models.model import Model
from capsnet.options import check_values
from capsnet.plugins import load_entry_points, may_replace

if TYPE_CHECKING:
    from capsnet.models.capsnet import CapsNet

M = TypeVar("M", bound=type[Model])


@dataclass(frozen=True)
class ModelEntry:
    """A named model: its class, the options that make it, and what it is."""

    name: str
    model: type[Model]
    description: str
    options: dict[str, Any]

    def hints(self) -> dict[str, Any]:
        """Return what each of its options may be."""
        try:
            return get_type_hints(self.model.__init__, include_extras=True)
        except NameError as error:
            raise UserError(
                f"What the options of {self.name} may be is not known ({error}); import what "
                "their annotations name, also where nothing but types is asked for."
            ) from error

    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return its options as they stand in the signature."""
        return dict(inspect.signature(self.model).parameters)


_MODELS: dict[str, ModelEntry] = {}


def register_model(name: str, /, description: str = "", **options: Any) -> Callable[[M], M]:
    """Make a model known by a name; use as a decorator of its class.

    Args:
        name: What `create_model` and `--model` call it.
        description: One line on what it is; by default the first of the class's docstring.
        **options: Options of the class that this name sets; a class can have several names.

    Returns:
        The decorator, which returns the class as it was.

    Example:
        >>> @register_model("my_net", width=16)
        ... class MyNet(capsnet.Model): ...
    """

    def register(model: M) -> M:
        if not (isinstance(model, type) and issubclass(model, Model)):
            raise UserError(f"{model!r} is no capsnet.Model; derive {name} from it.")
        known = _MODELS.get(name)
        if known is not None and not may_replace(known.model, model):
            raise UserError(f"A model called '{name}' is registered already; choose another name.")
        text = description or (inspect.getdoc(model) or name).splitlines()[0]
        _MODELS[name] = ModelEntry(name, model, text, options)
        return model

    return register


def list_models() -> list[str]:
    """Return the names of all models that `create_model` knows.

    Returns:
        Names, sorted: those of the package, of plugins and of installed packages.

    Example:
        >>> "capsnet_mnist" in list_models()
        True
    """
    load_entry_points()
    return sorted(_MODELS)


def model_entry(name: str) -> ModelEntry:
    """Return what is known of a model; a UserError with the nearest match if nothing.

    Args:
        name: One of `list_models()`.

    Returns:
        Its `ModelEntry`: class, description, options.

    Example:
        >>> model_entry("capsnet_multimnist").options
        {'image_shape': (1, 36, 36)}
    """
    load_entry_points()
    if name not in _MODELS:
        raise unknown_name("model", name, _MODELS)
    return _MODELS[name]


@overload
def create_model(
    name: Literal["capsnet_mnist", "capsnet_multimnist", "capsnet_small"],
    /,
    pretrained: bool = False,
    **options: Any,
) -> "CapsNet": ...


@overload
def create_model(name: str, /, pretrained: bool = False, **options: Any) -> Model: ...


def create_model(name: str, /, pretrained: bool = False, **options: Any) -> Model:
    """Build a model by its name.

    Args:
        name: One of `list_models()`.
        pretrained: With the shipped weights, and with the options those were trained with. Where
            `num_classes` or `image_shape` are others, the trunk is kept and the head is new.
        **options: Options of the model, which override its preset; `image_shape` (C, H, W) and
            `num_classes` (or `ranges`, of a model that tells numbers) are options of all.

    Returns:
        A `capsnet.Model`: images [N, C, H, W] in [0, 1] -> Output(v [N, J, E], answers [N, J]).

    Example:
        >>> model = create_model("capsnet_small", num_classes=5)
        >>> model(torch.rand(2, 1, 28, 28)).v.shape
        torch.Size([2, 5, 16])
    """
    entry = model_entry(name)
    known = entry.parameters()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for option in options:
        if option not in known and not takes_any:
            raise unknown_name(f"option of {name}", option, known)
    check_values(entry.hints(), options, "The option {}".format)
    if not pretrained:
        return _build(entry, options)
    from capsnet.models.weights import read_weights, set_weights, shipped

    path = shipped(name)
    tensors, card = read_weights(path)
    model = _build(entry, {**card.options, **options})
    new_head = any(
        x != option_of(entry, card.options, option)
        for option, x in options.items()
        if option in ("image_shape", "num_classes", "ranges")
    )
    set_weights(model, tensors, path, keep_head=not new_head)
    if not new_head and card.task is not None:
        model.set_task(card.task)
    return model


def option_of(entry: ModelEntry, options: dict[str, Any], option: str) -> Any:
    """Return an option as a model has it that was made with `options`."""
    default = entry.parameters()[option].default
    return options.get(option, entry.options.get(option, default))


def _build(entry: ModelEntry, options: dict[str, Any]) -> Model:
    options = {**entry.options, **options}
    for option, p in entry.parameters().items():
        named = p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if named and p.default is p.empty and option not in options:
            raise UserError(
                f"{entry.name} has to be told its {option}; give --options {option}=VALUE, or "
                f"{option}=VALUE in Python."
            )
    model = entry.model(**options)
    model.name, model.options = entry.name, {**options, **model.rebuild}
    return model
