"""Random faces to begin from, the same for every method of the polyhedral family."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.preprocessing import StandardScaler

from polyopt.used_features import present_features

if TYPE_CHECKING:
    from formulations.matrices import Matrix, Vector

__all__ = ["random_faces"]


def random_faces(X: Matrix, y: Vector, c: Vector, n_faces: int, rng: np.random.Generator) -> Vector:
    """Faces W (K, m+1) in random directions, one standard deviation from the mean of the positives.

    Their cells are cones around that mean, so that each face is offered the negatives on its side. They
    are drawn for scaled data with weights, so that neither the units of X, nor the order of the samples,
    nor their repetition in place of weight makes a difference. A feature that is 0 in all samples has no
    weight.

    X (n, m): samples.
    y (n,): labels: +1 inside, -1 outside.
    c (n,): weights of the samples, in the mean and the scale as well.
    n_faces: the number K of faces, at least 1.
    rng: source of the directions.
    """
    scale = StandardScaler(with_mean=False).fit(X, sample_weight=c).scale_
    directions = rng.normal(size=(X.shape[1], n_faces))
    directions /= np.linalg.norm(directions, axis=0) * scale[:, None]
    directions[~present_features(X)] = 0.0
    inside = np.where(y > 0, c, 0.0)
    middle = np.asarray(X.T @ inside).ravel() / inside.sum()
    return np.column_stack([directions.T, 1.0 - middle @ directions])
