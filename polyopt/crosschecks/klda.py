"""Kernel linear discriminant analysis, the baseline of the margin machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.baselines.klda import fisher_direction
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import rbf, unbalanced

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair

__all__ = ["CHECKS"]

CHECKS = Registry("klda")


@CHECKS.add("T26", 1e-9)
def linear_kernel(seed: int) -> Pair:
    """Kernel LDA with a linear kernel: X'α = (S_w + εI)⁻¹(m₊ − m₋), the boundary half-way.

    Source: Mika et al. (1999), in features.
    """
    X, y = unbalanced(seed)
    inside, outside = X[y < 0], X[y > 0]
    alpha, b = fisher_direction(X @ X.T, y > 0, 1.0, "ridge")
    means = inside.mean(axis=0), outside.mean(axis=0)
    scatter = sum((Z - mean).T @ (Z - mean) for Z, mean in zip((inside, outside), means, strict=True))
    w = np.linalg.solve(scatter + np.eye(X.shape[1]), means[1] - means[0])
    return np.append(X.T @ alpha, b), np.append(w, -0.5 * w @ (means[0] + means[1]))


@CHECKS.add("X08", 1e-8)
def convex_program(seed: int) -> Pair:
    """Kernel LDA: its α is the minimiser of α'(N + εI)α subject to α'(m₊ − m₋) = 2, up to scale.

    Source: Mika et al. (1999), as a convex program.
    """
    X, y = unbalanced(seed)
    K, eps, positive = rbf(X), 0.1, y > 0
    means = [K[:, of].mean(axis=1) for of in (~positive, positive)]
    N = sum(
        (K[:, of] - mean[:, None]) @ (K[:, of] - mean[:, None]).T
        for of, mean in zip((~positive, positive), means, strict=True)
    )
    apart, n = means[1] - means[0], len(y)
    # Stationarity and the constraint as one linear system: (2(N + εI)α − νd, d'α) = (0, 2).
    system = np.block([[2.0 * (N + eps * np.eye(n)), -apart[:, None]], [apart[None, :], np.zeros((1, 1))]])
    least = np.linalg.solve(system, np.append(np.zeros(n), 2.0))[:n]
    alpha, _ = fisher_direction(K, positive, eps, "mika")
    return 2.0 * alpha / (alpha @ apart), least
