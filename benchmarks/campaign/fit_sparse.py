"""The sparse family on one problem: the one-norm machine and the L0 machine, by every solver."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.campaign.draws import data, kernel, log_uniform
from benchmarks.campaign.extended import LD
from benchmarks.campaign.fit_hinge import laplacian
from benchmarks.campaign.hinge import Point
from benchmarks.campaign.judge import Claimed, Truth, Untruth, judge, judge_outputs
from benchmarks.campaign.sparse import Sparse
from benchmarks.campaign.trial import Trial, attempt, overran
from polyopt import CrossEntropySettings, CrossEntropySVM, OneNormSVM, certify_l0, certify_one_norm

__all__ = ["run_sparse"]

_KERNELS = (*2 * ("linear",), *3 * ("rbf",), "poly", "sigmoid", "precomputed", "callable", "asymmetric")
_SOLVERS = {
    "one-norm": ("auto", "exact"),
    "L0": ("ce", "ce", "highs", "global", "global", "one-norm", "exact"),
}
_SEARCH = CrossEntropySettings(n_samples=20, max_iter=8, patience=2)


def asymmetric(A: Any, Z: Any) -> Any:
    """exp(−Σ (a − z)_+), whose matrix is not symmetric; every entry computed alike in whatever block."""
    A, Z = (np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=float) for part in (A, Z))
    return np.exp(-np.maximum(A[:, None, :] - Z[None, :, :], 0.0).sum(axis=2))


def run_sparse(rng: np.random.Generator, extreme: bool) -> list[Trial]:
    """A problem of the family: a machine by one or two solvers, and now and then the free function."""
    problem = _Problem(rng, extreme)
    trials, machine = [], problem.machine
    for solver in dict.fromkeys(rng.choice(_SOLVERS[machine], 2)):
        limit = float(rng.choice([2.0, 2.0, 2.0, 0.05]))
        trials.append(
            attempt(f"{machine}, {solver}", lambda s=str(solver), t=limit: problem.fit_and_judge(s, t), limit)
        )
    if problem.models and rng.random() < 0.3:
        model = problem.models[0]
        trials.append(_free_function(rng, problem.truth(float(model.gamma_)), model, problem.known))
    for trial in trials:
        trial.words = problem.words
    return trials


class _Problem:
    """A machine, its kernel and cost, and data; what was fitted to them, and the truth for a given gamma."""

    def __init__(self, rng: np.random.Generator, extreme: bool):
        self._rng = rng
        self.machine = str(rng.choice(["one-norm", "L0", "L0"]))
        largest = 40 if self.machine == "one-norm" else int(rng.choice([8, 8, 20]))
        self.drawn = data(rng, extreme, largest=largest)
        self.kernel = kernel(rng, self.drawn.values, extreme, _KERNELS)
        name = self.kernel["name"]
        self.kernel["name"] = {"callable": laplacian, "asymmetric": asymmetric}.get(name, name)
        self.C = log_uniform(rng, *((-8, 8) if extreme else (-1, 2)))
        self.gamma: Any = self.kernel["gamma"] if rng.random() < 0.7 else "scale"
        self.X, self.values = self.drawn.X, self.drawn.values
        if name == "precomputed":
            n = len(self.drawn.y)
            self.X = self.values = rng.normal(size=(n, n))  # any matrix will do
        self.counted, self.brute = self.machine == "L0", bool(rng.random() < 0.3)
        self._truths: dict[float, Sparse] = {}
        self.known: list[Point] = []
        self.models: list[Any] = []

    @property
    def words(self) -> str:
        """The problem, for whoever looks at a fault."""
        name = getattr(self.kernel["name"], "__name__", self.kernel["name"])
        return f"{self.kernel | {'name': name}}, C={self.C:.4g}, brute={self.brute}; {self.drawn.words}"

    def truth(self, gamma: float) -> Sparse:
        if gamma not in self._truths:
            self._truths[gamma] = Sparse(
                self.values, self.drawn.y, self.drawn.costs, self.C, {**self.kernel, "gamma": gamma},
                counted=self.counted, brute=self.brute,
            )  # fmt: skip
        return self._truths[gamma]

    def machine_of(self, solver: str, limit: float) -> Any:
        shared: dict[str, Any] = {
            "kernel": self.kernel["name"], "gamma": self.gamma, "degree": self.kernel["degree"],
            "coef0": self.kernel["coef0"], "solver": solver, "time_limit": limit,
        }  # fmt: skip
        if not self.counted:
            return OneNormSVM(self.C, **shared)
        seed = int(self._rng.integers(99))
        return CrossEntropySVM(self.C, **shared, search=_SEARCH, random_state=seed)

    def fit_and_judge(self, solver: str, limit: float) -> tuple[str, list[Untruth]]:
        """The certificate's claim, and what is untrue of what a solver says and shows."""
        drawn, model = self.drawn, self.machine_of(solver, limit)
        started = time.process_time()
        model.fit(self.X, drawn.labels, sample_weight=drawn.weights)
        found = overran(time.process_time() - started, limit)
        claimed = Claimed.by(model.certificate())
        self.models.append(model)
        facts = self.truth(float(model.gamma_))
        alpha = _coefficients(model, drawn.y)
        point = facts.at(alpha, model.intercept_[0])
        self.known.append(point)
        found += judge(claimed, _facts(facts, point, self.known))
        if claimed.claim != "NONE":
            found += self._judge_outputs(model, facts, point, alpha)
        return claimed.claim, found

    def _judge_outputs(self, model: Any, facts: Sparse, point: Point, alpha: Any) -> list[Untruth]:
        """What is untrue of the outputs that a model predicts and of those that it shows."""
        shown = model.duals_.query("row == 'margin'").sort_values("sample")["output"].to_numpy()
        error = (facts.off + 50 * np.finfo(LD).eps * abs(facts.K)) @ abs(alpha)
        error += 1e-18 * abs(LD(model.intercept_[0]))
        return [
            untruth
            for given, words in ((model.decision_function(self.X), "predictions"), (shown, "outputs shown"))
            for untruth in judge_outputs(
                given, point.outputs, error, facts.y, facts.costs, float(point.value), words
            )
        ]


def _coefficients(model: Any, y: Any) -> Any:
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.asarray(model.dual_coef_[0]) * y[model.support_]
    return alpha


def _facts(truth: Sparse, point: Point, known: list[Point]) -> Truth:
    best = min([truth.best, *(p for p in known if p.beyond == 0)], key=lambda p: p.value + p.error)
    return Truth(point.value, point.error, best.value, best.error, point.beyond, float(truth.caps.max()))


def _free_function(rng: np.random.Generator, truth: Sparse, model: Any, known: list[Point]) -> Trial:
    """The certificate's function at the fitted point, or at a perturbed one."""
    y, K = truth.y.astype(float), truth.K.astype(float)
    arguments: dict[str, Any] = {"alpha": _coefficients(model, y), "b": float(model.intercept_[0])}
    frame = model.duals_.query("row == 'margin'").sort_values("sample")
    if rng.random() < 0.7:
        arguments["u"] = frame["multiplier"].to_numpy()
    C: Any = truth.costs.astype(float)
    door: Any = certify_one_norm
    if truth.counted:
        door, C = certify_l0, float(truth.C)
        arguments["weights"] = truth.weights.astype(float)
    where = str(rng.choice(["fitted", "perturbed"]))
    if where == "perturbed":
        factor = 1 + 10.0 ** rng.uniform(-8, 0) * rng.normal()
        arguments = {k: v * factor if k in ("alpha", "b", "u") else v for k, v in arguments.items()}

    def act() -> tuple[str, list[Untruth]]:
        claimed = Claimed.by(door(K, y, C, **arguments))
        # The matrix given is the rounded one, and is its own truth.
        exact = Sparse(
            K, y, truth.weights, truth.C, {"name": "precomputed"}, counted=truth.counted, brute=False
        )
        point = exact.at(arguments["alpha"], arguments["b"])
        if not truth.counted:
            return claimed.claim, judge(claimed, _facts(exact, point, [point]))
        # Without multipliers of the relaxation a bound is of the point's centres alone.
        at, best = (
            exact.at(exact.pattern(arguments["alpha"]), arguments["b"]),
            exact.best_with(arguments["alpha"]),
        )
        reach = float(exact.caps.max())
        return claimed.claim, judge(
            claimed, Truth(at.value, at.error, best.value, best.error, point.beyond, reach)
        )

    return attempt(f"certify, {'L0' if truth.counted else 'one-norm'}, {where}", act)
