"""Settings as a file, JSON with the names of TrainConfig, and as words of the command line.

write_settings(Path("best.json"), config); values = read_settings(Path("best.json"))
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from capsnet.errors import UserError, unknown_name
from capsnet.files import write_text
from capsnet.options import typed_values
from capsnet.training.config import TrainConfig, flag

PER_RUN = ("out", "resume")  # what each run has its own of


def changed(config: TrainConfig) -> dict[str, Any]:
    """Return the settings that are not at their default.

    Example:
        >>> changed(TrainConfig(data="digits", epochs=5))
        {'model': 'capsnet_mnist', 'data': 'digits', 'epochs': 5}
    """
    usual = {field.name: field.default for field in fields(config)}
    return {name: x for name in usual if (x := getattr(config, name)) != usual[name]}


def write_settings(path: Path, config: TrainConfig) -> None:
    """Write what is not at its default, but for what each run has its own of."""
    plain, names = config.to_json(), [name for name in changed(config) if name not in PER_RUN]
    write_text(path, json.dumps({name: plain[name] for name in names}, indent=2) + "\n")


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a file by name; a UserError for a name or a value that cannot be.

    Example:
        >>> TrainConfig(**read_settings(Path("best.json")))
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))  # some editors put a mark before
    except OSError as error:
        raise UserError(f"Could not read {path}: {error.strerror}; check the name.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f'{path} is no JSON ({error}); write it as {{"lr": 0.003}}.') from error
    if not isinstance(found, dict):
        raise UserError(f'{path} holds no settings; write them as {{"lr": 0.003, "epochs": 20}}.')
    hints = get_type_hints(TrainConfig, include_extras=True)
    for name in found:
        if name not in hints:
            raise unknown_name(f"setting in {path}", name, hints)
    return typed_values(hints, found, lambda name: f"{name} in {path}")


def words_of(settings: Mapping[str, Any]) -> list[str]:
    """Return settings by name as words of the command line."""
    words: list[str] = []
    for name, value in settings.items():
        if value is not None and value is not False and value != ():
            words.append(f"--{flag(name)}")
            if value is not True:
                words += [str(x) for x in (value if isinstance(value, tuple) else (value,))]
    return words
