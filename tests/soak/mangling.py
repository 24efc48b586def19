"""JSON that nobody wrote: facts of which one or a few are others, by chance."""

import copy
from random import Random
from typing import Any

ODD = (
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    255,
    2**31,
    2**63,
    10**9,
    10**30,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "a",
    "digits",
    "capsnet_small",
    "\0",
    "\ud800",
    "x" * 5000,
    "../../etc/passwd",
    [],
    [0],
    [[]],
    [1, 28, 28],
    ["a", "b"],
    {},
    {"kind": "numbers"},
    {"": None},
)


def changed(facts: Any, random: Random) -> Any:
    """Return facts with one to three changes."""
    facts = copy.deepcopy(facts)
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_places(facts))
        if not places:
            return random.choice(ODD)
        inside, key = random.choice(places)
        how = random.random()
        if how < 0.7:
            inside[key] = _odd(inside[key], random)
        elif how < 0.85:
            inside.pop(key)
        elif isinstance(inside, dict):
            inside[f"{key}{random.choice('x_ 1')}"] = inside.pop(key)
        else:
            inside.append(inside[key])
    return facts


def _places(facts: Any) -> Any:
    keys = facts if isinstance(facts, dict) else range(len(facts))
    for key in keys:
        yield facts, key
        if isinstance(facts[key], dict | list):
            yield from _places(facts[key])


def _odd(value: Any, random: Random) -> Any:
    """Return another value: of another kind, or near the one there was."""
    if type(value) is int and random.random() < 0.5:
        return random.choice((value + 1, value - 1, -value, value * 10, value * 10**6))
    if isinstance(value, list) and value and random.random() < 0.3:
        return value[::-1] + value
    return copy.deepcopy(random.choice(ODD))
