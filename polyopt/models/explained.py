"""Explanations of a saved model in the columns and units of its table."""

from collections.abc import Sequence
from dataclasses import replace

from numpy.typing import ArrayLike

from formulations.language.types import Array, Matrix, is_sparse
from polyopt.estimators.frames import named_as
from polyopt.explanations import ModelExplanation, SampleExplanation, explain_model, explain_sample
from polyopt.explanations.decision_model import Column, DecisionModel
from polyopt.models.model import Model
from polyopt.models.raw_units import RawUnits
from polyopt.models.rules import Rules

_MAX_CELLS = 50_000_000  # of a sparse table that is converted to a dense one


def explain_row(
    model: Model, X: Matrix, row: int, *, held: Sequence[str] = (), top: int = 5
) -> SampleExplanation:
    """Explain the label of a row, and the nearest point of another label, in the table's columns.

    X (n, columns) are rows as the model reads them, `row` the number of one from 0, `held` the columns that
    may not change, and `top` the number of columns that are shown.
    """
    subject, features = subject_of(model), features_of_table(model, X)
    if not 0 <= row < len(features):
        raise ValueError(f"row must be one of the {len(features)} rows, counted from 0; got {row}")
    return explain_sample(subject, features[row], held=held, top=top)


def explain_table(model: Model, X: Matrix, y: ArrayLike | None = None, *, top: int = 8) -> ModelExplanation:
    """Explain which columns of a table (n, columns) with labels y (n,) count, and the part of each face."""
    return explain_model(subject_of(model), features_of_table(model, X), y, top=top)


def subject_of(model: Model) -> DecisionModel:
    """Return the decision model of a model's explanations, for :func:`polyopt.explanations.explain_sample`.

    ValueError: a machine without faces or of more than two classes, or steps without units of a table.
    """
    rules, raw, machine = Rules.of(model), model.raw_units, model.estimator
    return replace(
        rules.decision, columns=_columns(raw),
        predict=lambda X: machine.predict(named_as(machine, raw.scaled(X))),
    )  # fmt: skip


def _columns(raw: RawUnits) -> tuple[Column, ...]:
    """Return the columns of the table, each with the places of its features; a hinge is a column as well."""
    columns, names = [], raw.names
    for k in dict.fromkeys(f.column for f in raw.features):
        features = [(j, f) for j, f in enumerate(raw.features) if f.column == k and f.knot is None]
        places = tuple(j for j, _ in features)
        if k in raw.texts:
            texts = tuple("(missing)" if f.text is None else f.text for _, f in features)
            columns.append(Column(raw.columns[k], places, texts))
        elif features:
            gap = next((j for j, f in features if f.is_gap), None)
            columns.append(Column(raw.columns[k], places, missing=gap))
    hinges = [j for j, f in enumerate(raw.features) if f.knot is not None]
    return (*columns, *(Column(names[j], (j,)) for j in hinges))


def features_of_table(model: Model, X: Matrix) -> Array:
    """Return the values (n, m) behind the features of a table's rows; ValueError if they are too many."""
    if is_sparse(X):
        if X.shape[0] * X.shape[1] > _MAX_CELLS:
            raise ValueError(
                f"the data have {X.shape[0]} x {X.shape[1]} cells, too many to explain a model on; give fewer"
            )
        X = X.toarray()
    values: Array = model.raw_values(X)
    return values
