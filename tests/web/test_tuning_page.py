"""The page of a tuning in a browser: nothing runs, nothing is fetched, it fits, all can read it."""

from dataclasses import replace

import optuna
import pytest
from screen import check_accessible
from strange import EVIL

from capsnet.options import OneOf, Search
from capsnet.training.config import TrainConfig
from capsnet.tuning.page import write_tuned
from capsnet.tuning.space import suggest
from capsnet.tuning.tuned import sum_up

SPACE = {
    "lr": Search(1e-4, 1e-2, log=True),
    "rotate": Search(0.0, 20.0),
    "flip": OneOf(("a", EVIL)),
}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A made-up study: the smaller lr, the better; every third trial was given up."""
    config = TrainConfig(data=EVIL, out=tmp_path_factory.mktemp("tuning"))
    study = optuna.create_study(study_name=EVIL, sampler=optuna.samplers.RandomSampler(seed=0))
    study.enqueue_trial({"lr": 1e-3, "rotate": 0.0}, user_attrs={"default": True})
    for number in range(15):
        trial = study.ask()
        values = {name: suggest(trial, name, tried) for name, tried in SPACE.items()}
        trial.set_user_attr("metric", "error_percent")
        trial.report(values["lr"] * 1000, 1)
        if number % 3 == 2:
            trial.set_user_attr("note", EVIL)
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, values["lr"] * 1000)
    found = sum_up(study, config, SPACE)
    write_tuned(found)
    return found


@pytest.mark.parametrize(("width", "theme"), [(360, "dark"), (1600, "light")])
def test_the_page_fits_and_is_accessible(read, tuned, width, theme):
    page = read(tuned.page, width, theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("section").count() == 5 and page.locator("script").count() == 0
    assert page.locator("#history .dot").count() == 15
    assert page.locator("#parallel .try").count() == 10
    assert page.locator("#parallel .best").count() == page.locator("#parallel .given").count() == 1
    assert page.locator("#trials tbody tr").count() == 15
    assert page.locator("#trials .winner td").first.inner_text() == str(tuned.best.number)
    check_accessible(tuned.page, page.context.browser, width, theme)


def test_what_makes_the_difference_comes_first(tuned):
    assert next(iter(tuned.importance)) == "lr" and sum(tuned.importance.values()) == pytest.approx(
        1
    )
    assert tuned.best.figure == min(t.figure for t in tuned.trials if t.is_finished)
    assert tuned.winner == replace(tuned.config, **tuned.best.values)
