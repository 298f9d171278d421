"""What classifiers that can be calibrated say of their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polyopt.estimators.calibration import Calibration

__all__ = ["has_probabilities", "told_of_curves"]


class _CanBeCalibrated(Protocol):
    """A classifier that can be calibrated."""

    calibration: str | None
    _curves: Sequence[str]
    _models_probabilities: bool

    @property
    def _is_calibrated(self) -> bool: ...


def has_probabilities(machine: _CanBeCalibrated) -> bool:
    """Whether there are any, for ``hasattr``; else AttributeError says why there are none.

    Parameters
    ----------
    machine : estimator
        A classifier that can be calibrated.
    """
    name = type(machine).__name__
    is_fitted = hasattr(machine, "classes_")
    if machine._models_probabilities or (machine._is_calibrated if is_fitted else machine.calibration):
        return True
    why = getattr(machine, "_uncalibrated", "")
    if is_fitted and why:
        raise AttributeError(f"{name} has no probabilities, as it is not calibrated: {why}")
    methods = " or ".join(map(repr, machine._curves))
    raise AttributeError(f"{name} has probabilities with calibration={methods}")


def told_of_curves(why: str, curves: Sequence[Calibration | None], otherwise: str) -> str:
    """What a fit has to say of its curves: that there are none, or that one is flat; empty where all is well.

    Parameters
    ----------
    why : str
        Why there are none; empty where there are.
    curves : sequence of Calibration or None
        Those of all pairs of classes.
    otherwise : str
        What there is in their place.
    """
    if why:
        return f"the probabilities are not calibrated, as {why}; {otherwise}"
    flat = [curve for curve in curves if curve is not None and curve.is_flat]
    if not flat:
        return ""
    held = "do not rise from one class to the other"
    one = "a class has one sample (equal samples are one here)"
    what = f"the scores of held-out samples {held}" if flat[0].n_folds else one
    return f"{what}, so that the probabilities of two classes are their shares"
