"""The models that polytopes are compared with: what a person would install, each tuned in its training part.

A model is made for a kind of set (``"numbers"``, ``"mixed"``, ``"text"``) and takes its samples as they are:
numbers as an array, categories and texts as a frame. What boosts takes categories and gaps itself; all else
gets the median for a gap, one column for each level of a category, and columns of mean 0 and deviation 1.
A text becomes the TF-IDF of its WORDS most frequent words, of the training part, for every model, rows of
length 1 as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, l1_min_c
from sklearn.tree import DecisionTreeClassifier

from benchmarks.helpers.interpretable_data import TEXT
from benchmarks.helpers.interpretable_size import numbers_of

__all__ = ["LIMIT", "RIVALS", "Rival", "after_words", "is_installed", "preparation"]

LIMIT = 60
"""Numbers that a small model may have."""

WORDS = 1000
_INNER = 5  # folds
_TUNING_ROWS = 3000  # of the kernel machine's search
_COSTS = np.logspace(0.1, 3.5, 15)  # of L1, times the least that leaves a weight


class Rival(NamedTuple):
    """A model: how it is made for a kind of set and a seed, and the package that has it."""

    make: Callable[[str, int], Any]  # from the kind and the seed to an unfitted estimator
    package: str = ""  # what is to be installed for it; empty where scikit-learn has it
    module: str = ""  # what is then imported


def is_installed(rival: Rival) -> bool:
    """Whether the model can be made on this machine."""
    return not rival.module or find_spec(rival.module) is not None


def preparation(kind: str) -> Any:
    """What makes columns of the samples of a kind of set: standardised ones, or TF-IDF of words.

    Its output is a dense array.
    """
    if kind == "numbers":
        return StandardScaler()
    if kind == "text":
        return _words()
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    levels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="number")),
            ("levels", levels, make_column_selector(dtype_include="category")),
        ]
    )


def _words() -> ColumnTransformer:
    words = TfidfVectorizer(max_features=WORDS, sublinear_tf=True, strip_accents="unicode")
    return ColumnTransformer([("words", words, TEXT)], sparse_threshold=0.0)


def after_words(kind: str, model: Any) -> Any:
    """A model that takes numbers and categories as they are; of texts it gets the words."""
    return Pipeline([("words", _words()), ("model", model)]) if kind == "text" else model


def _prepared(kind: str, model: Any) -> Pipeline:
    return Pipeline([("prepare", preparation(kind)), ("model", model)])


# -- what boosts ---------------------------------------------------------------------------------------


def _ebm(kind: str, seed: int) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier

    return after_words(kind, ExplainableBoostingClassifier(n_jobs=1, random_state=seed))


def _hist(kind: str, seed: int) -> Any:
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)
    grid = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [7, 31]}
    return after_words(kind, GridSearchCV(model, grid, scoring="neg_log_loss", cv=3))


def _xgboost(kind: str, seed: int) -> Any:
    from xgboost import XGBClassifier

    model = XGBClassifier(enable_categorical=True, n_jobs=1, random_state=seed)
    grid = {"learning_rate": [0.03, 0.1], "max_depth": [2, 6]}
    return after_words(kind, GridSearchCV(model, grid, scoring="neg_log_loss", cv=3))


# -- what is small -------------------------------------------------------------------------------------


def _tree(kind: str, seed: int) -> Any:
    # A tree of L leaves has L - 1 thresholds and L values.
    grid = {"max_leaf_nodes": [4, 6, 8, 12, 16, 20, 25, (LIMIT + 1) // 2], "min_samples_leaf": [1, 10]}
    model = DecisionTreeClassifier(random_state=seed)
    return _prepared(kind, GridSearchCV(model, grid, scoring="roc_auc", cv=_INNER))


class _ByModel(ClassifierMixin, BaseEstimator):
    """Answers as the model that its fit has chosen."""

    model_: Any

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        return self.model_.predict(X)

    def predict_proba(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.model_.predict_proba(X)


def _logistic(kind: str, seed: int) -> Any:
    model = LogisticRegressionCV(
        Cs=10, l1_ratios=(0.0,), cv=_INNER, scoring="neg_log_loss", max_iter=2000, use_legacy_attributes=False
    )
    return _prepared(kind, model)


def _lasso(kind: str, seed: int) -> Any:
    return _prepared(kind, SparseLogistic(None, seed))


def _small_lasso(kind: str, seed: int) -> Any:
    return _prepared(kind, SparseLogistic(LIMIT, seed))


class SparseLogistic(_ByModel):
    """Logistic regression with an L1 price, chosen by cross-validated log loss among those of a size.

    `limit` is of the numbers of the fit on all samples; None for any.
    """

    def __init__(self, limit: int | None = None, seed: int = 0) -> None:
        self.limit, self.seed = limit, seed

    def fit(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> SparseLogistic:
        # LIBLINEAR prices the intercept too, here at a tenth.
        settings: dict[str, Any] = {
            "solver": "liblinear",
            "intercept_scaling": 10.0,
            "random_state": self.seed,
        }
        costs = _COSTS * l1_min_c(X, y, loss="log", intercept_scaling=10.0)
        if self.limit is not None:
            fits = {C: LogisticRegression(C=C, l1_ratio=1.0, **settings).fit(X, y) for C in costs}
            costs = np.array([C for C, model in fits.items() if numbers_of(model) <= self.limit])
        self.model_ = LogisticRegressionCV(
            Cs=costs, l1_ratios=(1.0,), cv=_INNER, scoring="neg_log_loss", use_legacy_attributes=False,
            **settings,
        ).fit(X, y)  # fmt: skip
        self.classes_ = self.model_.classes_
        return self


# -- the kernel machine --------------------------------------------------------------------------------


def _rbf(kind: str, seed: int) -> Any:
    return _prepared(kind, KernelMachine(seed))


class KernelMachine(_ByModel):
    """An RBF SVM: C and γ by cross-validated AUROC, on a part of large data; Platt's curve."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> KernelMachine:
        scale = 1.0 / (X.shape[1] * X.var())
        grid = {
            "C": [0.1, 1.0, 10.0, 100.0],
            "gamma": [scale * times for times in (0.1, 0.3, 1.0, 3.0, 10.0)],
        }
        part = np.arange(len(y))
        if len(y) > _TUNING_ROWS:
            part, _ = train_test_split(part, train_size=_TUNING_ROWS, stratify=y, random_state=self.seed)
        search = GridSearchCV(SVC(), grid, scoring="roc_auc", cv=3, refit=False).fit(X[part], y[part])
        best = clone(SVC(cache_size=500)).set_params(**search.best_params_)
        self.model_ = CalibratedClassifierCV(best, cv=3, ensemble=False).fit(X, y)
        self.classes_ = self.model_.classes_
        return self


RIVALS: dict[str, Rival] = {
    "logistic regression": Rival(_logistic),
    "logistic regression, L1": Rival(_lasso),
    f"logistic regression, L1, {LIMIT} numbers": Rival(_small_lasso),
    f"greedy tree, {LIMIT} numbers": Rival(_tree),
    "XGBoost": Rival(_xgboost, "xgboost", "xgboost"),
    "HistGradientBoosting": Rival(_hist),
    "RBF SVM": Rival(_rbf),
    "EBM": Rival(_ebm, "interpret-core", "interpret"),
}
"""The rivals by name, those that take the least time first."""
