"""What a stranger has to know to use an exported file, as the JSON that stands in it.

facts = facts_of(answering, card); facts["task"]["names"], facts["picture"]["in_words"]
"""

from typing import Any

from capsnet import __version__
from capsnet.data.registry import shows_digits
from capsnet.exporting.answering import Answering, tells_classes
from capsnet.models import Model
from capsnet.models.weights import Card
from capsnet.pictures.reading import BYTE_WHITE, Reading
from capsnet.tasks import Sets

INPUT = "images"


def facts_of(answering: Answering, card: Card) -> dict[str, Any]:
    """Return what goes in, how a picture becomes that, what comes out and what it means.

    `answer` is the name of the output to read: probabilities of classes, numbers,
    or how many there are of each class.
    """
    model = answering.model
    calibration = answering.calibration
    J = len(model.task.names)
    return {
        "capsnet_version": __version__,
        "model": model.name,
        "task": model.task.to_json(),
        "input": {
            "name": INPUT,
            "type": "float32",
            "shape": ["batch", *model.image_shape],
            "range": [0, 1],
        },
        "picture": picture_of(model, card),
        "answer": answering.outputs[0],
        "outputs": {
            name: {
                "shape": ["batch", J] if name != "v" else ["batch", J, "E"],
                "meaning": meaning(name, answering),
            }
            for name in answering.outputs
        },
        "calibration": None if calibration is None else calibration.to_json(),
    }


def picture_of(model: Model, card: Card) -> dict[str, Any]:
    """Return the steps from a picture file to the input, as numbers and in words."""
    channels, height, width = model.image_shape
    reading = card.reading or Reading(height, channels, ink=shows_digits(card.data))
    black, white = reading.window or (0, BYTE_WHITE)
    words = [
        "turn upright by the camera's mark",
        str(Reading(height, channels, reading.fit)),
        f"x = (value - {black:g}) / ({white:g} - {black:g}), clipped to 0 … 1",
        "channels first",
    ]
    if reading.ink:
        words.insert(0, "bright ink on black: invert dark ink on white paper")
    return {
        "size": [width, height],
        "channels": channels,
        "fit": reading.fit,
        "black": black,
        "white": white,
        "ink": reading.ink,
        "in_words": "; ".join(words),
    }


def meaning(output: str, answering: Answering) -> str:
    """Return in words what an output is."""
    if output == "v":
        return "the capsules, or for a CNN the logits"
    if isinstance(answering.model.task, Sets):
        return "how many there are of each class, to be rounded"
    if not tells_classes(answering.model.task):
        return "the numbers, in the order and units of the task"
    if output == "answers":
        return "for each class the length or activation of its capsule, or its probability"
    if answering.calibration is None:
        return "as answers: these weights hold no calibration"
    return "the probability of each class, calibrated on validation images"
