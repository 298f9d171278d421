"""Samples in blocks of a few rows, and the folds that are made of them in place."""

from __future__ import annotations

import numpy as np

from formulations.samples import two_blobs

ROWS = 40


def weighted_blobs(separation, seed):
    """Two classes by name in four dimensions: X (120, 4), y (120,), weights (120,), of which some are 0."""
    X, y = two_blobs(n=120, m=4, separation=separation, seed=seed)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, 120).round(1)
    return X, np.where(y > 0, "yes", "no"), weights


def fold_of(n, folds=5):
    """The folds (n,) of rows in blocks of `ROWS`."""
    return (np.arange(n) % ROWS + np.arange(n) // ROWS) % folds
