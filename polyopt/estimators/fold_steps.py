"""Faces taken back through the steps before a machine: from its features to the columns of the table.

An output is ``Σ_j W_kj (x_j - centre_j) + b_k`` at every step. Taking the centres off first keeps all digits
where a column is far from 0 compared with its spread, as a scaler does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.base import BaseEstimator

    Array = NDArray[np.float64]

__all__ = ["Affine", "pulled", "scaling_of"]

_SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)


@dataclass(frozen=True)
class Affine:
    """Faces in the units of what a step takes.

    Attributes
    ----------
    W : ndarray of shape (K, m)
        Weights.
    centres : ndarray of shape (m,)
        What is taken from the features first.
    b : ndarray of shape (K,)
        Outputs at the centres.
    gaps : ndarray of shape (m, K), optional
        What a missing value adds to the outputs; None where none may be missing.
    """

    W: Array
    centres: Array
    b: Array
    gaps: Array | None = None


def pulled(faces: Affine, step: BaseEstimator) -> Affine:
    """Faces of what a step gives as faces of what it takes.

    Parameters
    ----------
    faces : Affine
        The faces.
    step : transformer
        Fitted: one of scikit-learn's scalers, a SimpleImputer, a selection of features or PCA.

    Raises
    ------
    ValueError
        A step that is not affine, or another one.
    """
    if isinstance(step, _SCALERS):
        mean, scale = scaling_of(step)
        with np.errstate(over="ignore"):
            W, centres = faces.W / scale, mean + scale * faces.centres
        if not (np.isfinite(W).all() and np.isfinite(centres).all()):
            raise ValueError(f"the faces leave double precision in the units before {step!r}")
        return replace(faces, W=W, centres=centres)
    if isinstance(step, SimpleImputer):
        return _before_gaps(faces, step)
    if isinstance(step, SelectorMixin):
        return _spread_out(faces, np.asarray(step.get_support()))
    if isinstance(step, PCA):
        components = step.components_
        if step.whiten:
            least = np.finfo(components.dtype).eps
            components = components / np.sqrt(np.maximum(step.explained_variance_, least))[:, None]
        return Affine(faces.W @ components, step.mean_, faces.b - faces.W @ faces.centres)
    raise ValueError(
        f"fold takes Columns, scikit-learn's scalers, SimpleImputer, selections of features and PCA before a "
        f"machine, not {type(step).__name__}"
    )


def scaling_of(scaler: BaseEstimator) -> tuple[Array, Array]:
    """What a scaler takes from its features, and what it divides them by then.

    Parameters
    ----------
    scaler : StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler
        Fitted.

    Raises
    ------
    ValueError
        One that clips.
    """
    if getattr(scaler, "clip", False):
        raise ValueError(f"{scaler!r} clips, so that faces are not flat before it: set clip=False")
    known: Any = scaler
    m = int(known.n_features_in_)
    found = getattr(scaler, "scale_", None)
    scale = np.ones(m) if found is None else np.asarray(found, dtype=float)
    if isinstance(scaler, MinMaxScaler):  # x · scale_ + min_
        return -known.min_ / scale, 1.0 / scale
    with_mean = getattr(scaler, "with_mean", getattr(scaler, "with_centering", True))
    mean = getattr(scaler, "mean_", getattr(scaler, "center_", None)) if with_mean else None
    return (np.zeros(m) if mean is None else np.asarray(mean, dtype=float)), scale


def _before_gaps(faces: Affine, imputer: Any) -> Affine:
    """Before an imputer: what it fills in, and its marks, are what a missing value adds."""
    try:
        fills = np.asarray(imputer.statistics_, dtype=float)
    except ValueError:
        fills = np.array([np.nan])
    if np.isnan(fills).any():
        raise ValueError(f"fold takes imputers of numbers that fill every column, not {imputer!r}")
    if not (isinstance(imputer.missing_values, float) and np.isnan(imputer.missing_values)):
        raise ValueError(f"fold takes imputers whose missing values are NaN, not {imputer!r}")
    m = len(fills)
    W, centres = faces.W[:, :m], faces.centres[:m]
    gaps = (W * (fills - centres)).T
    b = faces.b
    if imputer.indicator_ is not None:
        marks = np.asarray(imputer.indicator_.features_)
        b = b - faces.W[:, m:] @ faces.centres[m:]
        np.add.at(gaps, marks, faces.W[:, m:].T)
    return Affine(W, centres, b, gaps)


def _spread_out(faces: Affine, kept: NDArray[np.bool_]) -> Affine:
    """Before a selection: the other features have no weight."""
    W, centres = np.zeros((len(faces.W), len(kept))), np.zeros(len(kept))
    W[:, kept], centres[kept] = faces.W, faces.centres
    if faces.gaps is None:
        return Affine(W, centres, faces.b)
    gaps = np.zeros((len(kept), len(W)))
    gaps[kept] = faces.gaps
    return Affine(W, centres, faces.b, gaps)
