"""The table of the front page: our numbers beside the paper's and the fastest public code's."""

from typing import Any

from capsnet.experiments import family_multimnist, multimnist, table1
from capsnet.experiments.pages import markdown
from capsnet.experiments.rows import IN_THE_PAPER, OURS, R3
from capsnet.experiments.runner.records import Results, current, values
from capsnet.experiments.statistics import mean_std

OUR_STEP, PEER_STEP, BATCH = "ours, bf16", "peer", 128


def front_block(results: Results, step: dict[str, Any] | None) -> str:
    """Return the table; step: the last `capsnet bench step` on a GPU."""

    def error(experiment: str, row: str) -> str:
        return mean_std(values(current(results[experiment]).get(row, []), "error_percent"))

    paper = IN_THE_PAPER[R3]
    body = [
        ["MNIST, test error %", error(table1.EXPERIMENT.name, OURS), paper[0], "–"],
        ["two digits overlapping", error(multimnist.EXPERIMENT.name, OURS), paper[1], "–"],
        [
            "the same, `capsnet_modern`",
            error(family_multimnist.EXPERIMENT.name, family_multimnist.R3),
            "–",
            "–",
        ],
    ]
    if step is not None:
        times = {
            row["variant"].partition(" peer_")[0]: row["step"]["median_ms"]
            for row in step["rows"]
            if row["batch"] == BATCH
        }
        ours, peer = (f"{times[x]:.2g}" if x in times else "–" for x in (OUR_STEP, PEER_STEP))
        name = f"a training step, batch {BATCH}, ms ({step['device'].removeprefix('NVIDIA ')})"
        body.append([name, ours, "–", peer])
    return markdown.table(("", "here", "the paper", "fastest public code"), body)
