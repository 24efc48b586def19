"""Weights that come with the package: half precision, with a card, and a page of all cards.

ship(Path("runs/reproduce/capsnet_mnist-mnist-seed0-1a2b3c4d5e"), "capsnet_mnist")
"""

from dataclasses import replace
from pathlib import Path

import torch

from capsnet.errors import UserError
from capsnet.experiments.pages import markdown
from capsnet.experiments.recipes import in_words
from capsnet.experiments.runner.records import RECORD_FILE
from capsnet.files import note_digest, read_json, write_text
from capsnet.models import Model, create_model, list_models
from capsnet.models.weights import find_model, read_weights, save_weights, shipped_path
from capsnet.training.config import WHERE

PAGE = Path("docs/model_cards.md")


def ship(run_folder: Path, name: str, root: Path = Path(".")) -> Path:
    """Write the weights of a finished run as those of the model `name`, and the page of cards."""
    if not run_folder.is_dir():
        raise UserError(f"There is no folder {run_folder}; give the folder of a finished run.")
    if not root.is_dir():
        raise UserError(f"There is no folder {root}; choose one that is there.")
    model, card = find_model(str(run_folder))
    if card.result.get("split", "test") != "test":
        raise UserError(
            f"{run_folder} was judged on training images that it held out, and cards say the test "
            "error; ship a run whose final split is test."
        )
    registered = create_model(name)
    if model.name != name or interface(model) != interface(registered):
        raise UserError(
            f"{run_folder} holds {model.name} with {model.options}; weights of {name} must be for "
            f"{interface(registered)}: ship a run of that."
        )
    if any(not x.half().isfinite().all() for x in model.state_dict().values()):
        raise UserError(f"The weights in {run_folder} do not fit half precision; train others.")
    record_file = run_folder / RECORD_FILE
    record = read_json(record_file) if record_file.exists() else {}
    card = replace(
        card,
        config={k: v for k, v in (card.config or {}).items() if k not in WHERE},
        result={k: v for k, v in card.result.items() if k not in ("folder", "wrong")},
        # A run of `capsnet train` does not note its own commit.
        more={key: record.get(key) for key in ("commit", "experiment", "row")},
    )
    path = shipped_path(name)
    save_weights(model, path, card, dtype=torch.float16)
    note_digest(path)
    write_text(root / PAGE, cards_page())
    return path


def interface(model: Model) -> str:
    """Return in words what goes into a model and comes out of it."""
    return f"images of shape {model.image_shape} and {len(model.task.names)} answers"


def cards_page() -> str:
    """Return the page of all shipped weights, from the cards in their files."""
    rows = []
    for name in list_models():
        path = shipped_path(name)
        if path.exists():
            _, card = read_weights(path)
            config, result = card.config or {}, card.result
            rows.append(
                [
                    f"`{name}`",
                    config["data"],
                    in_words(config),
                    str(config["seed"]),
                    f"{result['error_percent']:.2f} % of {result['num_images']:,}",
                    f"{result['seconds']:.0f} s on {result['device']}",
                    card.more.get("commit") or "–",
                    f"{path.stat().st_size / 1e6:.1f} MB",
                ]
            )
    header = ("weights", "data", "recipe", "seed", "test error", "training", "commit", "size")
    text = markdown.table(header, rows) if rows else "No weights are shipped yet."
    return (
        "# Shipped weights\n\nWritten by `python -m capsnet.dev report` from the cards in the "
        'files; do not edit. `capsnet.create_model("NAME", pretrained=True)` loads them. They are '
        "stored in half precision; the error is that of their run, before that. For MultiMNIST it "
        "is on the 10,000 pairs of `evaluate`, in results.md on 100,000. The recipe of the small "
        "ones was settled on test errors (log.md), which are a little too good for that.\n\n"
        f"{text}\n"
    )
