"""The estimator LogisticPolytopes: each class has faces, and the log-odds are a difference of maxima.

Faces are numbered with those of ``classes_[0]``, the class -1, first. A class without faces has a zero face
in the solver's solution, with the score 0, which ``W_`` and ``b_`` leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from formulations.class_faces import BIAS_RIDGE, Owners
from formulations.language.arguments import whole_or_none
from formulations.language.solution import Solution
from formulations.polyhedral import scores
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import ClassWeight, Seed
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.face_penalty import FacePenalty
from polyopt.estimators.faces import FaceClassifier
from polyopt.estimators.parameters import CheckedBy, Settings, checked_by, estimator, shared
from polyopt.linalg.used_features import UsedFeatures
from polyopt.polyhedral.logistic_certificate import certify_logistic_polytopes

if TYPE_CHECKING:
    import pandas as pd

    from polyopt.polytope import Polytope

    Array = NDArray[np.float64]


def owners_of(n_faces: object) -> Owners:
    """Return the numbers of faces of the classes, from one number for both or a pair of numbers."""
    if isinstance(n_faces, Integral) and not isinstance(n_faces, bool):
        return Owners(int(n_faces), int(n_faces))
    if isinstance(n_faces, Sequence) and not isinstance(n_faces, str) and len(n_faces) == 2:
        return Owners(*n_faces)
    raise ValueError(f"n_faces must be a whole number, or two of them, one for each class, not {n_faces!r}")


@estimator
class LogisticPolytopes(FaceClassifier):
    """Classifier whose log-odds are the largest score of one class's faces less that of the other's.

    ``log P(classes_[1] | x) / P(classes_[0] | x) = max_k (w_k'x + b_k) - max_l (w_l'x + b_l)``, k over the
    faces of ``classes_[1]`` and l over those of ``classes_[0]``; a class without faces has the score 0. The
    class of the face with the largest score is predicted. Minimises the negative log-likelihood plus
    ``ridge/2 Σ ||w||²``, a hundredth of that for the biases and, by `penalty`, ``l1 Σ |w|`` and ``group``
    times the norms of the features' weights over all faces (:mod:`formulations.logistic_polytopes`). One face
    against none is logistic regression. The problem is not convex if a class has more than one face.

    The class with fewer faces, or ``classes_[0]`` if both have equally many, is called the class inside. If
    that class has at most one face, its region is a polytope (``polytope_``), else a union of polytopes
    (``polytopes_``).

    Parameters
    ----------
    n_faces : int or tuple of two int, default=3
        Number of faces of each class, or numbers for ``classes_[0]`` and ``classes_[1]``.
    ridge : float, default=0.1
        ρ, positive: factor of half the squared norm of the faces; the loss is a weighted sum over samples.
    penalty : FacePenalty, optional
        Penalties on weights (`l1`, `group`, `feature_groups`) and sign constraints (`signs`).
    max_numbers : int, optional
        Largest number of nonzero weights and biases, at least one for every face; by default there is no
        limit. Weights whose removal raises the loss the least are fixed at 0 until the limit is met; unlike
        an ℓ1 penalty this does not shrink the others. With more than two classes the limit is divided equally
        between the pairs.
    solver : {"auto", "newton", "exact"}, default="auto"
        How the best point of the descents is made stationary: "newton" by Newton's method on a smoothed
        objective, with less and less smoothing; "exact" by the explicit program of
        ``formulations.logistic_polytopes``, for one assignment after the other. "auto" is "newton".
    n_init : int, default=4
        Random starts, of which the best is kept.
    max_iter : int, default=2000
        Largest number of iterations per start: of L-BFGS in the descent and, for the best start, of Newton's
        method or rounds of the explicit program ("exact") after it, all together. Descents during the
        elimination of weights for `max_numbers` are not counted.
    tol : float, default=1e-6
        Relative gap to the bound for the assignment at which "newton" stops.

    Attributes
    ----------
    W_, b_ : ndarray of shape (K, m), (K,)
        The faces, in the units of X: those of ``classes_[0]``, then those of ``classes_[1]`` (two classes).
    face_classes_ : ndarray of shape (K,)
        The class of each face.
    assignment_ : ndarray of int, shape (n,)
        The face of its own class with the largest score for each sample, -1 if its class has no faces.
    n_numbers_ : int
        Number of nonzero weights and biases.
    duals_ : pandas.DataFrame
        One row per sample and face of the other class, in input order: the multiplier of the margin
        constraint, the derivative of the loss by the score of that face.
    history_ : pandas.DataFrame
        One row per iteration of every start. Rows of a descent have the smoothed objective and its softness;
        the last of them, and the rows after the descent, have the objective.

    Examples
    --------
    >>> from polyopt import LogisticPolytopes, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = LogisticPolytopes(2, n_init=1, random_state=0).fit(data.X, data.y)
    >>> machine.predict_proba(data.X).shape
    (351, 2)
    >>> machine.score(data.X, data.y) > 0.9
    True
    """

    n_faces: int | tuple[int, int] = 3
    _: KW_ONLY
    ridge: float = 0.1
    penalty: FacePenalty | None = None
    max_numbers: int | None = None
    solver: str = "auto"
    n_init: int = 4
    max_iter: int = 2000
    tol: float = 1e-6
    time_limit: float | None = None
    class_weight: ClassWeight = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: bool | int = False

    _models_probabilities: ClassVar[bool] = True
    _settings: ClassVar[dict[str, type[Settings]]] = {"penalty": FacePenalty}
    _fit_inputs: ClassVar[tuple[str, ...]] = ("_knots",)
    _is_plus: NDArray[np.bool_] = field(init=False)  # (K,), True for a face of ``classes_[1]``
    _owners: Owners | None = field(init=False, default=None)
    _knots: Array | None = field(init=False, default=None)  # (m,), numbers that define a feature itself

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **shared(
            "ridge", "n_init", "max_iter", "tol", "time_limit", "class_weight", "random_state", "n_jobs",
            "verbose",
        ),
        "n_faces": [CheckedBy(owners_of)],
        "penalty": [FacePenalty, None],
        "max_numbers": checked_by("max_numbers", whole_or_none),
        "solver": [StrOptions({"auto", "newton", "exact"})],
    }  # fmt: skip

    # -- fitting -----------------------------------------------------------------------------

    def _validate_params(self) -> None:
        super()._validate_params()
        penalty = self.penalty or FacePenalty()
        for name, default in FacePenalty().get_params().items():
            is_supported = name in ("l1", "signs", "group", "feature_groups")
            if not is_supported and getattr(penalty, name) != default:
                raise ValueError(f"LogisticPolytopes has no {name}: leave penalty__{name} at {default!r}")

    def _fit_binary(self, X: Any, y: Array, weights: Array, rows: NDArray[np.int64]) -> None:
        from polyopt.polyhedral.logistic_loss import FaceLoss
        from polyopt.polyhedral.logistic_polytopes import solve_logistic_polytopes

        self._check_sizes(X, weights)
        self._advise_scaling(X)
        used = UsedFeatures.of(X)
        penalty = self._asked_penalty.of_features(used.m, self._names()).of_features(used.columns)
        self._owners = owners_of(self.n_faces)
        problem = FaceLoss(
            used.samples(X), y, weights, self._owners, self.ridge, BIAS_RIDGE * self.ridge, penalty
        )
        self.solver_ = "newton" if self.solver == "auto" else self.solver
        n_faces = int(problem.owners.free.sum())
        if self.max_numbers is not None and self.max_numbers < n_faces:
            raise ValueError(
                f"max_numbers must leave a number for each of the {n_faces} faces of a pair of classes, "
                f"not {self.max_numbers}"
            )
        self._X, self._y, self._rows, self._costs = X, y, rows, weights
        solution = solve_logistic_polytopes(
            problem, method=self.solver_, n_init=self.n_init, max_iter=self.max_iter, tol=self.tol,
            time_limit=self.time_limit, seed=self._seed(), n_jobs=self.n_jobs,
            max_numbers=self.max_numbers, knots=None if self._knots is None else self._knots[used.columns],
        )  # fmt: skip
        self._set_solution(used.solution(solution))
        self._assignment = self._face_numbers[self.solution_["assignment"]]
        self._warn_if_empty(self.solution_["W"])
        self._warn_if_incomplete(lambda: self._binary_certificate(max(self.tol, 1e-6)))

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        machine = super()._for_pairs(X, weights)
        machine._knots = self._knots
        if self.max_numbers is not None:
            pairs = len(self.classes_) * (len(self.classes_) - 1) // 2
            machine.set_params(max_numbers=max(self.max_numbers // pairs, 1))
        return machine

    def count_knots(self, knots: Array) -> Self:
        """Let the next fit count the numbers that define a feature itself, once for all faces.

        Parameters
        ----------
        knots : ndarray of int, shape (m,)
            Their count for each feature: 1 for ``max(0, age - 40)``, 0 for ``age``.
        """
        self._knots = knots
        return self

    @property
    def _face_numbers(self) -> NDArray[np.int64]:
        """The row (K,) of ``W_`` for each of the solver's faces; -1 for a zero face."""
        assert self._owners is not None
        return np.where(self._owners.free, np.cumsum(self._owners.free) - 1, -1)

    def _set_solution(self, solution: Solution) -> None:
        """Set the fitted attributes from the solution; ``W_`` and ``b_`` leave out zero faces."""
        assert self._owners is not None
        free = self._owners.free
        self.solution_ = solution
        self.n_iter_ = max(solution.iterations, 1)
        W = solution["W"][free]
        self.W_, self.b_ = W[:, :-1], W[:, -1]
        self._is_plus = self._owners.classes[free] > 0
        inside_is_minus = self._owners.minus <= self._owners.plus  # classes_[0] has the label -1
        self._side = 1.0 if inside_is_minus else -1.0

    # -- predictions ---------------------------------------------------------------------------

    @property
    def face_classes_(self) -> NDArray[Any]:
        """The class (K,) of every face (binary problems)."""
        check_is_fitted(self)
        return self.classes_[self._is_plus.astype(int)]

    @property
    def n_numbers_(self) -> int:
        """Number of nonzero weights and biases, and of knots (:meth:`count_knots`)."""
        from polyopt.polyhedral.logistic_descent import count_numbers

        check_is_fitted(self)
        if not self._is_binary:
            return sum(pair.n_numbers_ for pair in self.estimators_)
        return count_numbers(np.column_stack([self.W_, self.b_]), self._knots)

    def _binary_scores(self, X: Any) -> Array:
        outputs = self._scores_of_faces(X)
        n_minus = int(np.sum(~self._is_plus))
        minus, plus = (s.max(axis=1) if s.size else 0.0 for s in np.split(outputs, [n_minus], axis=1))
        return np.asarray(plus - minus)

    def _faces_of(self, plus: bool) -> Array:
        """Return the faces (k, m+1) of a class, or one zero face."""
        faces = np.column_stack([self.W_, self.b_])[self._is_plus == plus]
        return faces if len(faces) else np.zeros((1, self.W_.shape[1] + 1))

    def _draw_scores(self, graph: Graph, x: str) -> str:
        plus, minus = (
            graph.over_columns("ReduceMax", graph.affine(x, faces[:, :-1], faces[:, -1]))
            for faces in (self._faces_of(True), self._faces_of(False))
        )
        return graph.op("Sub", plus, minus)

    # -- polytopes ---------------------------------------------------------------------------

    @property
    def _is_one_polytope(self) -> bool:
        return (
            self._is_binary and self._owners is not None and min(self._owners.minus, self._owners.plus) <= 1
        )

    def _label(self, outside: bool) -> Any:
        """Return the class outside or inside; here the class inside may have several polytopes."""
        check_is_fitted(self)
        if not self._is_binary:
            raise AttributeError("a class inside is of two classes: ask the machines in estimators_")
        return self.classes_[int(outside == (self._side > 0))]

    @property
    def polytope_(self) -> Polytope:
        """The region of the class inside if it has at most one face, in the units of X."""
        self._need_one_polytope("polytope_")
        return self._polytopes_of(self._side < 0)[0]

    @property
    def polytopes_(self) -> list[Polytope]:
        """Polytopes whose union is the region of the class inside, if both classes have several faces."""
        check_is_fitted(self)
        if not self._is_binary or self._is_one_polytope:
            raise AttributeError("polytopes_ is of two classes with several faces each: see polytope_")
        return self._polytopes_of(self._side < 0)

    def _polytopes_of(self, plus: bool) -> list[Polytope]:
        """Return a polytope for each face of a class: where its score exceeds those of the other class."""
        from polyopt.polytope import Polytope

        others = self._faces_of(not plus)
        centre, spread = self._typical_values() or (None, None)
        names = getattr(self, "feature_names_in_", None)
        closed = not plus  # a score of 0 is of classes_[0]
        return [
            Polytope(differences[:, :-1], differences[:, -1], names, spread, centre, closed)
            for differences in (others - w for w in self._faces_of(plus))
        ]

    # -- certificate and duals ---------------------------------------------------------------

    def _binary_certificate(self, tol: float) -> Certificate:
        assert self._owners is not None
        penalty = self._asked_penalty.of_features(self._X.shape[1], self._names())
        return certify_logistic_polytopes(
            self._X, self._y, self.solution_["W"], n_faces=(self._owners.minus, self._owners.plus),
            ridge=self._asked["ridge"], l1=penalty.l1, group=penalty.group, C=self._costs, tol=tol,
            signs=penalty.signs if penalty.signs.any() else None,
            groups=penalty.groups if penalty.group else None,
            alpha=self.solution_.duals["margin"], assignment=self.solution_["assignment"],
            support=self.solution_.primal.get("support"),
        )  # fmt: skip

    def _binary_duals(self) -> pd.DataFrame:
        import pandas as pd

        assert self._owners is not None
        row, face = np.nonzero(self._owners.other_class(self._y))
        multiplier, cost = self.solution_.duals["margin"][row, face], self._costs[row]
        s = scores(self._X, self.solution_["W"])
        # The multiplier is 0 up to rounding, below half of the cost, or above.
        is_weak = [multiplier <= 1e-9 * cost, multiplier < 0.5 * cost]
        return pd.DataFrame(
            {
                "row": "margin",
                "letter": "alpha",
                "sample": self._rows[row],
                "face": self._face_numbers[face],
                "label": self.classes_[(self._y[row] > 0).astype(int)],
                "multiplier": multiplier,
                "output": s[row, face],
                "state": np.select(is_weak, ["off", "pulls"], "pulls hard"),
            }
        )
