import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "capsnet"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each part may import besides itself, errors and files: imports point one way.
BELOW = {
    "ops": set(),
    "layers": {"ops"},
    "data": set(),
    "models": {"ops", "layers"},
    "training": {"ops", "layers", "models", "data"},
    "predict": {"ops", "layers", "models", "data", "training"},
    "bench": {"ops", "layers", "models", "data", "training"},
    "figures": {"ops", "models", "data", "training"},
    "experiments": {"ops", "layers", "models", "data", "training", "bench", "figures"},
    "web": {"models", "data"},
    "errors": set(),
    "files": set(),
    "provenance": set(),
}
LEAVES = {"errors", "files", "provenance"}


def module_name(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def part_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(node, module_level_only=False):
    """Yield (module, names) of every import below a node of the syntax tree."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, ()) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield child.module, tuple(alias.name for alias in child.names)
        elif not (module_level_only and isinstance(child, ast.FunctionDef)):
            yield from imports(child, module_level_only)


def parts_imported(path):
    for module, names in imports(ast.parse(path.read_text())):
        if module == "capsnet":
            yield from (name for name in names if name in BELOW or name == "cli")
        elif module.startswith("capsnet."):
            yield module.split(".")[1]


@pytest.mark.parametrize("path", [p for p in FILES if part_of(p) in BELOW], ids=module_name)
def test_imports_point_down(path):
    own = part_of(path)
    assert set(parts_imported(path)) <= BELOW[own] | LEAVES | {own}


def test_every_part_is_known():
    known = BELOW.keys() | {"__init__", "__main__", "cli"}
    assert {part_of(path) for path in FILES} <= known


NEEDED_BY_HELP = ["__init__", "__main__", "errors", "files", "training/__init__", "training/config"]


@pytest.mark.parametrize(
    "path",
    [*(PACKAGE / f"{name}.py" for name in NEEDED_BY_HELP), *(PACKAGE / "cli").glob("*.py")],
    ids=module_name,
)
def test_what_help_needs_leaves_torch_alone(path):
    tree = ast.parse(path.read_text())
    roots = {module.split(".")[0] for module, _ in imports(tree, module_level_only=True)}
    assert not roots & {"torch", "numpy", "matplotlib", "PIL", "scipy"}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_files_are_named_for_an_idea_and_say_it(path):
    assert path.stem not in {"utils", "util", "helpers", "common", "base", "misc"}
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert not re.search(r"\b(TODO|FIXME|XXX)\b(?!\()", text)


def test_from_train_to_procedure_1_in_four_files():
    chain = {
        "training/loop.py": "capsnet.models",
        "models/capsnet.py": "capsnet.layers",
        "layers/class_caps.py": "capsnet.ops",
    }
    for path, module in chain.items():
        assert module in {found for found, _ in imports(ast.parse((PACKAGE / path).read_text()))}
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    for path in (*chain, "ops/routing/reference.py"):
        assert f"`{path}`" in page
