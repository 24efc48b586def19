"""Workers as processes of their own on one storage, one of them killed on the way."""

import json

import optuna
import pytest
from optuna.trial import TrialState
from trials import WORDS

TRIALS = 7


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres")
    return f"sqlite:///{tmp_path / 'study.db'}"


@pytest.mark.slow
def test_killed_workers_trial_is_given_out_again_and_the_study_finds_better(
    storage, worker, tmp_path
):
    """Two workers start at once on a storage without tables; a third takes the dead one's place."""
    arguments = [*WORDS, "--trials", TRIALS, "--storage", storage, "--lost-after", 4, "--json"]
    first = worker(*arguments, "--out", tmp_path / "a")
    second = worker(*arguments, "--out", tmp_path / "b")
    line = first.wait_for("trial ")
    first.popen.kill()
    killed = int(line.split()[1].rstrip(":"))
    third = worker(*arguments, "--out", tmp_path / "c")
    for process in (second, third):
        status, out, err = process.end()
        assert status == 0, err
    found = json.loads(out)

    study = optuna.load_study(study_name="capsnet_small-digits", storage=address(storage))
    done = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
    assert len(done) == TRIALS == found["trials"]
    assert not study.get_trials(states=(TrialState.RUNNING, TrialState.WAITING))
    assert study.trials[killed].state == TrialState.FAIL
    retried = [t for t in done if killed in t.system_attrs.get("retry_history", [])]
    assert len(retried) == 1 and retried[0].params == study.trials[killed].params
    assert sum(bool(t.user_attrs.get("default")) for t in done) == 1

    assert found["best"]["figure"] < found["default"]["figure"] - 10
    assert (tmp_path / "c" / "report.html").exists()


def address(storage):
    return storage.replace("postgresql://", "postgresql+psycopg://")
