"""A study: the trials of a tuning in a database, and whether it is the study that is meant.

storage = open_storage("sqlite:///runs/tune/study.db", lost_after=60)
study = open_study(storage, "digits", config, space)
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.pruners import MedianPruner
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError, SQLAlchemyError

from capsnet.errors import UserError, needs
from capsnet.training.config import WHERE, TrainConfig
from capsnet.tuning.space import Space

ANSWER_SECONDS = 10  # in which a storage must answer
ATTEMPTS = 10  # to make the tables, or to find that others have made them
BEATS = 4  # signs of life before a worker counts as lost
RETRIES = 3  # of a trial whose worker was lost or stopped; then another takes its place
FIRST_JUDGED = 2  # the epoch; the first one tells more of the warm-up than of the settings
FACTS = "capsnet"  # the attribute of a study that says what it is of
HOW_TO = "write sqlite:///FILE or postgresql://USER@HOST/DATABASE"

give_again = RetryHeartbeatStaleTrialCallback(max_retry=RETRIES)


class Storage(RDBStorage):
    """A storage that survives a beat which is not heard: the next one may be."""

    def record_heartbeat(self, trial_id: int) -> None:
        """Give a sign of life of a trial."""
        with suppress(SQLAlchemyError, StorageInternalError):
            super().record_heartbeat(trial_id)


def open_storage(address: str, lost_after: int) -> Storage:
    """Return the storage, its tables made if need be; a UserError if it cannot be reached.

    Args:
        address: sqlite:///FILE or postgresql://USER@HOST/DATABASE.
        lost_after: Seconds without a sign of life after which a worker's trial is given out again.
    """
    url, settings = _prepare(address)
    text = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    attempts = 0
    while True:
        with reached(shown(address)):
            try:
                storage = Storage(
                    text,
                    engine_kwargs=settings,
                    heartbeat_interval=max(1, lost_after // BEATS),
                    grace_period=lost_after,
                    heartbeat_stale_trial_callback=give_again,
                )
                if url.drivername == "sqlite":
                    take_turns(storage.engine)
                return storage
            except DatabaseError as error:
                # Workers that start at once all make the tables; who comes too late looks again.
                attempts += 1
                too_late = isinstance(error, IntegrityError) or "already exists" in str(error)
                if not too_late or attempts == ATTEMPTS:
                    raise
            except RuntimeError as error:  # of another version of Optuna, which it says
                raise UserError(str(error)) from error


def take_turns(engine: Engine) -> None:
    """Let each transaction on a SQLite file begin when no other is under way.

    It cannot lock a row: otherwise workers that look at once take the same waiting trial.
    """

    @event.listens_for(engine, "connect")
    def leave_it_to_us(connection: Any, _: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()  # of connections from before


def open_study(
    storage: Storage, name: str, config: TrainConfig, space: Space, address: str
) -> optuna.Study:
    """Return the study of that name, made if need be; a UserError if it is of something else."""
    with reached(shown(address)):
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            load_if_exists=True,
            pruner=MedianPruner(n_warmup_steps=FIRST_JUDGED),
        )
        facts, trials = facts_of(config, space), study.get_trials(deepcopy=False)
        found = study.user_attrs.get(FACTS)  # looked at later: they are written before any trial
        if not any(trial.state != TrialState.FAIL for trial in trials):  # nothing would be mixed
            study.set_user_attr(FACTS, facts)
        elif found is None:
            raise UserError(
                f"The study '{name}' in {shown(address)} was not made by capsnet tune; choose "
                "another --study."
            )
        elif others := differences(facts, found):
            raise UserError(
                f"The study '{name}' in {shown(address)} is of something else "
                f"({'; '.join(others)}); choose another --study or the same settings."
            )
    return study


def facts_of(config: TrainConfig, space: Space) -> dict[str, Any]:
    """Return what a study is of: the settings that every worker must share, and what is searched.

    Where a worker runs (`WHERE`) is its own affair.
    """
    fixed = {name: x for name, x in config.to_json().items() if name not in WHERE}
    return {"settings": fixed, "search": {name: str(tried) for name, tried in space.items()}}


def differences(facts: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return what differs from what was found, as 'name: old -> new'.

    Settings added since the study was made were at their default.
    """
    usual = {n: x for n, x in TrainConfig().to_json().items() if n not in WHERE and n != "model"}
    pairs = [
        (usual | found["settings"], facts["settings"], "{}"),
        (found["search"], facts["search"], "search of {}"),
    ]
    return [
        f"{told.format(name)}: {old.get(name)} -> {new.get(name)}"
        for old, new, told in pairs
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]


def shown(address: str) -> str:
    """Return an address without its password."""
    try:
        return make_url(address).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return address


@contextmanager
def reached(told: str) -> Iterator[None]:
    """Turn what a storage that cannot be used raises into one sentence."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        # Optuna may fail over its own failure: what the storage said is further down.
        failed = next((x for x in _chain(error) if isinstance(x, SQLAlchemyError)), None)
        if failed is None:
            raise
        reason = str(getattr(failed, "orig", None) or failed).strip().splitlines()
        raise UserError(
            f"The storage {told} could not be used ({reason[0] if reason else 'no answer'}); "
            "check that it is there, then give the same command again."
        ) from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Return an error, what it came of, what that came of, …"""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _prepare(address: str) -> tuple[URL, dict[str, Any]]:
    """Return where the storage is and how to connect to it."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError) as error:
        raise UserError(f"'{address}' is no address of a storage; {HOW_TO}.") from error
    if url.drivername == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UserError(f"A study in memory would be lost; {HOW_TO}.")
        try:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"Could not write {url.database}: {error.strerror}; choose another --storage."
            ) from error
        return url, {"connect_args": {"timeout": ANSWER_SECONDS}}
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise UserError(f"'{url.drivername}' is no storage for studies; {HOW_TO}.")
    with needs("A storage in PostgreSQL needs psycopg", extra="tune"):
        import psycopg  # noqa: F401
    connect = {
        "connect_timeout": ANSWER_SECONDS,
        "keepalives_idle": ANSWER_SECONDS,
        "tcp_user_timeout": 1000 * ANSWER_SECONDS,
    }
    return url.set(drivername="postgresql+psycopg"), {
        "connect_args": connect,
        "pool_pre_ping": True,  # a connection that a trial left idle for hours may be gone
    }
