"""Features of a machine in the columns of the table, through the steps before the machine.

Every feature is ``(value - centre) / scale``. The value depends on one column: it is the number, 1 for a
certain text, 1 for a missing cell, or ``max(0, number - knot)``. So a face of the features is a face of the
values, in the units of the table. The steps are scikit-learn's imputers, scalers and one-hot encoders, and
:class:`polyopt.Hinges`, in pipelines and column transformers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from formulations.language.types import Array, is_sparse
from polyopt.base.text import other_spellings, text_of_number
from polyopt.datasets.preparation import feature_names, parts_of
from polyopt.estimators.frames import column_as_texts, is_missing, read_columns
from polyopt.estimators.hinges import Hinges
from polyopt.polytope import Polytope

Features = Sequence["Feature"]

_SCALERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)


class Feature(NamedTuple):
    """A feature of the machine, ``(value - centre) / scale``."""

    column: int  #: the column of the table
    text: str | None = None  #: for an indicator, the text for which the value is 1
    is_gap: bool = False  #: True if the value is 1 for a missing cell and 0 for others
    knot: float | None = None  #: for a hinge, the knot: the value is ``max(0, number - knot)``
    #: centre, scale: shift and divisor of the composition of all scalers.
    centre: float = 0.0
    scale: float = 1.0
    mean: float | None = None  #: the mean, or the median, that a scaler subtracted

    @property
    def is_number(self) -> bool:
        """True if the value is the column's number."""
        return self.text is None and self.knot is None and not self.is_gap


@dataclass(frozen=True)
class RawUnits:
    """The features of a machine in the columns of its table."""

    columns: tuple[str, ...]  #: the columns' names
    features: tuple[Feature, ...]  #: in the machine's order
    fills: tuple[float | str | None, ...]  #: for each column the substitute of a missing value, or None

    @classmethod
    def of(cls, steps: Sequence[tuple[str, Any]], columns: Sequence[str]) -> "RawUnits":
        """Return the features after the fitted steps; ValueError for a step of another kind."""
        fills: list[float | str | None] = [None] * len(columns)
        features: Features = [Feature(j) for j in range(len(columns))]
        for _, step in steps:
            features = _after(step, features, fills)
        return cls(tuple(columns), tuple(features), tuple(fills))

    @property
    def names(self) -> list[str]:
        """Names of the values."""
        pairs = [(f.column, "(missing)" if f.is_gap else f.text) for f in self.features]
        return [
            name if f.knot is None else f"max(0, {name} {'-' if f.knot >= 0 else '+'} {abs(f.knot):.4g})"
            for f, name in zip(self.features, feature_names(pairs, self.columns), strict=True)
        ]

    @property
    def texts(self) -> dict[int, list[str]]:
        """Texts of each column with indicators."""
        texts: dict[int, list[str]] = {}
        for f in self.features:
            if f.text is not None:
                texts.setdefault(f.column, []).append(f.text)
        return texts

    def polytope(self, polytope: Polytope, names: tuple[str, ...]) -> Polytope:
        """Return the machine's polytope over the values, with these names."""
        centre, scale = self.scaling
        if not centre.any() and (scale == 1.0).all():
            return replace(polytope, feature_names=names)  # which keeps whole numbers
        moved = Polytope.from_scaled(polytope.W, polytope.b, centre, scale)
        # Mean and spread of a feature are those of its scaler, or else those of the machine's polytope.
        mean = np.array([np.nan if f.mean is None else f.mean for f in self.features])
        has_mean, spread = np.isfinite(mean), scale
        if polytope.centre is not None:
            mean = np.where(has_mean, mean, centre + scale * polytope.centre)
        if polytope.spread is not None:
            spread = np.where(has_mean, scale, scale * polytope.spread)
        known_mean = mean if np.isfinite(mean).all() else None
        return Polytope(moved.W, moved.b, names, spread, known_mean, polytope.is_closed)

    @property
    def scaling(self) -> tuple[Array, Array]:
        """Centre and scale (m,) of all features."""
        return np.array([f.centre for f in self.features]), np.array([f.scale for f in self.features])

    def values(self, X: Any) -> Any:
        """Return the values (n, m) of a table's rows, sparse for a sparse table without missing values."""
        if is_sparse(X):
            if all(f.is_number and self.fills[f.column] is None for f in self.features):
                return X[:, [f.column for f in self.features]]
            X = X.toarray()
        texts, columns = self.texts, {f.column for f in self.features}
        numbers = sorted(columns.difference(texts))
        # True for a column of texts, False for numbers, None for a column that no feature reads
        is_text = [k in texts if k in columns else None for k in range(len(self.columns))]
        table = read_columns(X, is_text, [other_spellings(texts[k]) for k in sorted(texts)])
        cells = dict(zip(sorted(texts), table.texts.T, strict=True))
        cells |= dict(zip(numbers, table.numbers.T, strict=True))
        values = [self._value(cells[f.column], f) for f in self.features]
        return np.column_stack(values) if values else np.empty((len(table.numbers), 0))

    def _value(self, cells: Any, f: Feature) -> Array:
        is_text = cells.dtype == object
        gaps = np.array([cell is None for cell in cells]) if is_text else np.isnan(cells)
        if f.is_gap:
            return gaps.astype(float)
        fill = self.fills[f.column]
        filled = cells if fill is None else np.where(gaps, fill, cells)
        if f.text is not None:
            return np.asarray(filled == f.text, dtype=float)
        return np.asarray(filled if f.knot is None else np.maximum(filled - f.knot, 0.0))

    def scaled(self, values: Array) -> Array:
        """Return the machine's features (n, m) of these values (n, m)."""
        centre, scale = self.scaling
        return np.asarray((values - centre) / scale)


def _after(step: Any, features: Features, fills: list[float | str | None]) -> Features:
    """Return the features after a fitted step, and set the fills of the columns."""
    if step in ("passthrough", None) or (isinstance(step, FunctionTransformer) and step.func is None):
        return features
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            features = _after(part, features, fills)
        return features
    if isinstance(step, _SCALERS):
        return _after_scaler(step, features)
    if isinstance(step, OneHotEncoder):
        return _after_encoder(step, features, fills)
    if isinstance(step, Hinges):
        return _after_hinges(step, features)
    from sklearn.compose import ColumnTransformer  # which imports half of scikit-learn
    from sklearn.impute import SimpleImputer

    if isinstance(step, SimpleImputer):
        return _after_imputer(step, features, fills)
    if isinstance(step, ColumnTransformer):
        parts = [(part, [features[place] for place in places]) for part, places in parts_of(step)]
        return [made for part, members in parts for made in _after(part, members, fills)]
    raise ValueError(
        f"the step {type(step).__name__} is before the machine; the table's units are known through "
        "scikit-learn's scalers, SimpleImputer, OneHotEncoder, ColumnTransformer and Pipeline, and Hinges"
    )


def _after_scaler(step: Any, features: Features) -> Features:
    if getattr(step, "clip", False):
        raise ValueError(f"{step!r} clips, so that faces are not flat in the units before it: set clip=False")
    own_scale = getattr(step, "scale_", None)  # None if the step only centres
    scale = np.ones(len(features)) if own_scale is None else np.asarray(own_scale, dtype=float)
    shift = mean = getattr(step, "mean_", getattr(step, "center_", None))  # None for scalers by the range
    if isinstance(step, MinMaxScaler):  # x · scale_ + min_
        shift, scale = -step.min_ / scale, 1.0 / scale
    if shift is None or not getattr(step, "with_mean", True):
        shift = np.zeros(len(features))  # the mean is recorded, but not subtracted
    return [
        f._replace(
            centre=f.centre + f.scale * float(shift[j]),
            scale=f.scale * float(scale[j]),
            mean=None if mean is None or own_scale is None else f.centre + f.scale * float(mean[j]),
        )
        for j, f in enumerate(features)
    ]


def _after_imputer(step: Any, features: Features, fills: list[float | str | None]) -> Features:
    if not is_missing(step.missing_values):
        raise ValueError(f"{step!r} fills {step.missing_values!r}, which is no missing value of a table")
    for f, fill in zip(features, step.statistics_.tolist(), strict=True):
        if not f.is_number or is_missing(fill):
            raise ValueError(f"{step!r} fills indicators or hinges, or leaves out a column without any value")
        raw_fill = fill if isinstance(fill, str) else f.centre + f.scale * float(fill)
        if (other := fills[f.column]) not in (None, raw_fill):
            raise ValueError(f"{step!r} fills a column by {raw_fill!r} that is filled by {other!r} as well")
        fills[f.column] = raw_fill
    marked = [] if step.indicator_ is None else step.indicator_.features_.tolist()
    return [*features, *(Feature(features[j].column, is_gap=True) for j in marked)]


def _after_encoder(step: Any, features: Features, fills: list[float | str | None]) -> Features:
    if getattr(step, "_infrequent_enabled", False):
        raise ValueError("OneHotEncoder joins rare texts: set min_frequency and max_categories to None")
    indicators = []
    for j, (f, categories) in enumerate(zip(features, step.categories_, strict=True)):
        if f != Feature(f.column):
            raise ValueError("OneHotEncoder encodes a scaled or encoded feature, and no column of the table")
        fill, dropped = fills[f.column], None if step.drop_idx_ is None else step.drop_idx_[j]
        fills[f.column] = text_of_number(fill) if isinstance(fill, float) else fill
        for place, text in enumerate(column_as_texts(categories)):
            if place != dropped:
                indicators.append(Feature(f.column, text, is_gap=text is None))
    return indicators


def _after_hinges(step: Hinges, features: Features) -> Features:
    made = list(features)
    for f, knots in zip(features, step.knots_, strict=True):
        if len(knots) and not f.is_number:
            raise ValueError("Hinges bend at knots of hinges or indicators, and not of the table's numbers")
        # max(0, (x - centre) / scale - t) = max(0, x - knot) / scale
        made += [Feature(f.column, knot=f.centre + f.scale * float(t), scale=f.scale) for t in knots]
    return made
