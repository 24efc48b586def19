"""Verbs that tell what there is: data, models, info."""

import json as json_format
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from capsnet.cli.output import show
from capsnet.cli.parsing import grouped
from capsnet.errors import UserError
from capsnet.pictures.layout import Layout

OWN = {"your own pictures": [field.name for field in fields(Layout)]}
Pictures = Annotated[Layout, arg(name="", constructor_factory=lambda: grouped(Layout, OWN))]


def data(
    action: Positional[Literal["list", "fetch", "check"]],
    layout: Pictures,
    name: Positional[str | None] = None,
    folder: Path | None = None,
    image_size: int | None = None,
    channels: int | None = None,
    plugin: tuple[Path, ...] = (),
    json: bool = False,
) -> int:
    """List the data sets, fetch one, or check one, also your own pictures, before training does.

    Example: capsnet data check scans --class-from 1 --group-from 2

    Args:
        action: list all data sets, fetch one from wherever it can be had, or check it.
        layout: What your own pictures are.
        name: Name of the data set to fetch or check, or a folder or table of your own pictures.
        folder: Folder with the data set's files, if you placed them by hand.
        image_size: Side in pixels that your own pictures become; by default 32 at most.
        channels: Channels that your own pictures become; by default 1 if all are grey, else 3.
        plugin: Python files of yours that register data.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.data import check, fetch, find_data, list_data
    from capsnet.plugins import load_plugins
    from capsnet.training.progress import WorkProgress

    load_plugins(plugin)
    if action == "check" and name is not None and find_data(name, folder)[0].own:
        return check_own(name, layout, image_size, channels, json)
    if layout != Layout() or image_size is not None or channels is not None:
        raise UserError("What pictures are is for 'capsnet data check FOLDER'; leave it out.")
    if action == "list":
        if name is not None or folder is not None:
            raise UserError("'capsnet data list' lists all data sets; leave name and folder out.")
        entries = list_data()
        rows = [
            {
                "name": e.name,
                "description": e.description,
                "licence": e.licence,
                "needs": e.needs,
            }
            for e in entries
        ]
        text = "\n".join(f"{e.name:<14} {e.description:<40} needs {e.needs}" for e in entries)
        show(json, {"data": rows}, text)
        return 0
    if name is None:
        raise UserError(f"Say which data set to {action}, e.g. 'capsnet data {action} mnist'.")
    with WorkProgress(f"{action}ing {name}"):
        report = (fetch if action == "fetch" else check)(name, folder)
    lines = []
    for f in report.files:
        state = "ok" if f.ok else "missing" if f.missing else "WRONG"
        lines.append(f"{f.name:<28} {state}  {f.place}")
    for part, num in report.num_images.items():
        counts = report.label_counts[part]
        lines.append(f"{part}: {num:,} images" + (f", {counts}" if counts else ""))
    show(
        json,
        {
            "name": report.name,
            "ok": report.ok,
            "files": [vars(f) for f in report.files],
            "label_counts": report.label_counts,
            "num_images": report.num_images,
        },
        "\n".join(lines),
    )
    if not report.ok:
        bad = ", ".join(f.name for f in report.files if not f.ok)
        raise UserError(
            f"Files of {name} are missing or wrong: {bad}; run 'capsnet data fetch {name}' or "
            "place the originals by hand."
        )
    return 0


def check_own(
    name: str, layout: Layout, image_size: int | None, channels: int | None, json: bool
) -> int:
    """Say what is found in the user's own pictures; leaks end with status 2 unless allowed."""
    from capsnet.data import find_data, open_own
    from capsnet.training.progress import WorkProgress

    path = Path(str(find_data(name)[1]))
    with WorkProgress("reading pictures", unit="pictures") as progress:
        own = open_own(
            path, replace(layout, allow_leak=True), image_size, channels, progress=progress
        )
    check = own.check
    show(json, check.to_json(), str(check))
    if check.leaks and not layout.allow_leak:
        raise UserError(
            f"{len(check.leaks)} kinds of leak were found, see above; mend the split, or let it be "
            "made by capsnet."
        )
    return 0


def models(plugin: tuple[Path, ...] = (), json: bool = False) -> int:
    """List the models with their size, and whether trained weights come with the package.

    Example: capsnet models

    Args:
        plugin: Python files of yours that register models.
        json: Print the result as one JSON object on the last line.
    """
    from capsnet.models import list_models, model_entry
    from capsnet.models.weights import shipped_path
    from capsnet.plugins import load_plugins

    load_plugins(plugin)
    rows = []
    for name in list_models():
        rows.append(
            {
                "name": name,
                "parameters": num_parameters(name),
                "description": model_entry(name).description,
                "weights_shipped": shipped_path(name).exists(),
            }
        )
    lines = []
    width = max(len(name) for name in ("model", *list_models()))
    for row in rows:
        count = "–" if row["parameters"] is None else f"{row['parameters']:,}"
        weights = "shipped" if row["weights_shipped"] else "–"
        lines.append(f"{row['name']:<{width}} {count:>12}  {weights:<8} {row['description']}")
    header = f"{'model':<{width}} {'parameters':>12}  {'weights':<8} what it is"
    show(json, {"models": rows}, "\n".join([header, *lines]))
    return 0


def num_parameters(name: str) -> int | None:
    """Return the size of a model with its default options; None if it has to be given some."""
    import torch

    from capsnet.models import create_model

    for device in ("meta", "cpu"):  # without memory, unless the model looks at its weights
        try:
            with torch.device(device):
                return sum(p.numel() for p in create_model(name).parameters())
        except Exception:  # whatever a user's model needs
            continue
    return None


def info(
    file: Positional[str | None] = None,
    plugin: tuple[Path, ...] = (),
    json: bool = False,
) -> int:
    """Tell versions, devices and folders, or what a weights file is and whether it is whole.

    Example: capsnet info runs/mine

    Args:
        file: Folder of a run, a weights file, or the name of a model with shipped weights.
        plugin: Python files of yours that register models.
        json: Print the result as one JSON object on the last line.
    """
    import torch

    from capsnet.data import cache_folder
    from capsnet.models.weights import find_model, find_weights
    from capsnet.plugins import load_plugins
    from capsnet.provenance import versions

    load_plugins(plugin)
    if file is not None:
        facts = {**find_model(file)[1].to_json(), "file": checked_file(find_weights(file))}
    else:
        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        facts = {
            **versions(),
            "threads": torch.get_num_threads(),
            "gpus": gpus,
            "cache": str(cache_folder()),
        }
    show(json, facts, json_format.dumps(facts, indent=2))
    return 0


def checked_file(path: Path) -> dict[str, str | int]:
    """Return what is known of the bytes of a weights file that could be read."""
    from capsnet.models.tensor_file import read_tensor_file
    from capsnet.models.weights import is_shipped

    digest = read_tensor_file(path).digest
    if is_shipped(path):
        whole = "its digest is the one that the package knows"
    elif digest is not None:
        whole = "its digest fits"
    else:
        whole = "it has no digest, from before there were any: damage may go unnoticed"
    return {"path": str(path), "bytes": path.stat().st_size, "checked": whole}
