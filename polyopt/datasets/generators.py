"""Seeded synthetic sets of two classes.

The right answer is known of polytopes with true faces and of two lines; no line tells the classes of a
checkerboard, two spirals, two bananas, or a ring apart.
"""

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
    """The true faces of the Polyceptron paper's synthetic data set 1 or 2.

    Parameters
    ----------
    dataset : {1, 2}
        Which of the two.

    Returns
    -------
    W : ndarray, shape (K, m)
        Normals as printed, not scaled to unit length: (3, 10) or (4, 20).
    b : ndarray, shape (K,)
        Offsets; the polytope is ``{x : W x + b >= 0}``.
    """
    if dataset not in _FACES:
        raise ValueError(f"dataset must be 1 or 2; got {dataset!r}")
    return _FACES[dataset][:, :-1].copy(), _FACES[dataset][:, -1].copy()


def make_polyceptron1(n_samples: int = 1000, random_state: Seed = None) -> tuple[Floats, Ints]:
    """Synthetic data set 1 of the Polyceptron paper: K = 3 faces in 10 dimensions.

    Points are uniform in [−1, 1]¹⁰; the label is +1 inside the polytope of
    :func:`polyceptron_faces` for data set 1 (``min_k w_k·x + b_k >= 0``) and −1 outside.

    Parameters
    ----------
    n_samples : int
        Number of points n; the paper has 1000.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    X : ndarray, shape (n, 10)
    y : ndarray of int, shape (n,)
        +1 inside, −1 outside.

    References
    ----------
    N. Manwani, P. S. Sastry, "Polyceptron: A Polyhedral Learning Algorithm", section on experiments.
    """
    return _uniform_in_polytope(1, n_samples, random_state)


def make_polyceptron2(n_samples: int = 1000, random_state: Seed = None) -> tuple[Floats, Ints]:
    """Synthetic data set 2 of the Polyceptron paper: K = 4 faces in 20 dimensions.

    Points are uniform in [−1, 1]²⁰; labels as in :func:`make_polyceptron1`, by
    :func:`polyceptron_faces` for data set 2.

    Arguments as in :func:`make_polyceptron1`; X is of shape (n, 20).
    """
    return _uniform_in_polytope(2, n_samples, random_state)


def _uniform_in_polytope(dataset: int, n_samples: int, random_state: Seed) -> tuple[Floats, Ints]:
    whole("n_samples", n_samples)
    W, b = polyceptron_faces(dataset)
    X = check_random_state(random_state).uniform(-1.0, 1.0, (n_samples, W.shape[1]))
    return X, np.where((X @ W.T + b).min(axis=1) >= 0.0, 1, -1)


def make_polytope(
    n_samples: int = 200,
    n_features: int = 2,
    n_faces: int = 3,
    *,
    margin: float = 0.1,
    noise: float = 0.0,
    random_state: Seed = None,
) -> tuple[Floats, Ints, Floats, Floats]:
    r"""Points labelled by a polytope whose faces are known.

    The polytope is :math:`P = \{x : W x + b \ge 0\}` with unit rows of W, so
    :math:`h(x) = \min_k w_k \cdot x + b_k` is, inside, the distance to the nearest face. With
    ``noise=0`` every point satisfies :math:`y\,h(x) \ge` ``margin``. All K half-spaces are tangent to
    one ball inside P, so each of them is a true face: none can be left out. P need not be bounded.

    The label is +1 inside and −1 outside (the Polyceptron's convention). A machine that has its
    polytope on the negative side, as the CPM has, wants ``-y`` and faces ``-W, -b``.

    Parameters
    ----------
    n_samples : int
        Number of points n; about half of them are inside.
    n_features : int
        Dimension m.
    n_faces : int
        Number of faces K; at most 2 when ``n_features`` is 1, where there are no more.
    margin : float
        Least value of :math:`y\,h(x)`, in the units of X; not negative.
    noise : float
        Share of the labels that is flipped, chosen at random: ``round(noise * n_samples)`` of them.
        Between 0 and 0.5.
    random_state : int, RandomState or None
        Seed. The faces depend on it, ``n_features``, ``n_faces`` and ``margin``, not on ``n_samples``.

    Returns
    -------
    X : ndarray, shape (n, m)
    y : ndarray of int, shape (n,)
        +1 inside P, −1 outside.
    W : ndarray, shape (K, m)
        Inward unit normals.
    b : ndarray, shape (K,)
        Offsets.

    Raises
    ------
    ValueError
        When an argument is outside what is said above.
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
    # Half of a standard normal cloud lies inside faces at this distance from its centre.
    radius = -float(np.median((random.standard_normal((1001, n_features)) @ W.T).min(axis=1)))
    if n_faces == 1:
        radius = 0.0  # the median is 0 but for sampling error; one face needs no ball inside it

    X = random.standard_normal((n_samples, n_features))
    signed = X @ W.T + radius
    nearest = signed.argmin(axis=1)
    y = np.where(signed.min(axis=1) >= 0.0, 1, -1)
    # Moving all faces out by the margin clears it inside; the points outside then have to fall back
    # by twice as much, each straight away from the face it violates most. The sliver on top of it
    # keeps rounding from eating into what is promised.
    clear = margin + (1.0 + margin) * 1e-12
    X[y < 0] -= 2.0 * clear * W[nearest[y < 0]]
    _flip(y, noise, random)
    return X + centre, y, W, radius + clear - W @ centre


def _spread_normals(n_faces: int, n_features: int, random: np.random.RandomState) -> Floats:
    """Unit rows pointing well apart: each is the best of 50 random ones, farthest from those before."""
    W = np.empty((0, n_features))
    for _ in range(n_faces):
        candidates = random.standard_normal((50, n_features))
        candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
        closeness = (candidates @ W.T).max(axis=1, initial=-1.0)
        W = np.vstack([W, candidates[closeness.argmin()]])
    return W


def _shuffled(X: Floats, y: Ints, random: np.random.RandomState) -> tuple[Floats, Ints]:
    order = random.permutation(len(y))
    return X[order], y[order]


def _flip(y: Ints, noise: float, random: np.random.RandomState) -> None:
    """Flip this share of the labels, in place."""
    y[random.permutation(len(y))[: round(noise * len(y))]] *= -1


def _halves(n_samples: int) -> Ints:
    """Labels +1 of the first half of the samples, and −1 of the rest."""
    return np.where(np.arange(n_samples) < n_samples // 2, 1, -1)


def make_two_lines(
    n_samples: int = 100, *, scale: float = 1.0, random_state: Seed = None
) -> tuple[Floats, Ints]:
    r"""Two classes along two parallel lines, with the first axis stretched: X (n, 2) and y.

    Modelled on Figure 1 of the relative margin machine's paper. Before stretching, class +1 lies on
    the segment :math:`x_2 = x_1 + \tfrac12`, :math:`x_1 \in [\tfrac14, 1]`, and class −1 on
    :math:`x_2 = x_1 - \tfrac12`, :math:`x_1 \in [-1, -\tfrac14]`; then :math:`x_1` is multiplied by
    ``scale`` = s. Two answers are known in closed form, both with intercept 0:

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
        Seed. The same seed gives the same points at every scale, but for the factor.

    References
    ----------
    P. K. Shivaswamy, T. Jebara, "Relative Margin Machines", NIPS 2008, Figure 1.
    """
    whole("n_samples", n_samples, 4)
    positive("scale", scale)
    random = check_random_state(random_state)
    y = _halves(n_samples)
    along = random.uniform(0.25, 1.0, n_samples)
    for label in (1, -1):
        along[np.flatnonzero(y == label)[:2]] = 0.25, 1.0
    along *= y
    X = np.column_stack([scale * along, along + 0.5 * y])
    return _shuffled(X, y, random)


def make_checkerboard(
    n_samples: int = 1000, n_fields: int = 4, *, noise: float = 0.0, random_state: Seed = None
) -> tuple[Floats, Ints]:
    """The fields of a checkerboard by their colour: X (n, 2) uniform in [0, n_fields]², and y.

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
    """
    whole("n_samples", n_samples)
    whole("n_fields", n_fields)
    within("noise", noise, 0.0, 0.5)
    random = check_random_state(random_state)
    X = random.uniform(0.0, n_fields, (n_samples, 2))
    y = np.where(np.floor(X).sum(axis=1) % 2 == 0, 1, -1)
    _flip(y, noise, random)
    return X, y


def make_two_spirals(
    n_samples: int = 1000, *, turns: float = 1.5, noise: float = 0.02, random_state: Seed = None
) -> tuple[Floats, Ints]:
    """Two spirals wound round each other, from the origin to the unit circle: X (n, 2) and y.

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
    """
    whole("n_samples", n_samples)
    positive("turns", turns)
    at_least("noise", noise, 0.0)
    random = check_random_state(random_state)
    y = _halves(n_samples)
    distance = np.sqrt(random.uniform(0.0, 1.0, n_samples))
    angle = 2.0 * np.pi * turns * distance + np.where(y > 0, 0.0, np.pi)
    X = distance[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X += noise * random.standard_normal(X.shape)
    return _shuffled(X, y, random)


def make_bananas(
    n_samples: int = 1000, *, noise: float = 0.2, random_state: Seed = None
) -> tuple[Floats, Ints]:
    """Two bent classes, arcs of 3/4 of a unit circle with Gaussian noise: X (n, 2) and y.

    The arc of class +1 is open downwards around the origin, that of class -1 upwards around (0.75, -0.75).

    Parameters
    ----------
    n_samples : int
        Points n: n // 2 of class +1 and the rest of class -1, in random order.
    noise : float
        Standard deviation of the noise, in the units of X; not negative.
    random_state : int, RandomState or None
        Seed.
    """
    whole("n_samples", n_samples)
    at_least("noise", noise, 0.0)
    random = check_random_state(random_state)
    y = _halves(n_samples)
    angle = np.pi * (random.uniform(-0.25, 1.25, n_samples) + (y < 0))
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + np.where(y[:, None] > 0, 0.0, [0.75, -0.75])
    X += noise * random.standard_normal(X.shape)
    return _shuffled(X, y, random)


def make_ringnorm(n_samples: int = 1000, *, random_state: Seed = None) -> tuple[Floats, Ints]:
    """Breiman's ringnorm, a narrow Gaussian class within a wide one: X (n, 20) and y.

    Class +1 has mean 0 and covariance 4 I, class -1 has mean (a, …, a) with a = 2/√20 and covariance I. The
    least error that any classifier has is about 1.3 %.

    Parameters
    ----------
    n_samples : int
        Points n: n // 2 of class +1 and the rest of class -1, in random order.
    random_state : int, RandomState or None
        Seed.

    References
    ----------
    L. Breiman, "Bias, Variance, and Arcing Classifiers", technical report 460, Berkeley, 1996.
    """
    whole("n_samples", n_samples)
    random = check_random_state(random_state)
    y = _halves(n_samples)
    n_features = 20
    X = random.standard_normal((n_samples, n_features))
    X = np.where(y[:, None] > 0, 2.0 * X, X + 2.0 / np.sqrt(n_features))
    return _shuffled(X, y, random)
