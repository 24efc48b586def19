"""What is declared, what is shipped, and what is said where an extra is missing."""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from PIL import Image

import capsnet
from capsnet.errors import MissingExtra, UserError, needs

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "capsnet"
FILES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Which extra the parts outside the core belong to.
FOLDERS = {
    "web": "explorer",
    "figures": "figures",
    "experiments": "experiments",
    "report": "pictures",
    "tuning": "tune",
}
LAZY = {
    "training/board.py": ("tensorboard",),
    "data/sets/affnist.py": ("experiments",),
    "data/splits/parting.py": ("pictures",),
    "measures/baselines.py": ("pictures",),
    "measures/calibrating.py": ("pictures",),
    "measures/curves.py": ("pictures",),
    "measures/values.py": ("pictures",),
    "pictures/decoding.py": ("medical", "heic"),
    "exporting/formats.py": ("export",),
    "models/trunks.py": ("trunks",),
}
WITH_TORCH = {"triton"}  # comes with torch's builds for CUDA; imported where a GPU is used
DISTRIBUTIONS = {
    "PIL": "pillow",
    "annotated_types": "annotated-types",
    "sklearn": "scikit-learn",
    "pillow_heif": "pillow-heif",
}  # whose name is not that of what is imported


def names(requirements):
    return {re.match(r"[\w-]+", each)[0].lower() for each in requirements}


CORE = names(PROJECT["dependencies"])
EXTRAS = {name: names(listed) for name, listed in PROJECT["optional-dependencies"].items()}


def imports(node, lazily=False):
    """Yield (module, whether only when a function is called) of every import below a node."""
    for child in ast.iter_child_nodes(node):
        inner = lazily or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(child, ast.Import):
            yield from ((alias.name, inner) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield child.module, inner
        else:
            yield from imports(child, inner)


def packages(path):
    """Yield (package, lazily) of what a file imports besides the standard library and capsnet."""
    for module, lazily in imports(ast.parse(path.read_text(encoding="utf-8"))):
        root = "tensorboard" if module == "torch.utils.tensorboard" else module.split(".")[0]
        if root != "capsnet" and root not in sys.stdlib_module_names:
            yield DISTRIBUTIONS.get(root, root), lazily


def where(path):
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=where)
def test_every_import_is_declared(path):
    at_once, later = set(CORE | WITH_TORCH), set()
    if extra := FOLDERS.get(where(path).split("/")[0]):
        at_once |= EXTRAS[extra]
    for extra in LAZY.get(where(path), ()):
        later |= EXTRAS[extra]
    for package, lazily in packages(path):
        assert package in (at_once | later if lazily else at_once)


@pytest.mark.parametrize("path", FILES, ids=where)
def test_core_imports_parts_that_need_an_extra_only_when_they_are_used(path):
    if where(path).split("/")[0] not in FOLDERS:
        for module, lazily in imports(ast.parse(path.read_text(encoding="utf-8"))):
            assert lazily or module.split(".")[:2] not in [["capsnet", x] for x in FOLDERS]


def test_all_is_every_extra_but_other_peoples_networks_and_the_site():
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert {*re.findall(r"\w+", everything)} == {"capsnet", *EXTRAS} - {
        "all",
        "dev",
        "docs",
        "trunks",
    }
    assert "capsnet[all,docs]" in PROJECT["optional-dependencies"]["dev"]
    assert EXTRAS["figures"] <= EXTRAS["experiments"]  # which draw their results


def test_what_dev_names_is_pinned():
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = text.lower().replace("_", "-").splitlines()
    pinned = {line.split("==")[0] for line in lines if "==" in line}
    tested = [names for extra, names in EXTRAS.items() if extra != "trunks"]
    assert CORE.union(*tested) - {"capsnet"} <= pinned


TINY = ("conv_channels=8", "primary_types=4", "decoder=(16,)")
# A Python that has the core alone runs each command line in turn.
CORE_ONLY = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder
missing, commands = map(json.loads, sys.argv[1:])
real = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.split(".")[0] in missing else real(name, path, target)
PathFinder.find_spec = find_spec
from capsnet.cli import main
for command in commands:
    with contextlib.redirect_stdout(io.StringIO()) as out, \\
            contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(command)
    print(json.dumps({"status": status, "out": out.getvalue(), "err": err.getvalue()}))
"""
RUN = ["--num-samples", "60", "--epochs", "1", "--options", *TINY, "--device", "cpu"]
WORK = {
    "train": ["train", "--model", "capsnet_small", "--data", "digits", *RUN, "--out", "run"],
    "evaluate": ["evaluate", "--weights", "run", "--num-samples", "50"],
    "predict": ["predict", "grey.png", "--weights", "run"],
    "models": ["models"],
    "data": ["data", "list"],
}
END = {
    "figure": (
        ["figure", "routing", "--weights", "capsnet_small"],
        "Figures need matplotlib",
        "figures",
    ),
    "bench": (["bench", "routing", "--plot", "a.png"], "Figures need matplotlib", "figures"),
    "demo": (["demo"], "Experiments need matplotlib and scipy", "experiments"),
    "reproduce": (["reproduce", "table1"], "Experiments need matplotlib and scipy", "experiments"),
    "explore": (["explore"], "The explorer needs FastAPI and uvicorn", "explorer"),
    "report": (["report", "run"], "The report needs jinja2 and scikit-learn", "pictures"),
    "tune": (["tune", "--data", "digits", *RUN], "Tuning needs Optuna", "tune"),
    "tensorboard": (
        ["train", "--data", "digits", *RUN, "--out", "board", "--tensorboard"],
        "TensorBoard's files need tensorboard",
        "tensorboard",
    ),
}


@pytest.fixture(scope="module")
def core_only(tmp_path_factory):
    """What each command of WORK and END does where only the core is installed."""
    folder = tmp_path_factory.mktemp("core")
    Image.new("L", (28, 28), 99).save(folder / "grey.png")
    missing = set().union(*(EXTRAS[x] for x in EXTRAS if x not in ("all", "dev"))) - CORE
    commands = [*WORK.values(), *(command for command, _, _ in END.values())]
    done = subprocess.run(
        [sys.executable, "-c", CORE_ONLY, json.dumps(sorted(missing)), json.dumps(commands)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip([*WORK, *END], map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_core_alone_does_the_work(core_only, name):
    assert core_only[name]["status"] == 0, core_only[name]["err"]


@pytest.mark.slow
@pytest.mark.parametrize("name", END)
def test_missing_extra_is_a_sentence(core_only, name):
    done, (_, need, extra) = core_only[name], END[name]
    assert done["status"] == 2 and done["out"] == ""
    assert done["err"] == f"capsnet: {need}; run: pip install 'capsnet[{extra}]'.\n"


@pytest.mark.parametrize(
    ("part", "package"),
    [
        ("figures", "matplotlib"),
        ("experiments", "scipy"),
        ("web", "uvicorn"),
        ("report", "jinja2"),
    ],
)
def test_missing_extra_from_python(part, package, monkeypatch):
    for name in [x for x in sys.modules if x.startswith(f"capsnet.{part}")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [x for x in sys.modules if x.split(".")[0] == package] or [package]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'capsnet\[{FOLDERS[part]}\]'"):
        import_module(f"capsnet.{part}")


def test_missing_extra_is_an_error_of_imports_and_of_users():
    refused = pytest.raises(ImportError, match=r"^It needs that; run: pip install 'capsnet\[x\]'")
    with refused as error, needs("It needs that", extra="x"):
        import_module("no_such_package")
    assert isinstance(error.value, UserError)
    assert isinstance(error.value.__cause__, ModuleNotFoundError)


def test_other_errors_are_left_alone_where_an_extra_is_needed():
    with pytest.raises(KeyError), needs("It needs that", extra="x"):
        raise KeyError


@pytest.mark.slow
def test_wheel_holds_what_the_package_needs_and_no_more(wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = archive.read(f"capsnet-{capsnet.__version__}.dist-info/METADATA").decode()
        licences = [x for x in archive.namelist() if ".dist-info/licenses/" in x]
    tracked = subprocess.run(
        ["git", "ls-files", "capsnet"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    )
    assert files == {*tracked.stdout.splitlines()}
    pages = ("web/static/index.html", "report/page/page.html")
    for name in ("py.typed", *pages, "ops/dynamic/README.md", "assets/digits.npz"):
        assert f"capsnet/{name}" in files
    assert "capsnet/assets/weights/capsnet_small.safetensors" in files
    assert not [name for name in files if "test" in name]
    assert f"\nVersion: {capsnet.__version__}\n" in metadata
    assert "\nLicense-Expression: MIT AND CC-BY-SA-3.0\n" in metadata
    assert [x.split("/licenses/")[1] for x in licences] == ["LICENSE", "capsnet/assets/LICENSE"]


@pytest.mark.slow
def test_installed_package_works_outside_its_source(installed, tmp_path):
    def run(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(installed)},
            capture_output=True,
            encoding="utf-8",
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where_from = run("-c", "import capsnet; print(capsnet.__file__)").strip()
    assert Path(where_from) == installed / "capsnet" / "__init__.py"
    assert run("-m", "capsnet", "--version") == f"capsnet {capsnet.__version__}\n"
    weights = ["--weights", "capsnet_small", "--data", "digits", "--device", "cpu", "--json"]
    result = json.loads(run("-m", "capsnet", "evaluate", *weights).splitlines()[-1])
    assert result["num_images"] == 1000 and result["error_percent"] < 10


def test_licence_of_every_asset_is_named():
    assets = PACKAGE / "assets"
    text = (assets / "LICENSE").read_text(encoding="utf-8")
    for path in assets.rglob("*"):
        if path.is_file() and path.name != "LICENSE":
            named = path.relative_to(assets).as_posix()
            assert named in text or f"{path.parent.name}/*{path.suffix}" in text


@pytest.mark.long
def test_a_users_file_passes_a_strict_type_checker(wheel, tmp_path):
    """README's snippets and our examples, against the wheel in an environment of its own."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = next(environment.glob("*/python"), None) or next(environment.glob("*/python.exe"))
    (site,) = environment.rglob("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "torch_is_there.pth").write_text(sysconfig.get_paths()["purelib"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    snippets = "\n".join(re.findall(r"```python\n(.*?)```", readme, re.S))
    (tmp_path / "users.py").write_text(snippets + USERS)
    examples = [path.name for path in (ROOT / "examples").glob("*.py")]
    for name in examples:
        (tmp_path / name).write_text((ROOT / "examples" / name).read_text(encoding="utf-8"))
    modules = ",".join(name.removesuffix(".py") for name in examples)
    # Tensor.backward, which the examples call, has no types of its own.
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\n[mypy-{modules}]\ndisallow_untyped_calls = False\n"
        "[mypy-onnxruntime]\nignore_missing_imports = True\n"  # it has no types
    )
    # torch's own files take mypy most of a minute once, and no time with what it keeps of them.
    kept = ["--cache-dir", str(ROOT / ".mypy_cache" / "users")]
    command = [sys.executable, "-m", "mypy", *kept, "--strict", "--python-executable", str(python)]
    done = subprocess.run(
        [*command, "users.py", *examples], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


USERS = """
from capsnet import TrainConfig, evaluate, list_models, open_data, predict, train

reveal: list[str] = list_models()
net = capsnet.create_model("cnn_small")
artist = net.draws
if artist is not None:
    artist.reconstruct(net(torch.rand(1, 1, 28, 28)).v)
outcome = train(TrainConfig(model="capsnet_small", data="digits", epochs=1))
if isinstance(outcome, capsnet.Finished):
    figure: float = outcome.result.figure
result = evaluate(net, open_data("digits", "test"))
words: str = predict(["seven.png"], "capsnet_mnist")[0].decision
"""


PUBLIC = (
    "create_model",
    "list_models",
    "register_model",
    "register_data",
    "train",
    "TrainConfig",
    "evaluate",
    "predict",
)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_surface_explains_itself(name):
    assert name in capsnet.__all__
    text = getattr(capsnet, name).__doc__
    assert "Example:" in text
    if name not in ("TrainConfig", "list_models"):
        assert "Args:" in text and "Returns:" in text


def test_all_that_is_public_is_there_and_stays_what_it_is():
    import capsnet.training.evaluation  # a submodule must not take the place of a function

    for name in capsnet.__all__:
        assert getattr(capsnet, name) is not None
    assert callable(capsnet.train) and callable(capsnet.evaluate) and callable(capsnet.predict)
    assert capsnet.training.train is capsnet.train
