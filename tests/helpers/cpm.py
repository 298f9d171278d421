"""Data for the proofs of the Convex Polytope Machine."""

from __future__ import annotations

import numpy as np

LOSSES = ["sum", "max"]


def clusters(n, K, seed, widen=1.0):
    """Negatives around the origin, positives in K clusters around them; the clusters' directions."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(K) / K + 0.3
    directions = np.c_[np.cos(angles), np.sin(angles)]
    X = 2.0 * directions[rng.integers(0, K, n // 2)] + rng.normal(size=(n // 2, 2)) * 0.55
    X = np.r_[X, widen * 0.6 * rng.normal(size=(n - n // 2, 2))]
    return X, np.r_[np.ones(n // 2), -np.ones(n - n // 2)], directions
