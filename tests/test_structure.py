import ast
import re
import sys
from itertools import groupby
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "capsnet"
FILES = sorted(PACKAGE.rglob("*.py"))

# What each part may import besides itself and the leaves: imports point one way.
BELOW = {
    "tasks": set(),
    "pictures": set(),
    "measures": {"tasks"},
    "ops": set(),
    "layers": {"ops"},
    "data": {"tasks", "pictures"},
    "models": {"tasks", "pictures", "ops", "layers"},
    "training": {"tasks", "pictures", "measures", "ops", "layers", "models", "data"},
    "prediction": {"tasks", "pictures", "models", "data", "training"},
    "exporting": {"tasks", "pictures", "layers", "models", "data"},
    "bench": {"tasks", "ops", "layers", "models", "data", "training"},
    "figures": {"tasks", "ops", "models", "data", "training"},
    "experiments": {
        "tasks",
        "measures",
        "ops",
        "layers",
        "models",
        "data",
        "training",
        "bench",
        "figures",
        "report",
    },
    "report": {"tasks", "pictures", "measures", "models", "data", "training"},
    "tuning": {"tasks", "pictures", "models", "data", "training", "report"},
    "web": {"tasks", "pictures", "measures", "ops", "models", "data", "prediction", "exporting"},
    "errors": set(),
    "files": set(),
    "lines": set(),
    "options": set(),
    "plugins": set(),
    "provenance": set(),
}
LEAVES = {"errors", "files", "lines", "options", "plugins", "provenance"}
ABOVE = {"__init__", "__main__", "cli", "dev"}  # may import all


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
            yield from (name for name in names if name in BELOW or name in ABOVE)
        elif module.startswith("capsnet."):
            yield module.split(".")[1]


@pytest.mark.parametrize("path", [p for p in FILES if part_of(p) in BELOW], ids=module_name)
def test_imports_point_down(path):
    own = part_of(path)
    assert set(parts_imported(path)) <= BELOW[own] | LEAVES | {own}


def test_every_part_is_known():
    assert {part_of(path) for path in FILES} == BELOW.keys() | ABOVE


NEEDED_BY_HELP = [
    "__init__",
    "__main__",
    "errors",
    "files",
    "options",
    "plugins",
    "training/__init__",
    "training/config",
    "training/settings_file",
]


@pytest.mark.parametrize(
    "path",
    [*(PACKAGE / f"{name}.py" for name in NEEDED_BY_HELP), *(PACKAGE / "cli").glob("*.py")],
    ids=module_name,
)
def test_what_help_needs_leaves_torch_alone(path):
    tree = ast.parse(path.read_text())
    roots = {module.split(".")[0] for module, _ in imports(tree, module_level_only=True)}
    assert not roots & {"torch", "numpy", "matplotlib", "PIL", "scipy", "pydantic"}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_files_are_named_for_an_idea_and_say_it(path):
    assert path.stem not in {"utils", "util", "helpers", "common", "base", "misc"}
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert not re.search(r"\b(TODO|FIXME|XXX)\b(?!\()", text)


def stack_of_a_run(function, cli, folder):
    """Return our files, outermost first, that lead to a function when `capsnet train` runs."""
    found = []

    def look(frame, event, _):
        if event == "call" and frame.f_code.co_name == function and not found:
            while frame is not None:
                path = Path(frame.f_code.co_filename)
                if path.is_relative_to(PACKAGE):
                    found.append(path.relative_to(PACKAGE).as_posix())
                frame = frame.f_back

    words = ["--model", "capsnet_small", "--data", "digits", "--num-samples", 20, "--epochs", 1]
    sys.setprofile(look)
    try:
        assert cli("train", *words, "--device", "cpu", "--out", folder).status == 0
    finally:
        sys.setprofile(None)
    return [path for path, _ in groupby(reversed(found))]


def test_path_from_train_to_procedure_1_is_the_one_that_runs(cli, tmp_path):
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = re.findall(r"^\d+\. `(\S+)`", page, re.MULTILINE)
    ran = stack_of_a_run("route_chunked", cli, tmp_path / "run")
    assert [path for path in ran if not path.startswith("cli/")] == told[1:]
    assert told[0] in ran


# What runs code that a file or a user brings; a plugin is named by the user, who means to run it.
FORBIDDEN = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "os.system",
    "os.popen",
    "torch.load",
    "torch.save",
    "subprocess.getoutput",
}


# CIFAR-10's own Python files, by their digests, and with an unpickler that knows arrays alone.
ALLOWED = {"capsnet.data.sources.cifar": ["pickle"]}


def dangers(tree):
    """Yield the calls and imports that could run what a file says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in FORBIDDEN:
                yield name
            keywords = {k.arg: k.value for k in node.keywords}
            for option in ("shell", "allow_pickle"):
                if option in keywords and ast.unparse(keywords[option]) != "False":
                    yield f"{name}({option}=…)"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            module = getattr(node, "module", None)
            yield from {*(x.split(".")[0] for x in names), module} & FORBIDDEN


@pytest.mark.parametrize(
    "code",
    [
        "eval(x)",
        "import pickle",
        "from pickle import loads",
        "import yaml; yaml.load(x)",
        "torch.load(path, weights_only=True)",
        "np.load(path, allow_pickle=True)",
        "subprocess.run(x, shell=True)",
    ],
)
def test_what_runs_code_is_found(code):
    assert list(dangers(ast.parse(code)))


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_no_file_is_run_as_code(path):
    allowed = ALLOWED.get(module_name(path), [])
    assert list(dangers(ast.parse(path.read_text(encoding="utf-8")))) == allowed


def test_architecture_fits_on_one_screen():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) <= 75
    for name in re.findall(r"^capsnet/(\w+)", page, re.MULTILINE):
        assert (PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists()
    parts = {part_of(path) for path in FILES} - {"__init__", "__main__"}
    assert all(f"capsnet/{part}" in page for part in parts)


def test_no_concrete_model_is_asked_for_outside_models():
    concrete = {"CapsNet", "CapsRegressor", "Cnn", "CnnBaseline", "CnnMultiMnist", "CnnSmall"}
    for path in FILES:
        if part_of(path) == "models":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                asked = {x.id for x in ast.walk(node.args[1]) if isinstance(x, ast.Name)}
                assert not asked & concrete, path
