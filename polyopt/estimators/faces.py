"""Base of the classifiers with faces: polytope, scores of faces, explanations, life without the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from polyopt.estimators.advice import advise_scaling
from polyopt.estimators.calibrated import CalibratedClassifier
from polyopt.estimators.face_scores import scores_at
from polyopt.estimators.validation import validated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Array
    from polyopt.base.onnx_graph import Graph
    from polyopt.base.types import SamplesLike
    from polyopt.explanations import ModelExplanation, SampleExplanation, Subject
    from polyopt.polytope import Polytope


__all__ = ["FaceClassifier", "check_sizes", "inside_place", "refuse_inside_label"]

_MAX_SIZE = 1e100  # of entries of X and costs: squares and products of larger ones may leave double precision


def check_sizes(largest: float, costs: float) -> None:
    """Refuse numbers whose squares and products may leave double precision.

    largest: the largest size of an entry of X.
    costs: the costs of all samples, added up.
    """
    if largest > _MAX_SIZE:
        raise ValueError(
            f"X must have entries of at most {_MAX_SIZE:g} in size, not {largest:.3g}: squares leave "
            "double precision. Scale the features to unit variance (StandardScaler)"
        )
    if costs > _MAX_SIZE:
        raise ValueError(
            f"sample_weight, times the class's weight and C, must add up to at most {_MAX_SIZE:g}, not "
            f"{costs:.3g}: products leave double precision. Divide the weights by their mean"
        )


def inside_place(label: object, classes: NDArray[Any]) -> int:
    """The place of the class inside, among two classes.

    label: what is asked for as ``inside_label``.
    classes (2,): the labels.
    """
    matches = [each == label for each in classes]
    if not any(matches):
        raise ValueError(f"inside_label must be one of {classes.tolist()}, not {label!r}")
    return int(matches[1])


def refuse_inside_label(label: object, count: int, inside: str = "earlier") -> None:
    """Refuse a class inside where there are more than two classes.

    label: what is asked for as ``inside_label``; None is no class.
    count: how many classes there are.
    inside: which class of a pair is inside.
    """
    if label is not None:
        raise ValueError(
            f"inside_label={label!r} needs two classes, but there are {count}; "
            f"leave it None: of each pair, the {inside} class is inside"
        )


class FaceClassifier(CalibratedClassifier):
    """Base of the classifiers whose answer is a polytope.

    A fitted subclass has the faces ``W_`` (K, m) and ``b_`` (K,), in the units of X and the signs of its
    paper, and ``_side``: +1 where ``classes_[1]`` is the paper's positive class, -1 where ``classes_[0]`` is.

    Attributes
    ----------
    W_, b_ : ndarray of shape (K, m), (K,)
        The faces, in the units of X (binary problems with one polytope).
    polytope_ : Polytope
        The inside as a set: redundant faces, vertices, volume, rules (binary problems with one polytope).
    assignment_ : ndarray of int, shape (n,)
        The face that answers for each sample (binary problems with one polytope; samples of zero weight
        left out).
    inside_label_, outer_label_ : label
        The class inside, and the one outside (binary problems with one polytope).
    """

    inside_label: object  # which class of two is inside
    W_: NDArray[Any]
    b_: NDArray[Any]
    _side: float = 1.0
    # Of a fit on whole data: the samples, their labels in the paper's signs, numbers and costs, and faces.
    _X: Any = None
    _y: Any = None
    _rows: Any = None
    _costs: Any = None
    _assignment: NDArray[np.int64] | None = None
    _stream: object = None  # what partial_fit keeps between two chunks
    _polytope: tuple[Any, Polytope] | None = None  # the faces it was made of, and itself
    _typical: tuple[Any, Any] | None = None  # of a copy without data: mean and spread of each feature
    _wide: ClassVar[float] = 1e6  # ratio of the features' spreads at which scaling is advised
    _outward: ClassVar[float] = 1.0  # +1 where the faces are positive outside, -1 where they are inside

    # -- the sides ---------------------------------------------------------------------------

    def _chosen_side(self) -> float:
        """+1 where ``classes_[1]`` is the paper's positive class, -1 where ``classes_[0]`` is."""
        if self.inside_label is None:
            return 1.0
        return -self._outward if inside_place(self.inside_label, self.classes_) else self._outward

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        refuse_inside_label(
            self.inside_label, len(self.classes_), "earlier" if self._outward > 0 else "later"
        )
        return super()._for_pairs(X, weights)

    def _label(self, outside: bool) -> Any:
        self._need_one_polytope("outer_label_" if outside else "inside_label_")
        positive = outside if self._outward > 0 else not outside
        return self.classes_[1 if (self._side > 0) == positive else 0]

    @property
    def outer_label_(self) -> Any:
        """The class outside of the polytope (binary problems with one polytope)."""
        return self._label(outside=True)

    @property
    def inside_label_(self) -> Any:
        """The class inside of the polytope (binary problems with one polytope)."""
        return self._label(outside=False)

    # -- sizes ---------------------------------------------------------------------------------

    def _check_sizes(self, X: Any, weights: NDArray[Any], C: float = 1.0) -> None:
        """Refuse numbers whose squares and products may leave double precision."""
        entries = X.data if sp.issparse(X) else X
        largest = float(max(entries.max(initial=0), -float(entries.min(initial=0))))
        with np.errstate(over="ignore"):
            check_sizes(largest, float(np.sum(C * weights)))

    def _advise_scaling(self, X: Any) -> None:
        """Say so where features lie far away, or their spreads are not alike."""
        names = getattr(self, "feature_names_in_", None)
        advise_scaling(X, type(self).__name__, wide=self._wide, names=names, frames=1)

    # -- the faces ---------------------------------------------------------------------------

    def face_scores(self, X: SamplesLike) -> NDArray[Any]:
        """Scores of samples at every face.

        Parameters
        ----------
        X : array_like or CSR matrix of shape (t, m)
            Samples. float32 and bytes are scored in single precision, where that keeps scores to 1e-4.

        Returns
        -------
        ndarray of shape (t, K)
            ``W_k'x + b_k``.
        """
        return self._scores_of_faces(self._check_for_scoring(X, "face_scores"))

    def active_face(self, X: SamplesLike) -> NDArray[np.int64]:
        """The face that answers for each sample, which is the one it is farthest outside of.

        An array of int of shape (t,): the face with the highest score where the faces are positive
        outside, as the Convex Polytope Machine's are, and with the lowest where they are positive inside.
        """
        scores = self._scores_of_faces(self._check_for_scoring(X, "active_face"))
        return (self._outward * scores).argmax(axis=1)

    def faces_outside(self) -> NDArray[np.int64]:
        """The faces that answer for a training sample outside, in order."""
        self._need_one_polytope("faces_outside()")
        self._need_data("faces_outside()")
        return np.unique(self.assignment_[self._outward * self._y > 0])

    def _check_for_scoring(self, X: Any, what: str) -> Any:
        self._need_one_polytope(what)
        return validated(self, X, accept_sparse="csr", dtype=self._dtypes, reset=False)

    def _scores_of_faces(self, X: Any) -> NDArray[np.float64]:
        return scores_at(X, self.W_, self.b_)

    # -- all samples at once -----------------------------------------------------------------

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        outputs = self._scores_of_faces(X)
        return self._side * (outputs.max(axis=1) if self._outward > 0 else outputs.min(axis=1))

    @property
    def polytope_(self) -> Polytope:
        """The inside as a set, in the units of X."""
        from polyopt.polytope import Polytope

        self._need_one_polytope("polytope_")
        if self._polytope is not None and self._polytope[0] is self.W_:
            return self._polytope[1]
        centre, spread = self._typical_values() or (None, None)
        names = getattr(self, "feature_names_in_", None)
        found = Polytope(
            self._outward * self.W_, self._outward * self.b_, names, spread, centre, self._includes_faces
        )
        self._polytope = (self.W_, found)
        return found

    @property
    def _includes_faces(self) -> bool:
        """True if a point on a face, whose score is 0, is inside: the class inside is ``classes_[0]``."""
        return bool(self.inside_label_ == self.classes_[0])

    @property
    def assignment_(self) -> NDArray[np.int64]:
        """The face that answers for each sample of the training data."""
        if self._assignment is None:
            raise AttributeError("assignment_ needs a fit on whole data with one polytope")
        return self._assignment

    def _draw_faces(self, graph: Graph, x: str) -> str:
        """Scores (n, 1) in the faces' own sign: of the face that a sample is farthest outside of."""
        best = "ReduceMax" if self._outward > 0 else "ReduceMin"
        return graph.over_columns(best, graph.affine(x, self.W_, self.b_))

    def _draw_scores(self, graph: Graph, x: str) -> str:
        return graph.op("Mul", self._draw_faces(graph, x), graph.constant(self._side))

    # -- explanations --------------------------------------------------------------------------

    def explain(
        self, x: SamplesLike, *, held: Sequence[str | int] = (),
        bounds: str | tuple[ArrayLike, ArrayLike] | None = None, top: int = 5,
    ) -> SampleExplanation:  # fmt: skip
        """Why a sample has its label, and the nearest point that has the other one (two classes).

        Parameters
        ----------
        x : array_like, frame or CSR matrix of shape (m,) or (1, m)
            The sample.
        held : sequence of str or int
            Features that may not change: their names, or their places.
        bounds : "data" or pair of array_like of shape (m,), optional
            The least and the largest value of each feature at the nearest point; "data" takes those of the
            training data, made wider where the sample itself is beyond them.
        top : int
            Terms and changes that are shown; all are in the answer.

        Returns
        -------
        SampleExplanation
            Print it; ``to_dict()`` has everything, and ``certificate()`` proves its nearest point. Lengths
            are in standard deviations of the features, where the machine knows them.

        Raises
        ------
        ValueError
            More than two classes, several samples, a feature that is not there, or bounds that cross.
        """
        from polyopt.explanations import explain_sample

        subject, data = self._subject(), self._training_samples()
        sample = self._one_sample(x)
        if isinstance(bounds, str):
            if bounds != "data" or data is None:
                wanted = "needs training data, dense and kept" if bounds == "data" else "is not known"
                raise ValueError(f"bounds={bounds!r} {wanted}: give a pair, the least and the largest values")
            bounds = np.minimum(data.min(axis=0), sample), np.maximum(data.max(axis=0), sample)
        return explain_sample(subject, sample, held=held, bounds=bounds, top=top, data=data)

    def explain_model(
        self, X: SamplesLike | None = None, y: ArrayLike | None = None, *, top: int = 8
    ) -> ModelExplanation:
        """Which features count, and what each face catches that no other does (two classes).

        Parameters
        ----------
        X : array_like of shape (n, m), optional
            Samples on which it is counted; by default those of the fit.
        y : array_like of shape (n,), optional
            Their labels.
        top : int
            Features that are shown; all are in the answer.

        Raises
        ------
        ValueError
            More than two classes, no data, sparse ones, or labels of another number.
        """
        from polyopt.explanations import explain_model

        subject = self._subject()
        if X is not None:
            samples = self._scorable(X)
            if sp.issparse(samples):
                raise ValueError("explain_model takes dense samples; give some of the rows, as X.toarray()")
            return explain_model(subject, samples, y, top=top)
        data = self._training_samples()
        if data is None:
            raise ValueError("explain_model needs X: the machine holds no dense training data")
        holder: Any = getattr(self, "sides_", (self,))[0]
        labels = self.classes_[(holder._side * holder._y > 0).astype(int)]
        return explain_model(subject, data, labels, top=top)

    def _subject(self) -> Subject:
        from polyopt.explanations import Subject
        from polyopt.explanations.subject import columns_of

        check_is_fitted(self)
        if not self._is_binary:
            raise ValueError(
                f"explanations are of two classes, and there are {len(self.classes_)}: "
                "ask a machine of estimators_, whose two classes are in pairs_"
            )
        model = self._as_fitted()
        sides, pieces = getattr(model, "sides_", (model,)), getattr(model, "polytopes_", None)
        polytopes = [side.polytope_ for side in sides] if pieces is None else list(pieces)
        kind: Any = "union" if pieces is not None else "difference" if len(sides) > 1 else "polytope"
        outside = sides[0].outer_label_
        [inside] = [label for label in model.classes_ if label != outside]

        def predict(X: Array) -> NDArray[Any]:
            found: NDArray[Any] = model.classes_[model._labels(X)]
            return found

        decides = getattr(model, "decision", "polytope") == "polytope"
        columns = columns_of(polytopes[0].names)
        return Subject(tuple(polytopes), kind, (inside, outside), predict, columns, decides)

    def _one_sample(self, x: SamplesLike) -> Array:
        """A sample (m,), checked."""
        given: Any = x.to_frame().T if hasattr(x, "to_frame") else x
        if not hasattr(given, "iloc") and not sp.issparse(given) and np.ndim(given) == 1:
            given = np.reshape(given, (1, -1))
        checked = self._scorable(given)
        rows = checked.toarray() if sp.issparse(checked) else checked
        if len(rows) != 1:
            raise ValueError(f"one sample at a time is explained; x has {len(rows)}")
        return np.asarray(rows[0], dtype=float)

    def _training_samples(self) -> Array | None:
        """The samples of the fit, where they are kept and dense."""
        X = getattr(getattr(self, "sides_", (self,))[0], "_X", None)
        return None if X is None or sp.issparse(X) else np.asarray(X, dtype=float)

    # -- life without the data ---------------------------------------------------------------

    def _drop_data(self, whole: Self) -> None:
        self._forget()
        self._typical = whole._typical_values() if whole._is_one_polytope else None
        self._keep_no_solution(whole)

    def _drop_data_of_pairs(self, whole: Self) -> None:
        self._forget()
        self._hold_no_rows()

    def _forget(self) -> None:
        """Drop what an earlier fit left, but its answer."""
        self._X = self._y = self._rows = self._costs = None
        self._assignment = self._stream = self._polytope = self._typical = None

    @property
    def holds_data(self) -> bool:
        """Whether it holds its training data, of which certificates and multipliers are made."""
        if not self._is_binary:
            return all(part.holds_data for part in self.estimators_)
        return self._X is not None

    def _typical_values(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The mean and the standard deviation of each feature of the training data, where they are dense."""
        if self._X is None or sp.issparse(self._X):
            return self._typical
        spread = self._X.std(axis=0, dtype=np.float64)
        spread[spread == 0] = 1.0
        return self._X.mean(axis=0, dtype=np.float64), spread

    def _hold_no_rows(self) -> None:
        """No pair of classes has training data."""
        nothing = np.empty(0, dtype=int)
        self._rows, self._pair_places = nothing, [nothing] * len(self.pairs_)

    def _need_one_polytope(self, what: str) -> None:
        check_is_fitted(self)
        if not self._is_one_polytope:
            raise AttributeError(f"{what} is of one polytope: ask the machines in sides_ or estimators_")

    @property
    def _is_one_polytope(self) -> bool:
        return self._is_binary

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
