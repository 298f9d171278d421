"""What a certificate is given, checked: the one place for every family.

A certificate believes nobody, the caller included: a vector with NaN, an intercept that is one number per
sample, a complex weight or an infinite tolerance would each make something "optimal" that is not.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.arguments import real_array, real_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["checked_faces", "checked_iterations", "checked_number", "checked_tol", "checked_vector"]


def checked_vector(name: str, values: ArrayLike | None, shape: tuple[int, ...]) -> Vector | None:
    """Numbers that the caller gave: finite, real, of this shape; None where they were not given.

    Parameters
    ----------
    name : str
        What the caller calls them.
    values : array_like or None
        The numbers.
    shape : tuple of int
        The shape they must have.

    Raises
    ------
    ValueError
        Another shape, numbers that are complex, NaN or infinite, or no numbers at all.
    """
    return None if values is None else real_array(name, values, shape)


def checked_faces(name: str, values: ArrayLike, rows: int | None, columns: int | None) -> Vector:
    """A matrix that the caller gave: finite, real, and of these numbers of rows and columns.

    Parameters
    ----------
    name : str
        What the caller calls it.
    values : array_like
        The matrix.
    rows, columns : int or None
        How many it must have; None where any number will do, from 1.

    Raises
    ------
    ValueError
        Another shape, or numbers that are complex, NaN or infinite.
    """
    matrix = real_array(name, values, finite=False)
    fits = matrix.ndim == 2 and all(
        have >= 1 if want is None else have == want
        for want, have in zip((rows, columns), matrix.shape, strict=True)
    )
    if not fits or not np.isfinite(matrix).all():
        wanted = " x ".join("K" if size is None else str(size) for size in (rows, columns))
        raise ValueError(f"{name} must be finite, of shape {wanted}; its shape is {matrix.shape}")
    return matrix


def checked_number(
    name: str, value: Any, low: float = -np.inf, high: float = np.inf, *, infinite: bool = False
) -> float | None:
    """One real number within [low, high]; None where it was not given.

    Parameters
    ----------
    name : str
        What the caller calls it.
    value : float or None
        The number.
    low, high : float
        Its least and its largest value.
    infinite : bool
        Whether it may be infinite.

    Raises
    ------
    ValueError
        Anything else, an array of numbers among it.
    """
    return None if value is None else real_number(name, value, low, high, infinite=infinite)


def checked_tol(tol: Any) -> float:
    """A relative tolerance: positive, and below 1, as a gap of the whole value is no optimum.

    Parameters
    ----------
    tol : float
        The tolerance.

    Raises
    ------
    ValueError
        Anything else.
    """
    value = real_number("tol", tol)
    if not 0.0 < value < 1.0:
        raise ValueError(f"tol must lie between 0 and 1, not {tol!r}")
    return value


def checked_iterations(max_iter: Any) -> int:
    """A number of steps, at least 0.

    Parameters
    ----------
    max_iter : int
        The number.

    Raises
    ------
    ValueError
        Anything else.
    """
    if isinstance(max_iter, bool) or not isinstance(max_iter, Integral) or max_iter < 0:
        raise ValueError(f"max_iter must be an integer of at least 0, not {max_iter!r}")
    return int(max_iter)
