"""Settings that say themselves what they may be: bounds stand in the annotation, beside the name.

So does what a tuning tries of them (Search, OneOf).

def __init__(self, width: Size = 8, dropout: Share = 0.5) …; check_values(hints, {"width": 0})
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from capsnet.errors import UserError, unknown_name

T = TypeVar("T")


@dataclass(frozen=True)
class Search:
    """What a tuning tries of a setting: numbers from low to high, both whole or neither.

    log: as many between 0.001 and 0.01 as between 0.01 and 0.1.
    """

    low: float
    high: float
    log: bool = False

    def __str__(self) -> str:
        return f"{self.low}..{self.high}{':log' if self.log else ''}"


@dataclass(frozen=True)
class OneOf:
    """What a tuning tries of a setting: one of these values."""

    choices: tuple[Any, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.choices))


LARGEST = 1 << 31  # what a size may be
LARGEST_SETTING = 10**12  # what any number may be
Size = Annotated[int, Ge(1), Lt(LARGEST)]
Share = Annotated[float, Ge(0), Lt(1)]
Part = Annotated[float, Gt(0), Le(1)]
Iterations = Annotated[int, Ge(1), Le(1000), Search(1, 5)]
Steps = Annotated[int, Ge(0), Le(1000)]
Above = Annotated[float, Gt(0), Lt(LARGEST_SETTING)]
Positive = Annotated[float, Ge(0), Lt(LARGEST_SETTING)]

_RULES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_type": "True or False",
    "string_type": "a word",
    "tuple_type": "numbers in brackets, such as (16, 32)",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "missing": "longer by at least one part",
    "too_long": "of {max_length} parts",
}


def check_values(
    hints: Mapping[str, Any], values: Mapping[str, Any], called: Callable[[str], str] = str
) -> None:
    """Raise a UserError for the first value that its annotation does not allow.

    hints: name -> annotation, as `typing.get_type_hints(…, include_extras=True)` returns them; a
    name without one may be anything. called: how a sentence calls a name.
    """
    for name, value in values.items():
        if name in hints:
            _validate(hints, name, value, called, from_json=False)


def typed_values(
    hints: Mapping[str, Any], values: Mapping[str, Any], called: Callable[[str], str] = str
) -> dict[str, Any]:
    """Return values that were read from JSON as their annotations have them: lists as tuples, …

    Args as of `check_values`, and the same errors; every name needs an annotation.
    """
    return {name: _validate(hints, name, x, called, from_json=True) for name, x in values.items()}


def _validate(
    hints: Mapping[str, Any], name: str, value: Any, called: Callable[[str], str], from_json: bool
) -> Any:
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    config = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    adapter: TypeAdapter[Any] = TypeAdapter(hints[name], config=config)
    try:
        if from_json:
            return adapter.validate_json(json.dumps(value))
        return adapter.validate_python(value)
    except ValidationError as error:
        raise _mistake(name, called(name), value, error.errors(), from_json) from None


def _mistake(name: str, called: str, value: Any, errors: list[Any], from_json: bool) -> UserError:
    """Return the error for a value that breaks a rule."""
    # Of a setting that may be left out, the other rule says more; of a word, that it is unknown.
    found = next((e for e in errors if e["type"] != "none_required"), errors[0])
    if isinstance(value, str):
        found = next((e for e in errors if e["type"] == "literal_error"), found)
    if found["type"] == "literal_error":
        words = found["ctx"]["expected"].replace(" or ", ", ").split(", ")
        return unknown_name(name, str(value), [word.strip("'") for word in words])
    inside = isinstance(value, tuple) and found["input"] is not value
    limits = {
        k: f"{x:,}" if isinstance(x, int) else f"{x:g}"
        for k, x in found.get("ctx", {}).items()
        if isinstance(x, int | float)
    }
    is_list = from_json and found["type"] == "tuple_type"
    rule = "a list in [ ]" if is_list else _RULES.get(found["type"], "").format(**limits)
    if not rule:
        return UserError(f"{called} cannot be {value!r}: {found['msg']}.")
    whose = f"Each part of {called[0].lower()}{called[1:]}" if inside else called
    return UserError(f"{whose} must be {rule}, not {found['input'] if inside else value!r}.")


def restored(kind: type[T], facts: Any) -> T:
    """Return the dataclass that JSON facts tell of; a UserError for what its types do not allow."""
    word = kind.__name__.lower()
    if not isinstance(facts, dict):
        raise UserError(f"{word} must be an object, not {facts!r}.")
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for name in facts:
        if name not in names:
            raise unknown_name(f"part of {word}", name, names)
    values = {name: tuples(x) for name, x in facts.items()}
    check_values(get_type_hints(kind, include_extras=True), values)
    try:
        return kind(**values)
    except TypeError as error:  # something is missing
        raise UserError(f"{word} is not whole ({error}).") from error


def tuples(value: Any) -> Any:
    """Return a value read from JSON as it was given: lists are tuples."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value
