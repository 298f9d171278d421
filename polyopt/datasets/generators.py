"""Synthetic data sets of two classes with known solutions: polytopes with known faces, and two lines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from formulations.language.arguments import at_least, positive, whole, within

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Seed = int | np.random.RandomState | None

# Rows (w_k, b_k). The third and fourth rows of data set 2 touch only some of the 20 features.
_POLYCEPTRON1 = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
        [1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1],
        [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0.5],
    ],
    dtype=np.float64,
)
_POLYCEPTRON2 = np.array(
    [
        [1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 20, 8, 7, 6, 5, 4, 3, 2, 1, 1, 20],
        [-1, 2, -3, 4, -5, 6, -7, 8, -9, 15, -11, 10, -9, 8, -7, 6, -5, 4, -3, 2, 15],
        [1, 0, 1, 0, 1, 0, 1, 2, 0, 8, 0, 2, 3, 0, 3, 3, 0, 4, 0, 4, 8],
        [1, -1, 0, 0, 2, -2, 0, 0, 6, -3, 0, 0, 4, -4, 0, 0, 5, -5, 0, 0, 6],
    ],
    dtype=np.float64,
)
_FACES = {1: _POLYCEPTRON1, 2: _POLYCEPTRON2}


def polyceptron_faces(dataset: int) -> tuple[Floats, Floats]:
    """Return the true faces of the Polyceptron paper's synthetic data set 1 or 2.

    These are W (K, m), the normals as printed, not of unit length, and the offsets b (K,): the polytope is
    ``{x : W x + b >= 0}``, with K = 3 faces in 10 dimensions or K = 4 in 20.
    """
    if dataset not in _FACES:
        raise ValueError(f"dataset must be 1 or 2; got {dataset!r}")
    return _FACES[dataset][:, :-1].copy(), _FACES[dataset][:, -1].copy()


def make_polyceptron1(n_samples: int = 1000, random_state: Seed = None) -> tuple[Floats, Ints]:
    """Draw synthetic data set 1 of the Polyceptron paper: X (n, 10) and y (n,), of K = 3 faces.

    Points are uniform in [−1, 1]¹⁰; the label is +1 inside the polytope of
    :func:`polyceptron_faces` (``min_k w_k·x + b_k >= 0``) and −1 outside.
    Manwani and Sastry, "Polyceptron: A Polyhedral Learning Algorithm", section on experiments.

    Parameters
    ----------
    n_samples : int
        Number of points n; the paper has 1000.
    random_state : int, RandomState or None
        Seed.
    """
    return _uniform_in_polytope(1, n_samples, random_state)


def make_polyceptron2(n_samples: int = 1000, random_state: Seed = None) -> tuple[Floats, Ints]:
    """Draw synthetic data set 2 of the Polyceptron paper: K = 4 faces in 20 dimensions.

    Arguments as in :func:`make_polyceptron1`; X is of shape (n, 20).
    """
    return _uniform_in_polytope(2, n_samples, random_state)


def _uniform_in_polytope(dataset: int, n_samples: int, random_state: Seed) -> tuple[Floats, Ints]:
    whole("n_samples", n_samples)
    W, b = polyceptron_faces(dataset)
    X = check_random_state(random_state).uniform(-1.0, 1.0, (n_samples, W.shape[1]))
    return X, np.where((X @ W.T + b).min(axis=1) >= 0.0, 1, -1)


def make_polytope(
    n_samples: int = 200, n_features: int = 2, n_faces: int = 3, *, margin: float = 0.1, noise: float = 0.0,
    random_state: Seed = None,
) -> tuple[Floats, Ints, Floats, Floats]:  # fmt: skip
    r"""Draw points that are labelled by a polytope with known faces.

    The polytope is :math:`P = \{x : W x + b \ge 0\}` with unit rows of W, so
    :math:`h(x) = \min_k w_k \cdot x + b_k` is, inside, the distance to the nearest face. With
    ``noise=0`` every point satisfies :math:`y\,h(x) \ge` ``margin``. All K half-spaces are tangent to
    one ball inside P, so each of them is a true face: none can be left out. P need not be bounded.

    Returned are X (n, m), y (n,), the inward unit normals W (K, m) and the offsets b (K,). The label is +1
    inside and −1 outside (the Polyceptron's convention). A machine that has its polytope on the negative
    side, as the CPM has, takes ``-y`` and the faces ``-W, -b``.

    Parameters
    ----------
    n_samples : int
        Number of points n; about half of them are inside.
    n_features, n_faces : int
        Dimension m, and number of faces K; at most 2 faces if ``n_features`` is 1.
    margin : float
        Least value of :math:`y\,h(x)`, in the units of X; not negative.
    noise : float
        Fraction of the labels that is flipped, from 0 to 0.5: ``round(noise * n_samples)`` labels, at random.
    random_state : int, RandomState or None
        Seed. The faces depend on it, ``n_features``, ``n_faces`` and ``margin``, not on ``n_samples``.
    """
    for name, value in (("n_samples", n_samples), ("n_features", n_features), ("n_faces", n_faces)):
        whole(name, value)
    if n_features == 1 and n_faces > 2:
        raise ValueError(f"n_faces must be at most 2 when n_features is 1; got {n_faces}")
    at_least("margin", margin, 0.0)
    within("noise", noise, 0.0, 0.5)
    random = check_random_state(random_state)
    W = _spread_normals(n_faces, n_features, random)
    centre = random.standard_normal(n_features)
    # Half of a standard normal sample lies inside faces at this distance from its centre.
    radius = -float(np.median((random.standard_normal((1001, n_features)) @ W.T).min(axis=1)))
    if n_faces == 1:
        radius = 0.0  # the exact median; one face needs no ball inside it

    X = random.standard_normal((n_samples, n_features))
    signed = X @ W.T + radius
    nearest = signed.argmin(axis=1)
    y = np.where(signed.min(axis=1) >= 0.0, 1, -1)
    # Faces move out by the margin, so points inside have it. Points outside then move by twice the margin,
    # along the normal of the face they violate most. The addition of 1e-12 exceeds all rounding.
    moved = margin + (1.0 + margin) * 1e-12
    X[y < 0] -= 2.0 * moved * W[nearest[y < 0]]
    y[random.permutation(n_samples)[: round(noise * n_samples)]] *= -1
    return X + centre, y, W, radius + moved - W @ centre


def _spread_normals(n_faces: int, n_features: int, random: np.random.RandomState) -> Floats:
    """Return unit normals far apart: each is the one of 50 random ones farthest from those before it."""
    W = np.empty((0, n_features))
    for _ in range(n_faces):
        candidates = random.standard_normal((50, n_features))
        candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
        closeness = (candidates @ W.T).max(axis=1, initial=-1.0)
        W = np.vstack([W, candidates[closeness.argmin()]])
    return W


def make_two_lines(
    n_samples: int = 100, *, scale: float = 1.0, random_state: Seed = None
) -> tuple[Floats, Ints]:
    r"""Draw two classes along two parallel lines, with the first axis stretched: X (n, 2) and y.

    The set is modelled on Figure 1 of Shivaswamy and Jebara, "Relative Margin Machines", NIPS 2008.
    Before stretching, class +1 lies on the segment :math:`x_2 = x_1 + \tfrac12`,
    :math:`x_1 \in [\tfrac14, 1]`, and class −1 on :math:`x_2 = x_1 - \tfrac12`,
    :math:`x_1 \in [-1, -\tfrac14]`; then :math:`x_1` is multiplied by ``scale`` = s.
    Two solutions are known in closed form, both with intercept 0:

    * every point projects exactly to its label, :math:`w \cdot x = y`, for
      :math:`w = 2\,(-1/s,\; 1)`, and for this w alone: the relative margin machine with B = 1, whose
      boundary moves with the data;
    * the largest margin is at the two near ends :math:`\pm p`, :math:`p = (s/4,\ 3/4)`:
      :math:`w = p / \|p\|^2`. In the unstretched axes its direction is :math:`(s^2, 3)`: it turns
      as s grows.

    Parameters
    ----------
    n_samples : int
        Number of points n, at least 4: n // 2 of class +1 and the rest of class −1. Both ends of both
        segments are always among them.
    scale : float
        The factor s of the first axis; positive.
    random_state : int, RandomState or None
        Seed. The same seed gives the same unstretched points at every scale.
    """
    whole("n_samples", n_samples, 4)
    positive("scale", scale)
    random = check_random_state(random_state)
    y = np.where(np.arange(n_samples) < n_samples // 2, 1, -1)
    along = random.uniform(0.25, 1.0, n_samples)
    for label in (1, -1):
        along[np.flatnonzero(y == label)[:2]] = 0.25, 1.0
    along *= y
    X = np.column_stack([scale * along, along + 0.5 * y])
    order = random.permutation(n_samples)
    return X[order], y[order]
