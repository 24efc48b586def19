"""The settings of a run on the command line: as options, and from a file with --config.

def train(config: Settings, file: SettingsFile = None) -> int: …
"""

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from capsnet.cli.parsing import SaidIn, grouped
from capsnet.training.config import GROUPS, TrainConfig
from capsnet.training.settings_file import read_settings, words_of


def _words(path: Path) -> list[str]:
    return words_of(read_settings(path))


Settings = Annotated[
    TrainConfig, arg(name="", constructor_factory=lambda: grouped(TrainConfig, GROUPS))
]
SettingsFile = Annotated[Path | None, arg(name="config"), SaidIn("--config", _words)]
