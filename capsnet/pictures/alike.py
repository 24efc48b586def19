"""Pictures that are there twice: the same pixels, or nearly the same after another size or format.

pairs = find_alike(images); pairs.same [K, 2], pairs.near [L, 2]

Nearly the same: 64 signs of the picture's lowest frequencies (a perceptual hash) differ in three
places at most, and the pictures themselves, small, have a correlation of NEAR or more.
Flat pictures are never alike: a black slice says nothing about its neighbour.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

SIDE = 16  # pixels of the small pictures that are compared
WAVES = 8  # frequencies along each side
BITS_APART = 3
NEAR = 0.993
FLAT = 0.02  # standard deviation, of white, below which a picture is flat
ROUNDING = 1e-3  # of a frequency's strength: what is smaller is zero, whoever computes it
BANDS = 4  # hashes that differ in 3 bits agree in one of 4 bands, which are short lists to compare
CHUNK = 4096
CHUNK_BYTES = 2**22
CROWD = 256


@dataclass(frozen=True, eq=False)
class Alike:
    """Pairs of rows, each with the smaller first; `flat` are the rows of flat pictures."""

    same: np.ndarray  # [K, 2]
    near: np.ndarray  # [L, 2], without the same ones
    flat: np.ndarray  # [F]


def find_alike(images: np.ndarray, white: int) -> Alike:
    """Return which of images [M, C, S, S] are alike; a few bytes of each are kept in memory."""
    step = max(1, min(CHUNK, CHUNK_BYTES // images[0].nbytes))
    flat = np.zeros(len(images), dtype=bool)
    words = np.zeros((len(images), BANDS), dtype=np.uint16)
    for k in range(0, len(images), step):
        grey = _small(images[k : k + step], white).mean(axis=1)
        flat[k : k + step], words[k : k + step] = _flat(grey), _hashes(grey)
    same = _same(images, flat)
    first_of = np.arange(len(images))
    first_of[same[:, 1]] = same[:, 0]
    alone = (first_of == np.arange(len(images))) & ~flat  # one of each, so that pairs are few
    rows = np.flatnonzero(alone)
    pairs = rows[_candidates(words[rows])]
    seen, places = np.unique(pairs, return_inverse=True)
    parts = [_small(images[seen[k : k + step]], white) for k in range(0, len(seen), step)]
    near = pairs[_correlation(parts, places.reshape(pairs.shape)) >= NEAR]
    return Alike(same, near, np.flatnonzero(flat))


def flat_rows(images: np.ndarray, white: int) -> np.ndarray:
    """Return which of images [M, C, S, S] are flat, booleans [M]."""
    parts = (images[k : k + CHUNK] for k in range(0, len(images), CHUNK))
    return np.concatenate([_flat(_small(part, white).mean(axis=1)) for part in parts])


def _flat(grey: np.ndarray) -> np.ndarray:
    return grey.std(axis=(1, 2)) < FLAT


def _small(images: np.ndarray, white: int) -> np.ndarray:
    """Return [N, C, SIDE, SIDE] in 0 … 1: the mean over the area of each pixel."""
    area = _areas(images.shape[-1])
    scaled = images.astype(np.float32) / white
    return np.einsum("yi,ncij,xj->ncyx", area, scaled, area, optimize=True)


def _areas(size: int) -> np.ndarray:
    """Return the weights [SIDE, size] of old pixels in new ones along an axis."""
    edges = np.linspace(0, size, SIDE + 1)
    low, high = edges[:-1, None], edges[1:, None]
    old = np.arange(size)
    part = (np.minimum(high, old + 1) - np.maximum(low, old)).clip(0)
    return (part / part.sum(axis=1, keepdims=True)).astype(np.float32)


def _same(images: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """Return pairs of rows with equal pixels: each later one with the first."""
    first: dict[bytes, int] = {}
    pairs = []
    for row in range(len(images)):
        if flat[row]:
            continue
        digest = hashlib.blake2b(images[row], digest_size=16).digest()
        seen = first.setdefault(digest, row)
        if seen != row:
            pairs.append((seen, row))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _hashes(grey: np.ndarray) -> np.ndarray:
    """Return which of the lowest WAVES² frequencies lie above their median: bits, [N, BANDS].

    Frequencies that a picture does not have are zero but for rounding, and often the median too.
    """
    place = (np.arange(SIDE) + 0.5) * np.pi / SIDE
    waves = np.cos(np.arange(WAVES)[:, None] * place).astype(np.float32)
    strength = np.einsum("ay,nyx,bx->nab", waves, grey, waves, optimize=True).reshape(-1, WAVES**2)
    bits = strength > np.median(strength, axis=1, keepdims=True) + ROUNDING
    return np.packbits(bits, axis=1).view(np.uint16)  # one for each band


def _candidates(words: np.ndarray) -> np.ndarray:
    """Return pairs of rows [P, 2] whose bits differ in BITS_APART places at most."""
    found = []
    for band in range(BANDS):
        order = np.argsort(words[:, band], kind="stable")
        starts = np.flatnonzero(np.diff(words[order, band], prepend=-1.0))
        for crowd in np.split(order, starts[1:]):
            found.append(_close(words, crowd))
    pairs = np.concatenate([*found, np.zeros((0, 2), dtype=np.int64)])
    return np.unique(np.sort(pairs, axis=1), axis=0)


def _close(words: np.ndarray, crowd: np.ndarray) -> np.ndarray:
    """Return the pairs within a crowd that differ in few bits."""
    found = []
    for start in range(0, len(crowd), CROWD):
        some = crowd[start : start + CROWD]
        apart = np.bitwise_count(words[some][:, None] ^ words[crowd][None]).sum(axis=2)
        one, other = np.nonzero(apart <= BITS_APART)
        pairs = np.stack([some[one], crowd[other]], axis=1)
        found.append(pairs[pairs[:, 0] < pairs[:, 1]])
    return np.concatenate([*found, np.zeros((0, 2), dtype=np.int64)])


def _correlation(parts: list[np.ndarray], pairs: np.ndarray) -> np.ndarray:
    """Return the correlation of the two small pictures, given in parts, of each pair [P]."""
    out = np.zeros(len(pairs))
    small = np.concatenate(parts) if parts else out
    for start in range(0, len(pairs), CHUNK):
        part = pairs[start : start + CHUNK]
        a, b = (small[part[:, k]].reshape(len(part), -1) for k in (0, 1))
        a, b = (x - x.mean(axis=1, keepdims=True) for x in (a, b))
        out[start : start + CHUNK] = (a * b).sum(axis=1) / np.sqrt(
            (a * a).sum(axis=1) * (b * b).sum(axis=1)
        )
    return out
