"""Models and data of other people: a Python file of yours, or an installed package.

load_plugins([Path("my_net.py")])  # a file that calls register_model or register_data

A package makes its own known by an entry point of the group "capsnet": the name of a module.
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from capsnet.errors import UserError

GROUP = "capsnet"


def load_plugins(files: Iterable[Path | str]) -> None:
    """Run Python files that register models or data, each once."""
    for file in files:
        _load_file(Path(file).resolve())


def may_replace(known: Any, new: Any) -> bool:
    """Return whether a class or function may take the name of one that is known.

    It may be the same one anew, from a notebook's cell or a file both imported and given as a
    plugin; what the package itself has is nobody else's, whatever it is called.
    """
    ours = known.__module__.startswith("capsnet.") and known.__module__ != new.__module__
    return bool(known.__qualname__ == new.__qualname__ and not ours)


def find_function(where: str) -> Any:
    """Return what "module.path:name" or "file.py:name" says; a UserError if there is no such."""
    place, _, name = where.rpartition(":")
    if place.endswith(".py"):
        module = _load_file(Path(place).resolve())
    else:
        try:
            module = importlib.import_module(place)
        except (ImportError, ValueError) as error:
            raise UserError(
                f"There is no module {place} ({error}); give module.path:function or "
                "file.py:function."
            ) from error
    if not hasattr(module, name):
        raise UserError(f"{place} has no {name}; name a function that it defines.")
    return getattr(module, name)


@cache
def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError(f"There is no file {path}; give the Python file of a plugin.")
    name = f"capsnet_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is no Python file; give one that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that its classes can be pickled
    try:
        spec.loader.exec_module(module)
    except UserError:
        raise
    except Exception as error:  # whatever a user's file does wrong
        raise UserError(f"The plugin {path} fails: {type(error).__name__}: {error}.") from error
    return module


@cache
def load_entry_points() -> None:
    """Import what installed packages have declared; one that fails is a warning."""
    for point in entry_points(group=GROUP):
        try:
            point.load()
        except Exception as error:  # of a package that is not ours
            warnings.warn(f"The plugin {point.name} fails: {error}", stacklevel=2)
