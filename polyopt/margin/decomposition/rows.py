"""Kernel rows of the working set: computed in blocks by BLAS, kept while they fit.

The cache is one buffer of `cache_size` bytes, cut into rows as wide as there are active samples.
When samples are set aside (shrinking), the rows become shorter and more of them fit; when samples
come back, the columns they lack are computed. The rows used longest ago make room for new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels import SamplePanel
from polyopt.native.library import kernel

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from formulations.language.types import Vector
    from polyopt.linalg.kernels import Gram, Panel

    Samples = NDArray[np.intp]

__all__ = ["SINGLE_TOL", "Rows"]

SINGLE_TOL = 1e-5  # smallest violation that rows in single precision can reach
_STRIP = 4096  # columns of a weighted sum of rows that one thread takes
# Rows, for each 16 multiplications of an entry, that are kept before old ones make room: fresh memory costs
# more than cheap rows do. It doubles once half as many rows had to be computed again.
_MAX_FRESH_ROWS = 2048
_MIN_ROWS = 16  # a budget too small for these is exceeded: no working set is smaller

# total += Σ_k weights_k table[slots_k, start : start + w].
_combine = kernel(
    "combine_rows",
    "table: T (s, n); slots: i8 (r); weights: T (r); start: i8; total!: T (w)",
    T="f8 f4",
)


class Rows:
    """A cache of rows of a Gram matrix, over the columns of the active samples.

    gram: the matrix.
    budget: bytes.
    dtype: precision of the rows.

    active: samples whose columns the rows have, ascending.
    slots: rows that fit.
    computed, hits: rows that had to be computed so far, and rows that were there.
    """

    def __init__(self, gram: Gram, budget: float, dtype: DTypeLike):
        self._gram, self.dtype = gram, np.dtype(dtype)
        self._size = int(budget) // self.dtype.itemsize
        self._buffer = np.empty(max(min(self._size, gram.n * gram.n), _MIN_ROWS * gram.n), self.dtype)
        self.computed = self.hits = 0
        self._enough, self._again = _MAX_FRESH_ROWS * max(1, gram.width // 16), 0
        self._known = np.zeros(gram.n, dtype=bool)  # whose row was here before
        self._clear(np.arange(gram.n))

    def _clear(self, active: Samples) -> None:
        self._lay_out(active)
        self._owner = np.full(self.slots, -1, dtype=np.intp)  # the sample whose row a slot holds
        self._slot = np.full(self._gram.n, -1, dtype=np.intp)  # and the reverse
        self._used = np.zeros(self.slots, dtype=np.int64)  # when a slot was last asked for
        self._now = 0

    def _lay_out(self, active: Samples) -> None:
        self.active = active
        self.slots = len(self._buffer) // len(active)
        self.table = self._buffer[: self.slots * len(active)].reshape(self.slots, len(active))
        every = len(active) == self._gram.n
        self._panel: Panel | None = None  # the old one goes before the new one comes
        self._panel = self._gram.panel(None if every else active, self.dtype)

    def fetch(self, samples: Samples) -> Samples:
        """The slots that hold the rows of these samples; at most `slots` samples at a time."""
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
        """Give slots to these samples: empty ones, else those used longest ago."""
        self._again += int(self._known[missing].sum())
        if self._again > self._enough // 2:
            self._enough, self._again = 2 * self._enough, 0
        self._known[missing] = True
        owner, used = self._owner[: self._enough], self._used[: self._enough]
        busy = int((used[owner >= 0] == self._now).sum())
        if len(owner) - busy < len(missing):  # what is asked for at once has room in any case
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
        """Two matrices whose product is the kernel's argument, and its degree; None where there are none.

        As :class:`~polyopt.margin.decomposition.subproblem.Computed` takes them.
        """
        return self._panel.factors() if isinstance(self._panel, SamplePanel) else None

    def is_held(self, samples: Samples) -> NDArray[np.bool_]:
        """Mask of these samples whose rows are at hand."""
        return self._slot[samples] >= 0

    @property
    def bytes(self) -> int:
        """Memory that rows have taken."""
        return int((self._owner >= 0).sum()) * len(self.active) * self.dtype.itemsize

    @property
    def is_full(self) -> bool:
        """True if the next new row would drive out another."""
        return not (self._owner < 0).any()

    def combine(self, samples: Samples, weights: Vector) -> NDArray[Any]:
        """``sum_k weights_k K[samples_k, active]`` for rows that are at hand."""
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
        """Keep the rows, for other columns: drop those of samples set aside, compute those that are new."""
        old, width = self.active, len(active)
        place = np.searchsorted(old, active).clip(max=len(old) - 1)
        source = np.where(old[place] == active, place, -1)
        fit = len(self._buffer) // width
        filled = np.flatnonzero(self._owner >= 0)
        kept = filled[np.argsort(-self._used[filled], kind="stable")[:fit]]  # the latest, if not all fit
        kept.sort()
        owners, used = self._owner[kept], self._used[kept]
        if width > len(old):  # first to the front as they are, then longer, from the last to the first
            _relay(self._buffer, kept, len(old), np.arange(len(old)), False)
            _relay(self._buffer, np.arange(len(kept)), len(old), source, True)
        else:
            _relay(self._buffer, kept, len(old), source, False)
        self._slot[:] = -1
        self._lay_out(active)
        self._owner, self._used = np.full(self.slots, -1, dtype=np.intp), np.zeros(self.slots, dtype=np.int64)
        self._owner[: len(kept)], self._used[: len(kept)] = owners, used
        self._enough = max(self._enough, len(kept))
        self._slot[owners] = np.arange(len(kept))
        new = np.flatnonzero(source < 0)
        if len(new) and len(kept):
            self.table[: len(kept), new] = self._gram.panel(active[new], self.dtype).rows(owners)


def _relay(buffer: NDArray[Any], slots: Samples, width: int, source: Samples, backwards: bool) -> None:
    """Move the rows in `slots`, `width` wide, to the front of the buffer with the columns of `source`.

    The order is such that no row is overwritten unread. Columns with a negative source are left open.
    """
    wide, count = len(source), len(slots)
    columns = np.flatnonzero(source >= 0)
    picked = source[columns]
    target = slice(None) if len(columns) == wide else columns
    for turn in range(count):
        k = count - 1 - turn if backwards else turn
        start = int(slots[k]) * width
        buffer[k * wide : (k + 1) * wide][target] = buffer[start : start + width].take(picked)
