"""What happens to files: one bit of them changes."""

from random import Random


def flipped(content: bytes, bit: int) -> bytes:
    """Return bytes of which one bit is another."""
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def flipped_anywhere(content: bytes, random: Random) -> bytes:
    """Return bytes of which one bit is another, half the time one of the first kilobytes.

    There the header stands, a small part of a file in which much can go wrong.
    """
    size = len(content) if random.random() < 0.5 else min(len(content), 4096)
    return flipped(content, random.randrange(8 * size))
