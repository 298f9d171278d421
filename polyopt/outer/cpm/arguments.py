"""What the search for the global optimum of the Convex Polytope Machine may be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import one_of, tolerance, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = [
    "MOST_FEATURES",
    "MOST_SAMPLES",
    "MOST_SPREAD",
    "as_faces",
    "check_arguments",
    "searches_told",
    "takes_prices",
    "takes_spread",
]

MOST_SAMPLES = 500  # beyond, no search through assignments would end
# Of samples and features, with which prices and boxes do. 20,000 samples of two features take 0.6 GB, and a
# bound within 8 % takes two minutes; with 10,000 there is one within 4 % then.
_MOST_PRICED, MOST_FEATURES = 20_000, 4
MOST_SPREAD = 2_000  # of samples: what the positives may do takes 8 bytes for each positive, sample and face


def takes_prices(y: Vector, C: Vector, m: int, n_faces: int, bounds: str = "best") -> bool:
    """Whether faces are few-dimensional enough to be bounded one by one, at prices of the positives.

    Parameters
    ----------
    y, C : ndarray of shape (n,)
        Labels, and costs: both classes must have a sample that costs something.
    m : int
        Features.
    n_faces, bounds
        As of :func:`polyopt.outer.cpm.optimum.solve_cpm_global`.
    """
    few = n_faces > 1 and m <= MOST_FEATURES and len(y) <= _MOST_PRICED
    return bounds == "best" and few and len(np.unique(y[C > 0])) > 1


def takes_spread(y: Vector, C: Vector, n_faces: int, bounds: str = "best") -> bool:
    """Whether faces are bounded by their spread.

    Parameters
    ----------
    y, C, n_faces, bounds
        As of :func:`takes_prices`.
    """
    return bounds == "best" and n_faces > 1 and len(y) <= MOST_SPREAD and len(np.unique(y[C > 0])) > 1


def searches_told(bounds: str, is_large: bool, prices: bool, spread: bool) -> str:
    """What a solution says it was found by.

    Parameters
    ----------
    bounds : str
        As of :func:`polyopt.outer.cpm.optimum.solve_cpm_global`.
    is_large : bool
        Whether there are too many samples for the tree and for boxes.
    prices, spread : bool
        Whether these are taken.
    """
    tree = "plain bound" if bounds == "plain" else "additive bound"
    taken = {"prices": prices, tree: not is_large, "spread": spread, "boxes": prices and not is_large}
    return f"branch and bound, {', '.join(name for name, is_taken in taken.items() if is_taken)}"


def check_arguments(y: Vector, C: Vector, m: int, n_faces: int, tol: float, bounds: str) -> tuple[bool, bool]:
    """Whether prices and whether the spread are taken; raises ValueError for what makes no program.

    Parameters
    ----------
    y, C, m
        As of :func:`takes_prices`.
    n_faces, tol, bounds
        As of :func:`polyopt.outer.cpm.optimum.solve_cpm_global`.
    """
    whole("n_faces", n_faces)
    tolerance(tol)
    one_of("bounds", bounds, ("best", "additive", "plain"))
    priced, spread = takes_prices(y, C, m, n_faces, bounds), takes_spread(y, C, n_faces, bounds)
    spread = spread and not (priced and len(y) > MOST_SAMPLES)  # of so many, prices prove more
    if len(y) > MOST_SAMPLES and not (priced or spread):
        most = MOST_SPREAD if bounds == "best" and n_faces > 1 else MOST_SAMPLES
        raise ValueError(
            f"the global optimum can be sought for up to {most} samples, not {len(y)}: bound it by "
            "groups, or use alternating minimisation from many starts"
        )
    return priced, spread


def as_faces(name: str, values: ArrayLike, shape: tuple[int, int]) -> Vector:
    """Finite faces of the shape that is asked for.

    Parameters
    ----------
    name : str
        What they are called in a complaint.
    values : array_like
        The faces.
    shape : tuple of int
        K and m + 1.
    """
    W = np.array(values, dtype=float)
    if W.shape != shape or not np.isfinite(W).all():
        raise ValueError(f"{name} must be finite, of shape {shape}; its shape is {W.shape}")
    return W
