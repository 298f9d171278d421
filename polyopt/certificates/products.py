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
        self._known: dict[bytes, tuple[Vector, float | None]] = {}
        if isinstance(gram, MatrixGram):
            self._kept.append((self._every, gram.K))
            self._is_kept[:] = True

    def of(self, v: Vector) -> Vector:
        """``K v``, shape (n,), read-only."""
        if _key(v) not in self._known:
            self._compute({_key(v): v}, sizes=False)
        return self._known[_key(v)][0]

    def size(self, v: Vector) -> float:
        """The largest entry of ``|K| |v|``."""
        self.prepare([v])
        size = self._known[_key(v)][1]
        assert size is not None
        return size

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
        largest = np.zeros(V.shape[1])
        for part, blocks in self._by_rows(np.flatnonzero(V.any(axis=1))):
            terms = np.zeros(products[part].shape)
            for samples, block in blocks:
                products[part] += block @ V[samples]
                if sizes:
                    terms += np.abs(block) @ np.abs(V[samples])
            largest = np.maximum(largest, terms.max(axis=0))
        products.setflags(write=False)
        for key, product, size in zip(vectors, products.T, largest, strict=True):
            self._known.pop(key, None)
            self._known[key] = product, float(size) if sizes else None
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
