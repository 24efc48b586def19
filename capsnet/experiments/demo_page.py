"""The page of a demo, one HTML file that asks nothing of any other: drawings, directions, errors.

html = render(demo)
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

import capsnet
from capsnet.data import open_data
from capsnet.figures.perturbation import SPREADS
from capsnet.figures.plot import artist_of, take_in_turn
from capsnet.models import Model
from capsnet.models.principal import with_principal_directions
from capsnet.models.self_reading import moved_drawings, spreads
from capsnet.report.drawing import Strip
from capsnet.report.images import picture_url, strips_url
from capsnet.report.render import FOLDER as REPORT
from capsnet.report.render import STYLE, policy, templates
from capsnet.tasks import Batch, LabelsResult

if TYPE_CHECKING:
    from capsnet.experiments.demo import Demo

FOLDER = Path(__file__).parent / "page"
NUM_DRAWN = 18
MOST_WRONG = 24
NUM_KNOWN = 2000  # training images whose directions are taken
NUM_SEARCHED = 200  # test images among which the surest of each class is found
NUM_DIRECTIONS = 5


class Shown(NamedTuple):
    """A test picture beside what the capsules draw of it, as addresses, and what is said of it."""

    image: str
    drawn: str
    truth: str
    said: str
    cnn: str


@torch.inference_mode()
def render(demo: "Demo") -> str:
    """Return the page."""
    model, test = demo.capsnet.trained.eval(), open_data("digits", "test")
    first = take_in_turn(test, 0, NUM_DRAWN)
    assert isinstance(demo.capsnet.result, LabelsResult)
    wrong = demo.capsnet.result.wrong.nonzero().flatten()[:MOST_WRONG]
    missed = test.batch({name: x[wrong] for name, x in test.plan(None).items()})
    strips = _strips(model, take_in_turn(test, 0, NUM_SEARCHED))
    style = STYLE.read_text(encoding="utf-8")
    return (
        templates(FOLDER, REPORT)
        .get_template("demo.html")
        .render(
            d=demo,
            title="What a capsule knows",
            style=style,
            policy=policy(style),
            drawn=_shown(demo, first),
            wrong=_shown(demo, missed),
            strips=strips,
            steps=[f"{step:+g} σ".replace("-", "−") if step else "0" for step in SPREADS.tolist()],
            most=max(max(effects) for _, effects in strips) or 1,
            made_by=f"capsnet {capsnet.__version__}",
        )
    )


def _shown(demo: "Demo", batch: Batch) -> list[Shown]:
    """Return pictures of a batch beside what the longest capsule draws of each."""
    if len(batch.images) == 0:
        return []
    output = demo.capsnet.trained(batch.images)
    drawn = artist_of(demo.capsnet.trained).reconstruct(output.v)
    cnn = demo.cnn.trained.eval()(batch.images)
    names = demo.capsnet.trained.task.names
    rows = zip(
        batch.images,
        drawn,
        batch.labels.flatten().tolist(),
        output.answers.argmax(1).tolist(),
        cnn.answers.argmax(1).tolist(),
        strict=True,
    )
    return [
        Shown(picture_url(image), picture_url(picture), *(names[k] for k in classes))
        for image, picture, *classes in rows
    ]


def _strips(model: Model, batch: Batch) -> list[tuple[Strip, list[float]]]:
    """Return for the surest picture of each class its drawings along the class's main directions.

    With them comes how much each direction changes the drawing: the root of the mean square
    difference of a pixel between both ends.
    """
    known = take_in_turn(open_data("digits", "train"), 0, NUM_KNOWN).images
    main = with_principal_directions(model, known)
    steps = spreads(main, known)[..., None] * SPREADS
    own = batch.labels == torch.arange(len(model.task.names))
    images = batch.images[torch.where(own, model(batch.images).lengths, -1).argmax(0)]
    drawn = torch.cat([moved.drawn for moved in moved_drawings(main, images, steps)])
    strips = []
    for name, image, pictures in zip(main.task.names, images, drawn, strict=True):
        change = (pictures[:, -1] - pictures[:, 0]).square().flatten(1).mean(1).sqrt()
        effects, order = change.sort(descending=True)
        sheet, *cell = strips_url(pictures[order[:NUM_DIRECTIONS]])
        strip = Strip(name, "", picture_url(image), sheet, (cell[0], cell[1]))
        strips.append((strip, effects[:NUM_DIRECTIONS].tolist()))
    return strips
