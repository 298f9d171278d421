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
    """Names of the features: a column's own, and ``column_text`` for an indicator.

    Where that is the name of another feature, an indicator is called ``column=text``.

    Parameters
    ----------
    preparation : ColumnTransformer
        Fitted.
    names : sequence of str, optional
        The table's; ``x0``, ``x1`` and so on by default.
    """
    n_columns = int(preparation.n_features_in_)
    given = [f"x{j}" for j in range(n_columns)] if names is None else [str(name) for name in names]
    found: list[str] = []
    taken = set(given)
    for _, part, places in preparation.transformers_:
        encoder = _encoder(part)
        if encoder is None:
            found += [given[place] for place in places]
            continue
        for place, texts in zip(places, encoder.categories_, strict=True):
            for text in texts:
                usual = f"{given[place]}_{text}"
                found.append(usual if usual not in taken else f"{given[place]}={text}")
                taken.add(found[-1])
    return found


def _encoder(part: Any) -> OneHotEncoder | None:
    """The encoder of a part, which may be the last step of a pipeline."""
    from sklearn.pipeline import Pipeline

    last = part.steps[-1][1] if isinstance(part, Pipeline) else part
    return last if hasattr(last, "categories_") else None


def columns_of_features(
    preparation: ColumnTransformer,
) -> tuple[list[tuple[int, str | None]], list[float | str | None]]:
    """How features are made of columns.

    Parameters
    ----------
    preparation : ColumnTransformer
        Fitted.

    Returns
    -------
    features : list of (int, str or None)
        For each feature its column and, of an indicator, the text for which it is 1.
    fills : list of (float, str or None)
        For each column what fills a gap; None where nothing does.

    Raises
    ------
    ValueError
        A step that makes them in another way than :func:`table_preparation`'s.
    """
    features: list[tuple[int, str | None]] = []
    fills: list[float | str | None] = [None] * int(preparation.n_features_in_)
    for name, part, places in preparation.transformers_:
        encoder, imputer = _encoder(part), _imputer(part)
        if not _is_plain(part, encoder, imputer):
            raise ValueError(f"its step {name!r} ({type(part).__name__}) is not one that 'polyopt fit' makes")
        for k, place in enumerate(places):
            if imputer is not None:
                fill = imputer.statistics_[k]
                fills[place] = str(fill) if isinstance(fill, str) else float(fill)
            texts = [None] if encoder is None else encoder.categories_[k].tolist()
            features += [(int(place), text) for text in texts]
    return features, fills


def _is_plain(part: Any, encoder: OneHotEncoder | None, imputer: SimpleImputer | None) -> bool:
    """Whether a part fills gaps, with a value for each column, makes indicators of all texts, and no more."""
    steps = [type(step).__name__ for _, step in getattr(part, "steps", [("", part)])]
    if steps not in (["SimpleImputer"], ["OneHotEncoder"], ["SimpleImputer", "OneHotEncoder"]):
        return bool(part == "passthrough" or getattr(part, "func", 0) is None)  # the latter once it is fitted
    is_whole = encoder is None or (
        encoder.drop is None and not getattr(encoder, "_infrequent_enabled", False)
    )
    fills = [] if imputer is None else imputer.statistics_.tolist()
    return is_whole and all(fill == fill for fill in fills) and not getattr(imputer, "add_indicator", False)


def _imputer(part: Any) -> SimpleImputer | None:
    """The imputer of a part, which may be the first step of a pipeline."""
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline

    first = part.steps[0][1] if isinstance(part, Pipeline) else part
    return first if isinstance(first, SimpleImputer) else None


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
    for _, part, places in [] if preparation is None else preparation.transformers_:
        encoder = _encoder(part)
        for place, known in () if encoder is None else zip(places, encoder.categories_, strict=True):
            there = dict.fromkeys(text for text in np.asarray(X)[:, place].tolist() if text is not None)
            if new := [text for text in there if text not in set(known.tolist())]:
                found[int(place)] = new
    return found


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
    parts = [] if preparation is None else [step for _, step, _ in preparation.transformers]
    return any(_imputer(step) is not None for step in parts)
