"""Seeded synthetic sets of two classes that no line tells apart: a checkerboard, spirals, bananas, a ring."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from formulations.arguments import at_least, positive, whole, within

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Seed = int | np.random.RandomState | None

_RING = 20  # features of ringnorm


def make_checkerboard(
    n_samples: int = 1000, n_fields: int = 4, *, noise: float = 0.0, random_state: Seed = None
) -> tuple[Floats, Ints]:
    """The fields of a checkerboard by their colour: points uniform in [0, n_fields]².

    The label is +1 where the sum of a field's row and column is even and -1 where it is odd, so that each
    class has ``n_fields²/2`` pieces which touch at corners.

    Parameters
    ----------
    n_samples : int
        Points n.
    n_fields : int
        Fields along a side; 4 makes a 4 x 4 board.
    noise : float
        Share of the labels that is flipped, chosen at random. Between 0 and 0.5.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X : ndarray, shape (n, 2)
    y : ndarray of int, shape (n,)
        ±1.
    """
    whole("n_samples", n_samples)
    whole("n_fields", n_fields)
    within("noise", noise, 0.0, 0.5)
    random = check_random_state(random_state)
    X = random.uniform(0.0, n_fields, (n_samples, 2))
    y = np.where(np.floor(X).sum(axis=1) % 2 == 0, 1, -1)
    y[random.permutation(n_samples)[: round(noise * n_samples)]] *= -1
    return X, y


def make_two_spirals(
    n_samples: int = 1000, *, turns: float = 1.5, noise: float = 0.02, random_state: Seed = None
) -> tuple[Floats, Ints]:
    """Two spirals wound round each other, from the origin to the unit circle.

    A point lies at the angle φ, and half a turn further for the class -1, at the distance ``φ / (2π turns)``
    from the origin; φ is drawn so that points lie about equally dense along a spiral. Gaussian noise is
    added.

    Parameters
    ----------
    n_samples : int
        Points n: n // 2 of class +1 and the rest of class -1, in random order.
    turns : float
        Full turns of a spiral; positive.
    noise : float
        Standard deviation of the noise, in the units of X; not negative. Neighbouring arms are
        ``1 / (2 turns)`` apart.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X : ndarray, shape (n, 2)
    y : ndarray of int, shape (n,)
        ±1.
    """
    whole("n_samples", n_samples)
    positive("turns", turns)
    at_least("noise", noise, 0.0)
    random = check_random_state(random_state)
    y = np.where(np.arange(n_samples) < n_samples // 2, 1, -1)
    distance = np.sqrt(random.uniform(0.0, 1.0, n_samples))
    angle = 2.0 * np.pi * turns * distance + np.where(y > 0, 0.0, np.pi)
    X = distance[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X += noise * random.standard_normal(X.shape)
    order = random.permutation(n_samples)
    return X[order], y[order]


def make_bananas(
    n_samples: int = 1000, *, noise: float = 0.2, random_state: Seed = None
) -> tuple[Floats, Ints]:
    """Two bent classes that reach into each other: arcs of 3/4 of a unit circle, and Gaussian noise.

    The arc of class +1 is open downwards around the origin, that of class -1 upwards around (0.75, -0.75).

    Parameters
    ----------
    n_samples : int
        Points n: n // 2 of class +1 and the rest of class -1, in random order.
    noise : float
        Standard deviation of the noise, in the units of X; not negative.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X : ndarray, shape (n, 2)
    y : ndarray of int, shape (n,)
        ±1.
    """
    whole("n_samples", n_samples)
    at_least("noise", noise, 0.0)
    random = check_random_state(random_state)
    y = np.where(np.arange(n_samples) < n_samples // 2, 1, -1)
    angle = np.pi * (random.uniform(-0.25, 1.25, n_samples) + (y < 0))
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + np.where(y[:, None] > 0, 0.0, [0.75, -0.75])
    X += noise * random.standard_normal(X.shape)
    order = random.permutation(n_samples)
    return X[order], y[order]


def make_ringnorm(n_samples: int = 1000, *, random_state: Seed = None) -> tuple[Floats, Ints]:
    """Breiman's ringnorm: a narrow Gaussian class within a wide one, in 20 dimensions.

    Class +1 has mean 0 and covariance 4 I, class -1 has mean (a, …, a) with a = 2/√20 and covariance I. The
    least error that any classifier has is about 1.3 %.

    Parameters
    ----------
    n_samples : int
        Points n: n // 2 of class +1 and the rest of class -1, in random order.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X : ndarray, shape (n, 20)
    y : ndarray of int, shape (n,)
        ±1.

    References
    ----------
    L. Breiman, "Bias, Variance, and Arcing Classifiers", technical report 460, Berkeley, 1996.
    """
    whole("n_samples", n_samples)
    random = check_random_state(random_state)
    y = np.where(np.arange(n_samples) < n_samples // 2, 1, -1)
    X = random.standard_normal((n_samples, _RING))
    X = np.where(y[:, None] > 0, 2.0 * X, X + 2.0 / np.sqrt(_RING))
    order = random.permutation(n_samples)
    return X[order], y[order]
