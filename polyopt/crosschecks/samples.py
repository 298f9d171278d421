"""Small random data of the cross-checks."""

import numpy as np

from formulations import svm
from formulations.language.solution import Solution
from formulations.language.toy_data import two_blobs
from formulations.language.types import Vector
from polyopt.linalg.kernels import Kernel

_COSTS = (0.3, 1.0, 5.0)  # one for each seed, either side of 1


def generator(seed: int) -> np.random.Generator:
    """Return the generator for random numbers of a check besides its data."""
    return np.random.default_rng([seed, 50])


def blobs(seed: int, n: int = 40, m: int = 3) -> tuple[Vector, Vector, float]:
    """Return two overlapping classes (n, m) away from the origin, their labels (n,), and a cost."""
    X, y = two_blobs(n=n, m=m, seed=seed)
    return X, y, _COSTS[seed % len(_COSTS)]


Data = tuple[Vector, Vector, float, float]


def bounded(seed: int, cost: float | None = None) -> tuple[Data, Solution, float]:
    """Return (X, y, C, B) with a bound that binds, the SVM of the same cost, and its largest absolute output.

    X, y and, if `cost` is None, C are those of :func:`blobs`. B = 1 + 0.3 (largest output − 1).
    """
    X, y, C = blobs(seed)
    C = C if cost is None else cost
    optimum = svm.primal(X, y, C).solve()
    reach = float(np.abs(X @ optimum["w"] + optimum["b"]).max())
    return (X, y, C, 1.0 + 0.3 * (reach - 1.0)), optimum, reach


def clusters(seed: int, n: int = 42, spread: float = 0.45) -> tuple[Vector, Vector]:
    """Return samples (n, 2) and labels (n,): negatives in the middle, positives in three clusters around.

    The clusters have the standard deviation `spread` and the distance 2 from the middle.
    """
    rng = np.random.default_rng([seed, 3])
    y = np.where(np.arange(n) < n // 2, -1.0, 1.0)
    angles = 2.0 * np.pi * (np.arange(n) % 3) / 3.0 + 0.3
    centres = np.where(y[:, None] > 0, 2.0 * np.column_stack([np.cos(angles), np.sin(angles)]), 0.0)
    return centres + spread * rng.normal(size=(n, 2)), y


def rbf(X: Vector) -> Vector:
    """Return the Gaussian kernel between samples, (n, n)."""
    return np.asarray(Kernel("rbf", 0.4, 3, 0.0)(X))
