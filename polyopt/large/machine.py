"""Linear machines of any number of samples: exact, certified, the same bits whoever holds the blocks."""

from __future__ import annotations

import warnings
from hashlib import sha256
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted, validate_data

from formulations.clock import Run
from formulations.families import hinge_families
from formulations.runs import one_run
from polyopt.certificates.hinge_blocks import certify_blocks
from polyopt.estimators.parameters import check_parameters, shared
from polyopt.estimators.status import FINE
from polyopt.estimators.weights import class_weights
from polyopt.large import checkpoint as files
from polyopt.large.held import Hands, Here
from polyopt.large.parts import Looked, Recipe
from polyopt.large.sources import Arrays, Source
from polyopt.solvers.clock import Clock
from polyopt.solvers.interior_point.crew import Crew
from polyopt.solvers.interior_point.driver import solve_problem
from polyopt.solvers.interior_point.problem import Problem, state
from polyopt.solvers.progress import printer
from polyopt.watch import counted, heard_by, listener

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from formulations.solution import Solution
    from polyopt.certificates.certificate import Certificate
    from polyopt.estimators.given import ClassWeight, SamplesLike

_TOLERANCE = 1e-6  # of a certificate, as of one in memory

__all__ = ["LargeMachine"]


class LargeMachine(ClassifierMixin, BaseEstimator):
    """Base of the linear machines whose samples are read by blocks.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack; positive.
    tol : float, default=1e-8
        Relative duality gap at which a fit ends.
    max_iter : int, optional
        Iterations at most; the point reached is kept.
    time_limit : float, optional
        Seconds for the whole fit; the point reached is kept.
    class_weight : dict or "balanced", optional
        Weights of the classes; they multiply the samples' weights.
    verbose : bool or int, default=False
        Whether to print the progress, a line a second, on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_, intercept_ : ndarray of shape (pairs, m), (pairs,)
        The hyperplanes: one for two classes, else one for each pair, in the order of `pairs_`.
    pairs_ : list of tuple
        The classes of each hyperplane; the second is on its positive side.
    certificates_, solutions_ : list
        The proof of each hyperplane, and how its solver ended.
    n_iter_, n_features_in_ : int
        Iterations, the most of all; features.
    """

    _title: ClassVar[str]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = shared(
        "C", "tol", "time_limit", "class_weight", "verbose", optional=["max_iter"]
    )

    C: float
    tol: float
    max_iter: int | None
    time_limit: float | None
    class_weight: ClassWeight
    verbose: bool | int

    _D: ClassVar[str | None] = None  # the name of the Sigma-SVM's share
    _B: ClassVar[str | None] = None  # and of the bound on outputs

    def fit(
        self,
        X: SamplesLike | Source,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
    ) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : Source, or array_like or sparse matrix of shape (n, m)
            Training samples: a source of :mod:`polyopt.large.sources` with labels and weights, or arrays.
        y : array_like of shape (n,), optional
            Labels of two or more classes; none for a source.
        sample_weight : array_like of shape (n,), optional
            Non-negative weights; none for a source.
        checkpoint : str or Path, optional
            A file to be written after every iteration, some vectors of the size of w for each of them. One
            that cannot be written in the midst of a fit, on a full disk, is a warning.
        resume : str or Path, optional
            A checkpoint to go on from, of the same machine and blocks. It ends with the same bits. Both are
            for two classes.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            A parameter out of its range, data that are not finite or do not fit (the block and its row are
            named), fewer than two classes, or a checkpoint of something else or in no folder.
        """
        check_parameters(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)
        hands = self._hands(X, y, sample_weight)
        try:
            with one_run() as run, heard_by(printer(type(self).__name__) if self.verbose else None):
                self._fit(hands, Run(self.time_limit, run), checkpoint, resume)
        finally:
            hands.close()
        return self

    def _hands(self, X: Any, y: Any, sample_weight: Any) -> Hands:
        """Who reads the blocks."""
        return Here(self._source(X, y, sample_weight))

    def _source(self, X: Any, y: Any, sample_weight: Any) -> Source:
        """What the blocks are read from."""
        if isinstance(X, Source):
            if y is not None or sample_weight is not None:
                raise ValueError("a source has labels and weights itself: leave y and sample_weight out")
            return X
        if y is None:
            raise ValueError(f"{type(self).__name__} needs labels y, or a source that has them")
        return Arrays(X, y, sample_weight)

    def _fit(
        self, hands: Hands, whole: Run, checkpoint: str | Path | None, resume: str | Path | None
    ) -> None:
        looks = hands.look()
        weights = self._read(looks)
        factors = class_weights(self.class_weight, self.classes_, np.arange(len(weights)), weights)
        pairs = list(combinations(range(len(self.classes_)), 2))
        if len(pairs) > 1 and (checkpoint is not None or resume is not None):
            raise ValueError(f"a checkpoint is of one pair of classes, and there are {len(pairs)}")
        self._is_sparse = looks[0].is_sparse
        self.pairs_ = [(self.classes_[i], self.classes_[j]) for i, j in pairs]
        self.coef_, self.intercept_ = np.zeros((len(pairs), self.n_features_in_)), np.zeros(len(pairs))
        self.solutions_: list[Solution] = []
        self.certificates_: list[Certificate] = []
        for number, (i, j) in enumerate(counted(pairs, len(pairs), "pair")):
            recipe = Recipe(
                self.pairs_[number],
                (float(factors[i]), float(factors[j])),
                float(self.C),
                np.inf if self._B is None else float(getattr(self, self._B)),
            )
            left = whole.left
            clock = Clock(None if left is None else left / (len(pairs) - number))
            self._fit_pair(number, hands.crew(recipe), recipe, clock, checkpoint, resume)
        self.n_iter_ = max(max(each.iterations for each in self.solutions_), 1)
        self._warn_if_short()

    def _read(self, looks: list[Looked]) -> NDArray[Any]:
        """Set the classes and the number of features; give the weight of each class."""
        for each in looks:
            if each.problem:
                raise ValueError(each.problem)
        widths = {each.m for each in looks}
        if len(widths) > 1:
            raise ValueError(f"all partitions need as many features; there are some with {sorted(widths)}")
        if len({each.is_sparse for each in looks}) > 1:
            raise ValueError("partitions must be all dense or all sparse")
        self.n_features_in_ = looks[0].m
        self.classes_ = np.unique(
            np.concatenate([each.labels for each in looks if len(each.labels)] or [np.zeros(0)])
        )
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least two classes with positive weight; "
                f"the data has {self.classes_.tolist()}"
            )
        weights = np.zeros(len(self.classes_))
        for each in looks:
            weights[self.classes_.searchsorted(each.labels)] += each.weights
        return weights

    def _fit_pair(
        self, number: int, crew: Crew, recipe: Recipe, clock: Clock, checkpoint: Any, resume: Any
    ) -> None:
        D = None if self._D is None else float(getattr(self, self._D))
        problem = state(crew, 1, D)
        about = self._about(problem, recipe)
        known = None
        if resume is not None:
            crew.log[:], known = files.load(resume, about)
        save = None if checkpoint is None else files.Saver(checkpoint, crew.log, about)
        found = solve_problem(problem, self.tol, self.max_iter, clock, listener(), save, known)
        w, b = found["w"], float(found["b"])
        if problem.is_centred:
            b -= float(problem.shift @ w)
        self.coef_[number], self.intercept_[number] = w, b
        self.solutions_.append(found)
        self.certificates_.append(
            certify_blocks(
                self._title,
                lambda *step: crew.ask("prove", *step),
                hinge_families(np.array([1.0, -1.0]), recipe.C, recipe.B),
                v=w,
                b=b,
                centre=None if self._is_sparse else problem.shift,
                D=D,
                tol=max(self.tol, _TOLERANCE),
            )
        )

    def _about(self, problem: Problem, recipe: Recipe) -> dict[str, Any]:
        """What a checkpoint must be of, to be gone on from."""
        return {
            "machine": self._title,
            "samples": problem.facts.n,
            "features": problem.facts.m,
            "blocks": problem.crew.count,
            "C": recipe.C,
            "B": repr(recipe.B),
            "D": None if self._D is None else float(getattr(self, self._D)),
            "digest": sha256(problem.shift.tobytes() + problem.facts.costs.hex().encode()).hexdigest()[:16],
        }

    def _warn_if_short(self) -> None:
        for found, proof in zip(self.solutions_, self.certificates_, strict=True):
            if found.status not in FINE:
                text = str(found.status)
            elif not proof.is_optimal:
                text = f"Short of the tolerance. {proof.sentence}"
            else:
                continue
            warnings.warn(f"{type(self).__name__}: {text}", ConvergenceWarning, stacklevel=4)
            return

    def certificate(self) -> Certificate | list[Certificate]:
        """The proof, made at the end of the fit where the samples were; one for each pair."""
        check_is_fitted(self)
        return self.certificates_[0] if len(self.certificates_) == 1 else list(self.certificates_)

    # -- answering -------------------------------------------------------------------------------

    def decision_function(self, X: SamplesLike) -> Any:
        """Scores of samples.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t,) or (t, n_classes)
            Two classes: positive for ``classes_[1]``. More: votes of the pairs, ties broken by the sum of
            their scores.
        """
        check_is_fitted(self)
        return self._scores(validate_data(self, X, accept_sparse="csr", reset=False))

    def _scores(self, X: Any) -> NDArray[Any]:
        scores = np.asarray(X @ self.coef_.T) + self.intercept_
        if len(self.pairs_) == 1:
            return scores[:, 0]
        return np.asarray(_ovr_decision_function(scores > 0, scores, len(self.classes_)))

    def predict(self, X: SamplesLike) -> Any:
        """Labels of samples.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t,)
            Labels from ``classes_``.
        """
        return self._labels(self.decision_function(X))

    def _labels(self, scores: NDArray[Any]) -> NDArray[Any]:
        codes = (scores > 0).astype(np.intp) if len(self.pairs_) == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
