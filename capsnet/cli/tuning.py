"""The verb that looks for better settings: tune."""

from capsnet.cli.output import show
from capsnet.cli.settings import Settings, SettingsFile


def tune(
    config: Settings,
    file: SettingsFile = None,
    trials: int = 50,
    search: tuple[str, ...] = (),
    storage: str | None = None,
    study: str | None = None,
    lost_after: int = 60,
    json: bool = False,
) -> int:
    """Look for better settings by many runs, shared by any number of workers.

    Example: capsnet tune --model capsnet_small --data digits --epochs 5 --trials 30

    Args:
        config: What is fixed, and what the search starts from; --out is the tuning's folder.
        file: Settings as JSON; options given here win.
        trials: Trials that the study is to have, whoever makes them; the same command goes on.
        search: What is searched: NAME, NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A,B,C; options of
            the model as options.NAME. By default, and for the word default, how it is trained.
        storage: sqlite:///FILE, or postgresql://USER@HOST/DATABASE for workers on several machines;
            by default study.db in the folder.
        study: Name of the study in the storage; by default MODEL-DATA.
        lost_after: Seconds without a sign of life after which a worker's trial is given out again.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.tuning.worker import tune as run

    tuned = run(config, trials, search, storage, study, lost_after)
    show(json, tuned.to_json(), str(tuned))
    return 0
