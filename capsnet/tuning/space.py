"""What a tuning searches: names of settings, each with a range or with choices.

space = read_space(("lr=1e-4..1e-2:log", "schedule=paper,cosine", "options.num_iters"), config)
config = with_values(config, {"lr": 0.003, "schedule": "cosine", "options.num_iters": 2})

Ranges are declared beside the settings (`Search`, `OneOf` in their annotations); a name alone means
that range, or of words all that there are.
"""

import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from optuna import Trial

from capsnet.data import Augment, find_data
from capsnet.errors import UserError, unknown_name
from capsnet.models import model_entry
from capsnet.models.registry import option_of
from capsnet.options import OneOf, Search, check_values
from capsnet.training.config import GROUPS, SettledConfig, TrainConfig
from capsnet.training.setup import augment_of, given_options

Range = Search | OneOf
Space = dict[str, Range]

DEFAULT = "default"
OPTIONS = "options."  # before the name of an option of the model
HOW = GROUPS["how long, and how"]
# Another seed is no better setting, and these decide when a run stops, not how good it gets.
LEFT_OUT = {"options", "plugin", "start_from", "freeze", "seed", "stop_at_error", "patience"}
NAMES = tuple(
    name
    for name in (*GROUPS["what is trained"], *HOW, *GROUPS["augmentation"])
    if name not in LEFT_OUT
)
OF_A_LOSS = ("reconstruction_weight", "average_classes")  # which not every model has
COMMA = re.compile(r",(?![^(\[]*[)\]])")  # one that is not in brackets


def read_space(texts: Sequence[str], config: TrainConfig) -> Space:
    """Return what `--search` asks for; a UserError for what cannot be.

    Args:
        texts: Each NAME, NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A,B,C; options of the model are
            called options.NAME. The word "default", and no text at all, mean the declared settings
            of how a model is trained that the config leaves as they are by default.
        config: What is fixed, and what the search starts from.

    Example:
        >>> read_space(("lr=1e-4..1e-2:log",), TrainConfig())
        {'lr': Search(low=0.0001, high=0.01, log=True)}
    """
    hints, space = get_type_hints(TrainConfig, include_extras=True), {}
    for text in (text for text in texts if text != DEFAULT):
        name, equals, written = text.partition("=")
        name = name.strip().replace("-", "_")
        hint = _hint(name, hints, config)
        found = read_range(name, written, hint) if equals else declared(hint) or all_words(hint)
        if found is None:
            raise UserError(f"Say what to try of {name}: {name}=LOW..HIGH or {name}=A,B,C.")
        if name in space:
            raise UserError(f"{name} is searched twice; leave one out.")
        _check(name, found, config)
        space[name] = found
    # Some of how images are varied needs another kind of it, or other data.
    augment_of(with_values(config, {name: _most(tried) for name, tried in space.items()}))
    if not texts or DEFAULT in texts:
        left = [n for n in HOW if n in NAMES and getattr(config, n) == getattr(TrainConfig, n)]
        space = {n: x for n in left if (x := declared(hints[n])) is not None} | space
    if not space:
        raise UserError("Every setting that is searched by default is given; use --search.")
    return space


def declared(hint: Any) -> Range | None:
    """Return what an annotation says that a tuning tries; None if it says nothing."""
    inside = next((x for x in map(declared, _members(hint)) if x is not None), None)
    marks = getattr(hint, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, Search | OneOf)), inside)


def all_words(hint: Any) -> OneOf | None:
    """Return all that a setting of words, or of yes and no, can be; None for others."""
    kind = _kind(hint)
    if kind is bool:
        return OneOf((False, True))
    return OneOf(get_args(kind)) if get_origin(kind) is Literal else None


def read_range(name: str, written: str, hint: Any = None) -> Range:
    """Return the range or the choices that were written; str() of them writes them again.

    Example:
        >>> read_range("lr", "0.0001..0.01:log", float)
        Search(low=0.0001, high=0.01, log=True)
    """
    kind = _kind(hint)
    ends, colon, scale = written.partition(":")
    low, dots, high = ends.partition("..")
    if not dots:
        choices = tuple(_value(name, text.strip(), kind) for text in COMMA.split(written))
        if len(set(choices)) < max(2, len(choices)):
            raise UserError(f"Give two or more different values to try of {name}, not '{written}'.")
        return OneOf(choices)
    numbers = _value(name, low, kind), _value(name, high, kind)
    if any(isinstance(x, str | bool) or not isfinite(x) for x in numbers):
        raise UserError(f"{name} has no range of numbers; write what to try as {name}=A,B,C.")
    if colon and scale != "log":
        raise UserError(f"A range of {name} ends in nothing or in ':log', not in ':{scale}'.")
    if numbers[0] >= numbers[1]:
        raise UserError(f"The range of {name} must rise, as 1..5 does; {ends} does not.")
    if colon and numbers[0] <= 0:
        raise UserError(f"A range with ':log' begins above 0; that of {name} does not.")
    if kind is None and not all(isinstance(x, int) for x in numbers):
        numbers = float(numbers[0]), float(numbers[1])
    return Search(*numbers, log=bool(colon))


def suggest(trial: Trial, name: str, tried: Range) -> Any:
    """Return what a trial is to try of a setting."""
    if isinstance(tried, OneOf):
        return trial.suggest_categorical(name, tried.choices)
    if isinstance(tried.low, int):
        return trial.suggest_int(name, tried.low, int(tried.high), log=tried.log)
    return trial.suggest_float(name, tried.low, tried.high, log=tried.log)


def with_values(config: TrainConfig, values: Mapping[str, Any]) -> TrainConfig:
    """Return the config with what a trial tries; an option of the model replaces one given before.

    Example:
        >>> with_values(TrainConfig(options=("leaky=True",)), {"options.num_iters": 2}).options
        ('leaky=True', 'num_iters=2')
    """
    options = {n.removeprefix(OPTIONS): x for n, x in values.items() if n.startswith(OPTIONS)}
    kept = [text for text in config.options if text.partition("=")[0] not in options]
    texts = (*kept, *(f"{name}={value}" for name, value in options.items()))
    plain = {name: x for name, x in values.items() if not name.startswith(OPTIONS)}
    return replace(config, **plain, options=texts)


def starting_point(config: TrainConfig, space: Space) -> dict[str, Any]:
    """Return what the config itself has of each searched setting, where that is in its range."""
    point: dict[str, Any] = {}
    for name, tried in space.items():
        value = value_in(config, name)
        if isinstance(tried, OneOf):
            same = [choice for choice in tried.choices if str(choice) == str(value)]
            point |= {name: same[0]} if same else {}
        elif type(value) is type(tried.low) and tried.low <= value <= tried.high:
            point[name] = value
    return point


def value_in(config: TrainConfig, name: str) -> Any:
    """Return what a config has of a setting or of an option of the model.

    What is left to choose is what named data gets; of one's own pictures it is None.
    """
    if not name.startswith(OPTIONS):
        value = getattr(config, name)
        if value is None and name == "shift" and find_data(config.data)[0].takes_shift:
            return Augment.shift
        is_open = value is None and not config.shows_own_pictures
        return getattr(SettledConfig, name) if is_open else value
    option, entry = name.removeprefix(OPTIONS), model_entry(config.model)
    given = given_options(config, ())
    return option_of(entry, given, option) if option in entry.parameters() else given.get(option)


def _hint(name: str, hints: Mapping[str, Any], config: TrainConfig) -> Any:
    """Return the annotation of what is to be searched; a UserError if there is no such thing."""
    if name.startswith(OPTIONS):
        option, entry = name.removeprefix(OPTIONS), model_entry(config.model)
        known = entry.parameters()
        if option not in known and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            raise unknown_name(f"option of {config.model}", option, known)
        return entry.hints().get(option)
    if name not in NAMES:
        if name in hints:
            raise UserError(f"{name} cannot be searched; choose one of: {', '.join(NAMES)}.")
        raise unknown_name("setting to search", name, (*NAMES, f"{OPTIONS}NAME"))
    return hints[name]


def _check(name: str, tried: Range, config: TrainConfig) -> None:
    """Raise a UserError if a value of the range cannot be."""
    entry = model_entry(config.model)
    if name in OF_A_LOSS and name not in entry.parameters():
        raise UserError(f"The loss of {config.model} has no {name}; leave it out.")
    for value in tried.choices if isinstance(tried, OneOf) else (tried.low, tried.high):
        changed = with_values(config, {name: value})
        changed.check()
        model_entry(changed.model)
        if name.startswith(OPTIONS):
            option = name.removeprefix(OPTIONS)
            value = given_options(changed, ())[option]
            check_values(entry.hints(), {option: value}, "The option {}".format)


def _most(tried: Range) -> Any:
    """Return the highest value of a range, or the last choice."""
    return tried.choices[-1] if isinstance(tried, OneOf) else tried.high


def _members(hint: Any) -> list[Any]:
    """Return what an annotation is of: X of Annotated[X, …], X and Y of X | Y."""
    if get_origin(hint) is Annotated:
        return [get_args(hint)[0]]
    return list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else []


def _kind(hint: Any) -> Any:
    """Return int, float, bool, str or a Literal; None for what is none of these alone."""
    if members := [x for x in _members(hint) if x is not type(None)]:
        return _kind(members[0]) if len(members) == 1 else None
    return hint if hint in (int, float, bool, str) or get_origin(hint) is Literal else None


def _value(name: str, text: str, kind: Any) -> Any:
    """Return a value as its setting has it; what Optuna cannot keep, such as a tuple, as text."""
    if kind is int or kind is float:
        try:
            return kind(text)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise UserError(f"{name} must be {what}, not '{text}'.") from None
    if kind is str or get_origin(kind) is Literal:
        return text
    try:
        found = literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return found if isinstance(found, int | float | str | None) else text
