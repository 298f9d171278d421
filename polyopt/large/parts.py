"""A block of samples as it was read, made ready for a machine: checked, and of two classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from formulations.families import Families, bound_families, margin_family
from polyopt.solvers.interior_point.block import Block
from polyopt.solvers.interior_point.measured import Work
from polyopt.solvers.interior_point.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import MatrixLike
    from polyopt.large.sources import Samples

__all__ = ["Looked", "Recipe", "Sides", "block_of", "look", "matrix_of", "samples_of", "sides_of"]

_SLICE = 1 << 16


class Looked(NamedTuple):
    """What a first look at a block tells: features, labels that have weight, and how much weight each has.

    `problem` says what is wrong with it; empty where nothing is. `is_sparse` is whether its samples are CSR.
    """

    m: int
    labels: NDArray[Any]
    weights: NDArray[Any]
    is_sparse: bool
    problem: str = ""


class Sides(NamedTuple):
    """Samples of two classes: X (n, m), whether each is of the second (n,), and its weight (n,)."""

    X: Any
    outside: NDArray[np.bool_]
    weights: NDArray[Any]


class Recipe(NamedTuple):
    """What is made of every block: the two classes, their weights, the cost of slack, and the bound B."""

    classes: tuple[Any, Any]
    factors: tuple[float, float]
    C: float
    B: float = np.inf


def look(samples: Samples, number: int) -> Looked:
    """Look at a block for the first time.

    Parameters
    ----------
    samples : Samples
        The block.
    number : int
        Its number, for what is said of it.
    """
    X, y, weights = samples
    where = f"partition {number}"
    if not sp.issparse(X):
        X = np.asarray(X)
    shape: tuple[int, ...] = X.shape
    if len(shape) != 2:
        return _wrong(f"X has {len(shape)} dimensions in {where}, and needs two")
    if len(y) != shape[0] or (weights is not None and len(weights) != shape[0]):
        other = "y" if len(y) != shape[0] else "sample_weight"
        length = len(y) if other == "y" else len(weights)
        return _wrong(f"{other} has {length} entries in {where}, and X has {shape[0]} rows")
    y = np.asarray(y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        return _wrong(f"y has NaN or an infinite value in {where}, row {_first(~np.isfinite(y))}")
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        row = _first(~(np.isfinite(weights) & (weights >= 0)))
        return _wrong(
            f"sample_weight must be finite and at least 0; in {where}, row {row}, it is {weights[row]}"
        )
    bad = _first_bad(matrix_of(X))
    if bad is not None:
        return _wrong(f"X has NaN or an infinite value in {where}, row {bad[0]}, feature {bad[1]}")
    labels, codes = np.unique(y[weights > 0], return_inverse=True)
    sums = np.bincount(codes, weights[weights > 0], len(labels))
    return Looked(shape[1], labels, sums, bool(sp.issparse(X)))


def _wrong(problem: str) -> Looked:
    return Looked(0, np.zeros(0), np.zeros(0), False, problem)


def _first(which: NDArray[np.bool_]) -> int:
    return int(which.argmax())


def _first_bad(X: Any) -> tuple[int, int] | None:
    """Row and feature of the first number that is not finite."""
    if sp.issparse(X):
        if np.isfinite(X.data).all():
            return None
        at = _first(~np.isfinite(X.data))
        return int(X.indptr.searchsorted(at, side="right")) - 1, int(X.indices[at])
    for start in range(0, len(X), _SLICE):
        good = np.isfinite(X[start : start + _SLICE])
        if not good.all():
            row, feature = np.argwhere(~good)[0]
            return start + int(row), int(feature)
    return None


def matrix_of(X: MatrixLike) -> Any:
    """Samples as the solver takes them: dense in rows, or CSR in order; small whole numbers as float32.

    Parameters
    ----------
    X : array_like or sparse matrix of shape (n, m)
        Samples.
    """
    if sp.issparse(X):
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
        if not all(each.flags.aligned for each in (X.data, X.indices, X.indptr)):
            X = X.copy()
        return X
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype in _SMALL else np.float64)
    return np.require(X, requirements=["C", "A"])  # numpy adds up others in another order


_SMALL = (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.float16)  # which float32 holds exactly


def _chosen(samples: Samples, classes: tuple[Any, Any]) -> NDArray[np.bool_]:
    y = np.asarray(samples.y)
    chosen = (y == classes[0]) | (y == classes[1])
    return chosen if samples.weights is None else chosen & (np.asarray(samples.weights) > 0)


def samples_of(samples: Samples, recipe: Recipe) -> Any:
    """The samples of both classes that have weight."""
    chosen = _chosen(samples, recipe.classes)
    return matrix_of(samples.X) if chosen.all() else matrix_of(samples.X)[chosen]


def _weighed(
    samples: Samples, recipe: Recipe, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Of the samples chosen, whether each is of the second class, and its weight."""
    up = np.asarray(samples.y)[chosen] == recipe.classes[1]
    counts = np.where(up, recipe.factors[1], recipe.factors[0])
    if samples.weights is not None:
        counts = counts * np.asarray(samples.weights, dtype=float)[chosen]
    return up, counts


def sides_of(samples: Samples, recipe: Recipe) -> Sides:
    """The samples of both classes that have weight, for loops over rows: bytes stay bytes.

    Parameters
    ----------
    samples : Samples
        The samples.
    recipe : Recipe
        What is made of them.
    """
    chosen, X = _chosen(samples, recipe.classes), samples.X
    is_bytes = isinstance(X, np.ndarray) and X.dtype == np.uint8
    X = X if is_bytes else matrix_of(X)
    return Sides(X if chosen.all() else X[chosen], *_weighed(samples, recipe, chosen))


class _Hinge:
    """The families of rows, made of labels in a byte each, and of one cost where all are alike."""

    def __init__(self, signs: NDArray[np.int8], costs: NDArray[Any], B: float):
        alike = len(costs) > 0 and bool((costs == costs[0]).all())
        self._signs, self._costs, self._B = signs, costs[:1] if alike else costs, B

    def __call__(self) -> Families:
        n = len(self._signs)
        costs = np.broadcast_to(self._costs, (n,)) if len(self._costs) == 1 else self._costs
        return Families(margin_family(self._signs.astype(float), costs), *bound_families(n, self._B))


def block_of(samples: Samples, recipe: Recipe, work: Work | None = None) -> Block | None:
    """The block of both classes; None where it has no such samples.

    Parameters
    ----------
    samples : Samples
        The samples.
    recipe : Recipe
        What is made of them.
    work : Work, optional
        As of :class:`~polyopt.solvers.interior_point.block.Block`.
    """
    chosen = _chosen(samples, recipe.classes)
    if not chosen.any():
        return None
    up, counts = _weighed(samples, recipe, chosen)
    families = _Hinge(np.where(up, 1, -1).astype(np.int8), recipe.C * counts, recipe.B)
    weights = None if bool((counts == 1.0).all()) else counts
    return Block(Rows(samples_of(samples, recipe)), families, 1, weights, work)
