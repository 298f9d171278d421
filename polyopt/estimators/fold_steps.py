"""Faces taken back through the steps before a machine: from its features to the columns of the table.

An output is ``Σ_j [W_kj u_j + what bends add at u_j] + b_k`` at every step, with ``u_j = x_j - centre_j``.
Taking the centres off first keeps all digits where a column is far from 0 compared with its spread, as a
scaler does. Hinges are bends of the columns that they are of, and a function of straight pieces is a curve
that stands in place of ``u_j``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from polyopt.answers.weighed import Bend, Curve
from polyopt.estimators.hinges import Hinges
from polyopt.estimators.piecewise_power import PiecewisePower

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from sklearn.base import BaseEstimator

    from formulations.matrices import Array

__all__ = ["PulledFaces", "pulled", "scaling_of"]

_SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)


@dataclass(frozen=True)
class PulledFaces:
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
    bends : mapping of int to Bend
        What features add besides.
    curves : mapping of int to Curve
        What stands in place of ``x_j - centre_j``.
    """

    W: Array
    centres: Array
    b: Array
    gaps: Array | None = None
    bends: Mapping[int, Bend] = field(default_factory=dict)
    curves: Mapping[int, Curve] = field(default_factory=dict)

    def at(self, j: int, x: float) -> Array:
        """What feature j adds (K,) to the outputs at x."""
        u = x - self.centres[j]
        u = self.curves[j].at(u) if j in self.curves else u
        straight = np.asarray(self.W[:, j] * u)
        return straight + self.bends[j].at(u) if j in self.bends else straight

    def before_scaling(self, mean: Array, scale: Array) -> PulledFaces:
        """Faces of x, where these are of (x - mean) / scale, for the first features, one for each mean.

        Raises
        ------
        ValueError
            Weights or centres that leave double precision.
        """
        m = len(mean)
        factors = np.array([1.0 if j in self.curves else scale[j] for j in range(m)])  # of u
        with np.errstate(over="ignore", invalid="ignore"):
            W, centres = self.W[:, :m] / factors, mean + scale * self.centres[:m]
            bends = {
                j: Bend(bend.knots * factors[j], bend.changes / factors[j])
                for j, bend in self.bends.items()
                if j < m
            }
            curves = {
                j: Curve(curve.knots * scale[j], curve.levels) for j, curve in self.curves.items() if j < m
            }
        parts = (W, centres, *(part for each in (*bends.values(), *curves.values()) for part in each))
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError("the faces leave double precision in the units of the columns")
        return replace(self, W=W, centres=centres, bends=bends, curves=curves)


def pulled(faces: PulledFaces, step: BaseEstimator) -> PulledFaces:
    """Faces of what a step gives as faces of what it takes.

    Parameters
    ----------
    faces : PulledFaces
        The faces.
    step : transformer
        Fitted: one of scikit-learn's scalers, Hinges, PiecewisePower, a SimpleImputer, a selection of
        features or PCA.

    Raises
    ------
    ValueError
        Another step, PCA before one that bends, or Hinges before PiecewisePower.
    """
    if isinstance(step, _SCALERS):
        return faces.before_scaling(*scaling_of(step))
    if isinstance(step, Hinges) and not faces.curves:
        return _before_hinges(faces, step)
    if isinstance(step, PiecewisePower):
        return _before_pieces(faces, step)
    if isinstance(step, SimpleImputer):
        return _before_gaps(faces, step)
    if isinstance(step, SelectorMixin):
        return _spread_out(faces, np.asarray(step.get_support()))
    if isinstance(step, PCA) and not faces.bends and not faces.curves:
        components = step.components_
        if step.whiten:
            least = np.finfo(components.dtype).eps
            components = components / np.sqrt(np.maximum(step.explained_variance_, least))[:, None]
        return PulledFaces(faces.W @ components, step.mean_, faces.b - faces.W @ faces.centres)
    raise ValueError(
        f"fold takes Columns, scikit-learn's scalers, PiecewisePower, Hinges, SimpleImputer, selections of "
        f"features and PCA before a machine, no PCA before those that bend, and no Hinges before "
        f"PiecewisePower: not {type(step).__name__}"
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


def _before_gaps(faces: PulledFaces, imputer: Any) -> PulledFaces:
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
    gaps, b = np.array([faces.at(j, x) for j, x in enumerate(fills)]), faces.b
    if imputer.indicator_ is not None:
        for mark, j in enumerate(imputer.indicator_.features_, m):
            gaps[j] += faces.at(mark, 1.0) - faces.at(mark, 0.0)
            b = b + faces.at(mark, 0.0)
    bends = {j: bend for j, bend in faces.bends.items() if j < m}
    curves = {j: curve for j, curve in faces.curves.items() if j < m}
    return PulledFaces(faces.W[:, :m], faces.centres[:m], b, gaps, bends, curves)


def _before_hinges(faces: PulledFaces, step: Hinges) -> PulledFaces:
    """Before hinges: what those of a feature add is a bend of it.

    A hinge h = max(0, x - t) with bends of its own at s > 0 adds what it does at 0, its slope from t on, and
    its bends at t + s.
    """
    m, b, hinge = step.n_features_in_, faces.b, step.n_features_in_
    bends = {j: [bend] for j, bend in faces.bends.items() if j < m}
    for j, knots in enumerate(step.knots_):
        for t in knots - faces.centres[j]:
            b = b + faces.at(hinge, 0.0)
            own = faces.bends.get(hinge, Bend(np.empty(0), np.empty((0, len(b)))))
            places = own.knots + faces.centres[hinge]
            slope = faces.W[:, hinge] + own.changes[places <= 0.0].sum(axis=0)
            later = places > 0.0
            made = Bend(np.append(t, t + places[later]), np.vstack([slope, own.changes[later]]))
            bends.setdefault(j, []).append(made)
            hinge += 1
    joined = {
        j: Bend(np.concatenate([bend.knots for bend in own]), np.vstack([bend.changes for bend in own]))
        for j, own in bends.items()
    }
    return PulledFaces(faces.W[:, :m], faces.centres[:m], b, bends=joined)


def _before_pieces(faces: PulledFaces, step: PiecewisePower) -> PulledFaces:
    """Before a function of straight pieces: it is a curve, or the first part of one."""
    centres, curves = faces.centres.copy(), dict(faces.curves)
    for j, (knots, levels) in enumerate(zip(step.knots_, step.levels_, strict=True)):
        if len(knots):
            values, places = levels - centres[j], knots
            if j in curves:
                inner = curves[j].knots[(curves[j].knots > values[0]) & (curves[j].knots < values[-1])]
                places = np.unique(np.append(knots, np.interp(inner, values, knots)))
                values = np.array([curves[j].at(np.interp(x, knots, values)) for x in places])
            # Where it is steepest taking the centre off loses the fewest digits.
            centres[j] = places[np.argmax(np.abs(np.diff(values) / np.diff(places)))]
            curves[j] = Curve(places - centres[j], values)
    return replace(faces, centres=centres, curves=curves)


def _spread_out(faces: PulledFaces, kept: NDArray[np.bool_]) -> PulledFaces:
    """Before a selection: the other features have no weight."""
    W, centres, places = np.zeros((len(faces.W), len(kept))), np.zeros(len(kept)), np.flatnonzero(kept)
    W[:, kept], centres[kept] = faces.W, faces.centres
    gaps = None if faces.gaps is None else np.zeros((len(kept), len(W)))
    if gaps is not None:
        gaps[kept] = faces.gaps
    bends = {int(places[j]): bend for j, bend in faces.bends.items()}
    curves = {int(places[j]): curve for j, curve in faces.curves.items()}
    return PulledFaces(W, centres, faces.b, gaps, bends, curves)
