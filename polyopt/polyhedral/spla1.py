"""SPLA1, a polyhedral classifier with a logistic regression in each cell: the solver and the estimator.

With h(x) = min_k W_k·x̃, x̃ = (x, 1), the model is P(inside | x) = σ(h(x)). The faces W_k are the rows of
W (K, m+1). A step assigns each sample to the cell of the face with the least score, and solves a ridge
logistic regression for each face, over the samples of its cell.

A face with an empty cell appears in no subproblem and attains the minimum score for no sample: the loss is
the same without the face, and lower by its ridge. The candidate solutions of a run are therefore the fitted
faces only. A face with an empty cell remains in the iterate, as its cell may have samples in the next step.

After a step the cells may differ from those that the faces were fitted to, and if a positive is only in the
subproblem of its cell, a run need not converge. So a candidate solution includes its cells (``assignment``),
and its certificate is for them. A random start was not fitted to any cells and is not a candidate solution.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.utils._param_validation import StrOptions

from formulations.language.arguments import as_costs, one_of, positive, tolerance, whole
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Array, Matrix, Vector, dense, is_sparse
from formulations.polyhedral import Positives, belonging, cells, check_positives, hard_loss, pull, scores
from polyopt.base.types import ClassWeight
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.parameters import estimator, shared
from polyopt.optim.newton_steps import ARMIJO, solve_scaled
from polyopt.optim.rounds import Problem, Round, Stage, random_faces
from polyopt.polyhedral.estimator import SHARED, PolyhedralClassifier
from polyopt.polyhedral.logistic_certificate import certify_spla1

METHODS = ("newton", "bfgs")


# -- the logistic regression of a cell -------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """Sizes and limits of the logistic regressions; the unknowns are the m + 1 entries of a face."""

    cell_tol: float = 1e-12  # relative gap to which the program of a cell is solved
    min_step: float = 1e-10  # fraction of a Newton step at which the line search gives up
    max_bfgs_unknowns: int = 200  # up to which BFGS stores a full matrix; beyond that it is L-BFGS
    max_newton_unknowns: int = 6000  # largest order of Newton's dense Hessian; beyond it, an error
    max_dense_entries: int = 1_000_000  # of X, up to which sparse samples are made dense, which is faster


OPTIONS = Options()


def solve_logistic(
    X: Matrix, y: Vector, c: Vector, w: Vector, *, ridge: float, method: str = "newton",
    max_iter: int = 100, tol: float = 1e-8, time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Minimise L(w) = Σ c_i ln(1 + exp(−y_i w·x̃_i)) + ρ/2 ‖w‖² from w (m+1,), bias last.

    Newton's method with backtracking, or scipy's BFGS, stops at a relative gap of `tol` to the lower bound
    L − ‖∇L‖²/(2ρ) of the optimum. The solution is never worse than the start.
    """
    one_of("method", method, METHODS)
    ridge, tol = positive("ridge", ridge), tolerance(tol)
    whole("max_iter", max_iter)
    if method == "newton" and len(w) > OPTIONS.max_newton_unknowns:
        raise ValueError(
            f"method='newton' takes {OPTIONS.max_newton_unknowns} unknowns at most, not {len(w)}; "
            "choose method='bfgs'"
        )
    clock = Clock(time_limit)
    run = _newton if method == "newton" else _bfgs
    w, value, gradient, steps = run(X, y, c, w, ridge, max_iter, tol, clock)
    gap = float(gradient @ gradient) / (2 * ridge)
    if gap <= tol * value:
        status = Status.SOLVED
    elif clock.is_over:
        status = Status.TIME_LIMIT
    else:
        status = Status.ITERATION_LIMIT if steps >= max_iter else Status.STALLED
    return Solution(
        status, {"w": w}, {}, value, value - gap, f"logistic, {method}", steps, solve_time=clock.seconds
    )


def _loss(X: Matrix, y: Vector, c: Vector, w: Vector, ridge: float) -> tuple[float, Vector, Vector]:
    """Return L, its gradient, and the probabilities σ(−z) of the other label, at w; z = y w·x̃."""
    z = y * scores(X, w[None, :])[:, 0]
    p_other = expit(-z)
    value = float(c @ np.logaddexp(0.0, -z) + 0.5 * ridge * (w @ w))
    return value, ridge * w - pull(X, (c * y * p_other)[:, None])[0], p_other


def _newton(
    X: Matrix, y: Vector, c: Vector, w: Vector, ridge: float, max_iter: int, tol: float, clock: Clock
) -> tuple[Vector, float, Vector, int]:
    """Run Newton's method with backtracking; return w, L, its gradient, and the number of steps."""
    value, gradient, p_other = _loss(X, y, c, w, ridge)
    for steps in range(max_iter):
        if gradient @ gradient <= 2 * ridge * tol * value or clock.is_over:
            return w, value, gradient, steps
        direction = -solve_scaled(_hessian(X, c * p_other * (1.0 - p_other), ridge), gradient)
        slope, size = float(gradient @ direction), 1.0
        while True:
            trial = w + size * direction
            trial_loss = _loss(X, y, c, trial, ridge)
            if trial_loss[0] <= value + ARMIJO * size * slope:
                break
            size *= 0.5
            if size < OPTIONS.min_step:  # no lower point in double precision
                return w, value, gradient, steps
        # If neither the loss nor the norm of its gradient falls, the rest is rounding.
        if trial_loss[0] >= value and trial_loss[1] @ trial_loss[1] >= gradient @ gradient:
            return w, value, gradient, steps
        w, (value, gradient, p_other) = trial, trial_loss
    return w, value, gradient, max_iter


def _hessian(X: Matrix, d: Vector, ridge: float) -> Vector:
    """Return Σ d_i x̃_i x̃_i' + ρ I."""
    m = X.shape[1]
    H = np.empty((m + 1, m + 1))
    if is_sparse(X):
        H[:m, :m] = (X.T @ X.multiply(d[:, None]).tocsr()).toarray()
    else:
        H[:m, :m] = X.T @ (X * d[:, None])
    H[m, :m] = H[:m, m] = X.T @ d
    H[m, m] = d.sum()
    H.flat[:: m + 2] += ridge
    return H


def _bfgs(
    X: Matrix, y: Vector, c: Vector, w: Vector, ridge: float, max_iter: int, tol: float, clock: Clock
) -> tuple[Vector, float, Vector, int]:
    """Run BFGS or L-BFGS-B of scipy; return as :func:`_newton`."""
    value, gradient, _ = _loss(X, y, c, w, ridge)
    best, steps = (w, value, gradient), 0

    def evaluate(trial: Vector) -> tuple[float, Vector]:
        nonlocal best
        value, gradient, _ = _loss(X, y, c, trial, ridge)
        if value <= best[1]:
            best = (trial.copy(), value, gradient)
        return value, gradient

    def after_step(_: Vector) -> None:
        nonlocal steps
        steps += 1
        if best[2] @ best[2] <= 2 * ridge * tol * best[1] or clock.is_over:
            raise StopIteration

    is_small = len(w) <= OPTIONS.max_bfgs_unknowns
    no_tolerances = {"gtol": 0.0} if is_small else {"gtol": 0.0, "ftol": 0.0}  # the gap stops the run
    previous_value = np.inf
    # The line search may give up in narrow valleys; a restart from the same point continues.
    while best[2] @ best[2] > 2 * ridge * tol * best[1] and best[1] < previous_value and steps < max_iter:
        previous_value = best[1]
        minimize(
            evaluate, best[0], jac=True, method="BFGS" if is_small else "L-BFGS-B",
            callback=after_step, options={"maxiter": max_iter - steps, **no_tolerances},
        )  # fmt: skip
        if clock.is_over:
            break
    return *best, steps


# -- the alternation -------------------------------------------------------------------------------------


class LogisticCells(Problem[Vector]):
    """Steps of SPLA1; the state is W (K, m+1), and a random start is not a candidate solution.

    ridge: ρ, positive.
    positives: "cell" if a positive is in the program of its cell only, as in the paper; "all" if it is in the
        programs of all faces, so that no step raises the objective.
    engine: a method of :func:`solve_logistic`, or "exact", the explicit program of
        :mod:`formulations.spla1`.
    inner: largest number of iterations of the engine for a cell in one step.
    """

    unit = "step"
    _program: Any = None  # the explicit program, built at its first use

    def __init__(
        self, X: Matrix, y: Vector, c: Vector, n_faces: int, *, ridge: float = 1e-3,
        positives: Literal["cell", "all"] = "cell", engine: str = "newton", inner: int = 100,
    ):  # fmt: skip
        check_positives(positives)
        one_of("engine", engine, (*METHODS, "exact"))
        whole("n_faces", n_faces)
        whole("inner", inner)
        self.X = dense(X) if X.shape[0] * X.shape[1] <= OPTIONS.max_dense_entries else X
        self.y, self.n_faces = y, n_faces
        self.c, self.ridge = as_costs(c, len(y)), positive("ridge", ridge)
        self.positives, self.engine, self.inner = positives, engine, inner

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Vector:
        """Draw random faces around the mean of the positives."""
        return random_faces(self.X, self.y, self.c, self.n_faces, rng)

    def value(self, W: Vector) -> float:
        """Return the penalised loss, without the faces that have no samples in their programs."""
        members = belonging(self.y, cells(self.X, W), len(W), self.positives)
        return hard_loss(self.X, self.y, W[members.any(axis=0)], self.c, self.ridge, self.positives)

    def round(self, state: Vector, time_limit: float | None) -> Round[Vector]:
        """Fit each face in its cell; the candidate solution has the fitted faces and their cells."""
        clock, status = Clock(time_limit), Status.SOLVED
        assignment, W = cells(self.X, state), state.copy()
        members = belonging(self.y, assignment, len(W), self.positives) > 0
        is_fitted = members.any(axis=0)
        for k in np.flatnonzero(is_fitted):
            solution = self._solve_cell(members[:, k], W[k], clock)
            W[k] = solution["w"]
            # The limit of iterations within a step is part of the method, not a limit of the run.
            if solution.status is Status.TIME_LIMIT:
                status = Status.TIME_LIMIT
        fitted = W[is_fitted]
        number_among_fitted = np.cumsum(is_fitted) - 1
        primal = {"W": fitted, "assignment": number_among_fitted[assignment]}
        loss = hard_loss(self.X, self.y, fitted, self.c, self.ridge, self.positives)
        point = Solution(status, primal, {}, loss, None, f"spla1, {self.engine}")
        return Round(point, W, {"occupied": float(len(np.unique(cells(self.X, W))))})

    def _solve_cell(self, members: NDArray[np.bool_], w: Vector, clock: Clock) -> Solution:
        """Fit a face to its samples, from w except by the explicit program."""
        if self.engine != "exact":
            return solve_logistic(
                self.X[members], self.y[members], self.c[members], w, ridge=self.ridge,
                method=self.engine, max_iter=self.inner, tol=OPTIONS.cell_tol, time_limit=clock.left,
            )  # fmt: skip
        if self._program is None:
            from formulations.spla1 import cell

            self._program = cell(self.X, self.y, self.c, self.ridge)
        solution = self._program.set(C=self.c * members).solve(time_limit=clock.left)
        if not solution.primal:
            raise RuntimeError(
                "no solver left a point for a cell of SPLA1: scale the features to unit variance, raise "
                "ridge, or choose solver='newton'"
            )
        return solution


@estimator
class SPLA1(PolyhedralClassifier):
    """Polyhedral classifier of Manwani & Sastry [1]_: alternate between cells and logistic regressions.

    With scores ``W_k'x + b_k`` and h(x) the least of them, ``P(inside | x) = 1 / (1 + exp(-h(x)))``. The cell
    of a sample is the face with its least score. The solver alternates between the cells and a logistic
    regression for each face over the samples of its cell. The penalty is ``ridge/2 (||W||² + ||b||²)``;
    without it the likelihood of a separable cell has no maximum. The problem is not convex for more than one
    face.

    Parameters
    ----------
    n_faces : int, default=3
        K, the largest number of faces. A face without samples is left out: it changes no training sample's
        score.
    ridge : float, default=0.1
        ρ, positive.
    positives : {"cell", "all"}, default="cell"
        Regressions that include a sample inside: "cell", only that of its cell, as in the paper; "all", those
        of all faces. With "cell" an alternation may raise the loss, and the run need not converge. The best
        faces of the run are returned; ``certificate()`` is for the cells that they were fitted to, and
        reports how many samples have their least score at another face. With "all" the loss never rises, and
        the run converges to a stationary point.
    solver : {"auto", "newton", "bfgs", "exact"}, default="auto"
        Solver of a cell's regression: Newton's method, BFGS as in the paper, or ("exact") the explicit
        program of ``formulations.spla1``. "auto" is Newton's below 1,000 features, else BFGS.
    inner : int, default=100
        Largest number of iterations of that solver for each cell in an alternation.
    max_iter : int, default=100
        Largest number of alternations per start.
    patience : int, default=5
        Number of consecutive alternations without a decrease of the loss after which a run has converged.
    tol : float, default=1e-6
        Relative decrease of the loss up to which it counts as no decrease.

    Attributes
    ----------
    W_, b_ : ndarray of shape (K, m), (K,)
        The faces with samples, `n_faces` or fewer (binary problems).
    solution_ : Solution or list of Solution
        The solver's solution (one per pair of classes): the faces and the cells ``assignment`` that they were
        fitted to. Its objective is the loss with every sample in the cell of its least score.
    duals_ : pandas.DataFrame
        One row per sample and face that is fitted to it, in input order, with the multiplier u.
    history_ : pandas.DataFrame
        One row per alternation of every start.

    References
    ----------
    .. [1] Manwani & Sastry, Learning Polyhedral Classifiers Using Logistic Function, 2010.

    Examples
    --------
    >>> from polyopt import SPLA1, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = SPLA1(2, inside_label=1, random_state=0).fit(data.X, data.y)
    >>> machine.polytope_.n_faces, machine.predict_proba(data.X).shape
    (2, (351, 2))
    >>> machine.certificate().relative_gap < 1e-6  # of the program for the cells of its fit
    True
    """

    _: KW_ONLY
    ridge: float = 0.1
    positives: Positives = "cell"
    inner: int = 100
    patience: int = 5
    tol: float = 1e-6
    class_weight: ClassWeight = None

    _models_probabilities: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED,
        **shared("ridge", "inner", "patience", "tol"),
        "positives": [StrOptions({"cell", "all"})],
        "solver": [StrOptions({"auto", *METHODS, "exact"})],
    }

    def _pick_solver(self, X: Any) -> str:
        if self.solver != "auto":
            return self.solver
        return "newton" if X.shape[1] < 1000 else "bfgs"

    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        problem = LogisticCells(
            X, y, c, self.n_faces,
            ridge=self.ridge, positives=self.positives, engine=self.solver_, inner=self.inner,
        )  # fmt: skip
        return self._run(Stage(problem, self.max_iter, self.tol, self.patience), seed)

    def _binary_certificate(self, tol: float) -> Certificate:
        return certify_spla1(
            self._X, self._y, self.solution_["W"],
            ridge=self._asked["ridge"], C=self._costs, positives=self._asked["positives"],
            assignment=self.solution_["assignment"], n_faces=self._asked["n_faces"], tol=tol,
        )  # fmt: skip

    def _multipliers(self) -> dict[str, Any]:
        members = belonging(self._y, self.solution_["assignment"], len(self.W_), self._asked["positives"])
        place, face = np.nonzero(members)
        z = self._y[place] * scores(self._X, self.solution_["W"])[place, face]
        p_other = expit(-z)  # probability of the other label
        states = ["well on its side", "near the face", "on the wrong side"]
        return {
            "row": np.full(len(place), "margin"),
            "letter": np.full(len(place), "u"),
            "place": place,
            "face": face,
            "multiplier": self._costs[place] * p_other,
            "share": p_other,
            "slack": np.zeros(len(place)),  # the constraint defines z as the margin, without slack
            "state": np.array(states)[(p_other > 0.05).astype(int) + (p_other > 0.5)],
        }
