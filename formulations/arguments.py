"""Numbers that a caller gives, checked: real, of the shape and range asked, or refused in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["real_array", "real_number"]


def real_array(
    name: str,
    values: ArrayLike,
    shape: tuple[int, ...] | None = None,
    *,
    finite: bool = True,
    nan: bool = False,
) -> Vector:
    """Real numbers as a float array.

    Parameters
    ----------
    name : str
        What the caller calls them.
    values : array_like
        The numbers.
    shape : tuple of int, optional
        The shape they must have.
    finite : bool
        Whether infinite ones are refused.
    nan : bool
        Whether NaN is let pass.

    Raises
    ------
    ValueError
        Another shape, or anything that is no real number.
    """
    try:
        given = np.asarray(values)
        if np.iscomplexobj(given):
            raise ValueError(f"{name} must be real; it has complex values")
        array = np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        if "must be real" in str(error):
            raise
        raise ValueError(f"{name} must be numbers, not {_short(values)}") from None
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
    if (not nan and np.isnan(array).any()) or (finite and not np.isfinite(array).all()):
        raise ValueError(f"{name} must be finite; it has NaN or infinite values")
    return array


def real_number(
    name: str, value: ArrayLike | None, low: float = -np.inf, high: float = np.inf, *, infinite: bool = False
) -> float:
    """One real number.

    Parameters
    ----------
    name : str
        What the caller calls it.
    value : float
        The number; an array of one is not one.
    low, high : float
        Its least and its largest value.
    infinite : bool
        Whether it may be infinite.

    Raises
    ------
    ValueError
        Anything else.
    """
    if value is None or np.ndim(value) != 0 or isinstance(value, (str, bytes)):
        raise ValueError(f"{name} must be one number, not {_short(value)}")
    number = float(real_array(name, value, finite=False, nan=low > -np.inf))
    if not low <= number <= high:
        bounds = f"be at least {low:g}" if high == np.inf else f"lie in [{low:g}, {high:g}]"
        raise ValueError(f"{name} must {bounds}, not {value!r}")
    if np.isinf(number) and not infinite:
        raise ValueError(f"{name} must be finite, not {value!r}")
    return number


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
