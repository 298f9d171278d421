"""A table's columns made features: numbers standardised, texts as indicators, gaps filled and marked."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from formulations.arguments import refuse_masked, within
from polyopt.estimators.column_table import is_frame, read_columns
from polyopt.estimators.declaration import estimator
from polyopt.estimators.validation import validated
from polyopt.polytope import Polytope
from polyopt.polytope.spellings import other_spellings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Array
    from polyopt.estimators.column_table import ColumnTable
    from polyopt.estimators.given import SamplesLike
    from polyopt.graphs import Graph

__all__ = ["Columns"]

_RARE, _MISSING = "(rare)", "(missing)"  # in place of a text, in the names of features


@estimator
class Columns(TransformerMixin, BaseEstimator):
    """Features of a table as it comes: a frame of pandas or polars, or an array of numbers and texts.

    A column of numbers is a feature: gaps are filled by the median of the training data, and it is brought
    to mean 0 and variance 1. A column that had gaps has a second feature, ``name=(missing)``, 1 where there
    is one. A column of texts, categories or truths has a feature for each text, ``name=text``, 1 where it is
    the sample's; rare texts share ``name=(rare)``, and so do new ones; where none is rare, a new text has 0
    in all. A missing text is a text of its own, ``name=(missing)``. A truth of a new row may be spelled True,
    "true", "TRUE", 1 or "1" (False likewise), whichever the fit had. All is done by scikit-learn's
    ``SimpleImputer``, ``MissingIndicator``, ``StandardScaler`` and ``OneHotEncoder``.

    Parameters
    ----------
    text : sequence of str or int, default=()
        Columns of numbers that are names and no amounts, such as postcodes: by name, or by place.
    rare : float, default=0.01
        Texts of fewer than this share of the samples are rare; 0 for none.
    standardise : bool, default=True
        Whether numbers are brought to mean 0 and variance 1, or stay as they are.

    Attributes
    ----------
    groups_ : ndarray of int, shape (n_features_out,)
        The number of the column that each feature is of, for machines that count a column as one.
    is_text_ : tuple of bool
        Which columns hold texts.
    n_features_in_ : int
        Columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from polyopt import Columns
    >>> table = pd.DataFrame({"age": [20.0, 40.0, None], "colour": ["red", "blue", "red"]})
    >>> columns = Columns().fit(table)
    >>> columns.get_feature_names_out().tolist()
    ['age', 'age=(missing)', 'colour=blue', 'colour=red']
    >>> columns.transform(table).shape
    (3, 4)
    """

    text: Sequence[str | int] = ()
    _: KW_ONLY
    rare: float = 0.01
    standardise: bool = True

    _fitted: ClassVar[str] = "is_text_"

    # -- fitting -----------------------------------------------------------------------------

    def fit(self, X: SamplesLike, y: ArrayLike | None = None) -> Self:
        """Learn the texts, the medians, the means and the spreads.

        Parameters
        ----------
        X : frame or array_like of shape (n, m)
            The training data.
        y : ignored
            For pipelines.

        Raises
        ------
        ValueError
            A column that holds neither numbers nor texts, infinity, a share out of its range, or no samples.
        """
        share = within("rare", self.rare, 0.0, 1.0)
        refuse_masked("X", X)
        table = read_columns(X, self.text)
        if not len(table.numbers):
            shape = np.shape(X)
            raise ValueError(
                f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required."
            )
        validated(self, X if is_frame(X) else np.empty((1, len(table.names))), skip_check_array=True)
        self.is_text_, self._names = table.is_text, table.names
        # Median 0, and no scale, for a column without any number.
        self._imputer = SimpleImputer(strategy="median", keep_empty_features=True)
        self._indicator = MissingIndicator(features="missing-only", error_on_new=False)
        self._scaler, self._encoder = None, None
        for part in (self._imputer, self._indicator):
            part.set_output(transform="default")  # arrays, whatever set_config says
        if table.numbers.shape[1]:
            filled = self._imputer.fit_transform(table.numbers)
            self._indicator.fit(table.numbers)
            scaler = StandardScaler().set_output(transform="default")
            self._scaler = scaler.fit(filled) if self.standardise else None
        if table.texts.shape[1]:
            self._encoder = OneHotEncoder(
                handle_unknown="infrequent_if_exist", min_frequency=share or None, sparse_output=False
            ).set_output(transform="default")
            self._encoder.fit(table.texts)
        self.groups_, self._out = self._described()
        plain = self._plain(table)
        self._centre, spread = plain.mean(axis=0), plain.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        return self

    def _described(self) -> tuple[NDArray[np.intp], list[str]]:
        """Of each feature the number of its column, and its name."""
        of_numbers, of_texts = self._places
        found = [(k, self._names[k]) for k in of_numbers]
        found += [(of_numbers[j], f"{self._names[of_numbers[j]]}={_MISSING}") for j in self._gaps]
        for k, (texts, has_rare) in zip(of_texts, self._levels, strict=True):
            levels = [_MISSING if text is None else text for text in texts] + [_RARE] * has_rare
            found += [(k, f"{self._names[k]}={text}") for text in levels]
        taken: set[str] = set()
        names = []
        for _, name in found:  # a column may be called as another one's text is
            while name in taken:
                name += "'"
            taken.add(name)
            names.append(name)
        return np.array([k for k, _ in found]), names

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns' names; ``x0``, ``x1`` and so on where the table had none."""
        check_is_fitted(self, self._fitted)
        return self._names

    @property
    def _places(self) -> tuple[list[int], list[int]]:
        """The places of the columns of numbers, and of those of texts."""
        every = list(enumerate(self.is_text_))
        return [k for k, is_text in every if not is_text], [k for k, is_text in every if is_text]

    @property
    def _medians(self) -> Array:
        return np.asarray(getattr(self._imputer, "statistics_", np.empty(0)), dtype=float)

    @property
    def _gaps(self) -> list[int]:
        """The places among the columns of numbers of those that had gaps."""
        return self._indicator.features_.tolist() if hasattr(self._indicator, "features_") else []

    @property
    def _levels(self) -> list[tuple[list[str | None], bool]]:
        """Of each column of texts those with a feature, None for a gap, and whether the others share one."""
        if self._encoder is None:
            return []
        every = self._encoder.categories_
        rare = getattr(self._encoder, "infrequent_categories_", [None] * len(every))
        few = [[] if texts is None else texts.tolist() for texts in rare]
        return [
            ([text for text in texts.tolist() if text not in left_out], bool(left_out))
            for texts, left_out in zip(every, few, strict=True)
        ]

    @property
    def _spellings(self) -> list[dict[str, str]]:
        """For each column of texts the other spellings of its truths."""
        return (
            [] if self._encoder is None else [other_spellings(texts) for texts in self._encoder.categories_]
        )

    # -- answering ---------------------------------------------------------------------------

    def transform(self, X: SamplesLike) -> Array:
        """Features of samples.

        Parameters
        ----------
        X : frame or array_like of shape (t, m)
            Samples, with the columns of the fit.

        Returns
        -------
        ndarray of shape (t, n_features_out)
            Numbers first, then the marks of their gaps, then the texts' indicators. After ``set_output`` a
            frame.
        """
        return self.scaled(self._plain(self._table(X)))

    def readable(self, X: SamplesLike) -> Array:
        """The same in the columns' own units: numbers are not standardised.

        Parameters
        ----------
        X : frame or array_like of shape (t, m)
            Samples, with the columns of the fit.
        """
        return self._plain(self._table(X))

    def scaled(self, readable: Array) -> Array:
        """What :meth:`transform` gives, from what :meth:`readable` does.

        Parameters
        ----------
        readable : ndarray of shape (t, n_features_out)
            Features in the columns' own units.
        """
        check_is_fitted(self, self._fitted)
        found = np.array(readable, dtype=float)
        if self._scaler is not None:
            p = int(self._scaler.n_features_in_)
            found[:, :p] = self._scaler.transform(found[:, :p])
        return found

    def in_units(self, polytope: Polytope) -> Polytope:
        """A polytope of the features as one of columns in their own units, for rules that people read.

        Parameters
        ----------
        polytope : Polytope
            That of a machine fitted to what :meth:`transform` gives.
        """
        check_is_fitted(self, self._fitted)
        mean, scale = np.zeros(len(self._out)), np.ones(len(self._out))
        if self._scaler is not None:
            p = int(self._scaler.n_features_in_)
            mean[:p], scale[:p] = self._scaler.mean_, self._scaler.scale_
        own = Polytope.from_scaled(polytope.W, polytope.b, mean, scale)
        return Polytope(own.W, own.b, tuple(self._out), self._spread, self._centre, polytope.is_closed)

    def columns_of_features(self) -> tuple[list[tuple[int, str | None]], list[float | str | None]]:
        """How features are made of columns, where each is a column or tells whether it has one text.

        Returns
        -------
        features : list of (int, str or None)
            For each feature its column and, of an indicator, the text for which it is 1.
        fills : list of (float, str or None)
            For each column what fills a gap; of texts, one that none of them is.

        Raises
        ------
        ValueError
            Features of gaps, or of rare texts.
        """
        check_is_fitted(self, self._fitted)
        if self._gaps or any(None in texts or has_rare for texts, has_rare in self._levels):
            raise ValueError("some features of Columns tell of missing values or of rare texts")
        of_numbers, of_texts = self._places
        features: list[tuple[int, str | None]] = [(k, None) for k in of_numbers]
        fills: list[float | str | None] = [""] * len(self.is_text_)
        for k, median in zip(of_numbers, self._medians, strict=True):
            fills[k] = float(median)
        for k, (texts, _) in zip(of_texts, self._levels, strict=True):
            features += [(k, text) for text in texts]
        return features, fills

    def draw(self, graph: Graph, columns: Sequence[str]) -> str:
        """Draw the features (n, n_features_out) into an ONNX graph.

        Parameters
        ----------
        graph : Graph
            A graph.
        columns : sequence of str
            Its tensors (n, 1) of the columns; of numbers NaN where a value is missing, of texts "".
        """
        check_is_fitted(self, self._fitted)
        made, marks = [], []
        (of_numbers, of_texts), gaps = self._places, set(self._gaps)
        for j, k in enumerate(of_numbers):
            is_gap = graph.op("IsNaN", columns[k])
            x = graph.op("Where", is_gap, graph.constant(float(self._medians[j])), columns[k])
            if self._scaler is not None:
                x = graph.op("Sub", x, graph.constant(float(self._scaler.mean_[j])))
                x = graph.op("Div", x, graph.constant(float(self._scaler.scale_[j])))
            made.append(x)
            marks += [graph.op("Cast", is_gap, to=11)] if j in gaps else []  # double
        made += marks
        for k, (texts, has_rare), other in zip(of_texts, self._levels, self._spellings, strict=True):
            if texts:
                made.append(graph.indicators(columns[k], [text or "" for text in texts], other))
            if has_rare:
                one = graph.constant(1.0)
                left = graph.op("Sub", one, graph.over_columns("ReduceSum", made[-1])) if texts else ""
                made.append(left or graph.op("Cast", graph.op("Equal", columns[k], columns[k]), to=11))
        return made[0] if len(made) == 1 else graph.op("Concat", *made, axis=1)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Names of the features.

        Parameters
        ----------
        input_features : ignored
            They are those of the fit.
        """
        check_is_fitted(self, self._fitted)
        return np.array(self._out, dtype=object)

    def _table(self, X: SamplesLike) -> ColumnTable:
        check_is_fitted(self, self._fitted)
        refuse_masked("X", X)
        if is_frame(X) and hasattr(self, "feature_names_in_"):
            validated(self, X, reset=False, skip_check_array=True)
        return read_columns(X, is_text=self.is_text_, spellings=self._spellings)

    def _plain(self, table: ColumnTable) -> Array:
        """Features in the columns' own units."""
        parts: list[Array] = []
        if table.numbers.shape[1]:
            marks = self._indicator.transform(table.numbers)
            parts += [self._imputer.transform(table.numbers), marks]
        if self._encoder is not None:
            parts.append(self._encoder.transform(table.texts))
        return np.hstack(parts).astype(float, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
