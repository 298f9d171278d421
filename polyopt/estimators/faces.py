"""Base of the classifiers with faces: polytope, scores of faces, probabilities, life without the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from formulations.language.clock import Clock
from formulations.language.types import Array, Matrix
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import SamplesLike, Seed
from polyopt.estimators.base import PairwiseClassifier
from polyopt.estimators.calibration import calibrate, drop_incomplete, has_probabilities, is_calibrated
from polyopt.estimators.face_penalty import FacePenalty
from polyopt.estimators.parameters import check_parameters, estimator
from polyopt.estimators.status import warn
from polyopt.estimators.validation import validated
from polyopt.estimators.votes import MIN_WINNING, couple_pairs
from polyopt.polytope import Polytope

if TYPE_CHECKING:
    from sklearn.calibration import CalibratedClassifierCV

    from polyopt.explanations import ModelExplanation, SampleExplanation

MAX_SIZE = 1e100
"""Largest entry of X and sum of costs: squares and products of larger ones may leave double precision."""
MAX_SPREAD_RATIO = 1e4
"""Ratio of spreads, or distance of a spread from 1, above which scaling is advised."""
_MAX_OFFSET_SPREADS = 1e3  # distance of a feature's mean from 0 above which centring is advised
_MAX_MEASURED_ENTRIES = 1 << 18  # of X; of larger samples, rows at equal distances are measured
_ROWS_PER_BLOCK = 1 << 9  # dense samples scored at a time: they are still in the cache when multiplied
_MAX_SCORE_ERROR = 1e-4  # by single precision


# -- sizes and sides -------------------------------------------------------------------------------------


def check_sizes(largest: float, costs: float) -> None:
    """Refuse the largest entry of X, and the sum of all costs, whose products may leave double precision."""
    if largest > MAX_SIZE:
        raise ValueError(
            f"X must have entries of at most {MAX_SIZE:g} in size, not {largest:.3g}: squares leave "
            "double precision. Scale the features to unit variance (StandardScaler)"
        )
    if costs > MAX_SIZE:
        raise ValueError(
            f"sample_weight, times the class's weight and C, must add up to at most {MAX_SIZE:g}, not "
            f"{costs:.3g}: products leave double precision. Divide the weights by their mean"
        )


def inside_place(label: object, classes: NDArray[Any]) -> int:
    """Return the place of the class inside among two classes; ValueError if it is none of them."""
    matches = [each == label for each in classes]
    if not any(matches):
        raise ValueError(f"inside_label must be one of {classes.tolist()}, not {label!r}")
    return int(matches[1])


def refuse_inside_label(label: object, count: int, inside: str = "earlier") -> None:
    """Refuse a class inside if there are more than two; `inside` says which class of a pair is inside."""
    if label is not None:
        raise ValueError(
            f"inside_label={label!r} needs two classes, but there are {count}; "
            f"leave it None: of each pair, the {inside} class is inside"
        )


def scaling_advice(
    X: Matrix, wide: float = MAX_SPREAD_RATIO, names: Sequence[object] | None = None
) -> list[str]:
    """Return warnings of features that penalties and boxes treat unequally, or that biases hardly reach.

    Biases are priced or bounded, as weights are, so that centred samples are another problem, and an easier
    one. Of sparse samples, which cannot be centred, spreads around 0 alone are measured. `wide` is the ratio
    of spreads, or the distance of a spread from 1, that is warned of.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        middle, spread = _measured(X)
    found = []
    if middle is not None:
        far = np.divide(np.abs(middle), spread, out=np.zeros_like(middle), where=spread > 0)
        if len(far) and far.max() > _MAX_OFFSET_SPREADS:
            j = int(far.argmax())
            found.append(
                f"feature {j if names is None else repr(names[j])} lies around {middle[j]:.3g} with a spread "
                f"of {spread[j]:.3g}, and a bias that reaches so far is priced or bounded as weights are; "
                "take the mean away first (StandardScaler)"
            )
    spread = spread[spread > 0]
    if len(spread) and (spread.max() > wide * min(spread.min(), 1.0) or spread.min() < 1.0 / wide):
        found.append(
            f"the features' spreads are from {spread.min():.3g} to {spread.max():.3g}, and its steps "
            "and penalties treat all alike; scale them to unit variance first (StandardScaler)"
        )
    return found


def _measured(X: Any) -> tuple[Array | None, Array]:
    """Return mean and spread (m,) of each feature, in double precision; no mean of sparse samples."""
    if sp.issparse(X):
        own = X.astype(np.float64)  # bytes have no squares
        return None, np.sqrt(np.asarray(own.multiply(own).mean(axis=0)).ravel())
    X = X[:: X.size // _MAX_MEASURED_ENTRIES | 1]  # an odd step, as rows may take turns
    middle = X.mean(axis=0, dtype=np.float64)
    spread = np.sqrt(((X - middle) ** 2).mean(axis=0))
    spread[X.max(axis=0) == X.min(axis=0)] = 0.0  # whatever rounding makes of it
    return middle, spread


# -- scores ----------------------------------------------------------------------------------------------


def scores_at(X: Matrix, W: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``W_k'x + b_k`` (t, K) for samples X (t, m) and faces W (K, m), b (K,).

    Samples of float32 or bytes are scored in single precision. If a sample's terms are so large that
    rounding them may move a score by more than 1e-4, the sample is scored in double.
    """
    if X.dtype == np.float64:
        if sp.issparse(X):
            return np.asarray(X @ W.T) + b
        # Face by face in the memory, so that the best of a few faces is found by vector instructions.
        by_face = W @ X.T
        by_face += b[:, None]
        return by_face.T
    scores = np.empty((X.shape[0], len(b)), order="F")
    largest = _largest_single_entry(W, b)
    with np.errstate(over="ignore"):  # where these overflow, they are not used
        narrow, offsets = W.T.astype(np.float32), b.astype(np.float32)
    for part, rows in _in_single_precision(X):
        doubtful = _rows_beyond(rows, largest)
        with np.errstate(over="ignore", invalid="ignore"):
            scores[part] = np.asarray(rows @ narrow) + offsets
        if len(doubtful):
            scores[part.start + doubtful] = rows[doubtful].astype(np.float64) @ W.T + b
    return scores


def _in_single_precision(X: Any) -> Iterator[tuple[slice, Any]]:
    """Yield sparse samples at once, dense ones by blocks."""
    step = X.shape[0] if sp.issparse(X) else _ROWS_PER_BLOCK
    for first in range(0, X.shape[0], step):
        part = slice(first, first + step)
        yield part, (X if step == X.shape[0] else X[part]).astype(np.float32, copy=False)


def _largest_single_entry(W: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the largest entry of a sample for which single precision keeps the scores; -1 if none does."""
    length = float(np.abs(W).sum(axis=1).max())
    room = _MAX_SCORE_ERROR * 2.0**24 - float(np.abs(b).max())
    if not room > 0.0:
        return -1.0
    # Up to 1e30, entries of W that are 0 in single precision do not change the sum.
    return min(room / length, 1e30) if length > 0.0 else 1e30


def _rows_beyond(rows: Any, largest: float) -> NDArray[np.intp]:
    """Return the samples with an entry larger than that."""
    entries = rows.data if sp.issparse(rows) else rows
    if max(float(entries.max(initial=0.0)), -float(entries.min(initial=0.0))) <= largest:
        return np.zeros(0, dtype=np.intp)
    sizes = abs(rows).max(axis=1)
    return np.flatnonzero((sizes.toarray() if sp.issparse(rows) else sizes).ravel() > largest)


# -- the class -------------------------------------------------------------------------------------------


@estimator
class FaceClassifier(PairwiseClassifier):
    """Base of the classifiers with faces.

    A fitted subclass has the faces ``W_`` (K, m) and ``b_`` (K,), in the units of X and the signs of its
    paper, and ``_side``: +1 where ``classes_[1]`` is the paper's positive class, -1 where ``classes_[0]`` is.

    Parameters
    ----------
    calibration : {"sigmoid", "isotonic"}, optional
        Probabilities for ``predict_proba`` by scikit-learn's ``CalibratedClassifierCV``: Platt's sigmoid of
        the score, or an isotonic curve, which wants a thousand samples. The curve is fitted to the scores of
        samples by machines that were not fitted to them: the training data are cut into five stratified
        folds, fewer if a class has fewer samples, which costs as many further fits; the machine itself is
        fitted to all. ``predict``, the polytope and its rules are those of the machine without calibration:
        near its boundary the class predicted may be the less probable one, as with ``SVC(probability=True)``.
        The probabilities of more than two classes are those that agree best with the calibrated ones of all
        pairs. Probabilities are those of the samples as they are weighted, `class_weight` included.
        `time_limit` includes the folds: if it expires before the last fold, or on Ctrl-C, there are no
        calibrated probabilities, and a warning says so.

    Attributes
    ----------
    calibration_ : CalibratedClassifierCV or None
        The curve, if there is one: its only feature is the score (binary problems).
    W_, b_ : ndarray of shape (K, m), (K,)
        The faces, in the units of X (binary problems with one polytope).
    polytope_ : Polytope
        The inside as a set: redundant faces, vertices, volume, rules (binary problems with one polytope).
    assignment_ : ndarray of int, shape (n,)
        The face that answers for each sample (binary problems with one polytope; samples of zero weight
        left out).
    inside_label_, outer_label_ : label
        The class inside, and the one outside (binary problems with one polytope).
    features_ : ndarray of int
        The features in use: those with a weight on some face.
    n_nonzero_ : int
        The weights in use, biases left out, over all faces.
    """

    calibration_: CalibratedClassifierCV | None = field(init=False, default=None)
    _: KW_ONLY
    calibration: Literal["sigmoid", "isotonic"] | None = None

    # Parameters of most subclasses, and of some.
    inside_label: object = field(init=False, default=None)
    penalty: FacePenalty | None = field(init=False, default=None)
    random_state: Seed = field(init=False, default=None)
    W_: NDArray[Any] = field(init=False)
    b_: NDArray[Any] = field(init=False)
    _side: float = field(init=False, default=1.0)
    # Of a fit on whole data: the samples, their labels in the paper's signs, numbers and costs, and faces.
    _X: Any = field(init=False, default=None)
    _y: Any = field(init=False, default=None)
    _rows: Any = field(init=False, default=None)
    _costs: Any = field(init=False, default=None)
    _assignment: NDArray[np.int64] | None = field(init=False, default=None)
    _stream: object = field(init=False, default=None)  # the state of partial_fit between two chunks
    _polytope: tuple[Any, Polytope] | None = field(init=False, default=None)  # with the faces it was made of
    _typical: tuple[Any, Any] | None = field(init=False, default=None)  # without data: means and spreads
    _uncalibrated: str = field(init=False, default="")  # why a fit that was to be calibrated is not
    _sides: tuple[Any, ...] | None = field(init=False, default=None)  # machines of two polytopes
    _wide: ClassVar[float] = 1e6  # ratio of the features' spreads at which scaling is advised
    _outward: ClassVar[float] = 1.0  # +1 where the faces are positive outside, -1 where they are inside
    _models_probabilities: ClassVar[bool] = False  # True if the model itself has probabilities
    _is_double_sided: ClassVar[bool] = False  # True if it learns a polytope for each class

    def _validate_params(self) -> None:
        super()._validate_params()
        check_parameters(
            {"calibration": [StrOptions({"sigmoid", "isotonic"}), None]},
            {"calibration": self.calibration},
            type(self).__name__,
        )

    # -- sizes and sides ---------------------------------------------------------------------

    def _check_sizes(self, X: Any, weights: NDArray[Any], C: float = 1.0) -> None:
        """Refuse numbers whose squares and products may leave double precision."""
        entries = X.data if sp.issparse(X) else X
        largest = float(max(entries.max(initial=0), -float(entries.min(initial=0))))
        with np.errstate(over="ignore"):
            check_sizes(largest, float(np.sum(C * weights)))

    def _advise_scaling(self, X: Any) -> None:
        names = getattr(self, "feature_names_in_", None)
        for text in scaling_advice(X, self._wide, names):
            warn(self, text, UserWarning)

    def _chosen_side(self) -> float:
        """Return +1 where ``classes_[1]`` is the paper's positive class, -1 where ``classes_[0]`` is."""
        if self.inside_label is None:
            return 1.0
        return -self._outward if inside_place(self.inside_label, self.classes_) else self._outward

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        inside = "earlier" if self._outward > 0 else "later"
        if not self._is_double_sided:
            refuse_inside_label(self.inside_label, len(self.classes_), inside)
        machine = super()._for_pairs(X, weights)
        if self.penalty is not None:  # a pair knows the features by their numbers alone
            machine.set_params(penalty=self.penalty.numbered(self._names()))
        return machine

    def _names(self) -> Sequence[object]:
        return list(getattr(self, "feature_names_in_", ()))

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

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    # -- the penalty -------------------------------------------------------------------------

    @property
    def _asked_penalty(self) -> FacePenalty:
        """The penalty of the fit, or of the fit to come."""
        return getattr(self, "_asked", {}).get("penalty", self.penalty) or FacePenalty()

    def _face_penalty(self) -> Any:
        """Return prices and signs for the polytope at hand, in the signs of its faces; None without any."""
        found = self._asked_penalty.of_features(self.n_features_in_, self._names(), self._side)
        return None if found.is_absent else found

    def _warn_if_empty(self, W: NDArray[Any]) -> None:
        """Warn if the penalty has taken every feature out of use."""
        penalty = self._asked_penalty
        if penalty.has_prices and not W[:, :-1].any():
            warn(
                self,
                "every weight is zero, as no feature is worth its price at "
                f"l1={penalty.l1!r}, group={penalty.group!r}: one class is predicted everywhere. Lower the "
                "price",
                UserWarning,
            )

    def _polytopes(self) -> list[Any]:
        """Return the machines of one polytope each."""
        check_is_fitted(self)
        if not self._is_binary:
            return [each for part in self.estimators_ for each in part._polytopes()]
        return list(self._sides or [self])

    @property
    def features_(self) -> NDArray[np.int64]:
        """The features in use."""
        used = [np.flatnonzero((machine.W_ != 0).any(axis=0)) for machine in self._polytopes()]
        return np.unique(np.concatenate(used))

    @property
    def n_nonzero_(self) -> int:
        """The weights in use, biases left out."""
        return sum(int(np.count_nonzero(machine.W_)) for machine in self._polytopes())

    # -- the faces ---------------------------------------------------------------------------

    def face_scores(self, X: SamplesLike) -> NDArray[Any]:
        """Return scores of samples at every face.

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
        """Return the face that answers for each sample: the one that the sample is farthest outside of.

        An array of int of shape (t,): the face with the highest score where the faces are positive
        outside, as the Convex Polytope Machine's are, and with the lowest where they are positive inside.
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
        best = "ReduceMax" if self._outward > 0 else "ReduceMin"
        scores = graph.over_columns(best, graph.affine(x, self.W_, self.b_))
        return graph.op("Mul", scores, graph.constant(self._side))

    @property
    def _is_one_polytope(self) -> bool:
        return self._is_binary and self._sides is None

    def _need_one_polytope(self, what: str) -> None:
        check_is_fitted(self)
        if not self._is_one_polytope:
            raise AttributeError(f"{what} is of one polytope: ask the machines in sides_ or estimators_")

    @property
    def polytope_(self) -> Polytope:
        """The inside as a set, in the units of X."""
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
        """The face that answers for each sample of the training data."""
        if self._assignment is None:
            raise AttributeError("assignment_ needs a fit on whole data with one polytope")
        return self._assignment

    # -- probabilities -----------------------------------------------------------------------

    def _calibrate(self, X: Any, y: Array, weights: Array, whole: Clock) -> None:
        if self.calibration is not None:
            calibrate(self, X, y, weights, whole)

    def _settle(self) -> None:
        drop_incomplete(self)

    @available_if(has_probabilities)
    def predict_proba(self, X: SamplesLike) -> Array:
        """Return probabilities of the classes.

        Parameters
        ----------
        X : array_like or CSR matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t, n_classes)
            In the order of ``classes_``. With more than two classes, those that agree best with the
            probabilities of all pairs (the second method of Wu, Lin & Weng, 2004).
        """
        model, samples = self._prepared(X)
        if model._is_binary:
            second = model._second(samples)
            return np.column_stack([1.0 - second, second])
        return model._coupled(samples, calibrated=is_calibrated(model))

    def _second(self, X: Any, calibrated: bool = True) -> Array:
        """Return probabilities of ``classes_[1]``, of two classes: by the curve if there is one.

        The model's own probabilities agree with the labels also at ties and where they round: of two equal
        probabilities the first is the larger one to ``argmax``.
        """
        if calibrated and self.calibration_ is not None:
            found: Array = self.calibration_.predict_proba(self._binary_scores(X)[:, None])[:, 1]
            return found
        odds = self._log_odds(X)
        second = expit(odds)
        return np.where(odds > 0, np.maximum(second, MIN_WINNING), np.minimum(second, 0.5))

    def _coupled(self, X: Any, calibrated: bool) -> Array:
        """Return probabilities of more than two classes, from those of the pairs."""
        pairs = [part._as_fitted()._second(X, calibrated) for part in self.estimators_]
        return couple_pairs(np.column_stack(pairs), len(self.classes_))

    def _log_odds(self, X: Any) -> Array:
        """Return the logarithm of P(classes_[1] | x) / P(classes_[0] | x) by the model: here the score."""
        return self._binary_scores(X)

    @property
    def _decides_by_model(self) -> bool:
        """True if the model's probabilities decide."""
        return self._models_probabilities

    def _scores(self, X: Any) -> Array:
        if self._is_binary or not self._decides_by_model:
            return super()._scores(X)
        return np.log(self._coupled(X, calibrated=False))

    def _labels(self, X: Any) -> NDArray[np.intp]:
        if self._is_binary or not self._decides_by_model:
            return super()._labels(X)
        return self._coupled(X, calibrated=False).argmax(axis=1)

    # -- explanations ------------------------------------------------------------------------

    def explain(
        self, x: SamplesLike, *, held: Sequence[str | int] = (),
        bounds: str | tuple[ArrayLike, ArrayLike] | None = None, top: int = 5,
    ) -> SampleExplanation:  # fmt: skip
        """Explain the label of a sample, with the nearest point of the other label (two classes).

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
        from polyopt.explanations.classifier import explain_prediction

        return explain_prediction(self, x, held, bounds, top)

    def explain_model(
        self, X: SamplesLike | None = None, y: ArrayLike | None = None, *, top: int = 8
    ) -> ModelExplanation:
        """Explain the model: the shares of its features, and the role of each face (two classes).

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
        from polyopt.explanations.classifier import explain_classifier

        return explain_classifier(self, X, y, top)

    # -- without the data --------------------------------------------------------------------

    def _drop_data(self, whole: Self) -> None:
        typical = whole._typical_values() if whole._is_one_polytope else None
        self._forget()
        self._typical = typical
        self._keep_no_solution(whole)

    def _drop_data_of_pairs(self, whole: Self) -> None:
        self._forget()
        self._hold_no_rows()

    def _forget(self) -> None:
        """Drop the attributes of an earlier fit, but its answer."""
        self._X = self._y = self._rows = self._costs = None
        self._assignment = self._stream = self._polytope = self._typical = None

    def _hold_no_rows(self) -> None:
        """Note that no pair of classes has training data."""
        nothing = np.empty(0, dtype=int)
        self._rows, self._pair_places = nothing, [nothing] * len(self.pairs_)

    @property
    def holds_data(self) -> bool:
        """True if it holds its training data, of which certificates and multipliers are made."""
        if not self._is_binary:
            return all(part.holds_data for part in self.estimators_)
        return self._X is not None

    def _typical_values(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return mean and standard deviation of each feature of the training data, if they are dense."""
        if self._X is None or sp.issparse(self._X):
            return self._typical
        spread = self._X.std(axis=0, dtype=np.float64)
        spread[spread == 0] = 1.0
        return self._X.mean(axis=0, dtype=np.float64), spread
