"""PLUME by expectation and maximisation, as a problem of descent.

A step takes the responsibilities of the faces for each sample, and then lowers the M-step's convex program at
them, to its optimum or some way: either lowers the penalised negative log-likelihood L, and no step that does
not is taken. Some way is enough, and often better: a full M-step follows responsibilities that the next step
revises anyway. Two things help EM. It is slow at its end, where the likelihood itself is to be minimised
(:func:`polyopt.polyhedral.plume_m_step.polish`). And at a sharp gate the samples hardly change faces any
more, so that it is better to begin with a soft one, and to sharpen it on the way.
"""

from __future__ import annotations

import copy
import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from formulations import mixture
from formulations.language.arguments import as_costs, one_of, tolerance, whole, whole_or_none
from formulations.language.solution import Solution, Status
from formulations.polytope import perplexity
from polyopt.base.progress import show, tell
from polyopt.base.threads import blas_held
from polyopt.optim.rounds import DescentProblem, Stage, random_faces, run_from_many_starts
from polyopt.optim.starts import TIE
from polyopt.polyhedral import plume_m_step as solver

if TYPE_CHECKING:
    from formulations.language.program import Program
    from formulations.language.types import Array, Matrix

    Climber = Literal["newton", "bfgs", "gradient"]
    Polisher = Literal["bfgs-newton", "bfgs"]
    Method = Climber | Literal["auto", "exact"]
    Init = Literal["random", "kmeans"]

__all__ = ["PlumeProblem", "softer", "solve_plume"]

_METHODS = ("auto", "exact", "newton", "bfgs", "gradient")
_INNER = {"newton": 1, "bfgs": 5, "gradient": 1}  # iterations of an M-step, where none are asked
# Annealing: the first γ, the ratio of the next to it, and the steps at each.
_MIN_GAMMA, _GAMMA_RATIO, _STEPS_PER_GAMMA = 0.25, 2.0, 5


class PlumeProblem(DescentProblem):
    """Steps of expectation and maximisation for PLUME.

    X, y, c, n_faces: as in :func:`~polyopt.optim.rounds.random_faces`; the weights are positive, and
        count in the clusters of the starts as well.
    gamma: sharpness of the gate, at least 0.
    ridge: ρ, on the biases as well; positive for method="exact".
    method: the explicit program, or a method of
        :func:`polyopt.polyhedral.plume_m_step.maximise`; "auto" is Newton's for some hundred entries of W.
    inner: iterations of an M-step at most; by default 1, 5 with "bfgs". The explicit program is always
        solved.
    init: starts: random faces, or faces halfway between the mean of the positives and the centres of clusters
        of the negatives.
    ValueError: A parameter is not what it may be.
    """

    _program: Program | None = None

    def __init__(
        self,
        X: Matrix,
        y: Array,
        c: Array,
        n_faces: int,
        *,
        gamma: float = 1.0,
        ridge: float = 1e-3,
        method: Method = "auto",
        inner: int | None = None,
        init: Init = "random",
    ):
        mixture.check_model(gamma, ridge)
        whole("n_faces", n_faces)
        whole_or_none("inner", inner)
        one_of("method", method, _METHODS)
        one_of("init", init, ("random", "kmeans"))
        if method == "exact" and ridge == 0.0:
            raise ValueError("ridge must be positive with method='exact': its program needs an optimum")
        self.X, self.y, self.c, self.n_faces = X, y, as_costs(c, len(y)), n_faces
        self.gamma, self.ridge, self.init = gamma, ridge, init
        entries = n_faces * (X.shape[1] + 1)
        # So few multiplications of X W' take some milliseconds: threads of BLAS would wait for each other.
        self.is_small = entries * X.shape[0] <= 2e7
        few = entries <= 600  # for which Newton is quicker than L-BFGS
        self.polisher: Polisher = "bfgs-newton" if few else "bfgs"
        quick: Climber = "newton" if few else "bfgs"
        self.climber: Climber = quick if method == "auto" or method == "exact" else method
        self.method = self.climber if method == "auto" else method
        self.inner = inner or _INNER[self.climber]
        self._known: tuple[Array, float] | None = None

    def at(self, gamma: float) -> PlumeProblem:
        """The same problem with another sharpness of the gate."""
        other = copy.copy(self)
        other.gamma, other._program, other._known = gamma, None, None
        return other

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Sources of randomness for `count` starts."""
        return [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(count)]

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Array:
        """Faces to begin from, no two alike."""
        W = random_faces(self.X, self.y, self.c, self.n_faces, rng)
        return self._around_clusters(W, rng) if self.init == "kmeans" and (self.y < 0).any() else W

    def _around_clusters(self, W: Array, rng: np.random.Generator) -> Array:
        """Faces that score 1 at the mean of the positives and -1 at a centre of negatives, and some of W."""
        inside, outside = np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)
        scaler = StandardScaler(with_mean=False).set_output(transform="default")
        scaler.fit(self.X, sample_weight=self.c)
        mean = np.asarray(self.X[inside].T @ self.c[inside]) / self.c[inside].sum()
        clusters = KMeans(min(self.n_faces, len(outside)), n_init=1, random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            # Fewer distinct negatives than faces: centres that coincide, of faces that do not.
            warnings.simplefilter("ignore", ConvergenceWarning)
            clusters.fit(scaler.transform(self.X[outside]), sample_weight=self.c[outside])
        ways = mean / scaler.scale_ - clusters.cluster_centers_
        lengths = np.linalg.norm(ways, axis=1)
        # Of no length where a centre is at the mean; a random face alone is better there.
        apart = np.flatnonzero(lengths > 0)
        normals = 2.0 * ways[apart] / lengths[apart, None] ** 2 / scaler.scale_
        W[apart] = 0.1 * W[apart] + np.column_stack([normals, 1.0 - normals @ mean])
        return W

    def value(self, W: Array) -> float:
        """The penalised negative log-likelihood L(W)."""
        # A step, its record and the next step ask for the same one.
        if self._known is None or self._known[0] is not W:
            self._known = W, mixture.loss(self.X, self.y, W, self.gamma, self.c, self.ridge)
        return self._known[1]

    def step(self, W: Array, time_limit: float | None = None) -> Solution:
        """An E-step and an M-step, or the same point, as STALLED, where they would not lower L."""
        R = mixture.responsibilities(self.X, self.y, W, self.gamma)
        found = self._explicit(R, time_limit) if self.method == "exact" else self._climb(R, W, time_limit)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        before = self.value(W)
        after = self.value(found["W"]) if found.primal else np.inf
        over = found.status is Status.TIME_LIMIT
        if after <= before:
            status = Status.TIME_LIMIT if over else Status.SOLVED
            return replace(found, status=status, primal={"W": found["W"]}, objective=after, bound=None)
        # A solver of cones ends at its own accuracy, which at a fixed point may be above where it began.
        fixed = Status.SOLVED if after <= before + TIE * abs(before) else Status.STALLED
        status = Status.TIME_LIMIT if over else fixed
        return replace(found, status=status, primal={"W": W}, duals={}, objective=before, bound=None)

    def record(self, W: Array) -> dict[str, float]:
        """Gate, log-likelihood without the ridge, and the faces that have the least score somewhere."""
        used = np.argmin(mixture.scores_in_blocks(self.X, W), axis=1)
        return {
            "gamma": self.gamma,
            "log_likelihood": 0.5 * self.ridge * float(np.sum(W**2)) - self.value(W),
            "occupied": float(len(np.unique(used))),
            "perplexity": perplexity(used, self.c),
        }

    def polish(self, W: Array, max_iter: int, tol: float, time_limit: float | None = None) -> Solution:
        """Minimise L from W (:func:`polyopt.polyhedral.plume_m_step.polish`)."""
        return solver.polish(
            self.X, self.y, self.c, W,
            gamma=self.gamma, ridge=self.ridge, method=self.polisher,
            max_iter=max_iter, tol=tol, time_limit=time_limit,
        )  # fmt: skip

    def _climb(self, R: Array, W: Array, time_limit: float | None) -> Solution:
        return solver.maximise(
            self.X, self.y, self.c, R, W,
            gamma=self.gamma, ridge=self.ridge, method=self.climber, max_iter=self.inner,
            time_limit=time_limit,
        )  # fmt: skip

    def _explicit(self, R: Array, time_limit: float | None) -> Solution:
        if self._program is None:
            from formulations.plume import m_step

            self._program = m_step(self.X, self.y, R, self.gamma, self.c, self.ridge)
        return self._program.set(R=R).solve(time_limit=time_limit)


def solve_plume(
    problem: PlumeProblem, *, n_init: int = 10, max_iter: int = 5000, tol: float = 1e-6, anneal: bool = True,
    polish: bool = True, time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
) -> Solution:  # fmt: skip
    """Expectation and maximisation from many starts, each polished to a stationary point; the best is kept.

    Without `anneal` and `polish` it is the paper's Algorithm 1.

    problem: the problem.
    max_iter: iterations of each run at most: the steps of expectation and maximisation, those at softer gates
        among them, and the iterations of Newton's method or L-BFGS in the polish, all together.
    tol: relative tolerance of the certificate that the polish is to reach. A run ends where its steps lower
        the objective by less than a hundredth (or `tol`, if that is more), or after some steps: the polish is
        quicker from there. Without it, where a step lowers the objective by no more than `tol`, relative.
    anneal: begin each run at γ = 1/4, and double it every few steps until it is what is asked.
    polish: minimise L itself from where the steps become slow, or after 15 of them.
    time_limit: seconds, for everything together.
    Returns: ``primal`` has ``W``; ``duals`` has ``score``, what each sample pulls at each face
        (:func:`formulations.mixture.multipliers`). ``history`` has a record per iteration with its ``gamma``,
        and one of the start, numbered 0; only objectives of one γ compare. The faces in use are recorded for
        the steps and for the end of the polish. The status is CONVERGED if the polish ended at a stationary
        point, or without a polish if the steps settled, which need not be at one. A limit, or Ctrl-C, keeps
        the best point.
    """
    whole("max_iter", max_iter)
    step_tol = max(tolerance(tol), 0.01)
    stages: list[Stage[Array]] = [
        Stage(problem.at(gamma), _STEPS_PER_GAMMA, step_tol)
        for gamma in (softer(problem.gamma) if anneal else [])
    ]
    # On separable data L falls for long: the polish is quicker in any case after 15 steps.
    stages.append(Stage(problem, 15, step_tol) if polish else Stage(problem, max_iter, tol))

    def polished(found: Solution, time_left: float | None) -> Solution:
        return _polished(problem, found, max_iter - found.iterations, 0.1 * tol, time_left)  # clear of it

    with blas_held() if problem.is_small else nullcontext():
        best = run_from_many_starts(
            stages, n_init=n_init, time_limit=time_limit, seed=seed, n_jobs=n_jobs, max_iter=max_iter,
            finish=polished if polish else None,
        )  # fmt: skip
    alpha = mixture.multipliers(problem.X, problem.y, best["W"], None, problem.gamma, problem.c)
    then = ", then L itself" if polish else ""
    return replace(best, duals={"score": alpha}, solver=f"em ({problem.method}){then}")


def softer(gamma: float) -> list[float]:
    """The γ below the one asked at which a run begins, in rising order.

    gamma: what is asked.
    """
    count = int(np.ceil(np.log(gamma / _MIN_GAMMA) / np.log(_GAMMA_RATIO))) if gamma > _MIN_GAMMA else 0
    return [_MIN_GAMMA * _GAMMA_RATIO**i for i in range(count)]


def _polished(
    problem: PlumeProblem, found: Solution, max_iter: int, tol: float, time_limit: float | None
) -> Solution:
    """The stationary point that L-BFGS or Newton's method reaches from the end of EM."""
    if max_iter <= 0:
        return replace(found, status=Status.ITERATION_LIMIT)
    point = problem.polish(found["W"], max_iter, tol, time_limit)
    W, gamma = point["W"], {"gamma": problem.gamma}
    records = [
        {
            "step": found.iterations + number,
            **record,
            **gamma,
            "seconds": found.solve_time + record["seconds"],
        }
        for number, record in enumerate(point.history, 1)
    ]
    if records:
        records[-1] |= problem.record(W)
        tell(records[-1])
        show(records[-1], lambda: {"W": W})
    return replace(
        point,
        status=Status.CONVERGED if point.status is Status.SOLVED else point.status,
        primal={"W": W},
        bound=None,
        iterations=found.iterations + point.iterations,
        solve_time=found.solve_time + point.solve_time,
        history=(*found.history, *records),
    )
