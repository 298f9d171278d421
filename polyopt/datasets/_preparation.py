"""A table of numbers, texts and gaps made features: scikit-learn's imputer and encoder, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from polyopt.datasets._dataset import Dataset, Features

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.compose import ColumnTransformer


Impute: TypeAlias = Literal["median", "most-frequent"]


def table_preparation(
    n_columns: int, text: Sequence[int] = (), impute: Impute | None = None
) -> ColumnTransformer | None:
    """What makes features of a table, not yet fitted.

    Parameters
    ----------
    n_columns : int
        Columns of the table.
    text : sequence of int
        Places of the columns to encode: one indicator per text. A text that the fit did not see is 0 in all.
    impute : {"median", "most-frequent"}, optional
        What fills a gap: the column's median or its most frequent value, of a text always the latter.

    Returns
    -------
    ColumnTransformer or None
        The numbers first, then the indicators; None where the table is features as it is.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    if not len(text) and impute is None:
        return None
    numbers = [i for i in range(n_columns) if i not in set(text)]
    fill = "passthrough" if impute is None else SimpleImputer(strategy=impute.replace("-", "_"))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    if impute is not None:
        encoder = make_pipeline(SimpleImputer(strategy="most_frequent", missing_values=None), encoder)
    parts = [("numbers", fill, numbers), ("text", encoder, list(text))]
    return ColumnTransformer(
        [part for part in parts if part[2]], sparse_threshold=0, verbose_feature_names_out=False
    )


def fit_preparation(data: Dataset, train: Features | None = None) -> tuple[Dataset, ColumnTransformer | None]:
    """A data set whose features are numbers, and what made them so.

    Parameters
    ----------
    data : Dataset
        As it was read.
    train : array, optional
        Rows to learn from, where not all of the data set's are: the training part of a split.

    Returns
    -------
    Dataset
        With features of float64 and the names that they have now.
    ColumnTransformer or None
        Fitted; None where there was nothing to do.
    """
    if data.preparation is None:
        return data, None
    from dataclasses import replace

    from sklearn.base import clone

    fitted = clone(data.preparation).fit(data.X if train is None else train)
    names = prepared_names(fitted, data.feature_names)
    X = features_of(fitted, data.X)
    return replace(data, X=X, feature_names=tuple(names), preparation=None), fitted


def features_of(preparation: ColumnTransformer | None, X: Features) -> NDArray[np.float64]:
    """The features of rows of a table, (n, m) float64; the table itself where there is no preparation.

    Parameters
    ----------
    preparation : ColumnTransformer or None
        Fitted.
    X : array, shape (n, columns)
        The table.
    """
    return X if preparation is None else np.asarray(preparation.transform(X), dtype=np.float64)


def prepared_names(preparation: ColumnTransformer, names: Sequence[str] | None) -> list[str]:
    """Names of the features: a column's own, and ``column_text`` for an indicator.

    Parameters
    ----------
    preparation : ColumnTransformer
        Fitted.
    names : sequence of str, optional
        The table's; ``x0``, ``x1`` and so on by default.
    """
    given = None if names is None else np.array(names, dtype=object)
    return [str(name) for name in preparation.get_feature_names_out(given)]


def text_columns(preparation: ColumnTransformer | None) -> tuple[int, ...]:
    """Places of the columns that become indicators.

    Parameters
    ----------
    preparation : ColumnTransformer or None
        As :func:`table_preparation` makes it, fitted or not.
    """
    parts = [] if preparation is None else preparation.transformers
    return tuple(place for name, _, places in parts if name == "text" for place in places)


def imputes(preparation: ColumnTransformer | None) -> bool:
    """Whether gaps are filled.

    Parameters
    ----------
    preparation : ColumnTransformer or None
        As :func:`table_preparation` makes it, fitted or not.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline

    parts = [] if preparation is None else [step for _, step, _ in preparation.transformers]
    return any(isinstance(step, SimpleImputer | Pipeline) for step in parts)
