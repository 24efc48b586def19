"""The page of a tuning, one HTML file that asks nothing of any other, and the winner as a file.

write_tuned(tuned)
"""

from pathlib import Path

import capsnet
from capsnet.files import write_text
from capsnet.report.render import FOLDER as REPORT
from capsnet.report.render import STYLE, Chart, policy, templates, visible
from capsnet.training.settings_file import write_settings
from capsnet.tuning import charts
from capsnet.tuning.space import value_in
from capsnet.tuning.tuned import Tuned, as_read

FOLDER = Path(__file__).parent / "page"


def write_tuned(tuned: Tuned) -> None:
    """Write the page and the settings of the best trial into the folder."""
    write_settings(tuned.winner_file, tuned.winner)
    write_text(tuned.page, render(tuned))


def render(tuned: Tuned) -> str:
    """Return the page."""
    pages = templates(FOLDER, REPORT)
    pages.filters["as_read"] = as_read
    style = "".join(path.read_text(encoding="utf-8") for path in (STYLE, FOLDER / "tuning.css"))
    legend = ((0, "finished"), (1, "best so far"), (7, "given up"))
    return pages.get_template("tuning.html").render(
        t=tuned,
        title=f"Tuning {tuned.config.model} on {visible(Path(tuned.config.data).name)}",
        style=style,
        policy=policy(style),
        verdict="" if tuned.best.is_default else "better",
        sentences=tuned.sentences,
        given={name: value_in(tuned.config, name) for name in tuned.space},
        history=Chart("Validation figure of each trial", charts.history(tuned), legend),
        parallel=charts.parallel(tuned),
        bar=charts.bar,
        ranked=sorted(
            tuned.trials,
            key=lambda t: (not t.is_finished, t.figure is None, t.figure or 0.0, t.number),
        ),
        made_by=f"capsnet {capsnet.__version__}",
    )
