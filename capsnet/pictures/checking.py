"""What there is to say of pictures before a network sees them: counts, leaks, doubles, depth.

check = check_pictures(stored, splits, alike); print(check); check.leaks
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from capsnet.pictures.alike import Alike
from capsnet.pictures.findings import Finding, count_classes, find_all
from capsnet.pictures.store import Stored

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Check:
    """All that was found out about a folder or table of pictures."""

    root: str
    kind: str
    names: tuple[str, ...]
    num_pictures: int
    num_groups: int | None
    counts: dict[str, dict[str, int]]  # pictures of each class in each split
    group_counts: dict[str, int]  # groups in each split
    reading: str
    decided: tuple[str, ...]
    findings: tuple[Finding, ...]
    majority: float | None  # share of the most frequent class
    skipped: tuple[str, ...]

    @property
    def leaks(self) -> tuple[Finding, ...]:
        """What makes test pictures known from training."""
        return tuple(f for f in self.findings if f.weight == "leak")

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.num_pictures:,} pictures in {self.root}: {self.reading}."]
        if self.num_groups is not None:
            shares = ", ".join(f"{num} in {name}" for name, num in self.group_counts.items())
            lines.append(f"{self.num_groups:,} groups: {shares}.")
        lines += self.decided
        width = max(len(name) for name in (*self.names, "all"))
        parts = [name for name in SPLITS if name in self.counts]
        if self.kind != "numbers":
            lines.append(" " * width + "".join(f"{part:>12}" for part in parts))
            for name in self.names:
                row = "".join(f"{self.counts[part][name]:>12,}" for part in parts)
                lines.append(f"{name:<{width}}{row}")
        totals = "".join(f"{sum(self.counts[part].values()):>12,}" for part in parts)
        if self.kind == "one_label":
            lines.append(f"{'all':<{width}}{totals}")
        elif self.kind == "numbers":
            lines += [f"{part}: {self.counts[part]['pictures']:,} pictures" for part in parts]
        if self.majority is not None:
            lines.append(
                f"Always saying the most frequent class is right for {100 * self.majority:.1f} %."
            )
        lines += [f"{f.weight.upper()}: {f.sentence}" for f in self.findings]
        lines += [f"LEFT OUT: {sentence}" for sentence in self.skipped[:10]]
        if len(self.skipped) > 10:
            lines.append(f"LEFT OUT: {len(self.skipped) - 10:,} more.")
        return "\n".join(lines)


def check_pictures(stored: Stored, splits: Sequence[str], alike: Alike) -> Check:
    """Return what is found in pictures that have been read and parted."""
    listing = stored.listing
    majority = None
    if listing.kind == "one_label":
        majority = Counter(listing.labels).most_common(1)[0][1] / len(listing)
    counts: dict[str, dict[str, int]] = {}
    for name in SPLITS:
        rows = [k for k, split in enumerate(splits) if split == name]
        if rows:
            counts[name] = count_classes(listing, rows)
    group_counts = {
        name: len({g for g, s in zip(listing.groups, splits, strict=True) if s == name})
        for name in counts
        if listing.groups
    }
    return Check(
        str(listing.root),
        listing.kind,
        listing.names,
        len(listing),
        len(set(listing.groups)) if listing.groups else None,
        counts,
        group_counts,
        str(stored.reading),
        listing.decided,
        find_all(stored, splits, alike),
        majority,
        listing.skipped,
    )
