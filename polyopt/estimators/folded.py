"""A fitted pipeline as one machine: faces in the units of the table, and one pass over its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from polyopt.answers.placed import Placed
from polyopt.answers.plan import NotANumberError
from polyopt.estimators.column_table import is_frame
from polyopt.estimators.column_weights import ColumnWeights
from polyopt.estimators.columns import Columns
from polyopt.estimators.faces import FaceClassifier
from polyopt.estimators.fold_steps import PulledFaces, pulled
from polyopt.estimators.table_cells import TableReader
from polyopt.estimators.validation import validate_data
from polyopt.polytope import Polytope

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.matrices import Array
    from polyopt.answers.cells import Cells
    from polyopt.answers.placed import Decides
    from polyopt.answers.plan import Plan
    from polyopt.estimators.given import SamplesLike

__all__ = ["FoldedClassifier", "fold"]


def fold(pipeline: BaseEstimator) -> FoldedClassifier:
    """A fitted pipeline of steps and a machine with faces as one machine of the table's own columns.

    Its answers are the pipeline's up to rounding: nothing is approximated. It is quick: it reads each column
    once, where it lies, whatever its order and type, and only those that a face has a weight for; a column of
    texts is a table of weights. Columns without any weight are not looked at, NaN and infinity included.

    Parameters
    ----------
    pipeline : Pipeline or classifier
        Fitted: a machine with faces, or a search for one or over pipelines, after any of :class:`Columns`
        (first), scikit-learn's scalers, :class:`PiecewisePower`, :class:`Hinges`, ``SimpleImputer``,
        selections of features and PCA.

    Returns
    -------
    FoldedClassifier
        Without training data.

    Raises
    ------
    ValueError
        Another step, or a machine without faces.
    """
    check_is_fitted(pipeline)
    steps: list[Any] = []
    machine: Any = pipeline
    while isinstance(machine, Pipeline) or hasattr(machine, "best_estimator_"):
        if isinstance(machine, Pipeline):
            steps += [step for _, step in machine.steps[:-1]]
            machine = machine.steps[-1][1]
        else:
            machine = machine.best_estimator_
    if not isinstance(machine, FaceClassifier):
        raise ValueError(f"fold takes a machine with faces, not {type(machine).__name__}")
    return FoldedClassifier(
        machine.without_data(), [step for step in steps if step not in (None, "passthrough")]
    )


class FoldedClassifier(ClassifierMixin, BaseEstimator):
    """What :func:`fold` gives: a machine that answers for rows of a table, and cannot be fitted.

    Parameters
    ----------
    machine : classifier
        The fitted machine, of the features that the steps give.
    steps : list of transformer
        The fitted steps before it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    polytopes_ : list of Polytope
        The machine's polytopes in the units of the table: its one, the pieces of a union, or two sides.
    n_features_in_ : int
        Columns.
    """

    def __init__(self, machine: FaceClassifier, steps: list[BaseEstimator]):
        self.machine, self.steps = machine, steps
        first: Any = steps[0] if steps else machine
        self.classes_, self.n_features_in_ = machine.classes_, int(first.n_features_in_)
        names = getattr(first, "feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        shown = first.column_names if isinstance(first, Columns) else names
        self._names = tuple(f"x{j}" for j in range(self.n_features_in_)) if shown is None else tuple(shown)
        self._takes_texts = isinstance(first, Columns)
        self._passes: dict[int, tuple[Any, TableReader, Plan]] = {}  # by the machines of two classes
        for part in [machine] if machine._is_binary else machine.estimators_:
            self._pass_of(part._as_fitted())

    def fit(self, X: SamplesLike, y: object = None) -> None:
        """Refuse: it is fitted.

        Parameters
        ----------
        X, y : ignored
            For scikit-learn, which knows its classifiers by this method.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError("a folded machine is fitted: fit its pipeline, and fold that again")

    def __sklearn_clone__(self) -> Self:
        return self  # as a frozen estimator

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "_passes": {}}  # made again at need

    # -- answering ---------------------------------------------------------------------------

    def predict(self, X: SamplesLike) -> NDArray[Any]:
        """Predicted labels, as the pipeline's.

        Parameters
        ----------
        X : frame or array_like of shape (t, m)
            Rows as the pipeline takes them.

        Returns
        -------
        ndarray of shape (t,)

        Raises
        ------
        ValueError
            Other columns than those of the fit, or a cell that no step before the machine would take, in a
            column that has a weight.
        """
        model, placed = self._placed(X)
        return self.classes_[model._labels(placed)]

    def decision_function(self, X: SamplesLike) -> NDArray[Any]:
        """Scores, as the pipeline's; arguments and errors as in :meth:`predict`."""
        model, placed = self._placed(X)
        return model._scores(placed)

    @available_if(lambda self: hasattr(self.machine, "predict_proba"))
    def predict_proba(self, X: SamplesLike) -> Array:
        """Probabilities (t, n_classes), as the pipeline's; arguments and errors as in :meth:`predict`."""
        model, placed = self._placed(X)
        return model._probabilities(placed)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_texts
        tags.input_tags.string = tags.input_tags.categorical = self._takes_texts
        return tags

    # -- as sets -----------------------------------------------------------------------------

    @property
    def polytopes_(self) -> list[Polytope]:
        """The machine's polytopes in the units of the table (two classes).

        Its features are the columns, or where Columns is the first step what
        :meth:`Columns.get_feature_names_out` names: a text's is 1 where it is the row's.
        """
        parts = getattr(self.machine, "sides_", (self.machine,))
        pieces = getattr(self.machine, "polytopes_", None)
        own = [part.polytope_ for part in parts] if pieces is None else pieces
        return [self._in_units(polytope) for polytope in own]

    def rules(self, digits: int = 4, max_terms: int | None = None) -> str:
        """The polytopes as text, in the units of the table (two classes).

        Parameters
        ----------
        digits : int
            Significant digits.
        max_terms : int, optional
            Terms of each face; by default all.
        """
        from polyopt.polytope.union import union_rules

        parts = getattr(self.machine, "sides_", (self.machine,))
        found, labels = self.polytopes_, [(str(p.inside_label_), str(p.outer_label_)) for p in parts]
        if len(found) > len(labels):
            return union_rules(found, digits, max_terms=max_terms, inside=labels[0][0], outside=labels[0][1])
        return "\n".join(
            polytope.rules(digits, max_terms=max_terms, inside=inside, outside=outside)
            for polytope, (inside, outside) in zip(found, labels, strict=True)
        )

    def _in_units(self, own: Polytope) -> Polytope:
        faces = self._pulled(own.W, own.b)
        if faces.bends or faces.curves:
            raise ValueError(
                "the faces bend with the columns, so they are no polytope of them; those of the machine are "
                "polytopes of its hinges"
            )
        W, b = faces.W, faces.b - faces.W @ faces.centres
        if self._takes_texts:
            return self.steps[0].in_units(Polytope(W, b))
        return Polytope(W, b, self._names)

    # -- the pass ----------------------------------------------------------------------------

    def _pulled(self, W: Array, b: Array) -> PulledFaces:
        """Faces of the machine as those of the table, or of what Columns makes of it."""
        faces = PulledFaces(np.asarray(W, dtype=float), np.zeros(W.shape[1]), np.asarray(b, dtype=float))
        for step in self.steps[:0:-1] if self._takes_texts else self.steps[::-1]:
            faces = pulled(faces, step)
        return faces

    def _pass_of(self, machine: Any) -> tuple[TableReader, Plan]:
        kept = self._passes.get(id(machine))
        if kept is None:
            W, b, form = machine._decision()
            faces = self._pulled(W, b)
            if self._takes_texts:
                weights = self.steps[0].weights_of_columns(faces)
            else:
                gaps = {} if faces.gaps is None else dict(enumerate(faces.gaps))
                weights = ColumnWeights(
                    faces.W.T, faces.centres, faces.b, gaps, bends=faces.bends, curves=faces.curves
                )
            plan = weights.plan(form)
            kept = (machine, TableReader(plan.places, weights.levels, self._names), plan)
            self._passes[id(machine)] = kept
        return kept[1:]

    def _placed(self, X: Any) -> tuple[Any, PlacedTable]:
        return self.machine, PlacedTable(self, self._table(X))

    def _table(self, X: Any) -> Any:
        """A table with the columns of the fit; its cells have not been looked at."""
        if type(X) is np.ndarray and X.ndim == 2 and X.shape[1] == self.n_features_in_ and len(X):
            if X.dtype.kind not in "fiub" and not self._takes_texts:
                X = X.astype(float)
            if not hasattr(self, "feature_names_in_"):
                return X
        if is_frame(X):
            known = getattr(self, "feature_names_in_", None)
            if known is not None and len(X) and list(X.columns) == known.tolist():
                return X
            validate_data(self, X, reset=False, skip_check_array=True)
            if not len(X):
                raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}): at least 1 is required")
            return X
        dtype = None if self._takes_texts else "numeric"
        return validate_data(self, X, reset=False, dtype=dtype, ensure_all_finite=False)


class PlacedTable(Placed):
    """A table whose cells have not been looked at."""

    def __init__(self, folded: FoldedClassifier, X: SamplesLike):
        self._folded, self._X = folded, X

    def scores(self, machine: Decides) -> Array:
        """Scores (n,) by the machine's faces."""
        return self._told(lambda plan, cells, levels: plan.scores(cells, levels), machine)

    def outputs(self, machine: Decides) -> Array:
        """Outputs (n, K) of its faces."""
        return self._told(lambda plan, cells, levels: plan.outputs(cells, levels), machine)

    def _told(self, call: Callable[[Plan, Cells, Any], Array], machine: Decides) -> Array:
        reader, plan = self._folded._pass_of(machine)
        try:
            return call(plan, *reader.read(self._X))
        except NotANumberError as error:
            name = self._folded._names[error.column]
            column = reader.numbers(self._X, error.column)
            what = "contains NaN, which no step before the machine fills"
            if not np.isnan(column).any():
                what = "has numbers so large that scores leave double precision"
            if np.isinf(column).any():
                what = "contains infinity"
            raise ValueError(f"column {name!r} {what}") from None
