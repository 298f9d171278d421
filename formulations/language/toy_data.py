"""Small random data for examples."""

import numpy as np
from numpy.typing import NDArray


def two_blobs(
    n: int = 40, m: int = 3, seed: int = 0, separation: float = 0.8
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw samples (n, m) of two overlapping Gaussian classes, and their labels (n,), -1 and +1.

    The features have unequal scales, and a mean away from the origin.
    """
    generator = np.random.default_rng(seed)
    y = np.where(np.arange(n) < n // 2, 1.0, -1.0)
    direction = generator.normal(size=m)
    direction /= np.linalg.norm(direction)
    scales = np.resize([1.0, 4.0, 0.5], m)
    X = generator.normal(size=(n, m)) * scales + np.outer(y, direction) * separation
    order = generator.permutation(n)
    return (X + generator.normal(size=m))[order], y[order]


def separated_clusters(
    n: int = 24, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Draw samples (n, 2), labels (n,), and the cluster (n,) of each positive, 0 to 2 (-1 for negatives).

    The negatives are between three clusters of positives, each separable from them by a line.
    """
    generator = np.random.default_rng(seed)
    y = np.where(np.arange(n) < n // 2, -1.0, 1.0)
    cluster = np.where(y > 0, np.arange(n) % 3, -1)
    angles, distances = 2.0 * np.pi * cluster / 3.0 + 0.3, 2.5 + 0.5 * cluster
    centres = np.where(y > 0, distances, 0.0)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    # Samples are within 1 of their centres, so that the clusters are separable from the negatives.
    offsets = generator.normal(size=(n, 2))
    offsets /= np.maximum(1.0, np.linalg.norm(offsets, axis=1, keepdims=True))
    return centres + offsets, y, cluster
