"""An endless stream of deformed digits as bytes: turned, scaled, sheared, shifted and bent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

__all__ = ["DeformedDigits"]

_BANK = 1024  # smooth displacement fields, of which each digit gets one, at a strength of its own
_BLUR_PIXELS = 5.0  # pixels: the deviation of the Gaussian that smooths the noise of a field
# Standard deviations, and in the kernel no more than twice as much.
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
        _kernel()(
            self.X, self.side, which, maps.astype(np.float32), shifts.astype(np.float32),
            self.fields, rng.integers(_BANK, size=rows), bends.astype(np.float32), out,
        )  # fmt: skip
        return out, self.y[which]

    def chunks(self, total: int, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`total` digits in chunks of `rows`."""
        for first in range(0, total, rows):
            yield self.chunk(min(rows, total - first))


@cache
def _kernel() -> Any:
    from numba import njit

    @njit(cache=True)
    def deform(
        X: Any, side: Any, which: Any, maps: Any, shifts: Any, fields: Any, field: Any, bends: Any, out: Any
    ) -> None:
        wide, pixels = np.uint32(side + 2), side * side
        middle = np.float32(0.5 * (side - 1))
        low, high = np.float32(0.0), np.float32(side + 0.999)  # within the frame of zeros
        framed = np.zeros((side + 2) * (side + 2), dtype=np.float32)
        at, down, right = (
            np.empty(pixels, np.uint32),
            np.empty(pixels, np.float32),
            np.empty(pixels, np.float32),
        )
        rows = np.repeat(np.arange(side), side).astype(np.float32) - middle
        columns = np.arange(pixels).astype(np.float32) % np.float32(side) - middle
        for t in range(len(which)):
            image, new = X[which[t]], out[t]
            for i in range(side):
                for j in range(side):
                    framed[(i + 1) * (side + 2) + j + 1] = image[i * side + j]
            a, b, c, d, bend = maps[t, 0], maps[t, 1], maps[t, 2], maps[t, 3], bends[t]
            below, beside = fields[field[t], 0], fields[field[t], 1]
            # Two loops, since the compiler can turn the first into vector instructions.
            first_row, first_column = (
                middle + shifts[t, 0] + np.float32(1.0),
                middle + shifts[t, 1] + np.float32(1.0),
            )
            for p in range(pixels):
                row = c * columns[p] + d * rows[p] + first_row + bend * below[p]
                column = a * columns[p] + b * rows[p] + first_column + bend * beside[p]
                row, column = min(max(row, low), high), min(max(column, low), high)
                r, s = np.int32(row), np.int32(column)
                down[p], right[p] = row - np.float32(r), column - np.float32(s)
                at[p] = np.uint32(r) * wide + np.uint32(s)
            for p in range(pixels):
                q = at[p]
                upper = framed[q] + right[p] * (framed[q + np.uint32(1)] - framed[q])
                q += wide
                lower = framed[q] + right[p] * (framed[q + np.uint32(1)] - framed[q])
                new[p] = np.uint8(upper + down[p] * (lower - upper) + np.float32(0.5))

    return deform
