"""What a classifier of one label is worth beyond its test error, whatever its head.

measures = robustness(trained): calibration, noise, blur, attacks, scrambled images.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from capsnet.data import Stream
from capsnet.data.streams.alter import scramble
from capsnet.experiments.runner.experiment import BATCH, Trained
from capsnet.experiments.scrambled import acceptance
from capsnet.measures.answered import Answered
from capsnet.measures.calibrating import calibrate
from capsnet.measures.judged import judge
from capsnet.measures.values import values
from capsnet.models import Model
from capsnet.tasks import Calibration

SEED = 2017
NOISES = (0.2, 0.4)  # standard deviation of a pixel, whose range is 0 … 1
BLURS = (1.0, 2.0)  # standard deviation in pixels
ATTACKED = 1_000  # test images
REACH = 0.1  # how far an attack may change a pixel
STEPS = 20  # of the attack in steps
SMALLEST = 1e-12  # what an answer is at least under a logarithm


def robustness(trained: Trained) -> dict[str, Any]:
    """Return errors, shares and calibration errors in per cent, and the number of parameters."""
    model, stream = trained.model.eval(), trained.stream("test")
    num_images = trained.count(stream.num_samples)
    batch = stream.batch({name: x[:num_images] for name, x in stream.plan(None).items()})
    images, labels = batch.images, batch.labels[:, 0]
    generator = torch.Generator().manual_seed(SEED)
    noise = torch.randn(images.shape, generator=generator).to(images)
    few = slice(0, trained.count(ATTACKED))
    altered = {f"noise_{s:g}": (images + s * noise).clamp(0, 1) for s in NOISES}
    altered |= {f"blur_{s:g}": blur(images, s) for s in BLURS}
    result: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters())}
    for name, changed in altered.items():
        result[f"{name}_error_percent"] = error_percent(model, changed, labels)
    for name, steps in (("fgsm", 1), ("pgd", STEPS)):
        changed = attack(model, images[few], labels[few], REACH, steps, generator)
        result[f"{name}_error_percent"] = error_percent(model, changed, labels[few])
    mixed = scramble(images, 2, 2, generator)
    real, false = (answers_to(model, x).amax(1).double().cpu().numpy() for x in (images, mixed))
    result |= acceptance("scrambled", real, false)
    return result | calibration_errors(trained)


def calibration_errors(trained: Trained) -> dict[str, float]:
    """Return the calibration error (ECE) in per cent, as answered and after a temperature.

    The temperature is chosen on the validation images of the run.
    """
    held, test = (answered(trained, trained.stream(split)) for split in ("validation", "test"))
    rule = calibrate(held)
    return {
        "ece_percent": ece_percent(test),
        "calibrated_ece_percent": ece_percent(test, rule),
        "temperature": rule.temperature,
    }


def ece_percent(test: Answered, rule: Calibration | None = None) -> float:
    """Return the calibration error of answers in per cent."""
    error = values(judge(test, rule))["ece"]
    assert error is not None, "of classes it can always be told"
    return 100 * error


def answered(trained: Trained, stream: Stream) -> Answered:
    """Return the answers of a run to all images of a stream."""
    said = trained.answers(stream)
    names = tuple(map(str, range(len(said.answers))))
    answers, labels = said.answers.float().numpy(), said.labels[:, 0].numpy()
    return Answered(stream.task, answers, labels, names, names)


@torch.inference_mode()
def answers_to(model: Model, images: Tensor) -> Tensor:
    """Return the answers [N, J] to images [N, C, H, W], in full precision."""
    return torch.cat([model(part).answers for part in images.split(BATCH)])


def error_percent(model: Model, images: Tensor, labels: Tensor) -> float:
    """Return how many of images [N, C, H, W] are not answered by labels [N]."""
    return 100 * float((answers_to(model, images).argmax(1) != labels).float().mean())


def blur(images: Tensor, deviation: float) -> Tensor:
    """Return images [N, C, H, W] blurred by a Gaussian of this standard deviation in pixels."""
    reach = int(3 * deviation + 0.5)
    places = torch.arange(-reach, reach + 1, device=images.device, dtype=images.dtype)
    line = torch.exp(-0.5 * (places / deviation) ** 2)
    line = (line / line.sum()).expand(images.shape[1], 1, 1, -1)
    C = images.shape[1]
    across = F.conv2d(images, line, padding=(0, reach), groups=C)
    return F.conv2d(across, line.transpose(2, 3), padding=(reach, 0), groups=C)


def attack(
    model: Model,
    images: Tensor,
    labels: Tensor,
    reach: float,
    steps: int,
    generator: torch.Generator,
) -> Tensor:
    """Return images changed by at most `reach` a pixel so that another class looks more likely.

    What is climbed is log a_k - log a_y of the label y and the best other class k: of a softmax it
    is the difference of the logits, so that no head can hide behind answers near 0 or 1. One step
    goes all the way by the sign of the gradient (FGSM); more start at a random place and go an
    eighth of the way each (PGD).
    """
    other = F.one_hot(labels, len(model.task.names)).bool()
    changed, size = images.clone(), reach
    if steps > 1:
        start = 2 * torch.rand(images.shape, generator=generator).to(images) - 1
        changed, size = (images + reach * start).clamp(0, 1), reach / 8
    for _ in range(steps):
        with torch.enable_grad():
            changed.requires_grad_()
            logs = model(changed).answers.clamp(min=SMALLEST).log()
            lead = logs.masked_fill(other, float("-inf")).amax(1) - logs[other]
            (slope,) = torch.autograd.grad(lead.sum(), changed)
        moved = changed.detach() + size * slope.sign()
        changed = torch.clamp(moved, images - reach, images + reach).clamp(0, 1)
    return changed
