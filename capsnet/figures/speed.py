"""How time and memory of routing grow: the plot of `capsnet bench routing`."""

from typing import Any

from matplotlib.figure import Figure

from capsnet.figures.plot import BLUE, ORANGE, RED


def draw_speed(result: dict[str, Any]) -> Figure:
    """Draw time and memory of routing against the batch size and the number of capsules."""
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    axes = figure.subplots(2, 2, sharey="row")
    colours = {"reference": RED, "compiled reference": ORANGE, "chunked": BLUE, "fused": BLUE}
    for column, against in enumerate(("batch", "capsules")):
        other = "capsules" if against == "batch" else "batch"
        fixed = min(row[other] for row in result["rows"])
        for row, (key, label) in enumerate((("median_ms", "ms"), ("peak_mb", "MB"))):
            axis = axes[row, column]
            for variant, colour in colours.items():
                points = sorted(
                    (r[against], r["forward_backward"][key])
                    for r in result["rows"]
                    if r["variant"] == variant
                    and r[other] == fixed
                    and r["forward_backward"][key] is not None
                )
                if points:
                    axis.plot(*zip(*points, strict=True), "o-", color=colour, label=variant)
            axis.set(xscale="log", yscale="log", xlabel=against, ylabel=label)
            sizes = sorted({r[against] for r in result["rows"]})
            axis.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
            axis.minorticks_off()
            axis.set_title(f"forward + backward, {other} {fixed}", fontsize=9)
    axes[0, 0].legend()
    return figure
