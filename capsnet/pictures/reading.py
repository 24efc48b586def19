"""Reading: the rules by which a file becomes an image, kept with the weights.

reading = Reading(size=32, channels=1, window=(0, 4095)); card.reading.to_json()
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from capsnet.options import Size, restored

Fit = Literal["pad", "crop", "stretch"]
BYTE_WHITE = 255
DEEP_WHITE = 32767  # images of more than 8 bits are kept as int16


@dataclass(frozen=True)
class Reading:
    """How a picture of any size and depth becomes [channels, size, size].

    fit: the shorter side is padded with black, the longer side is cropped, or both are stretched.
    window: the values that become black and white; None: 0 to 255 of 8-bit pictures.
    ink: the model reads bright ink on black, so that photos of paper have to be cleaned first.
    """

    size: Size
    channels: Size
    fit: Fit = "pad"
    window: tuple[float, float] | None = None
    ink: bool = False

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """The shape of an image."""
        return self.channels, self.size, self.size

    @property
    def white(self) -> int:
        """The largest value of an image as it is kept: of bytes, or of 15 bits."""
        return BYTE_WHITE if self.window is None else DEEP_WHITE

    def to_json(self) -> dict[str, Any]:
        """Return the rules as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: dict[str, Any]) -> "Reading":
        """Return the rules that `to_json` wrote."""
        return restored(cls, facts)

    def __str__(self) -> str:
        how = {
            "pad": "padded with black to a square",
            "crop": "cropped to a square from the middle",
            "stretch": "stretched to a square",
        }[self.fit]
        kind = {1: "grey", 3: "colour"}.get(self.channels, f"{self.channels} channels")
        levels = ""
        if self.window is not None:
            levels = f", {self.window[0]:g} black and {self.window[1]:g} white"
        return f"{self.size}×{self.size} {kind}, {how}{levels}"
