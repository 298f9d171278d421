"""The sparse family on one problem: the one-norm machine and the L0 machine, by every solver."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.campaign.draws import data, kernel, log_uniform
from benchmarks.campaign.extended import LD
from benchmarks.campaign.fit_hinge import laplacian, true_gamma
from benchmarks.campaign.hinge import Point
from benchmarks.campaign.judge import Claimed, Truth, Untruth, judge, judge_fitted, judge_outputs
from benchmarks.campaign.sparse import Sparse
from benchmarks.campaign.trial import Trial, attempt, overran
from polyopt import CrossEntropySettings, CrossEntropySVM, OneNormSVM, certify_l0, certify_one_norm

__all__ = ["run_sparse"]

_KERNELS = (
    "linear",
    "linear",
    "rbf",
    "rbf",
    "rbf",
    "poly",
    "sigmoid",
    "precomputed",
    "callable",
    "asymmetric",
)
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
    machine = str(rng.choice(["one-norm", "L0", "L0"]))
    drawn = data(rng, extreme, largest=40 if machine == "one-norm" else int(rng.choice([8, 8, 20])))
    shape = kernel(rng, drawn.values, extreme, _KERNELS)
    shape["name"] = {"callable": laplacian, "asymmetric": asymmetric}.get(shape["name"], shape["name"])
    C = log_uniform(rng, *((-8, 8) if extreme else (-1, 2)))
    gamma: Any = shape["gamma"] if rng.random() < 0.7 else "scale"
    X, values = drawn.X, drawn.values
    if shape["name"] == "precomputed":
        X = values = rng.normal(size=(len(drawn.y), len(drawn.y)))  # any matrix will do
    counted, brute = machine == "L0", bool(rng.random() < 0.3)
    truths: dict[float, Sparse] = {}
    known: list[Point] = []
    models: list[Any] = []

    def truth(gamma: float) -> Sparse:
        if gamma not in truths:
            truths[gamma] = Sparse(
                values, drawn.y, drawn.costs, C, {**shape, "gamma": gamma}, counted=counted, brute=brute
            )
        return truths[gamma]

    def fit_and_judge(solver: str, limit: float) -> tuple[str, list[Untruth]]:
        shared: dict[str, Any] = {
            "kernel": shape["name"], "gamma": gamma, "degree": shape["degree"], "coef0": shape["coef0"],
            "solver": solver, "time_limit": limit,
        }  # fmt: skip
        model: Any
        if counted:
            model = CrossEntropySVM(C, **shared, search=_SEARCH, random_state=int(rng.integers(99)))
        else:
            model = OneNormSVM(C, **shared)
        started = time.process_time()
        model.fit(X, drawn.labels, sample_weight=drawn.weights)
        found = overran(time.process_time() - started, limit)
        claimed = Claimed.by(model.certificate())
        models.append(model)
        found += judge_fitted(model, X, model.decision_function(X), claimed, {"C": 1.7 * C, "coef0": 3.0})
        facts = truth(float(model.gamma_))
        if gamma == "scale" and shape["name"] in ("rbf", "poly", "sigmoid"):
            true = true_gamma(values, drawn.costs)
            if true is not None and abs(model.gamma_ - true) > 1e-6 * true:
                found.append(Untruth("gamma of 'scale'", f"{model.gamma_:.12g}, truly {float(true):.12g}"))
        alpha = _coefficients(model, drawn.y)
        point = facts.at(alpha, model.intercept_[0])
        known.append(point)
        found += judge(claimed, _facts(facts, point, known))
        if claimed.claim != "NONE":
            shown = model.duals_.query("row == 'margin'").sort_values("sample")["output"].to_numpy()
            error = (facts.off + 50 * np.finfo(LD).eps * abs(facts.K)) @ abs(alpha) + 1e-18 * abs(
                LD(model.intercept_[0])
            )
            for given, words in ((model.decision_function(X), "predictions"), (shown, "outputs shown")):
                found += judge_outputs(
                    given, point.outputs, error, facts.y, facts.costs, float(point.value), words
                )
        return claimed.claim, found

    trials = []
    for solver in dict.fromkeys(rng.choice(_SOLVERS[machine], 2)):
        limit = float(rng.choice([2.0, 2.0, 2.0, 0.05]))
        trials.append(
            attempt(f"{machine}, {solver}", lambda s=str(solver), t=limit: fit_and_judge(s, t), limit)
        )
    if models and rng.random() < 0.3:
        trials.append(_free_function(rng, truth(float(models[0].gamma_)), models[0], known))
    for trial in trials:
        name = getattr(shape["name"], "__name__", shape["name"])
        trial.words = f"{shape | {'name': name}}, C={C:.4g}, brute={brute}; {drawn.words}"
    return trials


def _coefficients(model: Any, y: Any) -> Any:
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.asarray(model.dual_coef_[0]) * y[model.support_]
    return alpha


def _facts(truth: Sparse, point: Point, known: list[Point]) -> Truth:
    best = min([truth.best, *(p for p in known if p.beyond == 0)], key=lambda p: p.value + p.error)
    return Truth(point.value, point.error, best.value, best.error, point.beyond, float(truth.caps.max()))


def _free_function(rng: np.random.Generator, truth: Sparse, model: Any, known: list[Point]) -> Trial:
    """The certificate's door at the fitted point, at a perturbed one, or with what nobody should believe."""
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
    mischief, names = str(rng.choice(["none", "perturbed", "hostile", "hostile"])), ()
    if mischief == "perturbed":
        factor = 1 + 10.0 ** rng.uniform(-8, 0) * rng.normal()
        arguments = {k: v * factor if k in ("alpha", "b", "u") else v for k, v in arguments.items()}
    elif mischief == "hostile":
        names = (_spoil(rng, arguments, len(y)),)

    def act() -> tuple[str, list[Untruth]]:
        claimed = Claimed.by(door(K, y, C, **arguments))
        if names:
            return claimed.claim, [
                Untruth(f"a hostile {names[0]} accepted", f"{arguments[names[0]]!r:.80}: {claimed.claim}")
            ]
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

    return attempt(f"certify, {'L0' if truth.counted else 'one-norm'}, {mischief}", act, None, names)


def _spoil(rng: np.random.Generator, arguments: dict[str, Any], n: int) -> str:
    bad: dict[str, list[Any]] = {
        "b": [float("nan"), float("inf"), np.zeros(n + 1), 1j, "much"],
        "alpha": [np.full(n, np.nan), np.zeros(n + 1), np.ones(n) * 1j, np.zeros((n, 2))],
        "u": [np.full(n, np.nan), np.zeros(n + 1), np.full(n, np.inf)],
        "tol": [float("inf"), -1.0, float("nan"), 0.0, "tight"],
    }
    name = str(rng.choice(list(bad)))
    arguments[name] = bad[name][rng.integers(len(bad[name]))]
    return name
