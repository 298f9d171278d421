"""The hinge family on one problem: SVM, Sigma-SVM, Relative Margin Machine, and their certificates' doors."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.campaign.draws import Draw, data, kernel, log_uniform
from benchmarks.campaign.extended import LD
from benchmarks.campaign.hinge import Hinge, Point
from benchmarks.campaign.judge import (
    Claimed,
    Truth,
    Untruth,
    judge,
    judge_outputs,
    judge_status,
)
from benchmarks.campaign.trial import Trial, attempt, overran
from polyopt import SVM, RelativeMarginMachine, SigmaSVM, certify_rmm, certify_sigma_svm, certify_svm
from polyopt.linalg.kernels import Kernel

__all__ = ["laplacian", "run_hinge"]

_KERNELS = (*3 * ("linear",), *3 * ("rbf",), *2 * ("poly",), "sigmoid", "precomputed", "callable")
_MAX_NEGATIVE = 1e-6  # relative: a matrix that is so far from semidefinite is not so by rounding
_SOLVERS = ("auto", "auto", "decomposition", "decomposition", "exact", "interior-point")


def laplacian(A: Any, Z: Any) -> Any:
    """exp(−‖a − z‖₁), whose every entry is computed alike in whatever block."""
    A, Z = (np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=float) for part in (A, Z))
    return np.exp(-np.abs(A[:, None, :] - Z[None, :, :]).sum(axis=2))


def run_hinge(rng: np.random.Generator, extreme: bool) -> list[Trial]:
    """A problem of the family: a machine by one or two solvers, and now and then the free function."""
    drawn = data(rng, extreme)
    settings = _Settings(rng, drawn, extreme)
    solvers = [
        s for s in rng.choice(_SOLVERS, 2) if s != "interior-point" or settings.kernel["name"] == "linear"
    ]
    trials, models = [], []
    known: list[Point] = []
    for solver in dict.fromkeys(solvers or ["auto"]):
        tol = float(rng.choice([1e-3, 1e-3, 1e-6, 1e-8]))
        limit = float(rng.choice([5.0, 5.0, 5.0, 0.05]))

        def act(
            solver: str = str(solver), tol: float = tol, limit: float = limit
        ) -> tuple[str, list[Untruth]]:
            return _fit_and_judge(settings, solver, tol, limit, known, models)

        trials.append(attempt(f"{settings.machine}, {solver}", act, limit))
    if settings.kernel["name"] == "linear" and rng.random() < 0.1:
        trials.append(_hard_margin(rng, drawn))
    if models and rng.random() < 0.3:
        trials.append(_free_function(rng, settings, models[0], known))
    for trial in trials:
        trial.words = f"{settings.words}; {drawn.words}"
    return trials


class _Settings:
    """Machine, kernel and prices of a problem; its truth for a given gamma."""

    def __init__(self, rng: np.random.Generator, drawn: Draw, extreme: bool):
        self.drawn = drawn
        self.machine = str(rng.choice(["SVM", "Sigma-SVM", "RMM"]))
        self.kernel = kernel(rng, drawn.values, extreme, _KERNELS)
        self.C = log_uniform(rng, *((-12, 12) if extreme else (-2, 3)))
        self.D = float(rng.choice([0.0, 1.0, 0.5, 0.1, 0.9, 0.999, rng.random()]))
        self.B = float(rng.choice([1.0, 1.001, 1.5, 2.0, 2.0, 10.0, 1e6 if extreme else 5.0]))
        self.gamma: Any = self.kernel["gamma"] if rng.random() < 0.7 else "scale"
        self.X = drawn.X
        self.values = drawn.values
        if self.kernel["name"] == "precomputed":
            with np.errstate(all="ignore"):
                self.X = self.values = _gram(rng, drawn.values)
        self._truths: dict[float, Hinge] = {}

    @property
    def name(self) -> Any:
        return laplacian if self.kernel["name"] == "callable" else self.kernel["name"]

    @property
    def words(self) -> str:
        """The settings, for whoever looks at a fault."""
        shape = ", ".join(f"{name}={value:.4g}" for name, value in self.kernel.items() if name != "name")
        return f"{self.kernel['name']}, {shape}, C={self.C:.4g}, D={self.D:.4g}, B={self.B:.4g}"

    @property
    def costs(self) -> Any:
        return LD(self.C) * np.asarray(self.drawn.costs, dtype=LD)

    def model(self, solver: str, tol: float, limit: float) -> Any:
        shared: dict[str, Any] = {
            "kernel": self.name, "gamma": self.gamma, "degree": self.kernel["degree"],
            "coef0": self.kernel["coef0"], "solver": solver, "tol": tol, "time_limit": limit,
        }  # fmt: skip
        if self.machine == "SVM":
            return SVM(self.C, **shared)
        return (
            SigmaSVM(self.C, self.D, **shared)
            if self.machine == "Sigma-SVM"
            else RelativeMarginMachine(self.C, self.B, **shared)
        )

    def truth(self, gamma: float) -> Hinge:
        if gamma not in self._truths:
            self._truths[gamma] = Hinge(
                self.values, self.drawn.y, self.costs, {**self.kernel, "name": self.name, "gamma": gamma},
                B=self.B if self.machine == "RMM" else np.inf,
                D=self.D if self.machine == "Sigma-SVM" else None,
                weights=self.drawn.costs,
            )  # fmt: skip
        return self._truths[gamma]


def _gram(rng: np.random.Generator, values: Any) -> Any:
    """A Gram matrix, exact, of low rank, or indefinite by about what is taken for rounding."""
    K = values @ values.T if rng.random() < 0.5 else laplacian(values, values)
    size = float(np.abs(K).max()) or 1.0
    K = (K + K.T) / 2
    if rng.random() < 0.4:
        K = K - 10.0 ** rng.uniform(-12, -7) * size * np.eye(len(K))
    return K


def _fit_and_judge(
    settings: _Settings, solver: str, tol: float, limit: float, known: list[Point], models: list[Any]
) -> tuple[str, list[Untruth]]:
    drawn, model = settings.drawn, settings.model(solver, tol, limit)
    started = time.process_time()
    model.fit(settings.X, drawn.labels, sample_weight=drawn.weights)
    found = overran(time.process_time() - started, limit)
    claimed = Claimed.by(model.certificate())
    given = model.decision_function(settings.X)
    shown = model.duals_.query("row == 'margin'").sort_values("sample")["output"].to_numpy()
    models.append(model)
    truth = settings.truth(float(model.gamma_))
    if settings.kernel["name"] == "linear":
        point = truth.at_hyperplane(model.coef_[0], model.intercept_[0])
    else:
        point = truth.at_expansion(model._v, model.intercept_[0])
    known.append(point)
    return claimed.claim, found + _judged(settings, truth, claimed, point, known, (given, shown), model, tol)


def _judged(
    settings: _Settings, truth: Hinge, claimed: Claimed, point: Point, known: list[Point], outputs: Any,
    model: Any, tol: float,
) -> list[Untruth]:  # fmt: skip
    facts = _facts(truth, point, known)
    found = judge(claimed, facts)
    y, costs = settings.drawn.y, settings.costs
    ambiguous = truth.D is not None and truth.lift > 0
    if ambiguous and truth.lift > _MAX_NEGATIVE * abs(truth.gram[0]).max():
        found.append(Untruth("an indefinite kernel accepted", f"eigenvalue {-float(truth.lift):.3g}"))
    if claimed.claim != "NONE" and not ambiguous:
        off = point.off
        if not truth.is_linear:
            off = off + truth.rounding(model._v, model.intercept_[0])
        off = off + LD(claimed.rounding or 0.0) / costs.min()  # what the certificate says that it may be
        for given, words in zip(outputs, ("predictions", "outputs shown"), strict=True):
            found += judge_outputs(given, point.outputs, off, y, costs, float(point.value), words)
    gap = float(
        (point.value - point.error - facts.best - facts.best_error)
        / max(abs(point.value), abs(facts.best), LD(1e-4000))
    )
    stated = 10.0 * max(tol, 1e-6) if model.solver_ == "decomposition" else 1e-5
    if facts.bounded:
        found += judge_status(model.solution_.status.name, gap, stated)
    return found


def _facts(truth: Hinge, point: Point, known: list[Point]) -> Truth:
    points = (
        [truth.best]
        if truth.lift > 0
        else [truth.best, *(p for p in known if np.isfinite(p.value) and p.beyond == 0)]
    )
    best = min(points, key=lambda p: p.value + p.error)
    # Which semidefinite matrix an indefinite one stands for, the Sigma-SVM's certificate may choose.
    value = LD(0) if truth.D is not None and truth.lift > 0 else point.value
    return Truth(
        value, point.error, best.value, best.error, point.beyond,
        max(truth.B, 1.0) if np.isfinite(truth.B) else 1.0, bounded=truth.lift == 0,
    )  # fmt: skip


def _arguments(rng: np.random.Generator, settings: _Settings, model: Any) -> dict[str, Any]:
    """What a fitted model says of itself, as the certificate's arguments; often with its multipliers."""
    drawn, linear = settings.drawn, settings.kernel["name"] == "linear"
    arguments: dict[str, Any] = {
        "w": model._v.copy(),
        "b": float(model.intercept_[0]),
    }
    if settings.machine == "Sigma-SVM":
        arguments |= {"D": settings.D, "weights": drawn.weights}
        if linear:
            X, s = np.asarray(settings.values, LD), np.asarray(drawn.costs, LD)
            arguments["b"] = float(model.intercept_[0] + (s @ X / s.sum()) @ arguments["w"])
        else:
            truth, s = settings.truth(float(model.gamma_)), np.asarray(drawn.costs, LD)
            arguments["b"] = float(model.intercept_[0] + s @ (truth.gram[0] @ arguments["w"]) / s.sum())
    if settings.machine == "RMM":
        arguments["B"] = settings.B
    if settings.kernel["name"] == "precomputed":
        arguments["precomputed"] = True
    elif not linear:
        arguments["kernel"] = Kernel(
            settings.name, model.gamma_, settings.kernel["degree"], settings.kernel["coef0"]
        )
    frame = model.duals_.sort_values("sample")
    if rng.random() < 0.7:
        arguments["alpha"] = frame.query("row == 'margin'")["multiplier"].to_numpy()
        for row, name in (("bound_above", "lam"), ("bound_below", "lam_star")):
            if (frame["row"] == row).any():
                arguments[name] = frame.query(f"row == '{row}'")["multiplier"].to_numpy()
    return arguments


def _point_of(settings: _Settings, truth: Hinge, arguments: dict[str, Any], linear: bool) -> Point:
    """The point that the arguments describe."""
    if linear:
        w, b = np.asarray(arguments["w"], LD), LD(arguments["b"])
        if settings.machine == "Sigma-SVM":
            s = np.asarray(settings.drawn.costs, LD)
            b = b - (s @ np.asarray(settings.values, LD) / s.sum()) @ w
        return truth.at_hyperplane(w, b)
    if settings.machine == "Sigma-SVM":
        costs = np.asarray(settings.drawn.costs, LD)
        moved = costs @ (truth.gram[0] @ np.asarray(arguments["w"], LD))
        return truth.at_expansion(arguments["w"], LD(arguments["b"]) - moved / costs.sum())
    return truth.at_expansion(arguments["w"], arguments["b"])


def _free_function(rng: np.random.Generator, settings: _Settings, model: Any, known: list[Point]) -> Trial:
    """The certificate's function at a fitted point, or at a perturbed one."""
    drawn, linear = settings.drawn, settings.kernel["name"] == "linear"
    door = {"SVM": certify_svm, "Sigma-SVM": certify_sigma_svm, "RMM": certify_rmm}[settings.machine]
    arguments = _arguments(rng, settings, model)
    point = str(rng.choice(["fitted", "perturbed"]))
    if point == "perturbed":
        factor = 1 + 10.0 ** rng.uniform(-8, 0) * rng.normal()
        arguments = {k: v * factor if k in ("w", "b", "alpha") else v for k, v in arguments.items()}
    values, costs = settings.values, settings.costs.astype(float)

    def act() -> tuple[str, list[Untruth]]:
        claimed = Claimed.by(door(values, drawn.y, costs, **arguments))
        truth = settings.truth(float(model.gamma_))
        own = _point_of(settings, truth, arguments, linear)
        return claimed.claim, judge(claimed, _facts(truth, own, [*known, own]))

    return attempt(f"certify, {settings.machine}, {point}", act)


def _hard_margin(rng: np.random.Generator, drawn: Draw) -> Trial:
    """Infinite cost: a plane that separates refutes every proof that none does."""
    y, X = drawn.y, drawn.values.copy()
    gap = max(float(np.ptp(X[:, 0])), 3e-10 * float(np.abs(X[:, 0]).max()), 1e-100)
    X[:, 0] = X[0, 0] + gap * y
    w, b = np.zeros(X.shape[1]), -X[0, 0] / gap
    w[0] = 1.0 / gap
    exact = np.asarray(X[:, 0], LD) * LD(w[0])
    b = LD(-(exact[y > 0].min() + exact[y < 0].max()) / 2)
    separated = bool((y * (exact + b) > 0).all())
    alpha = np.where(y > 0, 1.0 / (y > 0).sum(), 1.0 / (y < 0).sum()) * 10.0 ** rng.uniform(-3, 3) / gap**2

    def act() -> tuple[str, list[Untruth]]:
        given = {"w": w, "b": float(b)} if rng.random() < 0.5 else {}
        claimed = Claimed.by(certify_svm(X, y, np.inf, alpha=alpha, **given))
        false = claimed.claim == "INFEASIBLE" and separated
        return claimed.claim, [Untruth("infeasible, but there is a point", f"w1={w[0]:.6g}")] if false else []

    return attempt("certify, SVM, hard margin", act)
