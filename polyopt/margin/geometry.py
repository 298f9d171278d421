"""The quadratic part of a hinge program: what an inner product, a norm and a score are.

A hinge program needs a few operations of its feature space, whatever the space is. `v` stands for
the vector that represents ``w``: ``w`` itself for linear features, expansion coefficients for a
kernel. `beta` is a vector over the samples.

What a value or a bound rests on comes as a :class:`~polyopt.linalg.rounding.Ball`: ``outputs``,
``energy`` and ``price``. The rest guides ascents and measures residuals, in plain numbers.

With a kernel, a certificate asks for the products of the Gram matrix with two or three vectors that differ
little: the coefficients, what the multipliers imply, and the same once repaired. :class:`Products` computes
each kernel value once if it can: columns that fit into a fixed share of memory are kept; others are computed
anew in each pass over the matrix, so the vectors are best announced together. The last few products are
remembered either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from formulations.language.types import as_csr, canonical, is_sparse
from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels import MatrixGram, SampleGram, as_gram, chunks, middle_of, spread_samples
from polyopt.linalg.kernels.panels import CHUNK
from polyopt.linalg.rounding import ABOVE, Ball, gamma, product, transposed_product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector
    from polyopt.linalg.kernels import Gram, Panel

    Samples = NDArray[np.intp]

__all__ = ["BLOCK", "Geometry", "KernelGeometry", "LinearGeometry", "largest_eigenvalue", "middle"]

_CACHE_BYTES = 2**29  # that kept columns of the matrix may take
_ROWS = 512  # rows of the matrix that are multiplied at once
_COLUMNS = 64  # terms that are added up before the sums are, for less rounding
BLOCK = 4096  # samples that are centred at a time: what a pass over the data needs beside them


class Products:
    """``K v`` and the size of its terms, in double precision, from the columns in the support of v alone."""

    def __init__(self, gram: Gram):
        self._gram = gram
        self._every = np.arange(gram.n)
        self._kept: list[tuple[Samples, Vector]] = []
        self._is_kept = np.zeros(gram.n, dtype=bool)
        self._room = _CACHE_BYTES // (8 * gram.n)  # columns that may still be kept
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
        k = _COLUMNS + CHUNK // _COLUMNS + len(v) // CHUNK + len(self._kept) + 6
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
        while len(self._known) > 8:
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
            for at in chunks(np.arange(len(samples))):
                some = slice(at[0], at[-1] + 1)
                yield samples[some], partial(_cut, columns, some)
        for samples in chunks(missing):
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


class Geometry(Protocol):
    """The operations of a feature space that a hinge program needs; n samples."""

    n: int
    unit: float  # the size of the gradient of half the energy where the energy is 1
    short: float  # how far the quadratic may be from convex: outputs(v) are off by short ‖v‖ in all besides
    note: str  # what a reader should know about the bounds, as a sentence

    def prepare(self, *vectors: Vector) -> None:
        """Be told which v and beta will be asked about, so that one pass over the data may do."""

    def scores(self, v: Vector) -> Vector:
        """``w'phi(x_i)`` for every sample, shape (n,)."""

    def outputs(self, v: Vector) -> Ball:
        """:meth:`scores`, with their rounding, for the matrix as it is given."""

    def moved(self, v: Vector, intercept: float) -> Ball:
        """The intercept for samples as :meth:`scores` has them, from the one for samples as they are."""

    def gradient(self, v: Vector) -> Vector:
        """Gradient of half the energy."""

    def pull(self, beta: Vector) -> Vector:
        """Gradient of ``sum_i beta_i w'phi(x_i)``, in the units of :meth:`gradient`."""

    def columns(self, samples: NDArray[np.intp]) -> Vector:
        """:meth:`pull` of each of these samples alone, as the columns of a matrix."""

    def pull_scale(self, beta: Vector) -> float:
        """Size of the terms that :meth:`pull` adds up: what its rounding errors are relative to."""

    def represent(self, beta: Vector) -> Vector:
        """The v whose gradient is ``pull(beta)``: the minimiser of the Lagrangian."""

    def energy(self, v: Vector) -> Ball:
        """Twice the regulariser: ``||w||^2``, or its like in another metric."""

    def price(self, beta: Vector) -> Ball:
        """The energy of ``represent(beta)``, or more: what a dual objective pays, twice."""

    def sizes(self) -> Vector:
        """Norms of the samples in the metric that :meth:`price` is taken in, or more; shape (n,)."""

    def curvature(self) -> float:
        """Estimate of the largest eigenvalue of ``beta -> scores(represent(beta))``."""


def middle(X: Matrix) -> Vector | None:
    """A point amid dense samples (n, m) to take them from; None for sparse ones, which stay as they are."""
    if sp.issparse(X):
        return None
    return middle_of(X)


class LinearGeometry:
    """Linear features in the plain norm.

    If `centred`, scores are of dense samples less a point amid them, or less `centre` (m,). A program with a
    free intercept is the same for both, and far from the origin only the centred one keeps its digits.
    """

    note, short = "", 0.0

    def __init__(self, X: Matrix, *, centred: bool = False, centre: Vector | None = None):
        self.X: Matrix = canonical(as_csr(X, float)) if sp.issparse(X) else np.asarray(X, dtype=float)
        self.n, m = self.X.shape
        self._shift = middle(self.X) if centred else None
        if centre is not None and not sp.issparse(self.X):
            self._shift = centre
        self.centre = np.zeros(m) if self._shift is None else self._shift
        self.unit = 1.0

    def prepare(self, *vectors: Vector) -> None:
        pass  # its products are cheap

    def scores(self, v: Vector) -> Vector:
        return (
            np.asarray(self.X @ v) if self._shift is None else np.concatenate([r @ v for r in self._rows()])
        )

    def _rows(self) -> Iterator[Vector]:
        """The samples less the point amid them, some at a time."""
        for start in range(0, self.n, BLOCK):
            yield self.X[start : start + BLOCK] - self.centre

    def outputs(self, v: Vector) -> Ball:
        return product(self.X, v, self._shift)

    def moved(self, v: Vector, intercept: float) -> Ball:
        return Ball(intercept) if self._shift is None else Ball(v).dot(self._shift) + intercept

    def gradient(self, v: Vector) -> Vector:
        return v

    def pull(self, beta: Vector) -> Vector:
        if self._shift is None:
            return np.asarray(self.X.T @ beta)
        parts = (rows.T @ beta[BLOCK * k : BLOCK * (k + 1)] for k, rows in enumerate(self._rows()))
        return np.asarray(np.add.reduce(list(parts)))

    def columns(self, samples: NDArray[np.intp]) -> Vector:
        rows: Any = self.X[samples]
        return np.asarray((rows.toarray() if sp.issparse(rows) else rows - self.centre).T)

    def pull_scale(self, beta: Vector) -> float:
        return float(np.max(self.pull_sizes(beta), initial=0.0))

    def pull_sizes(self, beta: Vector) -> Vector:
        """The sizes of the terms that :meth:`pull` adds up, added up."""
        size, found = np.abs(beta), np.zeros(self.X.shape[1])
        for start in range(0, self.n, BLOCK):
            rows = self.X[start : start + BLOCK]
            found += abs(rows if sp.issparse(rows) else rows - self.centre).T @ size[start : start + BLOCK]
        return found

    def represent(self, beta: Vector) -> Vector:
        return self.pull(beta)

    def energy(self, v: Vector) -> Ball:
        return Ball(v).square_sum()

    def price(self, beta: Vector) -> Ball:
        return transposed_product(self.X, beta, self._shift).square_sum()

    def sizes(self) -> Vector:
        return self._norms

    @cached_property
    def _norms(self) -> Vector:
        found = np.empty(self.n)
        for start in range(0, self.n, BLOCK):
            rows = self.X[start : start + BLOCK]
            squares = rows.multiply(rows) if is_sparse(rows) else (rows - self.centre) ** 2
            found[start : start + BLOCK] = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        return found * (1.0 + 1e-12)

    def curvature(self) -> float:
        return largest_eigenvalue(lambda beta: self.scores(self.represent(beta)), self.n)


class KernelGeometry:
    """The feature space of a Gram matrix; v are expansion coefficients, ``w = sum_i v_i phi(x_i)``.

    The matrix (n, n) is whole, or served by blocks: no more of it is computed than the columns of the samples
    in use, and no more kept than half a gigabyte. Its least eigenvalue is at least -`short`, as
    :func:`polyopt.linalg.kernels.require_psd` tells: values and bounds hold for every semidefinite matrix
    this near.
    """

    def __init__(self, gram: Gram | Any, short: float = 0.0):
        gram = as_gram(gram)
        self.gram = gram.careful() if isinstance(gram, SampleGram) else gram
        self.n = self.gram.n
        self.unit = float(np.sqrt(max(self.gram.diagonal().max(), 0.0)))
        self.note = ""
        self.short = short
        self._products = Products(self.gram)
        self._error, self._sizes = self.gram.entry_error()
        diagonal = self.gram.diagonal()
        if short > 1e-12 * self.n * float(np.abs(diagonal).max(initial=0.0)):
            self.note = (
                f"The Gram matrix has an eigenvalue near {-short:.2g}: what is said holds for every "
                "semidefinite matrix within that distance of it."
            )

    def prepare(self, *vectors: Vector) -> None:
        self._products.prepare(list(vectors))

    def scores(self, v: Vector) -> Vector:
        return self._products.of(v)

    def outputs(self, v: Vector) -> Ball:
        found = self._products.ball(v)
        if not self._error:
            return found
        off = self._error * (self._sizes * float(self._sizes @ np.abs(v)))
        return Ball(found.mid, found.rad + off * ABOVE)

    def moved(self, v: Vector, intercept: float) -> Ball:
        return Ball(intercept)

    def gradient(self, v: Vector) -> Vector:
        return self._products.of(v)

    def pull(self, beta: Vector) -> Vector:
        return self._products.of(beta)

    def columns(self, samples: NDArray[np.intp]) -> Vector:
        return self._products.columns(samples)

    def pull_scale(self, beta: Vector) -> float:
        return float(self._products.terms(beta).max(initial=0.0))

    def represent(self, beta: Vector) -> Vector:
        return beta

    def energy(self, v: Vector) -> Ball:
        found = Ball(v).dot(self.outputs(v))
        found = Ball(found.mid, found.rad + self.short * float(v @ v) * ABOVE)
        # A square: rounding must not make it negative.
        return found if found.mid >= 0.0 else Ball(0.0, float(found.size))

    def price(self, beta: Vector) -> Ball:
        return self.energy(beta)

    def sizes(self) -> Vector:
        finite = np.isfinite(self._sizes).all()
        found = self._sizes if finite else np.full(self.n, np.sqrt(np.abs(self.gram.diagonal()).max()))
        return np.sqrt(found**2 + self.short) * ABOVE

    def curvature(self) -> float:
        # For many samples from some of them, spread evenly: the mean outer product is about the same.
        some = spread_samples(self.n)
        K = self.gram.panel(some, np.float64).rows(some)
        return self.n / len(some) * largest_eigenvalue(lambda beta: K @ beta, len(some))


def largest_eigenvalue(product: Callable[[Vector], Vector], n: int) -> float:
    """Largest eigenvalue of a semidefinite map on n numbers, from below, by power iteration."""
    direction = np.cos(np.arange(n) + 1.0)  # no symmetry of the data is likely to hide from it
    largest, norm = 0.0, float(np.linalg.norm(direction))
    for _ in range(30):  # within a few percent, which do for a step length
        direction = product(direction / norm)
        norm = float(np.linalg.norm(direction))
        if norm == 0.0 or not np.isfinite(norm):
            break
        largest = max(largest, norm)
    return largest
