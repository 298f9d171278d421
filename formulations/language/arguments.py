"""Checks of arguments, used by every public function, from programs to estimators.

A check takes the argument's name and value and returns the value in the type that the code needs. If the
type, shape or range is wrong, or a number is NaN, it raises ValueError; the message says what the argument
must be and what it is.
"""

from numbers import Integral, Real
from typing import NoReturn, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.types import Vector

# -- numbers -----------------------------------------------------------------------------------


def positive(name: str, value: object, *, infinite: bool = False) -> float:
    """Return a number above 0; inf only if `infinite`."""
    if not (_is_number(value) and value > 0.0 and (infinite or value < np.inf)):
        _refuse(name, "positive" if infinite else "positive and finite", value)
    return float(value)


def at_least(name: str, value: object, low: float, *, infinite: bool = False) -> float:
    """Return a number of at least `low`; inf only if `infinite`."""
    if not (_is_number(value) and low <= value and (infinite or value < np.inf)):
        _refuse(name, f"at least {low:g}" + ("" if infinite else " and finite"), value)
    return float(value)


def within(name: str, value: object, low: float, high: float) -> float:
    """Return a number from `low` to `high`, both included."""
    if not (_is_number(value) and low <= value <= high):
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}], not {_short(value)}")
    return float(value)


def whole(name: str, value: object, low: int = 1) -> int:
    """Return an integer of at least `low`."""
    if not _is_whole(value, low):
        _refuse(name, f"an integer of at least {low}", value)
    return int(value)


def whole_or_none(name: str, value: object) -> int | None:
    """Return an integer of at least 1, or None."""
    if value is None:
        return None
    if not _is_whole(value, 1):
        _refuse(name, "an integer of at least 1, or None", value)
    return int(value)


def seconds(value: object) -> float | None:
    """Return a limit in seconds, at least 0, or None for no limit."""
    if value is None:
        return None
    if not (_is_number(value) and 0.0 <= value < np.inf):
        _refuse("time_limit", "seconds, at least 0, or None", value)
    return float(value)


def tolerance(value: object, name: str = "tol") -> float:
    """Return a relative tolerance, above 0 and below 1: a relative gap of 1 proves nothing."""
    if not (_is_number(value) and 0.0 < value < 1.0):
        _refuse(name, "between 0 and 1", value)
    return float(value)


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise ValueError for a word that is not allowed."""
    if not isinstance(value, str) or value not in allowed:
        quoted = [repr(word) for word in allowed]
        _refuse(name, f"{', '.join(quoted[:-1])} or {quoted[-1]}", value)


# -- one number per sample ---------------------------------------------------------------------


def as_costs(C: ArrayLike, n: int, *, hard: bool = False, name: str = "C") -> Vector:
    """Return the cost of each sample (n,), from a scalar or a vector; costs may be inf if `hard`."""
    if _shape(C) == ():
        return np.full(n, positive(name, C, infinite=hard))
    return _per_sample(name, C, n, "positive" if hard else "positive and finite", infinite=hard)


def as_weights(weights: ArrayLike, n: int, name: str = "weights") -> Vector:
    """Return the weights of the samples (n,), nonnegative and not all zero."""
    if _shape(weights) not in ((n,), None):
        raise ValueError(f"{name} must have shape ({n},), not {_shape(weights)}")
    return _per_sample(name, weights, n, "positive and finite")


def _per_sample(name: str, values: ArrayLike, n: int, requirement: str, *, infinite: bool = False) -> Vector:
    """Return nonnegative numbers (n,), not all zero; `requirement` is the error's text for one number."""
    requirement = f"{requirement} (per sample: not all zero)"
    refuse_masked(name, values)
    try:
        array = real_array(name, values, finite=not infinite)
    except ValueError:
        _refuse(name, requirement, values)
    if array.shape not in ((1,), (n,)):
        raise ValueError(f"{name} must be one number or have shape ({n},), not {array.shape}")
    if (array < 0).any() or not array.any():
        _refuse(name, requirement, values)
    return np.broadcast_to(array, (n,)).copy()


def refuse_masked(name: str, values: object) -> None:
    """Raise ValueError for a masked array with masked entries, which are missing values."""
    if isinstance(values, np.ma.MaskedArray) and (count := int(np.ma.getmaskarray(values).sum())):
        several = f"{count} masked entries, which are missing values"
        entries = "a masked entry, which is a missing value" if count == 1 else several
        raise ValueError(f"{name} has {entries}: fill it (numpy.ma.filled), impute it, or leave it out")


# -- numbers of any range ----------------------------------------------------------------------


def real_array(
    name: str, values: ArrayLike, shape: tuple[int, ...] | None = None, *, finite: bool = True
) -> Vector:
    """Return real numbers as a float array, of any shape by default; with `finite` none may be infinite."""
    refuse_masked(name, values)
    try:
        raw = np.asarray(values)
        if np.iscomplexobj(raw):
            raise ValueError(f"{name} must be real; it has complex values")
        array = np.asarray(raw, dtype=float)
    except (TypeError, ValueError, OverflowError) as error:
        if "must be real" in str(error):
            raise
        raise ValueError(f"{name} must be numbers, not {_short(values)}") from None
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, not {array.shape}")
    if np.isnan(array).any() or (finite and not np.isfinite(array).all()):
        raise ValueError(f"{name} must be finite; it has NaN or infinite values")
    return array


def real_number(name: str, value: object, *, infinite: bool = False) -> float:
    """Return one real number, not NaN; inf only if `infinite`."""
    if not _is_number(value) or np.isnan(value) or (np.isinf(value) and not infinite):
        _refuse(name, "one number" if infinite else "one finite number", value)
    return float(value)


def _is_number(value: object) -> TypeGuard[float]:
    """Return True for one real number, NaN and infinity included, other than a boolean."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "fiu"
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def _shape(values: ArrayLike) -> tuple[int, ...] | None:
    """Return the shape of an array, or None if its rows have different lengths."""
    try:
        return np.asarray(values).shape
    except ValueError:
        return None


def _is_whole(value: object, low: int) -> TypeGuard[Integral]:
    """Return True for an integer of at least `low`, other than a boolean."""
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_)) and int(value) >= low


def _refuse(name: str, requirement: str, value: object) -> NoReturn:
    """Raise the ValueError of an argument."""
    raise ValueError(f"{name} must be {requirement}, not {_short(value)}")


def _short(value: object) -> str:
    """Return the value's representation, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
