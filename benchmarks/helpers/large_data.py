"""The data of the races on large kernels: MNIST 3 against 8 where it is at hand, else digits 3 against 8."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.families import hinge_families
from polyopt import Kernel, datasets
from polyopt.kernels import SampleGram, stream
from polyopt.solvers.decomposition.dual import Dual

__all__ = ["Task", "tasks", "three_against_eight", "violation"]


def three_against_eight(limit: int | None = None, smoke: bool = False) -> tuple[str, np.ndarray, np.ndarray]:
    """Name, pixels in [0, 1] as float32 (n, m), and labels: 3 is +1, 8 is -1. For a smoke run, digits."""
    try:
        data, name, top = datasets.load("digits" if smoke else "mnist"), "MNIST 3 vs 8", 255.0
    except datasets.DatasetUnavailable:
        smoke, data = True, datasets.load("digits")
    if smoke:
        name, top = "digits 3 vs 8", 16.0
    chosen = np.isin(data.y, (3, 8))
    X = (data.X[chosen] / top).astype(np.float32)[:limit]
    return f"{name} {X.shape}", X, np.where(data.y[chosen] == 3, 1.0, -1.0)[:limit]


def flipped(y: np.ndarray, share: float = 0.05) -> np.ndarray:
    """The labels with a share of them flipped, by a fixed seed."""
    flips = np.random.default_rng(0).random(len(y)) < share
    return np.where(flips, -y, y)


@dataclass(frozen=True)
class Task:
    """A kernel, a cost, and whether labels are flipped."""

    name: str
    kernel: Kernel
    C: float
    noisy: bool = False

    def labels(self, y: np.ndarray) -> np.ndarray:
        """The labels the task trains on."""
        return flipped(y) if self.noisy else y

    def settings(self) -> dict[str, object]:
        """The task as parameters of an estimator, ours or scikit-learn's."""
        k = self.kernel
        return {"C": self.C, "kernel": k.name, "gamma": k.gamma, "degree": k.degree, "coef0": k.coef0}


def tasks(m: int) -> dict[str, Task]:
    """The tasks for m features."""
    rbf, square = Kernel("rbf", 0.02), Kernel("poly", 0.02, 2, 1.0)
    return {
        "rbf": Task("RBF, C=10", rbf, 10.0),
        "poly": Task("polynomial, C=1000", Kernel("poly", 1.0 / m, 2, 1.0), 1000.0),
        "noisy rbf 10": Task("RBF, C=10, 5% flipped", rbf, 10.0, True),
        "noisy poly 10": Task("polynomial, C=10, 5% flipped", square, 10.0, True),
        "noisy poly 100": Task("polynomial, C=100, 5% flipped", square, 100.0, True),
    }


def violation(task: Task, X: np.ndarray, y: np.ndarray, coef: np.ndarray, B: float = np.inf) -> float:
    """Largest violation m - M of the optimality conditions, from the coefficients in double precision.

    A coefficient that single precision left a hair from its cap counts as at it.
    """
    cap = np.abs(coef) > task.C * (1.0 - 1e-6)
    coef = np.where(cap & np.isinf(B), np.sign(coef) * task.C, coef)
    m, M = Dual(hinge_families(y, np.full(len(y), task.C), B)).violation(
        coef, stream(SampleGram(X, task.kernel), coef)
    )
    return m - M
