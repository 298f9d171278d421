"""What programs of a face of few features share: the rows of its choice z, and the features that are given.

They stand under the name that a program has for its choice: z, or d where z is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.arguments import whole
from formulations.program import Row
from formulations.recovery import as_data

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = [
    "LETTERS",
    "choice_multiplier_rows",
    "choice_rows",
    "few_data",
    "given_features",
    "perspective_rows",
]

LETTERS = {
    "s": "how many features the face may use",
    "gⱼ": "1 where feature $j$ is in for certain, else 0",
    "w, b": "the face of the primal",
}


def choice_rows(w: cp.Variable, z: cp.Variable, R: cp.CallbackParam, s: int) -> tuple[Row, ...]:
    """At most s weights that are not 0, none of them beyond R; an integer program's, without multipliers.

    Parameters
    ----------
    w, z : Variable of shape (m,)
        The weights, and 1 for each that may be other than 0.
    R : CallbackParam
        What no weight of an optimum is beyond.
    s : int
        How many features at most.
    """
    name = z.name()
    return (
        Row("count", cp.sum(z) <= float(s), f"Σⱼ {name}ⱼ ≤ s", "", ""),
        Row("upper", w <= R * z, f"wⱼ ≤ R {name}ⱼ", "", ""),
        Row("lower", -R * z <= w, f"−R {name}ⱼ ≤ wⱼ", "", ""),
    )


def perspective_rows(
    w: cp.Variable, t: cp.Variable, z: cp.Variable, g: NDArray[np.float64], s: int
) -> tuple[Row, ...]:
    """The same relaxed, with wⱼ² ≤ tⱼ zⱼ for the squares.

    Parameters
    ----------
    w, t, z : Variable of shape (m,)
        The weights, what stands for their squares, and the shares of the features.
    g : ndarray of shape (m,)
        As :func:`given_features` gives it.
    s : int
        How many features at most.
    """
    name = z.name()
    # As a cone: w²/z has no gradient where both are 0.
    cone = cp.SOC(t + z, cp.vstack([2.0 * w, t - z]), axis=0)
    return (
        Row("feature", cone, f"‖(2 wⱼ, tⱼ − {name}ⱼ)‖ ≤ tⱼ + {name}ⱼ", "cone",
            "under its first entry, for every j, minus what a change of $2 wⱼ$ "
            f"and $tⱼ − {name}ⱼ$ would save"),
        Row("count", cp.sum(z) <= float(s), f"Σⱼ {name}ⱼ ≤ s", "lam",
            "what one more feature would save at first"),
        Row("most", z <= 1, f"{name}ⱼ ≤ 1", "mu", "what feature j is worth above that"),
        Row("least", z >= g, f"{name}ⱼ ≥ gⱼ", "nu",
            "what feature j falls short of that, where it must be in"),
    )  # fmt: skip


def choice_multiplier_rows(lam: cp.Variable, mu: cp.Variable, nu: cp.Variable, name: str) -> tuple[Row, ...]:
    """The signs of the multipliers lam, mu (m,) and nu (m,) in the dual; `name` is that of the choice."""
    return (
        Row("count", lam >= 0, "λ ≥ 0", "rest", "how many features are left over"),
        Row("most", mu >= 0, "μⱼ ≥ 0", "above", f"$1 − {name}ⱼ$"),
        Row("least", nu >= 0, "νⱼ ≥ 0", "below", f"${name}ⱼ − gⱼ$"),
    )


def few_data(
    X: MatrixLike, y: ArrayLike, s: int, given: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Samples, labels and what is given of one face, checked; arguments as in :func:`given_features`."""
    X, y = as_data(X, y)
    whole("s", s)
    return X, y, given_features(given, (X.shape[1],), s)


def given_features(given: ArrayLike | None, shape: tuple[int, ...], s: int) -> NDArray[np.float64]:
    """Which features are in for certain, checked.

    Parameters
    ----------
    given : array_like, optional
        Numbers of 0 and 1, at most s of them 1 in a row; by default none is.
    shape : tuple of int
        (m,), or (K, m).
    s : int
        Features at most.
    """
    g = np.zeros(shape) if given is None else np.asarray(given, dtype=float)
    if g.shape != shape or not np.isin(g, (0.0, 1.0)).all() or g.sum(axis=-1).max() > s:
        raise ValueError(f"given must be numbers of 0 and 1, of shape {shape}, at most {s} of a face 1")
    return g
