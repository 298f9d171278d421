"""Checks of a certificate's arguments: the one place for every family.

A certificate trusts nobody, not even its caller: a vector with NaN, an intercept that is one number per
sample, a complex weight or an infinite tolerance would each make something "optimal" that is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.language.arguments import real_array, real_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.language.types import Vector

__all__ = ["checked_faces", "checked_number", "checked_vector"]


def checked_vector(name: str, values: ArrayLike | None, shape: tuple[int, ...]) -> Vector | None:
    """Check given numbers: finite, real, of this shape; None if they are not given.

    `name` is the caller's; raise ValueError for anything else.
    """
    return None if values is None else real_array(name, values, shape)


def checked_faces(name: str, values: ArrayLike, rows: int | None, columns: int | None) -> Vector:
    """Check a given matrix: finite, real, of so many rows and columns; None for any number from 1."""
    matrix = real_array(name, values, finite=False)
    fits = matrix.ndim == 2 and all(
        have >= 1 if want is None else have == want
        for want, have in zip((rows, columns), matrix.shape, strict=True)
    )
    if not fits or not np.isfinite(matrix).all():
        wanted = " x ".join("K" if size is None else str(size) for size in (rows, columns))
        raise ValueError(f"{name} must be finite, of shape {wanted}; its shape is {matrix.shape}")
    return matrix


def checked_number(name: str, value: float | None, *, infinite: bool = False) -> float | None:
    """Check a number by :func:`formulations.language.arguments.real_number`; None if it is not given."""
    return None if value is None else real_number(name, value, infinite=infinite)
