"""A block of samples as it was read: recognised by its checksum, inspected, and reduced to two classes.

A source must return the same block each time, because blocks are read more than once, and again if a worker
is lost. With a random source without a seed, a result would not be that of any data set.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from formulations.language.types import MatrixLike, aligned, as_csr, canonical
from polyopt.estimators.frames import column_as_numbers, column_names, is_missing
from polyopt.scale.sources import Samples, unframed

_EXACT_IN_FLOAT32 = (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.float16)


# -- checksums ---------------------------------------------------------------------------------------


class Checksum(NamedTuple):
    """Checksums of a block: of all its rows, and of about 64 of them."""

    all_rows: int
    sampled_rows: int


def checksum_of(samples: Samples) -> Checksum:
    """Return the checksum of a block."""
    return Checksum(_checksum(samples, whole=True), _checksum(samples, whole=False))


def check_block(samples: Samples, number: int, checksum: Checksum | None, *, whole: bool) -> Samples:
    """Compare a block with its checksum, if there is one; return its samples.

    whole: True to compare all rows; False to compare about 64, at hardly any cost.
    ValueError: the block has changed since its first reading.
    """
    if checksum is not None:
        samples = unframed(samples)
        if _checksum(samples, whole=whole) != (checksum.all_rows if whole else checksum.sampled_rows):
            raise ValueError(
                f"partition {number} was read again, and has other samples, labels or weights than at first: "
                "what it is made from must give the same each time (a random source needs a seed, which may "
                "follow from the partition's number)"
            )
    return samples


def _checksum(samples: Samples, *, whole: bool) -> int:
    stride = 1 if whole else max(len(samples.y) // 64, 1)
    X = samples.X
    X = row_matrix((as_csr(X) if sp.issparse(X) else np.asarray(X))[::stride])
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
    arrays += [np.asarray(values)[::stride] for values in samples[1:] if values is not None]
    checksum = 0
    for array in arrays:
        checksum = crc32(repr((array.shape, str(array.dtype))).encode(), checksum)
        if array.dtype == object:  # labels that are texts or missing
            checksum = crc32(str(joblib.hash(array)).encode(), checksum)
        else:
            checksum = crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, checksum)
    return checksum


# -- inspection --------------------------------------------------------------------------------------


class Report(NamedTuple):
    """Findings of the inspection of a block."""

    m: int  # number of features
    labels: NDArray[Any]  # (p,), labels of samples with positive weight
    counts: NDArray[np.int64]  # (p,), number of these samples of each label
    weights: NDArray[np.float64]  # (p, 3), their total, least and largest weight
    max_entry: float  # largest absolute entry of X
    is_sparse: bool  # True if the samples are CSR
    checksum: Checksum  # for later readings
    names: tuple[str, ...] | None  # of the features, if they are known


def inspect_block(samples: Samples, number: int, names: Sequence[str] | None) -> Report:
    """Check a block when it is first read; ValueError for its first fault.

    names: names of the features; by default the columns of a frame.
    """
    where, names = f"partition {number}", column_names(samples.X) if names is None else names
    try:
        samples = unframed(samples)
    except ValueError as error:
        raise ValueError(f"X in {where}: {error}") from None
    X, y, weights = samples
    for name, values in (("X", X), ("y", y), ("sample_weight", weights)):
        if np.ma.is_masked(values):
            raise ValueError(f"{name} has masked entries, which are missing values, in {where}")
    X = X if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions in {where}, and needs two")
    n, m = X.shape
    for name, values in (("y", y), ("sample_weight", weights)):
        if values is None:
            continue
        if len(values) != n:
            raise ValueError(f"{name} has {len(values)} entries in {where}, and X has {n} rows")
        if np.ndim(values) != 1:
            raise ValueError(f"{name} has {np.ndim(values)} dimensions in {where}, and needs one")
    _check_labels(np.asarray(y), where)
    weights = np.ones(n) if weights is None else column_as_numbers(np.asarray(weights), "sample_weight")
    if not (valid := np.isfinite(weights) & (weights >= 0)).all():
        row = int(valid.argmin())
        raise ValueError(
            f"sample_weight must be finite and at least 0; in {where}, row {row}, it is {weights[row]}"
        )
    try:
        X = row_matrix(X)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X holds other values than numbers in {where} ({error})") from None
    entries = X.data if sp.issparse(X) else X
    with np.errstate(invalid="ignore"):
        max_entry = max(float(entries.max(initial=0)), -float(entries.min(initial=0)))
    if not np.isfinite(max_entry):
        row, feature = _first_not_finite(X)
        column = f"feature {feature}" if names is None else f"column {names[feature]!r}"
        raise ValueError(f"X has NaN or an infinite value in {where}, row {row}, {column}")
    positive = weights[weights > 0]
    labels, codes, counts = np.unique(np.asarray(y)[weights > 0], return_inverse=True, return_counts=True)
    least, most = np.full(len(labels), np.inf), np.zeros(len(labels))
    np.minimum.at(least, codes, positive)
    np.maximum.at(most, codes, positive)
    return Report(
        m=m,
        labels=labels,
        counts=counts,
        weights=np.column_stack([np.bincount(codes, positive, len(labels)), least, most]),
        max_entry=max_entry,
        is_sparse=bool(sp.issparse(X)),
        checksum=checksum_of(samples._replace(X=X)),
        names=None if names is None else tuple(names),
    )


def _check_labels(y: NDArray[Any], where: str) -> None:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(f"y has NaN or an infinite value in {where}, row {np.isfinite(y).argmin()}")
    missing = np.zeros(len(y), bool)
    if y.dtype.kind in "mM":
        missing = np.isnat(y)
    elif y.dtype == object:
        missing = np.array([is_missing(label) for label in y], bool)
    if missing.any():
        raise ValueError(f"y has no label in {where}, row {missing.argmax()}")


def _first_not_finite(X: Any) -> tuple[int, int]:
    """Return row and feature of the first number that is not finite."""
    if sp.issparse(X):
        entry = np.isfinite(X.data).argmin()
        return int(X.indptr.searchsorted(entry, side="right")) - 1, int(X.indices[entry])
    row, feature = np.unravel_index(np.isfinite(X).argmin(), X.shape)
    return int(row), int(feature)


# -- two classes -------------------------------------------------------------------------------------


class Selection(NamedTuple):
    """Rows of two classes in a block of n rows."""

    rows: NDArray[np.bool_]  # mask (n,) of the rows of both classes that have weight
    is_second: NDArray[np.bool_]  # mask of the second class among these rows
    weights: NDArray[np.float64]  # weights of these rows, times the weights of their classes

    def part(self, mask: NDArray[np.bool_]) -> "Selection":
        """Return the selected rows in a mask of these."""
        rows = self.rows.copy()
        rows[self.rows] = mask
        return Selection(rows, self.is_second[mask], self.weights[mask])


class TwoClasses(NamedTuple):
    """Samples of two classes."""

    X: Any  # (n, m)
    outside: NDArray[np.bool_]  # mask (n,) of the second class
    weights: NDArray[Any]  # (n,)


class Pair(NamedTuple):
    """Two classes of the samples, and their costs: C times the factor of the class times the weight."""

    classes: tuple[Any, Any]  # labels of the first class (-1, or inside) and of the second (+1, or outside)
    factors: tuple[float, float]  # weights of the classes
    C: float


def solver_matrix(X: MatrixLike) -> Any:
    """Return samples (n, m) for the solver: dense in rows, or CSR in order; small integers as float32."""
    if sp.issparse(X):
        X = canonical(as_csr(X))
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype in _EXACT_IN_FLOAT32 else np.float64)
    return aligned(X)  # numpy adds up others in another order


def row_matrix(X: MatrixLike) -> Any:
    """Return samples (n, m) for loops over rows: bytes as bytes, others as of :func:`solver_matrix`."""
    return X if isinstance(X, np.ndarray) and X.dtype == np.uint8 else solver_matrix(X)


def select_classes(samples: Samples, pair: Pair) -> Selection | None:
    """Select the samples of two classes that have weight; None if there are none."""
    y = np.asarray(samples.y)
    chosen = (y == pair.classes[0]) | (y == pair.classes[1])
    weights = None if samples.weights is None else np.asarray(samples.weights, dtype=float)
    if weights is not None:
        chosen &= weights > 0
    if not chosen.any():
        return None
    is_second = y[chosen] == pair.classes[1]
    class_weights = np.where(is_second, pair.factors[1], pair.factors[0])
    return Selection(chosen, is_second, class_weights if weights is None else class_weights * weights[chosen])


class RowSubset:
    """Some rows of a dense matrix, copied a few at a time: a copy of all would be new memory in each pass."""

    def __init__(self, X: NDArray[Any], chosen: NDArray[np.bool_]):
        self._X, self._indices = np.asarray(X), np.flatnonzero(chosen)
        self.shape, self.dtype = (len(self._indices), X.shape[1]), X.dtype

    def __getitem__(self, part: slice) -> NDArray[Any]:
        return self._X.take(self._indices[part], axis=0)


def solver_rows(samples: Samples, chosen: NDArray[np.bool_] | None) -> Any:
    """Return the chosen samples (None: all) for the solver: a matrix, or slices of one."""
    X = solver_matrix(samples.X)
    if chosen is None or chosen.all():
        return X
    return X[chosen] if sp.issparse(X) else RowSubset(X, chosen)


def two_classes(samples: Samples, pair: Pair) -> TwoClasses:
    """Return the samples of both classes that have weight, for loops over rows: bytes stay bytes."""
    selection, X = select_classes(samples, pair), row_matrix(samples.X)
    if selection is None:
        return TwoClasses(X[:0], np.zeros(0, bool), np.zeros(0))
    rows = X if selection.rows.all() else X[selection.rows]
    return TwoClasses(rows, selection.is_second, selection.weights)


def concatenate(parts: Sequence[TwoClasses]) -> TwoClasses:
    """Return the samples of at least one block, in the order of the blocks."""
    rows, outside, weights = zip(*parts, strict=True)
    X = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.concatenate(rows)
    return TwoClasses(X, np.concatenate(outside), np.concatenate(weights))
