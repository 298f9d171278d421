"""Products of a Gram matrix with vectors, each kernel value being computed once where that can be.

A certificate asks for the products of two or three vectors that differ little: the coefficients, what
the multipliers imply, and the same once repaired. Columns that fit into a fixed share of memory are
kept; others are computed anew in each pass over the matrix, so the vectors are best announced
together. The last few products are remembered either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.rounding import ABOVE, Ball, gamma
from polyopt.kernels import MatrixGram, SampleGram, chunks
from polyopt.threads import run_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.kernels import Gram, Panel

    Samples = NDArray[np.intp]

__all__ = ["Products"]

_KEPT_BYTES = 2**29  # that kept columns of the matrix may take
_REMEMBERED = 8  # products K v, the last ones
_ROWS = 512  # rows of the matrix that are multiplied at once
_TILE = 2048  # and columns
_COLUMNS = 64  # terms that are added up before the sums are, for less rounding


class Products:
    """``K v`` and the size of its terms, in double precision, from the columns in the support of v alone."""

    def __init__(self, gram: Gram):
        self._gram = gram
        self._every = np.arange(gram.n)
        self._kept: list[tuple[Samples, Vector]] = []
        self._is_kept = np.zeros(gram.n, dtype=bool)
        self._room = _KEPT_BYTES // (8 * gram.n)  # columns that may still be kept
        self._known: dict[bytes, tuple[Vector, Vector | None]] = {}
        if isinstance(gram, MatrixGram):
            self._kept.append((self._every, gram.K))
            self._is_kept[:] = True

    def of(self, v: Vector) -> Vector:
        """``K v``, shape (n,), read-only."""
        if _key(v) not in self._known:
            self._compute({_key(v): v}, sizes=False)
        return self._known[_key(v)][0]

    def terms(self, v: Vector) -> Vector:
        """``|K| |v|``, shape (n,): the size of what :meth:`of` adds up."""
        self.prepare([v])
        terms = self._known[_key(v)][1]
        assert terms is not None
        return terms

    def ball(self, v: Vector) -> Ball:
        """``K v`` with the rounding of its sums, for the entries of K as they are computed."""
        terms = self.terms(v)
        k = _COLUMNS + _TILE // _COLUMNS + len(v) // _TILE + len(self._kept) + 6
        return Ball(self.of(v), gamma(k) * terms * ABOVE)

    def prepare(self, vectors: list[Vector]) -> None:
        """Compute what will be asked about these vectors, in one pass over the matrix."""
        new = {_key(v): v for v in vectors if self._known.get(_key(v), (v, None))[1] is None}
        if new:
            self._compute(new, sizes=True)

    def columns(self, samples: Samples) -> Vector:
        """``K[:, samples]``."""
        columns = np.empty((self._gram.n, len(samples)))
        panel = self._gram.panel(samples, np.float64)
        for rows in chunks(self._every):
            panel.rows(rows, out=columns[rows[0] : rows[-1] + 1])
        return columns

    def _compute(self, vectors: dict[bytes, Vector], *, sizes: bool) -> None:
        V = np.array(list(vectors.values())).T
        width = V.shape[1]
        factors = np.hstack([V, np.abs(V)]) if sizes else V
        found = np.zeros((self._gram.n, factors.shape[1]))
        tiles = list(self._tiles(np.flatnonzero(V.any(axis=1))))

        def some_rows(start: int) -> None:
            part = slice(start, start + _ROWS)
            for samples, blocks in tiles:
                block, own = blocks(part), factors[samples]
                found[part, :width] += _product(block, own[:, :width])
                if sizes:
                    found[part, width:] += np.abs(block) @ own[:, width:]

        count = sum(len(samples) for samples, _ in tiles)
        run_blocks(some_rows, range(0, self._gram.n, _ROWS), self._cost(count))
        found.setflags(write=False)
        for place, key in enumerate(vectors):
            self._known.pop(key, None)
            self._known[key] = found[:, place], found[:, width + place] if sizes else None
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _cost(self, columns: int) -> float:
        """Multiplications that this number of columns takes; 0 where threads may not read the matrix."""
        if not isinstance(self._gram, SampleGram) or callable(self._gram.kernel.name):
            return 0.0
        return float(self._gram.n) * columns * (self._gram.width + 8)

    def _tiles(self, support: Samples) -> Iterator[tuple[Samples, Callable[[slice], Vector]]]:
        """The columns of the support, some at a time, with what gives them for any rows."""
        missing = support[~self._is_kept[support]]
        if len(missing) <= self._room:
            self._keep(missing)
            missing = missing[:0]
        for samples, columns in self._kept:
            for at in chunks(np.arange(len(samples)), _TILE):
                some = slice(at[0], at[-1] + 1)
                yield samples[some], partial(_cut, columns, some)
        for samples in chunks(missing, _TILE):
            panel = self._gram.panel(samples, np.float64)
            yield samples, partial(self._computed, panel)

    def _computed(self, panel: Panel, part: slice) -> Vector:
        return panel.rows(self._every[part])

    def _keep(self, samples: Samples) -> None:
        if len(samples):
            self._kept.append((samples, self.columns(samples)))
            self._is_kept[samples] = True
            self._room -= len(samples)


def _cut(columns: Vector, some: slice, part: slice) -> Vector:
    return columns[part, some]


def _product(block: Vector, factors: Vector) -> Vector:
    """``block factors``, few terms being added up at a time."""
    found = np.zeros((len(block), factors.shape[1]))
    for start in range(0, len(factors), _COLUMNS):
        some = slice(start, start + _COLUMNS)
        found += block[:, some] @ factors[some]
    return found


def _key(v: Vector) -> bytes:
    return (v + 0.0).tobytes()  # the two zeros alike
