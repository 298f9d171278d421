"""A fitted model: a pipeline with the machine as its last step, and the facts of its fit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from platform import python_version
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from formulations.language.types import Matrix, is_sparse
from polyopt.base.text import other_spellings
from polyopt.certificates.certificate import Certificate
from polyopt.datasets import Dataset
from polyopt.datasets.preparation import column_texts, imputes
from polyopt.estimators.frames import column_names, in_order, named_as, read_columns
from polyopt.estimators.status import solutions_of

if TYPE_CHECKING:
    from onnx import ModelProto
    from sklearn.base import BaseEstimator
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    from polyopt.models.raw_units import RawUnits


@dataclass(frozen=True)
class Model:
    """A fitted pipeline with the names of its columns and the facts of its fit.

    Columns of a frame are found by their names, in any order; those of an array are in the order of the fit.
    """

    pipeline: Pipeline  #: imputer, encoder and scaler, as far as the fit had them, and the machine last
    feature_names: list[str] | None  #: names of the columns, in the order of the fit
    target: str | int  #: name or place of the label column in the file of the fit
    method: str  #: name of the method
    #: Facts of the fit, as of :func:`polyopt.models.facts_of_fit`; empty if a machine alone was saved.
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, machine: BaseEstimator, steps: Sequence[tuple[str, BaseEstimator]] = (), *,
        feature_names: Sequence[str] | None = None, target: str | int = -1, method: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> Self:  # fmt: skip
        """Return the model of a fitted machine, a pipeline that ends with one, or a search over either.

        The machine was fitted to the output of the `steps`, transformers by name. By default
        `feature_names` are those of the frame of the fit, and the `method` is the machine's own.
        """
        from sklearn.pipeline import Pipeline

        from polyopt.methods.registry import method_of

        if feature_names is None:
            feature_names = getattr(steps[0][1] if steps else machine, "feature_names_in_", None)
        machine = getattr(machine, "best_estimator_", machine)
        if isinstance(machine, Pipeline):
            steps, machine = [*steps, *machine.steps[:-1]], machine.steps[-1][1]
        if not method and (known := method_of(machine)) is not None:
            method = known.name
        names = None if feature_names is None else [str(name) for name in feature_names]
        pipeline = Pipeline([*steps, ("machine", machine)])
        return cls(pipeline, names, target, method, {} if facts is None else facts)

    @property
    def estimator(self) -> Any:
        """Machine, the last step."""
        return self.pipeline.steps[-1][1]

    @property
    def steps(self) -> list[tuple[str, Any]]:
        """Steps before the machine, by name."""
        return list(self.pipeline.steps[:-1])

    @property
    def preparation(self) -> ColumnTransformer | None:
        """Step that imputes and encodes, if there is one."""
        return next((step for _, step in self.steps if hasattr(step, "transformers_")), None)

    @cached_property
    def raw_units(self) -> RawUnits:
        """Features of the machine in the columns of the table; ValueError for a step of another kind."""
        from polyopt.models.raw_units import RawUnits

        names = self.feature_names or [f"x{j}" for j in range(self.n_features)]
        return RawUnits.of(self.steps, names)

    @cached_property
    def pairs(self) -> list[Model]:
        """Models of each pair of classes; this one alone if it has two classes, or no polytopes of pairs."""
        machine = self.estimator
        if len(machine.classes_) == 2 or not hasattr(machine, "of_pair"):
            return [self]
        return [self._with_machine(machine.of_pair(*pair)) for pair in machine.pairs_]

    @property
    def text_places(self) -> tuple[int, ...]:
        """Places of the columns that are read as texts."""
        return tuple(column_texts(self.preparation))

    @property
    def fills_gaps(self) -> bool:
        """True if values may be missing."""
        return imputes(self.preparation)

    @property
    def scaler(self) -> StandardScaler | None:
        """Step that scales, if there is one."""
        return next((step for _, step in self.steps if hasattr(step, "scale_")), None)

    @property
    def n_features(self) -> int:
        """Number of columns that the model reads."""
        return int(self.pipeline.steps[0][1].n_features_in_)

    @property
    def holds_data(self) -> bool:
        """True if the machine holds training data; one of another package may."""
        return bool(getattr(self.estimator, "holds_data", True))

    def without_data(self) -> Self:
        """Return the same model without training data, if its machine can predict without."""
        light = getattr(self.estimator, "without_data", None)
        return self if light is None else self._with_machine(light())

    def _with_machine(self, machine: Any) -> Self:
        """Return the same model with another machine as its last step."""
        from sklearn.pipeline import Pipeline

        return replace(self, pipeline=Pipeline([*self.steps, ("machine", machine)]))

    def in_order(self, X: Matrix) -> Any:
        """Return samples with their columns in the order of the fit, and their cells as the fit read them.

        Raises ValueError for a frame with other columns than the fit's, or two of one name, and for an array
        with another number of columns.
        """
        names, found = self.feature_names, column_names(X)
        if names is None:
            names = list(getattr(self.pipeline.steps[0][1], "feature_names_in_", ()))
        if names and found is not None:
            X = in_order(X, names, "X")
        texts = column_texts(self.preparation)
        was_frame = hasattr(self.pipeline.steps[0][1], "feature_names_in_")
        if not texts or is_sparse(X) or (was_frame and found is not None):
            return X
        # The model was fitted to the texts of a file: the number 10115 of a frame is the text "10115".
        is_text = np.isin(np.arange(self.n_features), list(texts))
        table = read_columns(X, is_text.tolist(), [other_spellings(own) for own in texts.values()])
        if was_frame:  # its missing texts are NaN
            table.texts[table.texts == None] = np.nan  # noqa: E711
        cells = np.empty((len(table.texts), self.n_features), dtype=object)
        cells[:, is_text], cells[:, ~is_text] = table.texts, table.numbers
        return cells

    def transform(self, X: Matrix) -> Any:
        """Return the machine's features of samples; ValueError as of :meth:`in_order`."""
        X = self.in_order(X)
        for _, step in self.steps:
            if is_sparse(X) and getattr(step, "with_mean", False):
                X = X.toarray()  # centred features are dense
            X = step.transform(named_as(step, X))
        return named_as(self.estimator, X)

    def raw_values(self, X: Matrix) -> Any:
        """Return the values behind the machine's features, in the units of the table."""
        return self.raw_units.values(self.in_order(X))

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Return the labels of samples."""
        return self.estimator.predict(self.transform(X))

    def predict_proba(self, X: Matrix) -> NDArray[Any]:
        """Return probabilities in the order of the machine's ``classes_``; ValueError if it has none."""
        machine = self.estimator
        try:
            predict_proba = machine.predict_proba
        except AttributeError as error:
            raise ValueError(str(error.__cause__ or error)) from None
        return predict_proba(self.transform(X))

    def to_onnx(self, dtype: str = "float64") -> ModelProto:
        """Return the whole pipeline as an ONNX model; see :func:`polyopt.models.onnx.to_onnx`."""
        from polyopt.models.onnx import to_onnx

        return to_onnx(self, dtype)


# -- facts of a fit ----------------------------------------------------------------------------------


def digest(data: Dataset) -> str:
    """Return the SHA-256 of features, labels and names of the columns, without the test part."""
    found = hashlib.sha256()
    X: Any = data.X
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    names = [] if data.feature_names is None else list(data.feature_names)
    for text in (repr(X.shape), repr(names), repr([str(label) for label in data.y])):
        found.update(text.encode("utf-8", "surrogatepass"))
    for part in parts:
        array = np.asarray(part)
        if array.dtype == object:  # columns of text
            found.update(repr(array.tolist()).encode("utf-8", "surrogatepass"))
        else:
            found.update(f"{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def facts_of_fit(
    estimator: object, data: Dataset, certificate: Certificate | None = None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the facts of a fit for a saved model, as plain text and numbers.

    The facts are of a fitted `estimator`, its training data and its certificate; `settings` were passed or
    chosen by the data, and are by default all parameters.
    """
    import polyopt

    parameters: Any = estimator.get_params(deep=False)  # type: ignore[attr-defined]
    each = solutions_of(estimator) if hasattr(estimator, "solution_") else []
    n, m = data.X.shape
    versions = {"python": python_version(), "polyopt": str(polyopt.__version__)}
    return {
        "fitted": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions | {name: version(name) for name in ("numpy", "scikit-learn", "skops")},
        "data": {"name": data.name, "samples": int(n), "features": int(m), "sha256": digest(data)},
        "settings": {name: _plain(value) for name, value in (settings or parameters).items()},
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "status": sorted({str(one.status) for one in each}),
        "claim": None if certificate is None else _claim(certificate),
    }


def _claim(certificate: Certificate) -> dict[str, Any]:
    return {
        "sentence": certificate.sentence, "claim": certificate.claim.name.lower(),
        "program": certificate.program, "scope": certificate.scope,
        "primal": float(certificate.primal_value), "bound": float(certificate.dual_value),
        "gap": float(certificate.gap), "relative_gap": float(certificate.relative_gap),
        "tol": float(certificate.tol),
    }  # fmt: skip


def _plain(value: Any) -> bool | int | float | str | None:
    """Return a parameter for JSON; one that is not a number, a text or None as text."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)
