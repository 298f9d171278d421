"""Problems to try: data of every shape and fault, in every format, by a seed.

The *ordinary* range is what a user with scaled features meets, faults of the data included: duplicates
with opposite labels, constant features, one sample of a class. The *extreme* range has offsets of up to
1e8, scales from 1e-12 to 1e12, and prices, weights and kernel parameters as far out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["RANGES", "Draw", "data", "kernel", "log_uniform"]

RANGES = ("ordinary", "extreme")
_FAULTS = (
    "none", "none", "duplicates", "opposite labels", "constant feature", "one sample of a class",
    "unbalanced", "collinear", "zeros", "near-identical", "integers", "separated", "same point",
)  # fmt: skip
_FORMATS = ("C", "C", "F", "float32", "CSR", "integers", "list", "frame", "strided")


@dataclass(frozen=True)
class Draw:
    """A problem: the samples as given to ``fit``, and as the numbers they are."""

    X: Any  # the samples as a user would give them
    values: Array  # what they are, in double precision
    y: Array  # labels -1 and +1
    labels: Any  # the labels as given; the greater one is +1
    weights: Array | None  # weights of the samples
    words: str  # fault and format

    @property
    def costs(self) -> Array:
        """The weights, ones where there are none."""
        return np.ones(len(self.y)) if self.weights is None else self.weights


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number between 10**low and 10**high."""
    return float(10.0 ** rng.uniform(low, high))


def data(
    rng: np.random.Generator, extreme: bool, *, largest: int = 40, sparse: bool = True, both: bool = True
) -> Draw:
    """Samples with labels and weights.

    One problem in 25 has up to five times as many samples as `largest`; `both`: there are always two
    classes.
    """
    n = int(rng.integers(2, largest + 1)) if rng.random() > 0.04 else int(rng.integers(largest, 5 * largest))
    m = int(rng.integers(1, 11)) if rng.random() > 0.04 else int(rng.integers(11, 61))
    X, y = _clouds(rng, n, m)
    fault = str(rng.choice(_FAULTS))
    X, y = _faulty(rng, X, y, fault)
    X, moved = _moved(rng, X, extreme)
    if both and len(set(y)) < 2:
        y[0] = -y[-1]
    form = str(rng.choice([f for f in _FORMATS if sparse or f != "CSR"]))
    given, values = _formatted(X, form)
    if not np.isfinite(values).all():
        given, values, form = X, X, "C"
    return Draw(
        given, values, y, _named(rng, y), _weights(rng, n, extreme), f"{fault}, {moved}, {form}, {n}x{m}"
    )


def kernel(rng: np.random.Generator, values: Array, extreme: bool, names: Sequence[str]) -> dict[str, Any]:
    """A kernel's name, gamma, degree and coef0; gamma in units that fit the data, in the ordinary range."""
    name = str(rng.choice(names))
    spread = float(values.var()) * values.shape[1]
    fitting = 1.0 / spread if 0 < spread < np.inf else 1.0
    gamma = fitting * log_uniform(rng, *((-8, 8) if extreme else (-2, 1)))
    if not 0 < gamma < 1e300:
        gamma = 1.0
    coef0 = float(rng.choice([0.0, 1.0, 1.0, -1.0, -0.1, 10.0]))
    return {"name": name, "gamma": gamma, "degree": int(rng.integers(1, 5)), "coef0": coef0}


def _clouds(rng: np.random.Generator, n: int, m: int) -> tuple[Array, Array]:
    """Labels by a plane, by a circle, by a parity, or of two clouds; with or without noise."""
    X = rng.normal(size=(n, m))
    shape = rng.integers(4)
    if shape == 0:
        score = X @ rng.normal(size=m)
    elif shape == 1:
        score = (X**2).sum(axis=1) - m
    elif shape == 2:
        score = X[:, 0] * X[:, -1]
    else:
        score = rng.normal(size=n)
        X += 0.7 * rng.exponential() * np.sign(score)[:, None]
    score = score + rng.choice([0.0, 0.5]) * rng.normal(size=n)
    return X, np.where(score > np.median(score) * (rng.random() < 0.5), 1.0, -1.0)


def _faulty(rng: np.random.Generator, X: Array, y: Array, fault: str) -> tuple[Array, Array]:
    n, m = X.shape
    half = rng.random(n) < 0.5
    if fault in ("duplicates", "opposite labels"):
        twins = rng.integers(0, n, n)
        X = np.where(half[:, None], X[twins], X)
        y = np.where(half, y[twins] if fault == "duplicates" else -y[twins], y)
    elif fault == "constant feature":
        X[:, rng.integers(m)] = rng.choice([0.0, 1.0, -3.7])
    elif fault in ("one sample of a class", "unbalanced"):
        y[:] = rng.choice([-1.0, 1.0])
        y[: 1 if fault == "one sample of a class" else max(1, n // 10)] *= -1
    elif fault == "collinear":
        X = np.outer(X[:, 0], rng.normal(size=m)) + rng.choice([0.0, 1e-9]) * X
    elif fault == "zeros":
        X = np.zeros_like(X) if rng.random() < 0.5 else np.where(half[:, None], 0.0, X)
    elif fault == "near-identical":
        X = X[rng.integers(0, max(n // 3, 1), n)] + 10.0 ** rng.uniform(-14, -4) * X
    elif fault == "integers":
        X = np.round(2 * X)
    elif fault == "separated":
        X[:, 0] = np.where(y > 0, 3 + abs(X[:, 0]), -3 - abs(X[:, 0]))
    elif fault == "same point":
        X = np.repeat(X[:1], n, axis=0)
    return X, y


def _moved(rng: np.random.Generator, X: Array, extreme: bool) -> tuple[Array, str]:
    """Scaled and shifted."""
    if not extreme:
        scale, offset = log_uniform(rng, -1, 1), float(rng.choice([0.0, 0.0, 1.0, -10.0, 100.0]))
        return X * scale + offset, f"scale {scale:.3g}, offset {offset:g}"
    kind = rng.integers(5)
    if kind == 0:
        scales = 10.0 ** rng.uniform(-12, 12, X.shape[1])
        return X * scales, "mixed scales"
    scale = log_uniform(rng, -12, 12) if kind < 3 else log_uniform(rng, -1, 1)
    offset = float(rng.choice([0.0, 1.0, -1.0])) * log_uniform(rng, 0, 8) if kind > 1 else 0.0
    return X * scale + offset, f"scale {scale:.3g}, offset {offset:.3g}"


def _formatted(X: Array, form: str) -> tuple[Any, Array]:
    """The samples in a format, and the numbers that they are in it."""
    if form == "float32":
        with np.errstate(over="ignore"):
            given = X.astype(np.float32)
        return given, given.astype(float)
    if form == "integers":
        given = np.round(np.clip(4 * X, -1e15, 1e15)).astype(np.int64)
        return given, given.astype(float)
    if form == "strided":
        wide = np.repeat(X, 2, axis=1)
        return wide[:, ::2], X
    makers = {
        "C": np.ascontiguousarray, "F": np.asfortranarray, "CSR": sp.csr_matrix, "list": lambda A: A.tolist(),
        "frame": lambda A: pd.DataFrame(A, columns=[f"x{j}" for j in range(A.shape[1])]),
    }  # fmt: skip
    return makers[form](X), X


def _named(rng: np.random.Generator, y: Array) -> Any:
    """The labels as numbers, words or truth values, in an array or a list."""
    kind = rng.integers(4)
    if kind == 1:
        return np.where(y > 0, "yes", "no")
    if kind == 2:
        return (y > 0).tolist()
    return y.astype(int) if kind else y


def _weights(rng: np.random.Generator, n: int, extreme: bool) -> Array | None:
    if rng.random() < 0.6:
        return None
    weights = 10.0 ** (rng.uniform(-6, 6, n) if extreme else rng.uniform(-1, 1, n))
    if extreme and rng.random() < 0.05:
        return np.full(n, 1e300)
    if rng.random() < 0.3:
        weights = np.round(np.clip(weights, 1, 1e6))
    return weights
