"""What classifiers with faces say of features that lie far away, or whose spreads differ by much."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.matrices import is_sparse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.matrices import Matrix

__all__ = ["WIDE", "advise_scaling"]

WIDE = 1e4
"""Ratio of spreads, or distance of one from 1, at which scaling is advised."""
_FAR = 1e3  # distance from 0 in spreads, at which it is advised to take the mean away


def advise_scaling(
    X: Matrix, name: str, *, wide: float = WIDE, names: Sequence[object] | None = None, frames: int = 0
) -> None:
    """Warn of features that steps, penalties and boxes treat unequally, or that biases hardly reach.

    Biases are priced or bounded, as weights are, so that centred samples are another problem, and an easier
    one. Of sparse samples, which cannot be centred, spreads alone are looked at, around 0.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    name : str
        The machine.
    wide : float
        Ratio of spreads, or distance of one from 1.
    names : sequence, optional
        What the features are called; by default their numbers.
    frames : int
        Frames more between the user and this.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if is_sparse(X):
            middle, spread = None, np.sqrt(np.asarray(X.multiply(X).mean(axis=0)).ravel())
        else:
            middle, spread = np.abs(X.mean(axis=0)), np.asarray(X.std(axis=0))
            spread[X.max(axis=0) == X.min(axis=0)] = 0.0  # whatever rounding makes of it
    told = [] if middle is None else [_of_offsets(middle, spread, names)]
    spread = spread[spread > 0]
    if len(spread) and (spread.max() > wide * min(spread.min(), 1.0) or spread.min() < 1.0 / wide):
        told.append(
            f"the features' spreads are from {spread.min():.3g} to {spread.max():.3g}, and its steps "
            "and penalties treat all alike; scale them to unit variance first (StandardScaler)"
        )
    for text in filter(None, told):
        warnings.warn(f"{name}: {text}", UserWarning, stacklevel=4 + frames)


def _of_offsets(middle: NDArray[Any], spread: NDArray[Any], names: Sequence[object] | None) -> str:
    """The sentence of the feature that is farthest away; empty where none is far."""
    far = np.divide(middle, spread, out=np.zeros_like(middle), where=spread > 0)
    if not len(far) or not far.max() > _FAR:
        return ""
    j = int(far.argmax())
    return (
        f"feature {j if names is None else repr(names[j])} lies around {middle[j]:.3g} with a spread of "
        f"{spread[j]:.3g}, and a bias that reaches so far is priced or bounded as weights are; take the mean "
        "away first (StandardScaler)"
    )
