"""Base of the classifiers with faces: scores, polytope, probabilities and explanations.

A face has the score W_k·x + b_k; the faces of a classifier bound a polytope, which has one class inside. Each
classifier is the method of a paper, in whose programs the labels are +1 and -1. A method with a polytope for
each class has two machines, its *sides*. The spread of a feature is its standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from formulations.language.types import Array, Matrix
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import SamplesLike, Seed
from polyopt.estimators.base import PairwiseClassifier, without_probabilities
from polyopt.estimators.collections import is_collection
from polyopt.estimators.face_penalty import FacePenalty
from polyopt.estimators.parameters import estimator
from polyopt.estimators.status import warn
from polyopt.estimators.validation import validated
from polyopt.estimators.votes import MIN_WINNING, couple_pairs

if TYPE_CHECKING:
    from polyopt.explanations import ModelExplanation, SampleExplanation
    from polyopt.polytope import Polytope

MAX_SPREAD_RATIO = 1e4
"""Ratio of the spreads of two features above which scaling is advised, for ``polyopt.polyhedral``."""


_MAX_SIZE = 1e100  # largest entry of X and sum of costs; squares and products may overflow above it
_MAX_OFFSET = 1e3  # distance of a mean from 0, in spreads, above which centring is advised
_MEASURED_ENTRIES = 1 << 18  # entries of X, in equidistant rows, for means and spreads
_ROWS_PER_BLOCK = 1 << 9  # dense samples scored at a time in single precision; they stay in the cache
_MAX_SCORE_ERROR = 1e-4  # largest error of a score in single precision
# Largest entry of a sample at which weights that underflow in single precision cannot change a score.
_MAX_SINGLE_ENTRY = 1e30


# -- sizes -----------------------------------------------------------------------------------------------


def check_sizes(max_entry: float, total_cost: float) -> None:
    """Raise ValueError for a largest entry of X or a sum of all costs whose products may overflow."""
    if max_entry > _MAX_SIZE:
        raise ValueError(
            f"X must have entries of at most {_MAX_SIZE:g} in size, not {max_entry:.3g}: squares "
            "leave double precision. Scale the features to unit variance (StandardScaler)"
        )
    if total_cost > _MAX_SIZE:
        raise ValueError(
            f"sample_weight, times the class's weight and C, must add up to at most {_MAX_SIZE:g}, "
            f"not {total_cost:.3g}: products leave double precision. Divide the weights by their mean"
        )


def _has_probabilities(machine: Any) -> bool:
    """Return True if the model has probabilities; raise AttributeError if it has scores only."""
    if not machine._models_probabilities:
        raise without_probabilities(machine)
    return True


def scaling_advice(
    X: Matrix, max_ratio: float = MAX_SPREAD_RATIO, names: Sequence[object] | None = None
) -> list[str]:
    """Return warnings about features far from 0, relative to their spread, and about very different spreads.

    All weights and biases have the same penalty or bounds, so centring and scaling change the program. Sparse
    samples are not centred, and their spreads are measured around 0.

    max_ratio: ratio of two spreads, and of a spread and 1, above which scaling is advised.
    names: names of the features, if any.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = _mean_and_spread(X)
    advice = []
    if mean is not None:
        offset = np.divide(np.abs(mean), spread, out=np.zeros_like(mean), where=spread > 0)
        if len(offset) and offset.max() > _MAX_OFFSET:
            j = int(offset.argmax())
            advice.append(
                f"feature {j if names is None else repr(names[j])} lies around {mean[j]:.3g} with a spread "
                f"of {spread[j]:.3g}, and a bias of that size is penalised or bounded like a weight; "
                "subtract the mean first (StandardScaler)"
            )
    spread = spread[spread > 0]
    if len(spread) and (spread.max() > max_ratio * min(spread.min(), 1.0) or spread.min() < 1.0 / max_ratio):
        advice.append(
            f"the features' spreads are from {spread.min():.3g} to {spread.max():.3g}, and steps and "
            "penalties treat all features alike; scale them to unit variance first (StandardScaler)"
        )
    return advice


def _mean_and_spread(X: Any) -> tuple[Array | None, Array]:
    """Return mean and spread (m,) of each feature; for sparse samples None and the spread around 0."""
    if sp.issparse(X):
        floats = X.astype(np.float64)  # bytes overflow when squared
        return None, np.sqrt(np.asarray(floats.multiply(floats).mean(axis=0)).ravel())
    X = X[:: X.size // _MEASURED_ENTRIES | 1]  # an odd step: classes may alternate from row to row
    mean = X.mean(axis=0, dtype=np.float64)
    spread = np.sqrt(((X - mean) ** 2).mean(axis=0))
    spread[X.max(axis=0) == X.min(axis=0)] = 0.0  # exactly, without rounding errors
    return mean, spread


# -- scores ----------------------------------------------------------------------------------------------


def scores_at(X: Matrix, W: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``W_k'x + b_k`` (t, K) for samples X (t, m) and faces W (K, m), b (K,).

    Samples of float32 or bytes are scored in single precision, except those with so large entries that the
    rounding error may exceed ``_MAX_SCORE_ERROR``.
    """
    if X.dtype == np.float64:
        if sp.issparse(X):
            return np.asarray(X @ W.T) + b
        # The scores of a face are contiguous: the maximum over few faces uses vector instructions.
        face_rows = W @ X.T
        face_rows += b[:, None]
        return face_rows.T
    scores = np.empty((X.shape[0], len(b)), order="F")
    max_entry = _max_single_entry(W, b)
    with np.errstate(over="ignore"):  # weights that overflow here are not used: max_entry is too small then
        single_W, single_b = W.T.astype(np.float32), b.astype(np.float32)
    step = max(X.shape[0], 1) if sp.issparse(X) else _ROWS_PER_BLOCK
    for first in range(0, X.shape[0], step):
        block = slice(first, first + step)
        rows: Any = (X if step >= X.shape[0] else X[block]).astype(np.float32, copy=False)
        in_double = _rows_beyond(rows, max_entry)
        with np.errstate(over="ignore", invalid="ignore"):
            scores[block] = np.asarray(rows @ single_W) + single_b
        if len(in_double):
            scores[first + in_double] = rows[in_double].astype(np.float64) @ W.T + b
    return scores


def _max_single_entry(W: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the largest entry of a sample for which single precision suffices; -1 if it never does.

    The error of a score is about 2^-24 (‖w‖_1 max|x_j| + |b|).
    """
    norm = float(np.abs(W).sum(axis=1).max())
    max_term = _MAX_SCORE_ERROR * 2.0**24 - float(np.abs(b).max())
    if not max_term > 0.0:
        return -1.0
    return min(max_term / norm, _MAX_SINGLE_ENTRY) if norm > 0.0 else _MAX_SINGLE_ENTRY


def _rows_beyond(rows: Any, limit: float) -> NDArray[np.intp]:
    """Return the indices of the samples with an entry of absolute value above the limit."""
    entries = rows.data if sp.issparse(rows) else rows
    if max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0))) <= limit:
        return np.zeros(0, dtype=np.intp)
    sizes = abs(rows).max(axis=1)
    return np.flatnonzero((sizes.toarray() if sp.issparse(rows) else sizes).ravel() > limit)


# -- the class -------------------------------------------------------------------------------------------


@estimator
class FaceClassifier(PairwiseClassifier):
    """Base of the classifiers with faces.

    A fitted subclass has the faces ``W_`` (K, m) and ``b_`` (K,), in the units of X and with the signs of its
    paper. ``_outward``, constant, is the paper's label of the class outside, and the sign of a face's scores
    outside; ``_side``, fitted, is the paper's label of ``classes_[1]``. ``_sides`` are no signs, but the two
    machines of a method with two polytopes.

    Attributes
    ----------
    W_, b_ : ndarray of shape (K, m), (K,)
        The faces, in the units of X (binary problems with one polytope).
    polytope_ : Polytope
        The set of the class inside: redundant faces, vertices, volume, rules (binary problems with one
        polytope).
    assignment_ : ndarray of int, shape (n,)
        The active face of each sample with positive weight (binary problems with one polytope).
    inside_label_, outer_label_ : label
        The class inside and the class outside (binary problems with one polytope).
    features_ : ndarray of int
        The features with a nonzero weight on some face.
    n_nonzero_ : int
        The number of nonzero weights, without biases, of all faces.
    """

    # Parameters and attributes of most subclasses.
    inside_label: object = field(init=False, default=None)
    penalty: FacePenalty | None = field(init=False, default=None)
    random_state: Seed = field(init=False, default=None)
    W_: NDArray[Any] = field(init=False)
    b_: NDArray[Any] = field(init=False)
    _side: float = field(init=False, default=1.0)
    # Training data, None after partial_fit and without_data.
    _X: Any = field(init=False, default=None)
    _y: Any = field(init=False, default=None)  # labels in the paper's signs
    _rows: Any = field(init=False, default=None)  # row numbers in the data passed to fit
    _costs: Any = field(init=False, default=None)  # cost of each sample
    _assignment: NDArray[np.int64] | None = field(init=False, default=None)  # active faces (n,)
    _stream: object = field(init=False, default=None)  # the state of partial_fit between two chunks
    _polytope: tuple[Any, Polytope] | None = field(init=False, default=None)  # W_ and its polytope
    # Mean and spread of each feature, kept if the training data are dropped.
    _typical: tuple[Any, Any] | None = field(init=False, default=None)
    _sides: tuple[Any, ...] | None = field(init=False, default=None)  # machines, if there are two polytopes
    _max_spread_ratio: ClassVar[float] = 1e6  # largest one without advice to scale; 1e4 in ``polyhedral``
    _outward: ClassVar[float] = 1.0  # +1 if scores of faces are positive outside, -1 if positive inside
    _models_probabilities: ClassVar[bool] = False  # True if the model itself has probabilities
    _is_double_sided: ClassVar[bool] = False  # True if the method has a polytope for each class

    # -- sizes and inside labels -------------------------------------------------------------

    def _check_sizes(self, X: Any, weights: NDArray[Any], C: float = 1.0) -> None:
        """Raise ValueError for numbers whose squares and products may overflow."""
        entries = X.data if sp.issparse(X) else X
        max_entry = float(max(entries.max(initial=0), -float(entries.min(initial=0))))
        with np.errstate(over="ignore"):
            check_sizes(max_entry, float(np.sum(C * weights)))

    def _advise_scaling(self, X: Any) -> None:
        names = getattr(self, "feature_names_in_", None)
        for text in scaling_advice(X, self._max_spread_ratio, names):
            warn(self, text, UserWarning)

    def _chosen_side(self) -> float:
        """Return `_side` by the parameter `inside_label`; 1 if that is None."""
        if self.inside_label is None:
            return 1.0
        matches = [label == self.inside_label for label in self.classes_]
        if not any(matches):
            raise ValueError(
                f"inside_label must be one of {self.classes_.tolist()}, not {self.inside_label!r}"
            )
        return -self._outward if matches[1] else self._outward  # the class inside has the label −_outward

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        if not self._is_double_sided and self.inside_label is not None:
            inside = "earlier" if self._outward > 0 else "later"
            raise ValueError(
                f"inside_label={self.inside_label!r} needs two classes, but there are {len(self.classes_)}; "
                f"leave it None: of each pair, the {inside} class is inside"
            )
        machine = super()._for_pairs(X, weights)
        if self.penalty is not None:  # machines of pairs have no feature names: refer to features by number
            machine.set_params(penalty=self.penalty.numbered(self._names()))
        return machine

    def _names(self) -> Sequence[object]:
        return list(getattr(self, "feature_names_in_", ()))

    def _label(self, outside: bool) -> Any:
        self._need_one_polytope("outer_label_" if outside else "inside_label_")
        is_paper_positive = outside == (self._outward > 0)
        return self.classes_[int(is_paper_positive == (self._side > 0))]

    @property
    def outer_label_(self) -> Any:
        """The class outside the polytope (binary problems with one polytope)."""
        return self._label(outside=True)

    @property
    def inside_label_(self) -> Any:
        """The class inside of the polytope (binary problems with one polytope)."""
        return self._label(outside=False)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    # -- the penalty -------------------------------------------------------------------------

    @property
    def _asked_penalty(self) -> FacePenalty:
        """The penalty of the last fit (`_asked`: the parameters of that fit); before a fit, the parameter."""
        return getattr(self, "_asked", {}).get("penalty", self.penalty) or FacePenalty()

    def _face_penalty(self) -> Any:
        """Return the penalty, with its sign constraints in the signs of the paper; None if there is none."""
        penalty = self._asked_penalty.of_features(self.n_features_in_, self._names(), self._side)
        return None if penalty.is_absent else penalty

    def _warn_if_empty(self, W: NDArray[Any]) -> None:
        """Warn if the penalty has made every weight of W (K, m+1), bias last, 0."""
        penalty = self._asked_penalty
        if penalty.has_penalty_or_signs and not W[:, :-1].any():
            warn(
                self,
                f"every weight is zero at the penalty l1={penalty.l1!r}, group={penalty.group!r}: one class "
                "is predicted everywhere. Lower the penalty",
                UserWarning,
            )

    def _polytopes(self) -> list[Any]:
        """Return the machines, each with one polytope, of which this one consists."""
        check_is_fitted(self)
        if not self._is_binary:
            return [machine for part in self.estimators_ for machine in part._polytopes()]
        return list(self._sides or [self])

    @property
    def features_(self) -> NDArray[np.int64]:
        """Features with a nonzero weight."""
        used = [np.flatnonzero((machine.W_ != 0).any(axis=0)) for machine in self._polytopes()]
        return np.unique(np.concatenate(used))

    @property
    def n_nonzero_(self) -> int:
        """Number of nonzero weights, without biases."""
        return sum(int(np.count_nonzero(machine.W_)) for machine in self._polytopes())

    # -- the faces ---------------------------------------------------------------------------

    def face_scores(self, X: SamplesLike) -> NDArray[Any]:
        """Return scores of samples at every face; of a Dask array or frame a lazy Dask array.

        Parameters
        ----------
        X : array_like, CSR matrix, or Dask array or frame, of shape (t, m)
            Samples. float32 and bytes are scored in single precision if the error is below 1e-4.

        Returns
        -------
        ndarray of shape (t, K)
            ``W_k'x + b_k``.
        """
        if is_collection(X):
            return self._lazily("face_scores", X)
        return self._scores_of_faces(self._check_for_scoring(X, "face_scores"))

    def active_face(self, X: SamplesLike) -> NDArray[np.int64]:
        """Return the active face (t,) of each sample, the one that determines its score.

        It has the highest score if the faces are positive outside, as the Convex Polytope Machine's are, and
        the lowest if they are positive inside.
        """
        scores = self._scores_of_faces(self._check_for_scoring(X, "active_face"))
        return (self._outward * scores).argmax(axis=1)

    def _check_for_scoring(self, X: Any, what: str) -> Any:
        self._need_one_polytope(what)
        return validated(self, X, accept_sparse="csr", dtype=self._dtypes, reset=False)

    def _scores_of_faces(self, X: Any) -> NDArray[np.float64]:
        return scores_at(X, self.W_, self.b_)

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        outputs = self._scores_of_faces(X)
        return self._side * (outputs.max(axis=1) if self._outward > 0 else outputs.min(axis=1))

    def _draw_scores(self, graph: Graph, x: str) -> str:
        reduction = "ReduceMax" if self._outward > 0 else "ReduceMin"
        scores = graph.over_columns(reduction, graph.affine(x, self.W_, self.b_))
        return graph.op("Mul", scores, graph.constant(self._side))

    @property
    def _is_one_polytope(self) -> bool:
        return self._is_binary and self._sides is None

    def _need_one_polytope(self, what: str) -> None:
        check_is_fitted(self)
        if not self._is_one_polytope:
            raise AttributeError(f"{what} needs a machine of one polytope: use one in sides_ or estimators_")

    @property
    def polytope_(self) -> Polytope:
        """Polytope of the class inside, in the units of X."""
        from polyopt.polytope import Polytope

        self._need_one_polytope("polytope_")
        if self._polytope is not None and self._polytope[0] is self.W_:
            return self._polytope[1]
        centre, spread = self._typical_values() or (None, None)
        names = getattr(self, "feature_names_in_", None)
        is_closed = bool(self.inside_label_ == self.classes_[0])  # then a score of 0 is inside
        W, b = self._outward * self.W_, self._outward * self.b_
        self._polytope = (self.W_, Polytope(W, b, names, spread, centre, is_closed))
        return self._polytope[1]

    @property
    def assignment_(self) -> NDArray[np.int64]:
        """Active face of each training sample."""
        if self._assignment is None:
            raise AttributeError("assignment_ needs a fit on complete data (no partial_fit), one polytope")
        return self._assignment

    # -- probabilities -----------------------------------------------------------------------

    @available_if(_has_probabilities)
    def predict_proba(self, X: SamplesLike) -> Array:
        """Return probabilities of the classes.

        Parameters
        ----------
        X : array_like or CSR matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t, n_classes)
            In the order of ``classes_``. With more than two classes, the probabilities that agree best
            with those of all pairs (the second method of Wu, Lin & Weng, 2004).
        """
        model, samples = self._prepared(X)
        if model._is_binary:
            second = model._probabilities_of_second_class(samples)
            return np.column_stack([1.0 - second, second])
        return model._coupled_probabilities(samples)

    def _probabilities_of_second_class(self, X: Any) -> Array:
        """Return the probabilities (t,) of ``classes_[1]``.

        They are kept above 1/2 if the label is ``classes_[1]``, else at most 1/2, so that ``argmax`` agrees
        with ``predict`` in spite of rounding.
        """
        log_odds = self._log_odds(X)
        second = expit(log_odds)
        return np.where(log_odds > 0, np.maximum(second, MIN_WINNING), np.minimum(second, 0.5))

    def _coupled_probabilities(self, X: Any) -> Array:
        """Return the probabilities of more than two classes, from those of the pairs."""
        pairs = [part._as_fitted()._probabilities_of_second_class(X) for part in self.estimators_]
        return couple_pairs(np.column_stack(pairs), len(self.classes_))

    def _log_odds(self, X: Any) -> Array:
        """Return the log-odds ln P(classes_[1] | x) / P(classes_[0] | x), by default the score."""
        return self._binary_scores(X)

    @property
    def _decides_by_model(self) -> bool:
        """True if ``predict`` returns the class of the larger probability of the model."""
        return self._models_probabilities

    def _scores(self, X: Any) -> Array:
        """Return the scores of samples; for several classes by the model, its log-probabilities."""
        if self._is_binary or not self._decides_by_model:
            return super()._scores(X)
        return np.log(self._coupled_probabilities(X))

    def _labels(self, X: Any) -> NDArray[np.intp]:
        """Return the class indices (t,) of samples."""
        if self._is_binary or not self._decides_by_model:
            return super()._labels(X)
        return self._coupled_probabilities(X).argmax(axis=1)

    # -- pairs of classes --------------------------------------------------------------------

    def of_pair(self, first: Any, second: Any) -> Self:
        """Return the machine of two of the classes, with its polytopes, rules and explanations.

        Parameters
        ----------
        first, second : label
            Two of ``classes_``, in any order. With two classes the machine is this one.
        """
        check_is_fitted(self)
        if self._is_binary:
            pairs = [(tuple(self.classes_), self)]
        else:
            pairs = list(zip(self.pairs_, self.estimators_, strict=True))
        for pair, machine in pairs:
            if first != second and first in pair and second in pair:
                return self if machine is self else machine._renamed(np.array(pair), self)
        raise ValueError(f"{first!r} and {second!r} are not two of the classes {self.classes_.tolist()}")

    def _renamed(self, classes: NDArray[Any], whole: Self) -> Self:
        """Return this machine of two classes, numbered 0 and 1, with labels and features' names."""
        machine = copy(self)
        machine.classes_, machine._polytope = classes, None
        if hasattr(whole, "feature_names_in_"):
            machine.feature_names_in_ = whole.feature_names_in_
        machine._sides = self._sides and tuple(side._renamed(classes, whole) for side in self._sides)
        return machine

    # -- explanations ------------------------------------------------------------------------

    def explain(
        self, x: SamplesLike, *, held: Sequence[str | int] = (),
        bounds: tuple[ArrayLike, ArrayLike] | None = None, top: int = 5,
    ) -> SampleExplanation:  # fmt: skip
        """Explain the label of a sample, with the nearest point of the other label (two classes).

        Parameters
        ----------
        x : array_like, frame or CSR matrix of shape (m,) or (1, m)
            The sample.
        held : sequence of str or int
            Features that may not change: their names, or their numbers.
        bounds : pair of array_like of shape (m,), optional
            Lower and upper bounds of the features at the nearest point.
        top : int
            Number of terms and changes in the text.

        Returns
        -------
        SampleExplanation
            Its text has the `top` largest terms, ``to_dict()`` all of them, and ``certificate()`` certifies
            the nearest point. Lengths are in standard deviations of the features, if these are known.

        Raises
        ------
        ValueError
            More than two classes (see :meth:`of_pair`), several samples, an unknown feature, or a lower bound
            above an upper one.
        """
        from polyopt.explanations.classifier import decision_model_of, single_sample
        from polyopt.explanations.sample import explain_sample

        model = decision_model_of(self)
        return explain_sample(model, single_sample(self, x), held=held, bounds=bounds, top=top)

    def explain_model(
        self, X: SamplesLike | None = None, y: ArrayLike | None = None, *, top: int = 8
    ) -> ModelExplanation:
        """Explain the model: the importance of its features, and the role of each face (two classes).

        Parameters
        ----------
        X : array_like of shape (n, m), optional
            Samples; by default the training data.
        y : array_like of shape (n,), optional
            Their labels.
        top : int
            Number of features in the text.

        Raises
        ------
        ValueError
            More than two classes (see :meth:`of_pair`), no data, sparse data, or another number of labels
            than samples.
        """
        from polyopt.explanations.classifier import decision_model_of, training_samples
        from polyopt.explanations.model import explain_model

        model, samples = decision_model_of(self), training_samples(self) if X is None else self._scorable(X)
        if sp.issparse(samples):
            raise ValueError("explain_model takes dense samples; give some of the rows, as X.toarray()")
        if samples is None:
            raise ValueError("explain_model needs X: the machine holds no dense training data")
        if X is None:
            holder = (self._sides or (self,))[0]
            y = self.classes_[(holder._side * holder._y > 0).astype(int)]
        return explain_model(model, samples, y, top=top)

    # -- without the data --------------------------------------------------------------------

    def _drop_data(self, original: Self) -> None:
        """Remove the training data from this copy of the binary machine `original`."""
        typical = original._typical_values() if original._is_one_polytope else None
        self._forget()
        self._typical = typical
        self._drop_solution_arrays(original)

    def _drop_data_of_pairs(self, original: Self) -> None:
        """Remove the training data from this copy for several classes; its pairs have none already."""
        self._forget()
        self._clear_rows()

    def _forget(self) -> None:
        """Remove the training data and the attributes computed from them."""
        self._X = self._y = self._rows = self._costs = None
        self._assignment = self._stream = self._polytope = self._typical = None

    def _clear_rows(self) -> None:
        """Set empty row numbers: the pairs of classes of this machine have no training data."""
        no_rows = np.empty(0, dtype=int)
        self._rows, self._pair_places = no_rows, [no_rows] * len(self.pairs_)

    def _typical_values(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return mean and standard deviation of each feature of dense training data, else None."""
        if self._X is None or sp.issparse(self._X):
            return self._typical
        spread = self._X.std(axis=0, dtype=np.float64)
        spread[spread == 0] = 1.0
        return self._X.mean(axis=0, dtype=np.float64), spread
