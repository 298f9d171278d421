"""A cache of kernel rows, computed in blocks by BLAS; the least recently used rows are replaced.

The cache is one buffer, cut into rows as wide as there are active samples. If samples are set aside
(shrinking), the rows become shorter and more fit; if samples return, the missing columns are computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from formulations.language.types import Vector
from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels import Gram, Panel, SamplePanel, Samples
from polyopt.margin.decomposition.options import DEFAULTS, Options
from polyopt.native.library import kernel

_STRIP = 4096  # columns of a weighted sum of rows that one thread computes
_MIN_ROWS = 16  # rows for which there is room, even if they exceed the budget

# total += Σ_k weights_k table[slots_k, start : start + w].
_combine = kernel(
    "combine_rows",
    "table: T (s, n); slots: i8 (r); weights: T (r); start: i8; total!: T (w)",
    T="f8 f4",
)


class RowCache:
    """A cache of rows of a Gram matrix, over the columns of the active samples, in `budget` bytes.

    active: samples whose columns the rows have, ascending.
    slots: rows that fit.
    computed, hits: rows computed so far, and rows found in the cache.
    """

    def __init__(self, gram: Gram, budget: float, dtype: DTypeLike, options: Options = DEFAULTS):
        self._gram, self.dtype = gram, np.dtype(dtype)
        self._size = int(budget) // self.dtype.itemsize
        self._buffer = np.empty(max(min(self._size, gram.n * gram.n), _MIN_ROWS * gram.n), self.dtype)
        self.computed = self.hits = 0
        # New memory costs more than cheap rows: up to `_filled` slots are used before old rows are replaced.
        # The number doubles once half as many rows had to be computed again.
        self._filled, self._recomputed = options.max_fresh_rows * max(1, gram.entry_cost // 16), 0
        self._was_cached = np.zeros(gram.n, dtype=bool)
        self._clear(np.arange(gram.n))

    def _clear(self, active: Samples) -> None:
        self._lay_out(active)
        self._owner = np.full(self.slots, -1, dtype=np.intp)  # the sample of a slot
        self._slot = np.full(self._gram.n, -1, dtype=np.intp)  # the slot of a sample
        self._used = np.zeros(self.slots, dtype=np.int64)  # the time of a slot's last use
        self._now = 0

    def _lay_out(self, active: Samples) -> None:
        self.active = active
        self.slots = len(self._buffer) // len(active)
        self.table = self._buffer[: self.slots * len(active)].reshape(self.slots, len(active))
        every = len(active) == self._gram.n
        self._panel: Panel | None = None  # free the old one first
        self._panel = self._gram.panel(None if every else active, self.dtype)

    def fetch(self, samples: Samples) -> Samples:
        """Return the slots of the rows of these samples, at most `slots` at a time; compute missing rows."""
        self._now += 1
        slot = self._slot[samples]
        self._used[slot[slot >= 0]] = self._now
        missing = samples[slot < 0]
        self.hits += len(samples) - len(missing)
        if len(missing):
            self._make_room(missing)
            self._compute(missing)
            self.computed += len(missing)
        return self._slot[samples]

    def _compute(self, missing: Samples) -> None:
        """Compute these rows into their slots."""
        places = self._slot[missing]
        assert self._panel is not None
        if places[-1] - places[0] == len(places) - 1:
            self._panel.rows(missing, out=self.table[places[0] : places[-1] + 1])
        else:
            self.table[places] = self._panel.rows(missing)

    def _make_room(self, missing: Samples) -> None:
        """Assign slots to these samples: empty ones, else the least recently used."""
        self._recomputed += int(self._was_cached[missing].sum())
        if self._recomputed > self._filled // 2:
            self._filled, self._recomputed = 2 * self._filled, 0
        self._was_cached[missing] = True
        owner, used = self._owner[: self._filled], self._used[: self._filled]
        busy = int((used[owner >= 0] == self._now).sum())
        if len(owner) - busy < len(missing):  # the rows of one call always fit
            owner, used = self._owner, self._used
        places = np.flatnonzero(owner < 0)[: len(missing)]
        if len(places) < len(missing):
            oldest = np.argsort(np.where(owner < 0, self._now, used), kind="stable")
            leaving = oldest[: len(missing) - len(places)]
            self._slot[self._owner[leaving]] = -1
            places = np.concatenate([places, leaving])
        places = np.sort(places)
        self._owner[places] = missing
        self._slot[missing] = places
        self._used[places] = self._now

    def factors(self) -> tuple[Vector, Vector, int] | None:
        """Return matrices with the kernel's argument as product, and its degree; None if there are none."""
        return self._panel.factors() if isinstance(self._panel, SamplePanel) else None

    def is_cached(self, samples: Samples) -> NDArray[np.bool_]:
        """Mask of these samples whose rows are cached."""
        return self._slot[samples] >= 0

    @property
    def bytes(self) -> int:
        """Memory used by rows."""
        return int((self._owner >= 0).sum()) * len(self.active) * self.dtype.itemsize

    @property
    def is_full(self) -> bool:
        """True if the next new row replaces another."""
        return not (self._owner < 0).any()

    def combine(self, samples: Samples, weights: Vector) -> NDArray[Any]:
        """Return ``sum_k weights_k K[samples_k, active]`` for cached rows."""
        table, slots, factors = self.table, self._slot[samples], weights.astype(self.dtype)
        total = np.zeros(table.shape[1], dtype=self.dtype)
        if len(total) <= _STRIP:
            _combine(table, slots, factors, 0, total)
            return total
        starts = range(0, len(total), _STRIP)
        run_blocks(
            lambda start: _combine(table, slots, factors, start, total[start : start + _STRIP]),
            starts, cost=float(len(samples)) * len(total),
        )  # fmt: skip
        return total

    def set_active(self, active: Samples) -> None:
        """Change the active samples and keep the rows: drop columns of others, compute missing ones."""
        old, width = self.active, len(active)
        place = np.searchsorted(old, active).clip(max=len(old) - 1)
        source = np.where(old[place] == active, place, -1)
        fit = len(self._buffer) // width
        filled = np.flatnonzero(self._owner >= 0)
        kept = filled[np.argsort(-self._used[filled], kind="stable")[:fit]]  # the most recent that fit
        kept.sort()
        owners, used = self._owner[kept], self._used[kept]
        if width > len(old):  # compact the rows first, then widen them from the last to the first
            _move_rows(self._buffer, kept, len(old), np.arange(len(old)))
            _move_rows(self._buffer, np.arange(len(kept)), len(old), source, backwards=True)
        else:
            _move_rows(self._buffer, kept, len(old), source)
        self._slot[:] = -1
        self._lay_out(active)
        self._owner, self._used = np.full(self.slots, -1, dtype=np.intp), np.zeros(self.slots, dtype=np.int64)
        self._owner[: len(kept)], self._used[: len(kept)] = owners, used
        self._filled = max(self._filled, len(kept))
        self._slot[owners] = np.arange(len(kept))
        new = np.flatnonzero(source < 0)
        if len(new) and len(kept):
            self.table[: len(kept), new] = self._gram.panel(active[new], self.dtype).rows(owners)


def _move_rows(
    buffer: NDArray[Any], slots: Samples, width: int, source: Samples, *, backwards: bool = False
) -> None:
    """Move the rows in `slots`, `width` wide, to the front of the buffer with the columns of `source`.

    The order avoids overwriting rows before they are read. Columns with a negative source stay undefined.
    """
    wide, count = len(source), len(slots)
    columns = np.flatnonzero(source >= 0)
    picked = source[columns]
    target = slice(None) if len(columns) == wide else columns
    for turn in range(count):
        k = count - 1 - turn if backwards else turn
        start = int(slots[k]) * width
        buffer[k * wide : (k + 1) * wide][target] = buffer[start : start + width].take(picked)
