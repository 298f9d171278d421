"""The Convex Polytope Machine: one class inside a convex polytope, the other outside of it."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from formulations.polytope import answers, lift, natural_assignment
from formulations.recovery import slacks
from polyopt.certificates.cpm import certify_cpm
from polyopt.estimators.base import PairwiseClassifier

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.polytope import Loss
    from formulations.solution import Solution
    from polyopt.certificates.certificate import Certificate

__all__ = ["ConvexPolytopeMachine"]

# ``solver="auto"`` is exact up to this many entries of the face programs, two or three seconds for all
# starts; each face counts for some entries more, which is what a program costs however small.
_EXACT_CELLS = 30_000
_CELLS_PER_FACE = 1_500
_EXACT_STARTS = 20


class ConvexPolytopeMachine(PairwiseClassifier):
    """Convex Polytope Machine: positives outside a polytope of K faces, negatives inside.

    Scores are ``f(x) = max_k (W_k'x + b_k)``. Minimises, over the faces and over which of them answers
    for each positive, ``||W||² + ||b||² + C Σ ξ``: eq. (6) of [1]_, where a positive pays
    ``[1 - f(x_i)]_+`` and a negative ``Σ_k [1 + W_k'x_i + b_k]_+`` or the largest term of this sum.
    The biases are penalised, as in the paper. The problem is not convex for more than one face.

    Parameters
    ----------
    n_faces : int, default=3
        K, the faces of the polytope; one is a linear support vector machine.
    C : float, default=1.0
        Cost of a unit of slack; positive. Algorithm 1's λ is 2/(nC).
    entropy : float, default=0.0
        Floor of the entropy of the faces in use, in nats, from 0 (off) to ln K, by which Algorithm 2
        keeps faces from falling out of use; its exponential is an effective number of faces. It
        steers the stochastic solver; no program states it.
    outer_label : label, optional
        The class outside, of two; by default ``classes_[1]``.
    loss : {"sum", "max"}, default="sum"
        What a negative pays for: "sum", every face it violates (the paper's unconstrained form, which
        Algorithm 1 minimises); "max", the worst (eq. (6) as printed; exact solver only).
    solver : {"auto", "exact", "sgd"}, default="auto"
        "exact" alternates between assigning positives to faces and solving the program of
        ``formulations.cpm`` for that assignment, to about 1e-10; "sgd" is Algorithms 1 and 2. Both
        minimise the same objective. "auto" is exact on small data and SGD beyond; ``solver_`` says
        which.
    n_init : int or "auto", default="auto"
        Random starts, of which the best is kept; "auto" is 20 for "exact", 1 for "sgd".
    tol : float, default=1e-3
        "sgd" stops once the objective of the second half of its epochs varies by no more than this,
        relative; "exact" stops at a fixed point.
    max_iter : int, default=300
        Rounds ("exact") or epochs ("sgd") at most, per start; the best point is kept.
    time_limit : float, optional
        Seconds at most, per pair of classes; the best point is kept.
    class_weight : dict or "balanced", optional
        Weights of the classes; they multiply the samples' weights.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts and of the order of the samples.
    n_jobs : int, optional
        Starts, or with more than two classes pairs of classes, trained at once.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    W_, b_ : ndarray of shape (K, m), (K,)
        The faces (binary problems).
    assignment_ : ndarray of int, shape (n,)
        Face that answers for each sample outside, -1 for those inside (binary problems; samples of
        zero weight left out).
    perplexity_ : float
        Effective number of faces in use: the exponential of the entropy of the assignment (binary
        problems).
    outer_label_ : label
        The class outside (binary problems).
    solution_ : Solution or list of Solution
        The solver's answer (one per pair of classes where there are more than two).
    solver_ : str
        The solver that was used (binary problems).
    duals_ : pandas.DataFrame
        One row per constraint, with its multiplier (nan from "sgd", which has none), in input order.
    history_ : pandas.DataFrame
        One row per round or epoch of every start.

    References
    ----------
    .. [1] Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope
       Machine, 2014.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_faces": [Interval(Integral, 1, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "entropy": [Interval(Real, 0, None, closed="left")],
        "outer_label": "no_validation",  # type: ignore[dict-item]
        "loss": [StrOptions({"sum", "max"})],
        "solver": [StrOptions({"auto", "exact", "sgd"})],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_faces: int = 3,
        C: float = 1.0,
        *,
        entropy: float = 0.0,
        outer_label: Any = None,
        loss: Loss = "sum",
        solver: str = "auto",
        n_init: int | str = "auto",
        tol: float = 1e-3,
        max_iter: int = 300,
        time_limit: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.n_faces = n_faces
        self.C = C
        self.entropy = entropy
        self.outer_label = outer_label
        self.loss = loss
        self.solver = solver
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs

    # -- fitting -----------------------------------------------------------------------------

    def _validate_params(self) -> None:
        super()._validate_params()
        highest = math.log(self.n_faces)
        if self.entropy > highest + 1e-12:
            raise ValueError(
                f"entropy must be from 0 to ln(n_faces) = {highest:.6g} for n_faces={self.n_faces}, "
                f"not {self.entropy!r}; for a perplexity p give ln(p)"
            )
        if self.loss == "max" and self.solver == "sgd":
            raise ValueError("loss='max' needs solver='exact': Algorithm 1 minimises loss='sum'")
        if self.entropy > 0 and (self.solver == "exact" or self.loss == "max"):
            raise ValueError(
                f"entropy={self.entropy!r} needs solver='sgd' and loss='sum'; "
                "the exact solver has no entropy floor, so set entropy=0 for it"
            )

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        if self.outer_label is not None:
            raise ValueError(
                f"outer_label={self.outer_label!r} needs two classes, but there are {len(self.classes_)}; "
                "leave it None: of each pair, the later class is outside"
            )
        return super()._for_pairs(X, weights)

    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        self._side = self._outer_side()
        self.outer_label_ = self.classes_[1 if self._side > 0 else 0]
        self._X, self._y, self._rows, self._costs = X, self._side * y, rows, self.C * weights
        self.solver_ = self._pick_solver(X)
        solution = self._solve_exactly() if self.solver_ == "exact" else self._solve_by_sgd()
        self.solution_ = solution
        self.n_iter_ = max(solution.iterations, 1)
        self.W_, self.b_ = solution["W"][:, :-1], solution["W"][:, -1]
        if "assignment" in solution.primal:
            self.assignment_ = solution["assignment"]
        else:
            self.assignment_ = natural_assignment(X, self._y, solution["W"])
        outside = self._y > 0
        shares = np.bincount(self.assignment_[outside], weights[outside]) / weights[outside].sum()
        used = shares[shares > 0]
        self.perplexity_ = float(np.exp(-used @ np.log(used)))
        self._warn_if_short(lambda: self._binary_certificate(tol=1e-6))

    def _outer_side(self) -> float:
        """+1 where ``classes_[1]`` is outside, -1 where ``classes_[0]`` is."""
        if self.outer_label is None:
            return 1.0
        matches = [label == self.outer_label for label in self.classes_]
        if not any(matches):
            raise ValueError(f"outer_label must be one of {self.classes_.tolist()}, not {self.outer_label!r}")
        return 1.0 if matches[1] else -1.0

    def _pick_solver(self, X: Any) -> str:
        if self.solver != "auto":
            return self.solver
        if self.loss == "max":
            return "exact"
        n, m = X.shape
        small = self.n_faces * (n * (m + 1) + _CELLS_PER_FACE) <= _EXACT_CELLS
        return "exact" if small and self.entropy == 0 else "sgd"

    def _solve_exactly(self) -> Solution:
        from polyopt.outer.alternating import alternate_from_many_starts
        from polyopt.outer.cpm import PolytopeProblem

        return alternate_from_many_starts(
            PolytopeProblem(self._X, self._y, self._costs, self.n_faces, self.loss),
            n_init=self._starts(_EXACT_STARTS) if self.n_faces > 1 else 1,  # one face has one assignment
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            seed=self._seed(),
            n_jobs=self.n_jobs,
        )

    def _solve_by_sgd(self) -> Solution:
        from polyopt.outer.starts import best_of
        from polyopt.solvers.cpm_sgd import solve_cpm_sgd

        count = self._starts(1)
        seeds = np.random.SeedSequence(self._seed()).generate_state(count)

        def run(number: int, time_left: float | None) -> Solution:
            return solve_cpm_sgd(
                self._X, self._y, self._costs, self.n_faces,
                entropy=self.entropy, max_iter=self.max_iter, tol=self.tol,
                time_limit=time_left, seed=int(seeds[number]),
            )  # fmt: skip

        return best_of(run, count, time_limit=self.time_limit, n_jobs=self.n_jobs)

    def _starts(self, usual: int) -> int:
        return usual if isinstance(self.n_init, str) else self.n_init

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    # -- answering ---------------------------------------------------------------------------

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        return self._side * (np.asarray(X @ self.W_.T) + self.b_).max(axis=1)

    def _binary_certificate(self, tol: float) -> Certificate:
        return certify_cpm(
            self._X,
            self._y,
            self._costs,
            W=self.solution_["W"],
            alpha=self.solution_.duals.get("margin"),
            assignment=self.assignment_,
            loss=self.loss,
            tol=tol,
        )

    def _binary_duals(self) -> pd.DataFrame:
        import pandas as pd

        y, C = self._y, self._costs
        outputs = np.asarray(lift(self._X) @ self.solution_["W"].T)
        alpha = self.solution_.duals.get("margin", np.full(outputs.shape, np.nan))
        hinge = slacks(outputs, y[:, None])
        shared = (y < 0) & (self.loss == "max")
        xi = np.where(shared[:, None], hinge.max(axis=1, keepdims=True), hinge)
        sample, face = np.nonzero(answers(y, self.n_faces, self.assignment_))
        label = np.where(y > 0, self.outer_label_, self.classes_[0 if self._side > 0 else 1])
        small = 1e-6 * float(C.max())
        own, f, cost = alpha[sample, face], outputs[sample, face], C[sample]
        state = np.where(own >= cost - small, "inside the margin", "on the margin")
        margin = {
            "row": "margin",
            "letter": "alpha",
            "sample": self._rows[sample],
            "face": face,
            "label": label[sample],
            "multiplier": own,
            "slack": y[sample] * f - 1.0 + xi[sample, face],
            "output": f,
            "state": np.where(own <= small, "beyond the margin", state),
        }
        # A shared slack is one constraint, whose price its faces divide between them.
        first = ~shared[sample] | (face == 0)
        left = np.where(shared[sample], C[sample] - alpha.sum(axis=1)[sample], cost - own)
        used = xi[sample, face]
        slack = {
            "row": "slack",
            "letter": "beta",
            "sample": self._rows[sample],
            "face": np.where(shared[sample], -1, face),
            "label": label[sample],
            "multiplier": left,
            "slack": used,
            "output": f,
            "state": np.where(used > 1e-6, "slack in use", "no slack"),
        }
        return pd.concat([pd.DataFrame(margin), pd.DataFrame(slack)[first]], ignore_index=True)
