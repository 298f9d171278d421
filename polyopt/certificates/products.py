"""Products of a Gram matrix with vectors, each kernel value being computed once where that can be.

A certificate asks for the products of two or three vectors that differ little: the coefficients, what
the multipliers imply, and the same once repaired. Columns that fit into a fixed share of memory are
kept; others are computed anew in each pass over the matrix, so the vectors are best announced
together. The last few products are remembered either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.rounding import Ball, gamma
from polyopt.kernels import MatrixGram, chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.kernels import Gram

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["Products"]

_KEPT_BYTES = 2**29
_REMEMBERED = 8
_ROWS = 512  # rows of the matrix that are multiplied at once
_COLUMNS = 64  # terms that are added up before the sums are, for less rounding


class Products:
    """``K v`` and the size of its terms, in double precision, from the columns in the support of v alone.

    Parameters
    ----------
    gram : Gram
        The matrix K, of n rows.
    """

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
        k = _COLUMNS + len(v) // _COLUMNS + len(self._kept) + 4
        return Ball(self.of(v), gamma(k) * terms * (1 + 1e-9))

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
        products = np.zeros(V.shape, order="F")
        size = np.zeros(V.shape)
        for part, blocks in self._by_rows(np.flatnonzero(V.any(axis=1))):
            for samples, block in blocks:
                for start in range(0, len(samples), _COLUMNS):
                    some = slice(start, start + _COLUMNS)
                    products[part] += block[:, some] @ V[samples[some]]
                if sizes:
                    size[part] += np.abs(block) @ np.abs(V[samples])
        products.setflags(write=False)
        for key, product, terms in zip(vectors, products.T, size.T, strict=True):
            self._known.pop(key, None)
            self._known[key] = product, terms if sizes else None
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _by_rows(self, support: Samples) -> Iterator[tuple[slice, list[tuple[Samples, Vector]]]]:
        """Some rows at a time: the blocks of K that hold the columns of the support."""
        missing = support[~self._is_kept[support]]
        if len(missing) <= self._room:
            self._keep(missing)
            missing = missing[:0]
        panel = self._gram.panel(missing, np.float64) if len(missing) else None
        for rows in chunks(self._every, _ROWS):
            part = slice(rows[0], rows[-1] + 1)
            blocks = [(samples, block[part]) for samples, block in self._kept]
            if panel is not None:
                blocks.append((missing, panel.rows(rows)))
            yield part, blocks

    def _keep(self, samples: Samples) -> None:
        if len(samples):
            self._kept.append((samples, self.columns(samples)))
            self._is_kept[samples] = True
            self._room -= len(samples)


def _key(v: Vector) -> bytes:
    return (v + 0.0).tobytes()  # the two zeros alike
