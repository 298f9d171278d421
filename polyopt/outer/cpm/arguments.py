"""What the search for the global optimum of the Convex Polytope Machine may be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import one_of, tolerance, whole
from formulations.polytope import check_loss
from polyopt.certificates.cpm_point import check_margin

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["MOST_SAMPLES", "as_faces", "check_arguments", "takes_prices"]

MOST_SAMPLES = 500  # beyond, no search through assignments would end
# Of samples and features, with which prices and boxes do. 20,000 samples of two features take 0.6 GB, and a
# bound within 8 % takes two minutes; with 10,000 there is one within 4 % then.
_MOST_PRICED, _MOST_FEATURES = 20_000, 4


def takes_prices(
    y: Vector, C: Vector, m: int, n_faces: int, bounds: str = "best", loss: str = "sum", margin: str = "total"
) -> bool:
    """Whether faces are few-dimensional enough to be bounded one by one, at prices of the positives.

    Parameters
    ----------
    y, C : ndarray of shape (n,)
        Labels, and costs: both classes must have a sample that costs something.
    m : int
        Features.
    n_faces, bounds, loss, margin
        As of :func:`polyopt.outer.cpm.optimum.solve_cpm_global`.
    """
    plain = bounds == "best" and (loss, margin) == ("sum", "total")
    few = n_faces > 1 and m <= _MOST_FEATURES and len(y) <= _MOST_PRICED
    return plain and few and len(np.unique(y[C > 0])) > 1


def check_arguments(
    y: Vector, C: Vector, m: int, n_faces: int, tol: float, bounds: str, loss: str, margin: str
) -> None:
    """Raise ValueError for what makes no program.

    Parameters
    ----------
    y, C, m
        As of :func:`takes_prices`.
    n_faces, tol, bounds, loss, margin
        As of :func:`polyopt.outer.cpm.optimum.solve_cpm_global`.
    """
    whole("n_faces", n_faces)
    tolerance(tol)
    one_of("bounds", bounds, ("best", "additive", "plain"))
    check_loss(loss)
    check_margin(margin)
    if len(y) > MOST_SAMPLES and not takes_prices(y, C, m, n_faces, bounds, loss, margin):
        raise ValueError(
            f"the global optimum can be sought for up to {MOST_SAMPLES} samples, not {len(y)}: bound it by "
            "groups (loss='sum' with margin='total'), or use alternating minimisation from many starts"
        )


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
