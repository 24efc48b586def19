"""The page's modules: the map of them is true, and their types are what the server answers."""

import re
import types
from pathlib import Path
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from capsnet.web import schema
from capsnet.web.routes import STATIC

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "docs" / "explorer" / "README.md").read_text()
FILES = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".ts")]
MODULES = sorted(path.relative_to(STATIC).as_posix() for path in FILES)
IMPORT = re.compile(r'(?: from |import\()"(\.[^"]+)"')
# Who starts what no other module asks for.
STARTED = {"app.js": "index.html", "browser/worker.js": "ask.js", "browser/service.js": "ask.js"}
TYPES = (STATIC / "types.d.ts").read_text()
INTERFACES = {
    name: dict(re.findall(r"^  (\w+): (.+);$", body, re.M))
    for name, body in re.findall(r"export interface (\w+) {\n(.*?)\n}", TYPES, re.S)
}
ANSWERS = [name for name in INTERFACES if hasattr(schema, name)]


def rows():
    """The table of the map: module -> (what it does, who calls it)."""
    cells = [line.strip("| ").split(" | ") for line in MAP.splitlines() if line.startswith("| `")]
    return {module.strip("`"): rest for module, *rest in cells}


def test_the_map_names_every_module_and_no_other():
    assert sorted(rows()) == MODULES
    named = re.findall(r"`([\w/-]+\.(?:js|d\.ts|css|html))`", MAP)
    assert {name for name in named if not (STATIC / name).exists()} == set()


@pytest.mark.parametrize("module", MODULES)
def test_the_map_says_who_calls_a_module(module):
    asked = STATIC / module.replace(".d.ts", ".js")  # so the type checker writes it
    callers = [other for other in MODULES if asked in asks_for(STATIC / other)]
    said = rows()[module][1]
    if len(callers) > 6:
        assert said == "most modules"
    elif callers:
        assert re.findall(r"`([\w/]+\.js)`", said) == callers
    else:
        assert STARTED[module] in said


def asks_for(path):
    """The modules that a module imports, also for their types."""
    return {(path.parent / name).resolve() for name in IMPORT.findall(path.read_text())}


def written(kind):
    """How TypeScript writes a type of the schema."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return written(parts[0])
    if origin in (Union, types.UnionType):
        return " | ".join(written(part) for part in parts)
    if origin is list:
        return f"{written(parts[0])}[]"
    if origin is tuple:
        return f"[{', '.join(written(part) for part in parts)}]"
    if origin is dict:
        return f"Record<{', '.join(written(part) for part in parts)}>"
    if origin is Literal:
        return "Bend"
    if issubclass(kind, BaseModel):
        return kind.__name__
    return {str: "string", bool: "boolean", type(None): "null"}.get(kind, "number")


@pytest.mark.parametrize("name", ANSWERS)
def test_types_are_those_of_the_server(name):
    fields = getattr(schema, name).model_fields
    assert INTERFACES[name] == {key: written(field.annotation) for key, field in fields.items()}


def test_types_of_all_answers_are_there():
    answered = set(re.findall(r"^  \w+: (\w+)(?:\[\])?;$", TYPES, re.M)) & {*vars(schema)}
    assert {"Info", "Sample", "Analysis", "WarpAnswer", "SweepAnswer"} <= answered <= {*ANSWERS}
    bends = re.search(r"type Bend = (.+);", TYPES)[1]
    assert re.findall(r'"(\w+)"', bends) == list(get_args(schema.Sweepable))
