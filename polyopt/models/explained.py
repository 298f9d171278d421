"""What of a saved model is explained: its polytopes in the units of its table, and the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formulations.language.types import is_sparse
from polyopt.estimators.frames import named_as
from polyopt.explanations import explain_model, explain_sample
from polyopt.explanations.subject import Column, Subject
from polyopt.models.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Array, Matrix
    from polyopt.explanations import ModelExplanation, SampleExplanation
    from polyopt.models.model import Model
    from polyopt.models.raw_units import RawUnits

__all__ = ["explain_features", "explain_row", "explain_table", "features_of_table", "subject_of"]

_MAX_CELLS = 50_000_000  # of a sparse table that is made dense


def explain_row(
    model: Model, X: Matrix, row: int, *, held: Sequence[str] = (), top: int = 5
) -> SampleExplanation:
    """Why a row of a table has its label, and the nearest point that has another, in the table's columns.

    model: A machine with faces, of two classes, and the steps before it.
    X (n, columns): rows as the model reads them: the fidelity is counted on them.
    row: the number of the row, from 0.
    held: columns that may not change.
    top: columns that are shown.
    ValueError: as of :func:`subject_of`; a row or a column that is not there.
    """
    subject, features = subject_of(model), features_of_table(model, X)
    if not 0 <= row < len(features):
        raise ValueError(
            f"row must be one of the {len(features)} rows of the data, counted from 0; got {row}"
        )
    return explain_features(subject, features, row, held=held, top=top)


def explain_features(
    subject: Subject, features: Array, row: int, *, held: Sequence[str], top: int
) -> SampleExplanation:
    """The same of what :func:`subject_of` and :func:`features_of_table` give.

    subject: the model.
    features (n, m): the rows.
    """
    return explain_sample(subject, features[row], held=held, top=top, data=features)


def explain_table(model: Model, X: Matrix, y: ArrayLike | None = None, *, top: int = 8) -> ModelExplanation:
    """Which columns of a table count, and what each face catches in it that no other does.

    model: A machine with faces, of two classes, and the steps before it.
    X (n, columns): rows as the model reads them.
    y (n,): their labels.
    top: columns that are shown.
    ValueError: as of :func:`subject_of`; labels of another number.
    """
    return explain_model(subject_of(model), features_of_table(model, X), y, top=top)


def subject_of(model: Model) -> Subject:
    """What of a model is explained.

    model: A machine with faces, of two classes.
    ValueError: A machine without faces or of more than two classes, or steps before it that no table has.
    """
    rules = Rules.of(model)
    kind: Any = "polytope" if len(rules.polytopes) == 1 else "difference"
    labels = (rules.inside[0], rules.outside[0])
    if rules.is_union:
        kind = "union"
    elif kind == "difference":
        labels = (rules.outside[1], rules.outside[0])

    raw = model.raw_units

    def predict(X: Array) -> NDArray[Any]:
        answer: NDArray[Any] = model.estimator.predict(named_as(model.estimator, raw.scaled(X)))
        return answer

    return Subject(rules.polytopes, kind, labels, predict, _columns(raw), rules.decides)


def _columns(raw: RawUnits) -> tuple[Column, ...]:
    """The columns of the table, each with the features that it has become; a hinge is one of its own."""
    found, names = [], raw.names
    for k in dict.fromkeys(f.column for f in raw.features):
        own = [(j, f) for j, f in enumerate(raw.features) if f.column == k and f.knot is None]
        places = tuple(j for j, _ in own)
        if k in raw.texts:
            texts = tuple("(missing)" if f.text is None else f.text for _, f in own)
            found.append(Column(raw.columns[k], places, texts))
        elif own:
            found.append(Column(raw.columns[k], places, gap=next((j for j, f in own if f.is_gap), None)))
    hinges = [j for j, f in enumerate(raw.features) if f.knot is not None]
    return (*found, *(Column(names[j], (j,)) for j in hinges))


def features_of_table(model: Model, X: Matrix) -> Array:
    """The features (n, m) of the rows of a table, in its units: numbers and indicators.

    model: the model.
    X: rows as the model reads them.
    ValueError: A sparse table that is too large to be explained as a whole.
    """
    if is_sparse(X):
        if X.shape[0] * X.shape[1] > _MAX_CELLS:
            raise ValueError(
                f"the data have {X.shape[0]} x {X.shape[1]} cells, too many to explain a model on; give fewer"
            )
        X = X.toarray()
    features: Array = model.raw_values(X)
    return features
