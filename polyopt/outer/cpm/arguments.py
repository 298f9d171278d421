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

__all__ = ["MOST_SAMPLES", "as_faces", "check_arguments"]

MOST_SAMPLES = 500  # beyond, no search would end


def check_arguments(n: int, n_faces: int, tol: float, bounds: str, loss: str, margin: str) -> None:
    """Raise ValueError for what makes no program.

    Parameters
    ----------
    n : int
        Samples.
    n_faces, tol, bounds, loss, margin
        As of :func:`polyopt.outer.cpm.optimum.solve_cpm_global`.
    """
    if n > MOST_SAMPLES:
        raise ValueError(
            f"the global optimum can be sought for up to {MOST_SAMPLES} samples, not {n}: bound it by groups "
            "(loss='sum' with margin='total'), or use alternating minimisation from many starts"
        )
    whole("n_faces", n_faces)
    tolerance(tol)
    one_of("bounds", bounds, ("best", "additive", "plain"))
    check_loss(loss)
    check_margin(margin)


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
