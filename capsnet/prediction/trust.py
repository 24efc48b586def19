"""When an answer is not to be trusted, and why, in words.

A capsule network says more than its answer: how long each capsule is, and what it would draw. The
drawing of a strange picture misses much of it; how much is usual the model's own images say.

reference = measure_reference(model, images); doubts(model, answers, error, reference)
"""

from collections.abc import Sequence

from capsnet.data.sets.digits import load_digits
from capsnet.data.streams.stream import ImageStream
from capsnet.models import Model
from capsnet.models.reference import NAME, NUM_KNOWN, Reference, measure_reference
from capsnet.models.weights import Card
from capsnet.options import restored
from capsnet.tasks import OneLabel, Pairs

LONG = 0.5  # midway between the margins of Eq. 4
SURE = 0.7  # midway between that and the upper margin
CLOSE = 0.1
STRANGE = 1.5  # times the usual error
BLANK = "there is nothing on the picture"


def find_reference(model: Model, card: Card, shows_digits: bool) -> Reference | None:
    """Return what the card of a model says is usual, or what the embedded digits show."""
    if (kept := card.more.get(NAME)) is not None:
        return restored(Reference, kept)
    if not shows_digits or model.draws is None or not isinstance(model.task, OneLabel):
        return None
    channels, size, _ = model.image_shape
    split = load_digits("train").subset(range(NUM_KNOWN))
    if size < split.image_shape[1]:
        return None
    stream = ImageStream(split, canvas=size)
    images = stream.batch(stream.plan(None)).images.expand(-1, channels, -1, -1)
    return measure_reference(model, images.to(next(model.parameters()).device))


def doubts(
    model: Model,
    answers: Sequence[float],
    error: float | None = None,
    reference: Reference | None = None,
    seen: Sequence[str] = (),
    calibrated: tuple[str, Sequence[float]] | None = None,
) -> tuple[str, ...]:
    """Return why answers [J] to one image are not to be trusted; nothing if they may be.

    seen: what was odd about the picture already when it was read. calibrated: the class that was
    said, and the probabilities [J], where these are known: they tell how sure it is, and a capsule
    then says only by being short that the picture shows none of the classes.
    """
    if BLANK in seen:
        return (BLANK,)
    found = list(seen)
    task = model.task
    if isinstance(task, OneLabel) and calibrated is not None:
        said, probabilities = calibrated
        sure = probabilities[task.names.index(said)]
        if sure < SURE:
            found.append(f"“{said}” is not sure, with a probability of only {sure:.2f}")
        if model.traced is not None and max(answers) < LONG:
            found.append(f"no capsule is long, the longest has a length of {max(answers):.2f}")
    elif isinstance(task, OneLabel | Pairs):
        num = 1 if isinstance(task, OneLabel) else 2
        ranked = sorted(zip(answers, task.names, strict=True), key=lambda one: -one[0])
        last, name = ranked[num - 1]
        if last < SURE:
            found.append(f"“{name}” is not sure, with a {_kind(model)} of only {last:.2f}")
        if len(ranked) > num:
            next_, other = ranked[num]
            if next_ >= LONG or last - next_ < CLOSE < next_:
                found.append(
                    f"it may be “{other}” as well: {_kind(model)} {next_:.2f} beside {last:.2f}"
                )
    if error is not None and reference is not None and error > STRANGE * reference.drawing_error:
        found.append(
            f"it is unlike the images that the network knows: what it draws misses "
            f"{100 * min(error, 1):.0f} % of the picture, where "
            f"{100 * reference.drawing_error:.0f} % is usual"
        )
    return tuple(found)


def _kind(model: Model) -> str:
    """Return what the answers of a model are."""
    return "probability" if model.traced is None else "length"
