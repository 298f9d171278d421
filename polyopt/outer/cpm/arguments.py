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
_MOST_PRICED, _MOST_FEATURES = 20_000, 4  # of samples and features, with which prices and boxes do


def takes_prices(shape: tuple[int, ...], n_faces: int) -> bool:
    """Whether faces are few-dimensional enough to be bounded one by one, at prices of the positives.

    Parameters
    ----------
    shape : tuple of int
        Samples and features.
    n_faces : int
        K.
    """
    return n_faces > 1 and shape[1] <= _MOST_FEATURES and shape[0] <= _MOST_PRICED


def check_arguments(
    shape: tuple[int, ...], n_faces: int, tol: float, bounds: str, loss: str, margin: str
) -> None:
    """Raise ValueError for what makes no program.

    Parameters
    ----------
    shape : tuple of int
        Samples and features.
    n_faces, tol, bounds, loss, margin
        As of :func:`polyopt.outer.cpm.optimum.solve_cpm_global`.
    """
    whole("n_faces", n_faces)
    tolerance(tol)
    one_of("bounds", bounds, ("best", "additive", "plain"))
    check_loss(loss)
    check_margin(margin)
    priced = bounds == "best" and (loss, margin) == ("sum", "total") and takes_prices(shape, n_faces)
    if shape[0] > MOST_SAMPLES and not priced:
        raise ValueError(
            f"the global optimum can be sought for up to {MOST_SAMPLES} samples, not {shape[0]}: bound it by "
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
