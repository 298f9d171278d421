"""What every polyopt classifier shares: classes, weights, one-vs-one, duals and certificate.

A subclass solves one binary problem in :meth:`PairwiseClassifier._fit_binary` and answers for it in
four small methods; this class turns labels into -1 and +1, makes a sample's weight equal to its
repetition, and trains one classifier per pair of classes where there are more than two.

One rule decides everywhere, scikit-learn's: ``classes_[1]`` is predicted if the score is above 0, and
``classes_[0]`` if it is 0 or below. Votes of pairs, probabilities, rules as text, SQL and Python, and ONNX
graphs follow it; the polytope of a machine includes its faces if ``classes_[0]`` is inside, and excludes them
if ``classes_[1]`` is.
"""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted

from formulations.language.arguments import refuse_masked
from formulations.language.clock import Clock, running
from formulations.language.solution import Status
from polyopt.base.parallel import deal
from polyopt.base.progress import heard_by
from polyopt.base.progress_lines import printer
from polyopt.certificates.certificate import Certificate, Claim
from polyopt.estimators.interruption import Part, broken_off, note_interruption, warn_of_interruption
from polyopt.estimators.parameters import check_parameters
from polyopt.estimators.proven import Proven
from polyopt.estimators.status import FINE
from polyopt.estimators.validation import check_targets, validated, validated_pair
from polyopt.estimators.weights import check_total, checked_weights, class_weights

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from onnx import ModelProto

    from polyopt.base.onnx_graph import Graph
    from polyopt.base.types import SamplesLike


__all__ = ["PairwiseClassifier"]


class PairwiseClassifier(ClassifierMixin, Proven):
    """Base of the classifiers: a binary problem at heart, one-vs-one around it.

    A subclass has the parameters below, or an attribute None in place of one. Its :meth:`_drop_data` keeps
    what the answers need (by default everything), its :meth:`_draw_scores` makes the ONNX graph (by default
    none).

    Parameters
    ----------
    class_weight : dict or "balanced", optional
        Weights of the classes; they multiply the samples' weights.
    n_jobs : int, optional
        Pairs of classes trained at once.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels. In a binary problem the second one is +1.
    estimators_ : list
        The binary classifiers, one per pair of classes; only where there are more than two.
    pairs_ : list of tuple
        The classes of each of them.
    """

    solver_: str
    n_iter_: int
    n_features_in_: int
    _rows: Any  # numbers of the samples of the fit in the data given
    _pair_places: list[NDArray[np.intp]]  # places of each pair's samples among those
    _dtypes: ClassVar[list[Any]] = [np.float64]  # of X, as the solver takes it without a conversion
    _scored_dtypes: ClassVar[Any] = np.float64  # of X, as it is scored without one
    _given_further: Any = None  # samples without labels, while a fit goes on
    _earlier: Any = None  # attributes of the earlier fit, for a warm start, while a fit goes on
    _fit_inputs: ClassVar[tuple[str, ...]] = ()  # attributes that are set for a fit, besides the parameters
    _frames: ClassVar[int] = 0  # calls of a subclass between the caller and `fit`, which warnings pass over

    # -- what a subclass supplies ------------------------------------------------------------

    @abstractmethod
    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        """Solve the binary problem and set the fitted attributes, ``solution_`` and ``n_iter_`` among them.

        `X` (n, m) dense or CSR, `y` of -1 and +1, `weights` (n,) positive; `rows` (n,) are
        the numbers of these samples in the data given to ``fit``.
        """

    @abstractmethod
    def _binary_scores(self, X: Any) -> NDArray[Any]:
        """Scores of samples, positive for ``classes_[1]``."""

    def _warn_if_short(self, certify: Callable[[], Certificate] | None) -> None:
        """Warn of an end short of the tolerance asked, and of an exact solver that was less than exact.

        `certify` makes the binary solution's certificate. It is called for exact solvers, which only claim to
        be exact, and where rounding ended a run, which may have come near enough. It is None where a
        certificate would cost too much.
        """
        if note_interruption(self):
            return  # the whole fit tells it, once
        status = self.solution_.status
        text = "" if status in FINE else str(status)
        exact = self.solver_ == "exact" and (not text or status in (Status.INACCURATE, Status.STALLED))
        if certify is not None and (status is Status.INACCURATE or exact):
            certificate = certify()
            if certificate.claim is not Claim.NONE and certificate.relative_gap <= certificate.tol:
                text = ""
            elif self.solver_ == "exact":
                text = f"Short of exact. {certificate.sentence} Scaling the features to unit variance helps."
        if text:
            warnings.warn(f"{type(self).__name__}: {text}", ConvergenceWarning, stacklevel=4 + self._frames)

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        names: list[str] = super()._get_param_names()  # read off the signature, a tenth of a small fit
        return names

    def _validate_params(self) -> None:
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)

    def _clear_fit(self) -> dict[str, Any]:
        """Remove all attributes of an earlier fit, and return the attributes as they were.

        They are those that end with an underscore, and the private ones that a class declares. Parameters,
        ``_fit_inputs`` and attributes of other packages stay. With ``warm_start`` the earlier ones are in
        ``_earlier``.
        """
        before = self.__dict__
        stay, declared = {*self._get_param_names(), *self._fit_inputs}, self._declared()
        self.__dict__ = {
            name: value
            for name, value in before.items()
            if name in stay or not (name.endswith("_") or name in declared)
        }
        if getattr(self, "warm_start", False):
            self._earlier = before
        return before

    @classmethod
    @cache
    def _declared(cls) -> frozenset[str]:
        """Names of the attributes that this class and its bases declare."""
        bases = [base for base in cls.__mro__ if issubclass(base, Proven)]
        return frozenset(name for base in bases for name in (*vars(base), *inspect.get_annotations(base)))

    @contextmanager
    def _anew(self) -> Iterator[None]:
        """Fit within, without anything of an earlier fit; if that fails, all attributes are as before."""
        before = self._clear_fit()
        try:
            yield
        except BaseException:  # Ctrl-C as well
            self.__dict__ = before
            raise
        self.__dict__.pop("_earlier", None)

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        """A clone for the pairs of a multi-class problem; what depends on all of X is resolved first."""
        machine = clone(self)
        return machine.set_params(
            **{name: None for name in ("class_weight", "n_jobs") if name in machine.get_params()}
        )

    def _heard(self, part: str = "") -> AbstractContextManager[None]:
        """With ``verbose``, what is done within is told, a line a second."""
        is_told = getattr(self, "verbose", False)
        return heard_by(printer(type(self).__name__ + part) if is_told else None)

    def _at_once(self) -> str:
        """The solver that is the first to have a point, for a pair to which no time is left."""
        return "auto"

    # -- scikit-learn's methods --------------------------------------------------------------

    def fit(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier.

        Nothing of an earlier fit is left, but what ``warm_start`` begins from. A fit that fails leaves the
        classifier as it was.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (n, m)
            Training samples (a Gram matrix for a precomputed kernel).
        y : array_like of shape (n,)
            Labels of two or more classes, of any type.
        sample_weight : array_like of shape (n,), optional
            Non-negative weights; a weight of 2 is the same as giving the sample twice, a weight of 0
            the same as leaving it out.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            A parameter out of its range, data that are not finite, or fewer than two classes.
        """
        self._validate_params()
        with self._anew():
            self._asked = self.get_params(deep=False)
            # A copy: the model and its certificate must outlive what the caller does to X.
            samples, labels = validated_pair(
                self, X, y, accept_sparse=self._accept_sparse, dtype=self._dtypes, copy=True
            )
            check_targets(type(self).__name__, labels)
            weights = checked_weights(sample_weight, samples)
            # A sample without weight is left out, and so is a class that has no other.
            rows = np.flatnonzero(weights > 0)
            self.classes_, codes = np.unique(labels[rows], return_inverse=True)
            if 2 * len(self.classes_) > len(labels):
                check_classification_targets(labels)  # warns: these may be no labels
            if len(self.classes_) < 2:
                raise ValueError(
                    f"{type(self).__name__} needs samples of at least two classes with positive weight; "
                    f"the data has one class: {self.classes_.tolist()}"
                )
            weights = weights[rows] * self._class_weights(codes, weights[rows])[codes]
            check_total(weights)
            samples, codes, weights, rows = self._with_further(
                self._select(samples, rows), codes, weights, rows, len(labels)
            )
            with running(Clock()) as fit, self._heard(), broken_off():
                if len(self.classes_) == 2:
                    signs = np.where(codes == 1, 1.0, -1.0)
                    whole = Clock(getattr(self, "time_limit", None))
                    self._fit_binary(samples, signs, weights, rows)
                    note_interruption(self)
                    self._calibrate(samples, signs, weights, whole)
                else:
                    self._fit_pairs(samples, codes, weights, rows)
                if fit.is_stopped:
                    warn_of_interruption(self)
            self._settle()
        return self

    def _calibrate(self, X: Any, y: NDArray[Any], weights: NDArray[Any], whole: Clock) -> None:
        """Find probabilities for the binary machine just fitted, where they are asked for, in time left."""

    def _settle(self) -> None:
        """What is left to do once all pairs of classes are fitted."""

    def _with_further(
        self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any], n: int
    ) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The samples, and after them those without a label that the machine has: of the class -1, weight 0.

        `n` is the number of samples given to ``fit``, from which on the others are numbered.
        """
        return X, codes, weights, rows

    def _class_weights(self, codes: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
        return class_weights(self.class_weight, self.classes_, codes, weights)

    def _select(self, X: Any, rows: NDArray[Any]) -> Any:
        """The samples `rows`; for a Gram matrix, their rows and columns."""
        if len(rows) == X.shape[0]:
            return X
        return X[np.ix_(rows, rows)] if self.__sklearn_tags__().input_tags.pairwise else X[rows]

    def _fit_pairs(self, X: Any, codes: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        pairs = list(combinations(range(len(self.classes_)), 2))
        machine = self._for_pairs(X, weights)
        asked, machines = machine.get_params(deep=False), [machine] * len(pairs)
        earlier = (self._earlier or {}).get("estimators_", ())
        if len(earlier) == len(pairs):
            machines = earlier  # each begins with what it found
        machines = [copy(each).set_params(**asked) for each in machines]
        whole = Clock(getattr(self, "time_limit", None))
        # The arrays go to the workers as they are (memory-mapped, if they are large); each takes its rows.
        tasks = [
            Pair(machine, X, codes, weights, pair, Part("pair", number, len(pairs), whole, self.n_jobs))
            for number, (machine, pair) in enumerate(zip(machines, pairs, strict=True))
        ]
        self.estimators_ = deal(fit_pair, tasks, self.n_jobs, "pair")
        self.pairs_ = [(self.classes_[i], self.classes_[j]) for i, j in pairs]
        self._rows = rows
        self._pair_places = [places_of(pair, codes) for pair in pairs]
        self.n_iter_ = max(estimator.n_iter_ for estimator in self.estimators_)
        self.solution_ = [estimator.solution_ for estimator in self.estimators_]

    @property
    def _accept_sparse(self) -> str | bool:
        return "csr" if self.__sklearn_tags__().input_tags.sparse else False

    def _prepared(self, X: SamplesLike) -> tuple[Self, Any]:
        """The model as it was fitted, and samples as it scores them."""
        check_is_fitted(self)
        model = self._as_fitted()
        return model, model._scorable(X)

    def _scorable(self, X: SamplesLike) -> Any:
        """Samples as they are scored: of the training data's features, finite."""
        return validated(self, X, accept_sparse=self._accept_sparse, dtype=self._scored_dtypes, reset=False)

    def decision_function(self, X: SamplesLike) -> NDArray[Any]:
        """Scores of samples.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples to be scored.

        Returns
        -------
        ndarray of shape (t,) or (t, n_classes)
            Two classes: positive for ``classes_[1]``. More: votes of the pairs, ties broken by the
            sum of their scores, as scikit-learn's one-vs-one wrapper does.
        """
        model, samples = self._prepared(X)
        return model._scores(samples)

    def _scores(self, X: Any) -> NDArray[Any]:
        """Scores of samples that were checked."""
        return self._binary_scores(X) if self._is_binary else self._votes(self._pair_scores(X))

    def _pair_scores(self, X: Any) -> NDArray[Any]:
        """Scores of the pairs of classes, a column each, positive for a pair's second class."""
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        return np.column_stack(
            [
                estimator._as_fitted()._scores(X[:, self._rows[places]] if pairwise else X)
                for estimator, places in zip(self.estimators_, self._pair_places, strict=True)
            ]
        )

    def _labels(self, X: Any) -> NDArray[np.intp]:
        """Numbers of the classes of samples that were checked."""
        scores = self._scores(X)
        return (scores > 0).astype(np.intp) if self._is_binary else scores.argmax(axis=1)

    def _votes(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Scores of the classes from those of the pairs, positive for the second class of a pair."""
        return _ovr_decision_function(scores > 0, scores, len(self.classes_))

    def predict(self, X: SamplesLike) -> NDArray[Any]:
        """Predicted labels.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples to be classified.

        Returns
        -------
        ndarray of shape (t,)
            Labels from ``classes_``. Two classes: ``classes_[1]`` if the score is positive, ``classes_[0]``
            if it is 0 or negative; so a point on a face is inside if ``classes_[0]`` is the class inside.
            More: each pair votes by the same rule, and the class with the most votes is taken.
        """
        model, samples = self._prepared(X)
        return self.classes_[model._labels(samples)]

    @property
    def predict_proba(self) -> Any:
        """Nothing: a classifier of scores alone has no probabilities.

        Raises
        ------
        AttributeError
            Always; it names the way to probabilities.
        """
        name = type(self).__name__
        raise AttributeError(
            f"{name} gives scores and no probabilities. For predict_proba fit "
            f"sklearn.calibration.CalibratedClassifierCV({name}(...))"
        )

    def score(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on samples.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples.
        y : array_like of shape (t,)
            Their labels.
        sample_weight : array_like of shape (t,), optional
            Weights of the samples.
        """
        refuse_masked("y", y)
        refuse_masked("sample_weight", sample_weight)
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- without the data --------------------------------------------------------------------

    def without_data(self) -> Self:
        """A copy that predicts, and has its faces or its support vectors, but holds no other training data.

        It cannot be certified and has no ``duals_``. For files, and for machines that only predict.
        """
        check_is_fitted(self)
        light = copy(self)
        if self._is_binary:
            light._drop_data(self)
            return light
        light.estimators_ = [part.without_data() for part in self.estimators_]
        light._drop_data_of_pairs(self)
        light.solution_ = [part.solution_ for part in light.estimators_]
        return light

    def _drop_data(self, whole: Self) -> None:
        """Keep of a binary machine, of which this is a copy, what it answers by."""

    def _drop_data_of_pairs(self, whole: Self) -> None:
        """The same for what a machine of pairs of classes has beside its pairs, which are light already."""

    def _keep_no_solution(self, whole: Self) -> None:
        """Keep of the whole machine's solution how it ended, without its vectors and its history."""
        self.solution_: Any = replace(whole.solution_, primal={}, duals={}, history=(), runs=())

    # -- for other programs ------------------------------------------------------------------

    def to_onnx(self) -> ModelProto:
        """The fitted machine as an ONNX model, in double precision (opset 19).

        It takes ``X`` (n, m), double, and gives ``label`` (n,) and ``scores``: (n,) of two classes, (n,
        n_classes) of more, as ``predict`` and ``decision_function`` do; and ``probabilities`` (n, n_classes),
        as ``predict_proba``, where the model has them. A pipeline is exported by
        :class:`polyopt.models.Model`.

        Raises
        ------
        ValueError
            Where the package onnx is not installed, or for a machine that has no such graph: with a kernel
            that is a function or a Gram matrix, or with ties that are broken at random.
        """
        from polyopt.base.onnx_graph import Graph

        check_is_fitted(self)
        graph = Graph()
        outputs = self.draw(graph, graph.input("X", int(self.n_features_in_)))
        return graph.model(outputs, {"machine": type(self).__name__})

    def draw(self, graph: Graph, x: str) -> dict[str, tuple[str, str, int | None]]:
        """Draw the machine into a graph, and name its outputs ``label``, ``scores`` and ``probabilities``.

        Parameters
        ----------
        graph : Graph
            A graph.
        x : str
            Its tensor of the features that this machine sees.
        """
        machine = self._as_fitted().without_data()
        n_classes = len(machine.classes_)
        if machine._is_binary:
            scores, is_second, second = machine._draw_two(graph, x)
            number = graph.op("Cast", is_second, to=7)  # int64
            flat = graph.constant(np.array([-1]))
            scores, number = graph.op("Reshape", scores, flat), graph.op("Reshape", number, flat)
            if second is not None:
                first = graph.op("Sub", graph.constant(1.0), second)
                second = graph.op("Concat", first, second, axis=1)
            probabilities = second
        else:
            scores, number, probabilities = machine._draw_many(graph, x)
        kinds = {"i": "int64", "u": "int64", "f": "double", "b": "bool"}
        kind = kinds.get(machine.classes_.dtype.kind, "string")
        outputs = {
            "label": (graph.op("Gather", graph.constant(machine.classes_), number), kind, None),
            "scores": (scores, "double", None if machine._is_binary else n_classes),
        }
        if probabilities is not None:
            outputs["probabilities"] = (probabilities, "double", n_classes)
        return outputs

    def _draw_two(self, graph: Graph, x: str) -> tuple[str, str, str | None]:
        """Of two classes: scores, whether they are of the second, and its probability; each (n, 1)."""
        scores = self._draw_scores(graph, x)
        return scores, self._draw_second(graph, scores), None

    def _draw_many(self, graph: Graph, x: str) -> tuple[str, str, str | None]:
        """Of more classes: their scores (n, n_classes), the answer's number (n,), and their probabilities."""
        scores = self._draw_votes(graph, self._draw_pairs(graph, x))
        return scores, graph.op("ArgMax", scores, axis=1, keepdims=0), None

    def _draw_scores(self, graph: Graph, x: str) -> str:
        """Scores (n, 1) of a binary machine."""
        raise ValueError(f"{type(self).__name__} has no ONNX graph")

    def _draw_pairs(self, graph: Graph, x: str) -> str:
        """Scores (n, pairs) of the pairs of classes."""
        parts = [part._as_fitted()._draw_scores(graph, x) for part in self.estimators_]
        return graph.op("Concat", *parts, axis=1)

    def _draw_second(self, graph: Graph, scores: str) -> str:
        """Whether scores are of the second class."""
        return graph.op("Greater", scores, graph.constant(0.0))

    def _draw_votes(self, graph: Graph, scores: str) -> str:
        """Scores of the classes: votes of the pairs, and less than a third of one by the sum of scores."""
        first, second = self._sides_of_pairs()
        won = graph.op("Cast", self._draw_second(graph, scores), to=11)  # double
        votes = graph.op("MatMul", won, graph.constant(second - first))
        votes = graph.op("Add", votes, graph.constant(first.sum(axis=0)))
        total = graph.op("MatMul", scores, graph.constant(second - first))
        size = graph.op("Add", graph.op("Abs", total), graph.constant(1.0))
        share = graph.op("Div", total, graph.op("Mul", graph.constant(3.0), size))
        return graph.op("Add", votes, share)

    def _sides_of_pairs(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The first and the second class of each pair, as rows of an identity."""
        pairs = np.array(list(combinations(range(len(self.classes_)), 2)))
        each = np.eye(len(self.classes_))
        return each[pairs[:, 0]], each[pairs[:, 1]]


def places_of(pair: tuple[int, int], codes: NDArray[Any]) -> NDArray[np.intp]:
    """The places of the samples that a pair of classes has: those of both, and those without a label.

    pair: the two classes.
    codes (n,): the number of each sample's class; -1 for none.
    """
    return np.flatnonzero((codes == pair[0]) | (codes == pair[1]) | (codes < 0))


class Pair(NamedTuple):
    """One machine to be fitted to two of the classes in data that were checked; the second is +1.

    Attributes
    ----------
    machine : estimator
        The machine.
    X, codes, weights : array
        All samples, the numbers of their classes (-1 for none), and their weights.
    pair : tuple of int
        The two classes.
    part : Part
        Its place in the whole fit.
    """

    machine: Any
    X: Any
    codes: NDArray[Any]
    weights: NDArray[Any]
    pair: tuple[int, int]
    part: Part

    def fit(self) -> Any:
        """The fitted machine. The seconds of the whole fit are shared by the pairs."""
        machine = self.machine
        machine._clear_fit()
        machine._asked = machine.get_params(deep=False)
        places = places_of(self.pair, self.codes)
        machine.classes_ = np.array(self.pair)
        samples = machine._select(self.X, places)
        y = np.where(self.codes[places] == self.pair[1], 1.0, -1.0)
        machine.n_features_in_ = samples.shape[1]
        weights = self.weights[places]
        with self.part.of_fit(machine):
            whole = Clock(getattr(machine, "time_limit", None))
            machine._fit_binary(samples, y, weights, np.arange(len(places)))
            note_interruption(machine)
            machine._calibrate(samples, y, weights, whole)
        vars(machine).pop("_earlier", None)
        return machine


def fit_pair(task: Pair) -> Any:
    """Fit a pair; when all is over, by the solver that is the first to have a point.

    task: the pair.
    Returns: its machine.
    """
    if not task.part.whole.is_over:
        try:
            return task.fit()
        except RuntimeError:
            if not task.part.whole.is_over:
                raise
    machine = task.machine
    if "solver" in machine.get_params(deep=False):
        machine.set_params(solver=machine._at_once())
    return task.fit()
