"""Features of a table with texts and missing values, by scikit-learn's imputer and encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from polyopt.datasets.dataset import Dataset, Features

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

Impute: TypeAlias = Literal["median", "most-frequent"]


def table_preparation(
    n_columns: int, text: Sequence[int] = (), impute: Impute | None = None
) -> ColumnTransformer | None:
    """Return the unfitted transformer of a table: numbers first, then an indicator a text of `text` columns.

    A text that the fit did not see is 0 in all indicators. Missing numbers are filled by the median or the
    most frequent value of the column, missing texts by the latter. None if the table needs no transformer.
    """
    if not len(text) and impute is None:
        return None
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    numbers = [i for i in range(n_columns) if i not in set(text)]
    fill = "passthrough" if impute is None else SimpleImputer(strategy=impute.replace("-", "_"))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    if impute is not None:
        encoder = make_pipeline(SimpleImputer(strategy="most_frequent", missing_values=None), encoder)
    parts = [("numbers", fill, numbers), ("text", encoder, list(text))]
    made = ColumnTransformer(
        [part for part in parts if part[2]], sparse_threshold=0, verbose_feature_names_out=False
    )
    return made.set_output(transform="default")  # arrays, whatever set_config says


def fit_preparation(data: Dataset, train: Features | None = None) -> tuple[Dataset, ColumnTransformer | None]:
    """Turn texts and missing values of a data set into numbers.

    Return the set with float64 features and their new names, and the fitted transformer or None.

    Parameters
    ----------
    data : Dataset
        The set as it was read.
    train : array, optional
        Rows to fit the transformer to, such as the training part of a split; by default all.
    """
    if data.preparation is None:
        return data, None
    from sklearn.base import clone

    fitted = clone(data.preparation).fit(data.X if train is None else train)
    features: list[tuple[int, str | None]] = []
    for step, places in parts_of(fitted):
        encoder = _encoder(step)
        for k, place in enumerate(places):
            features += [(place, text) for text in ([None] if encoder is None else encoder.categories_[k])]
    names = feature_names(features, data.feature_names or [f"x{j}" for j in range(fitted.n_features_in_)])
    X = np.asarray(fitted.transform(data.X), dtype=np.float64)
    return replace(data, X=X, feature_names=tuple(names), preparation=None), fitted


def feature_names(features: Sequence[tuple[int, str | None]], columns: Sequence[str]) -> list[str]:
    """Return names of features, pairs of a column and, for an indicator, its text.

    The name is the column's or, for an indicator, ``column_text``; ``column=text`` if that is taken.
    """
    names, taken = [], set(columns)
    for column, text in features:
        name = columns[column]
        if text is not None:
            name = f"{name}_{text}" if f"{name}_{text}" not in taken else f"{name}={text}"
            taken.add(name)
        names.append(name)
    return names


def parts_of(preparation: ColumnTransformer) -> list[tuple[Any, list[int]]]:
    """Return step and columns of each part of a fitted ColumnTransformer that makes features."""
    names = list(getattr(preparation, "feature_names_in_", []))
    all_places = np.arange(int(preparation.n_features_in_))
    parts = []
    for _, step, columns in preparation.transformers_:
        columns = [columns] if isinstance(columns, str) else columns
        if isinstance(columns, slice) or not any(isinstance(column, str) for column in columns):
            places = np.atleast_1d(all_places[columns]) if len(np.atleast_1d(columns)) else all_places[:0]
        else:
            places = np.array([names.index(column) for column in columns])
        if len(places) and not (isinstance(step, str) and step == "drop"):
            parts.append((step, places.tolist()))
    return parts


def _encoder(part: Any) -> OneHotEncoder | None:
    """Return the fitted encoder of a part, which may be a step of a pipeline."""
    return next((step for step in _steps(part) if hasattr(step, "categories_")), None)


def _steps(part: Any) -> list[Any]:
    return [step for _, step in getattr(part, "steps", [("", part)])]


def column_texts(preparation: ColumnTransformer | None) -> dict[int, list[str]]:
    """Return the categories of each column of texts of a fitted transformer, by the column's place."""
    texts = {}
    for step, places in [] if preparation is None else parts_of(preparation):
        encoder = _encoder(step)
        for place, categories in () if encoder is None else zip(places, encoder.categories_, strict=True):
            if any(isinstance(category, str) for category in categories):
                texts[place] = categories.tolist()
    return dict(sorted(texts.items()))


def unseen_texts(preparation: ColumnTransformer | None, X: Features) -> dict[int, list[str]]:
    """Return the texts of the rows X that the fit did not see, by the place of their column."""
    unseen = {}
    for place, known in column_texts(preparation).items():
        texts = dict.fromkeys(text for text in np.asarray(X)[:, place].tolist() if text is not None)
        if new := [text for text in texts if text not in set(known)]:
            unseen[place] = new
    return unseen


def imputes(preparation: ColumnTransformer | None) -> bool:
    """True if a transformer, fitted or not, fills missing values."""
    if preparation is None:
        return False
    from sklearn.impute import SimpleImputer

    return any(isinstance(_steps(part)[0], SimpleImputer) for _, part, _ in preparation.transformers)
