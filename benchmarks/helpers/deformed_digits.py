"""An endless stream of deformed digits as bytes: turned, scaled, sheared, shifted and bent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.ndimage import gaussian_filter

__all__ = ["DeformedDigits"]

_BANK = 1024  # smooth displacement fields, of which each digit gets one, at a strength of its own
_BLUR_PIXELS = 5.0  # pixels: the deviation of the Gaussian that smooths the noise of a field
_DIGITS_AT_ONCE = 256  # digits deformed together, whose pixels fit the cache
# Standard deviations, and in a chunk no more than twice as much.
_TURN, _SCALE, _SHEAR, _SHIFT, _BEND = 0.10, 0.07, 0.08, 0.7, 0.6


class DeformedDigits:
    """Deformed copies of square images, a chunk at a time; nothing is kept between chunks."""

    def __init__(self, X: np.ndarray, y: np.ndarray, seed: int = 0):
        self.X, self.y, self.side = np.ascontiguousarray(X), y, round(X.shape[1] ** 0.5)
        self.rng = np.random.default_rng(seed)
        size = self.side / 28  # displacements are given in pixels of MNIST
        noise = self.rng.normal(size=(_BANK, 2, self.side, self.side))
        fields = gaussian_filter(noise, (0, 0, _BLUR_PIXELS * size, _BLUR_PIXELS * size), mode="wrap")
        fields *= size / fields.std(axis=(2, 3), keepdims=True)
        self.fields = fields.astype(np.float32).reshape(_BANK, 2, -1)

    def chunk(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """So many new digits, drawn at random, and their labels."""
        rng, which = self.rng, self.rng.integers(len(self.X), size=rows)
        turn, grow, shear = (s * rng.normal(size=rows).clip(-2, 2) for s in (_TURN, _SCALE, _SHEAR))
        wide, tall = np.exp(grow + 0.3 * shear), np.exp(grow - 0.3 * shear)
        cos, sin = np.cos(turn), np.sin(turn)
        # Where a new pixel comes from: a turn, after a slant, after a stretch.
        maps = np.stack([wide * cos, wide * (shear * cos - sin), tall * sin, tall * (shear * sin + cos)], 1)
        shifts = _SHIFT * self.side / 28 * rng.normal(size=(rows, 2)).clip(-2, 2)
        bends = _BEND * rng.normal(size=rows).clip(-2, 2)
        out = np.empty((rows, self.side**2), dtype=np.uint8)
        maps, shifts, bends = (each.astype(np.float32) for each in (maps, shifts, bends))
        fields = rng.integers(_BANK, size=rows)
        for first in range(0, rows, _DIGITS_AT_ONCE):
            some = slice(first, first + _DIGITS_AT_ONCE)
            out[some] = self._deformed(which[some], maps[some], shifts[some], fields[some], bends[some])
        return out, self.y[which]

    def _deformed(
        self, which: np.ndarray, maps: np.ndarray, shifts: np.ndarray, fields: np.ndarray, bends: np.ndarray
    ) -> np.ndarray:
        """Digits (t, pixels); each pixel is interpolated between the four around the place it comes from."""
        side, t = self.side, len(which)
        wide, middle = side + 2, np.float32(0.5 * (side - 1))
        framed = np.zeros((t, wide, wide), dtype=np.float32)
        framed[:, 1:-1, 1:-1] = self.X[which].reshape(t, side, side)
        rows = np.repeat(np.arange(side), side).astype(np.float32) - middle
        columns = np.tile(np.arange(side), side).astype(np.float32) - middle
        a, b, c, d = maps.T[:, :, None]
        moved, bend = middle + shifts[:, :, None] + np.float32(1.0), bends[:, None]
        row = c * columns + d * rows + moved[:, 0] + bend * self.fields[fields, 0]
        column = a * columns + b * rows + moved[:, 1] + bend * self.fields[fields, 1]
        for place in (row, column):  # within the frame of zeros
            np.clip(place, np.float32(0.0), np.float32(side + 0.999), out=place)
        r, s = row.astype(np.int32), column.astype(np.int32)
        down, right = row - r.astype(np.float32), column - s.astype(np.float32)
        at, pixels = r * wide + s + wide * wide * np.arange(t)[:, None], framed.ravel()
        upper = pixels[at] + right * (pixels[at + 1] - pixels[at])
        at += wide
        lower = pixels[at] + right * (pixels[at + 1] - pixels[at])
        return (upper + down * (lower - upper) + np.float32(0.5)).astype(np.uint8)

    def chunks(self, total: int, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`total` digits in chunks of `rows`."""
        for first in range(0, total, rows):
            yield self.chunk(min(rows, total - first))
