"""What classifiers with faces say of features that lie far away, or whose spreads differ by much."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.language.types import is_sparse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.language.types import Array, Matrix

__all__ = ["MAX_RATIO", "advise_scaling"]

MAX_RATIO = 1e4
"""Ratio of spreads, or distance of one from 1, above which scaling is advised."""
_MAX_ENTRIES = 1 << 18  # that are measured: of larger samples, rows at equal distances


def advise_scaling(
    X: Matrix,
    name: str,
    *,
    wide: float = MAX_RATIO,
    names: Sequence[object] | None = None,
    frames: int = 0,
) -> None:
    """Warn of features that steps, penalties and boxes treat unequally, or that biases hardly reach.

    Biases are priced or bounded, as weights are, so that centred samples are another problem, and an easier
    one. Of sparse samples, which cannot be centred, spreads alone are looked at, around 0.
    Of more than 2^18 dense numbers some rows are looked at, at equal distances.

    X (n, m): samples.
    name: the machine.
    wide: ratio of spreads, or distance of one from 1.
    names: what the features are called; by default their numbers.
    frames: frames more between the user and this.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        middle, spread = _measured(X)
    told = [] if middle is None else [_of_offsets(middle, spread, names)]
    spread = spread[spread > 0]
    if len(spread) and (spread.max() > wide * min(spread.min(), 1.0) or spread.min() < 1.0 / wide):
        told.append(
            f"the features' spreads are from {spread.min():.3g} to {spread.max():.3g}, and its steps "
            "and penalties treat all alike; scale them to unit variance first (StandardScaler)"
        )
    for text in filter(None, told):
        warnings.warn(f"{name}: {text}", UserWarning, stacklevel=4 + frames)


def _measured(X: Any) -> tuple[Array | None, Array]:
    """Mean and spread (m,) of each feature, in double precision."""
    if is_sparse(X):
        own = X.astype(np.float64)  # bytes have no squares
        return None, np.sqrt(np.asarray(own.multiply(own).mean(axis=0)).ravel())
    X = X[:: X.size // _MAX_ENTRIES | 1]  # an odd step, as rows may take turns
    middle = X.mean(axis=0, dtype=np.float64)
    spread = np.sqrt(((X - middle) ** 2).mean(axis=0))
    spread[X.max(axis=0) == X.min(axis=0)] = 0.0  # whatever rounding makes of it
    return middle, spread


def _of_offsets(middle: Array, spread: Array, names: Sequence[object] | None) -> str:
    """The sentence of the feature that is farthest away; empty where none is far."""
    far = np.divide(np.abs(middle), spread, out=np.zeros_like(middle), where=spread > 0)
    if not len(far) or not far.max() > 1e3:
        return ""
    j = int(far.argmax())
    return (
        f"feature {j if names is None else repr(names[j])} lies around {middle[j]:.3g} with a spread of "
        f"{spread[j]:.3g}, and a bias that reaches so far is priced or bounded as weights are; take the mean "
        "away first (StandardScaler)"
    )
