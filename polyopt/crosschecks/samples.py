"""The small random data that the cross-checks are evaluated on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formulations import svm
from formulations.families import Families
from formulations.language.program import Program
from formulations.language.solution import Solution
from formulations.language.toy_data import two_blobs
from formulations.language.types import Vector
from polyopt.linalg.kernels import Kernel
from polyopt.margin.decomposition import solve_decomposition
from polyopt.margin.interior_point import solve_interior_point

_COSTS = (0.3, 1.0, 5.0)  # one for each seed, either side of 1


def generator(seed: int) -> np.random.Generator:
    """Return the generator of what a check draws besides its data."""
    return np.random.default_rng([seed, 50])


def blobs(seed: int, n: int = 40, m: int = 3) -> tuple[Vector, Vector, float]:
    """Return two overlapping classes (n, m) away from the origin, their labels (n,), and a cost."""
    X, y = two_blobs(n=n, m=m, seed=seed)
    return X, y, _COSTS[seed % len(_COSTS)]


@dataclass(frozen=True)
class Bounded:
    """The data of :func:`blobs` with a bound B that binds.

    B is three tenths of the way from 1 to `reach`, the largest absolute output of `plain`, the SVM.
    """

    X: Vector
    y: Vector
    C: float
    B: float
    plain: Solution
    reach: float

    @property
    def data(self) -> tuple[Vector, Vector, float, float]:
        """Arguments of every program of the Relative Margin Machine."""
        return self.X, self.y, self.C, self.B


def bounded(seed: int, cost: float | None = None) -> Bounded:
    """Return the data of :func:`blobs`, at the cost C if `cost` is not given, with a bound that binds."""
    X, y, C = blobs(seed)
    C = C if cost is None else cost
    plain = svm.primal(X, y, C).solve()
    reach = float(np.abs(X @ plain["w"] + plain["b"]).max())
    return Bounded(X, y, C, 1.0 + 0.3 * (reach - 1.0), plain, reach)


def unbalanced(seed: int) -> tuple[Vector, Vector]:
    """Return samples (30, 3) of which two thirds are positive, and their labels (30,)."""
    X, y = two_blobs(seed=seed)
    kept = np.sort(np.concatenate([np.flatnonzero(y > 0), np.flatnonzero(y < 0)[:10]]))
    return X[kept], y[kept]


def clusters(seed: int, n: int = 42, spread: float = 0.45) -> tuple[Vector, Vector]:
    """Negatives in the middle and three clusters of positives around them: samples (n, 2), labels (n,).

    spread: standard deviation of the clusters, whose distance from the middle is 2.
    """
    drawn = np.random.default_rng([seed, 3])
    y = np.where(np.arange(n) < n // 2, -1.0, 1.0)
    angles = 2.0 * np.pi * (np.arange(n) % 3) / 3.0 + 0.3
    centres = np.where(y[:, None] > 0, 2.0 * np.column_stack([np.cos(angles), np.sin(angles)]), 0.0)
    return centres + spread * drawn.normal(size=(n, 2)), y


def rbf(X: Vector) -> Vector:
    """Return the Gaussian kernel between samples, (n, n)."""
    return np.asarray(Kernel("rbf", 0.4, 3, 0.0)(X))


def central_gradient(value: Callable[[Vector], float], at: Vector, h: float) -> Vector:
    """Approximate a gradient by central differences of width h."""
    slopes = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[place] = h
        slopes[place] = (value(at + step) - value(at - step)) / (2.0 * h)
    return slopes


def central_slope(program: Callable[[float], Program], at: float, h: float = 1e-4) -> float:
    """Approximate the slope of a program's optimum in a parameter by central differences."""
    low, high = (program(at + change).solve().objective for change in (-h, h))
    return (high - low) / (2.0 * h)


def linear_optima(X: Vector, families: Families) -> list[float]:
    """Return the optima of a linear machine by decomposition and by the interior-point solver."""
    return [
        solve_decomposition(X @ X.T, families, tol=1e-8).objective,
        solve_interior_point(X, families, tol=1e-9).objective,
    ]
