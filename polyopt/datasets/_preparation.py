"""A table of numbers, texts and gaps made features: scikit-learn's imputer and encoder, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from polyopt.datasets._dataset import Dataset, Features

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder


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
    made = ColumnTransformer(
        [part for part in parts if part[2]], sparse_threshold=0, verbose_feature_names_out=False
    )
    return made.set_output(transform="default")  # arrays, whatever set_config says


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
    """Names of the features, as :func:`feature_names` gives them.

    Parameters
    ----------
    preparation : ColumnTransformer
        As :func:`table_preparation` makes it, fitted.
    names : sequence of str, optional
        The table's; ``x0``, ``x1`` and so on by default.
    """
    n_columns = int(preparation.n_features_in_)
    features: list[tuple[int, str | None]] = []
    for _, part, places in parts_of(preparation):
        encoder = _encoder(part)
        if encoder is None:
            features += [(place, None) for place in places]
        else:
            pairs = zip(places, encoder.categories_, strict=True)
            features += [(place, text) for place, texts in pairs for text in texts]
    given = [f"x{j}" for j in range(n_columns)] if names is None else [str(name) for name in names]
    return feature_names(features, given)


def feature_names(features: Sequence[tuple[int, str | None]], columns: Sequence[str]) -> list[str]:
    """Names of features: a column's own, and ``column_text`` for an indicator.

    If that is the name of another feature, an indicator is called ``column=text``.

    Parameters
    ----------
    features : sequence of (int, str or None)
        For each feature its column and, of an indicator, the text for which it is 1.
    columns : sequence of str
        The columns' names.
    """
    found, taken = [], set(columns)
    for column, text in features:
        name = columns[column]
        if text is not None:
            usual = f"{name}_{text}"
            name = usual if usual not in taken else f"{name}={text}"
            taken.add(name)
        found.append(name)
    return found


def parts_of(preparation: ColumnTransformer) -> list[tuple[str, Any, list[int]]]:
    """The parts of a fitted ColumnTransformer that give features: name, step, and places of their columns.

    Parameters
    ----------
    preparation : ColumnTransformer
        Fitted.
    """
    names = list(getattr(preparation, "feature_names_in_", []))
    every = np.arange(int(preparation.n_features_in_))
    found = []
    for name, part, chosen in preparation.transformers_:
        chosen = [chosen] if isinstance(chosen, str) else chosen
        if isinstance(chosen, slice) or not any(isinstance(one, str) for one in chosen):
            places = np.atleast_1d(every[chosen]) if len(np.atleast_1d(chosen)) else every[:0]
        else:
            places = np.array([names.index(one) for one in chosen])
        if len(places) and not (isinstance(part, str) and part == "drop"):
            found.append((name, part, [int(place) for place in places]))
    return found


def _encoder(part: Any) -> OneHotEncoder | None:
    """The encoder of a part, which may be a step of a pipeline."""
    from sklearn.pipeline import Pipeline

    steps = [step for _, step in part.steps] if isinstance(part, Pipeline) else [part]
    return next((step for step in steps if hasattr(step, "categories_")), None)


def _imputer(part: Any) -> SimpleImputer | None:
    """The imputer of a part, which may be the first step of a pipeline."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline

    first = part.steps[0][1] if isinstance(part, Pipeline) else part
    return first if isinstance(first, SimpleImputer) else None


def column_texts(preparation: ColumnTransformer | None) -> dict[int, list[str]]:
    """The categories of the columns whose categories are texts, by the place of the column.

    Parameters
    ----------
    preparation : ColumnTransformer or None
        Fitted.
    """
    found = {}
    for _, part, places in [] if preparation is None else parts_of(preparation):
        encoder = _encoder(part)
        for place, known in () if encoder is None else zip(places, encoder.categories_, strict=True):
            if any(isinstance(one, str) for one in known):
                found[place] = known.tolist()
    return dict(sorted(found.items()))


def unseen_texts(preparation: ColumnTransformer | None, X: Features) -> dict[int, list[str]]:
    """Texts of rows that the fit did not see, by the place of their column.

    Parameters
    ----------
    preparation : ColumnTransformer or None
        Fitted.
    X : array, shape (n, columns)
        The table.
    """
    found = {}
    for place, known in column_texts(preparation).items():
        there = dict.fromkeys(text for text in np.asarray(X)[:, place].tolist() if text is not None)
        if new := [text for text in there if text not in set(known)]:
            found[place] = new
    return found


def imputes(preparation: ColumnTransformer | None) -> bool:
    """Whether gaps are filled.

    Parameters
    ----------
    preparation : ColumnTransformer or None
        As :func:`table_preparation` makes it, fitted or not.
    """
    parts = [] if preparation is None else [step for _, step, _ in preparation.transformers]
    return any(_imputer(step) is not None for step in parts)
