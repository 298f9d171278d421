"""The polytope family on one problem: CPM, Polyceptron, PC-SLP, SPLA1 and PLUME, by every solver."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.campaign.draws import Draw, data, log_uniform
from benchmarks.campaign.extended import LD
from benchmarks.campaign.hinge import Point
from benchmarks.campaign.judge import Claimed, Truth, Untruth, judge, judge_outputs
from benchmarks.campaign.polytope import Boxed, Cpm, Faces, Plume, Spla1
from benchmarks.campaign.trial import Trial, attempt, overran
from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    ConvexPolytopeMachine,
    FacePenalty,
    Polyceptron,
    SGDSettings,
    certify_cpm,
    certify_pc_slp,
    certify_plume,
    certify_polyceptron,
    certify_spla1,
)

__all__ = ["run_polytope"]

_SOLVERS = {
    "CPM": ("exact", "dual", "sgd", "global", "auto"),
    "Polyceptron": ("batch", "online", "highs", "exact"),
    "PC-SLP": ("highs", "exact"),
    "SPLA1": ("newton", "bfgs", "exact"),
    "PLUME": ("newton", "bfgs", "gradient", "exact"),
}
_SINGLE, _AT_MOST = 2e-5, 1e-3  # what scores in single precision are granted: of their terms, and of 1
_MAX_BRUTE_FORCE = 4  # positives up to which all assignments are tried


def run_polytope(rng: np.random.Generator, extreme: bool) -> list[Trial]:
    """A problem of the family: a machine by one solver, and now and then the free function."""
    machine = str(rng.choice(["CPM", "CPM", "Polyceptron", "PC-SLP", "SPLA1", "PLUME"]))
    solver = str(rng.choice(_SOLVERS[machine]))
    drawn = data(rng, extreme, largest=int(rng.choice([8, 25])))
    slow = solver in ("exact", "global")
    settings: dict[str, Any] = {
        "n_faces": int(rng.choice([1, 2, 3, 5])), "solver": solver, "random_state": int(rng.integers(99)),
        "n_init": 1 if slow else 2, "time_limit": float(rng.choice([3.0, 3.0, 3.0, 0.05])),
    }  # fmt: skip
    model: Any = _model(rng, machine, settings, extreme)
    limit, made = settings["time_limit"], []

    def act() -> tuple[str, list[Untruth]]:
        started = time.process_time()
        model.fit(drawn.X, drawn.labels, sample_weight=drawn.weights)
        found = overran(time.process_time() - started, limit)
        made.append(True)
        claimed = Claimed.by(model.certificate())
        W = np.column_stack([model.W_, model.b_])
        truth, point, best = _truth(machine, model, drawn, W)
        radius = float(getattr(truth, "radius", 1.0))
        found += judge(claimed, Truth(point.value, point.error, best.value, best.error, point.beyond, radius))
        return claimed.claim, found + (
            _judge_outputs(machine, model, drawn, truth, point, W, claimed.rounding or 0.0)
            if claimed.claim != "NONE"
            else []
        )

    trials = [attempt(f"{machine}, {solver}", act, limit)]
    if made and rng.random() < 0.3:
        trials.append(_free_function(rng, machine, model, drawn))
    for trial in trials:
        trial.words = f"{model}; {drawn.words}"
    return trials


def _model(rng: np.random.Generator, machine: str, settings: dict[str, Any], extreme: bool) -> Any:
    wide = (-8, 8) if extreme else (-2, 2)
    if machine == "CPM":
        plain = settings["solver"] not in ("exact", "auto") or rng.random() < 0.5
        loss, margin = ("sum", "total") if plain else (("max", "total"), ("sum", "worst"))[rng.integers(2)]
        return ConvexPolytopeMachine(
            C=log_uniform(rng, *wide), loss=loss, penalty=FacePenalty(margin=margin), max_iter=30, **settings,
            sgd=SGDSettings(average=bool(rng.random() < 0.7)),
        )  # fmt: skip
    if machine == "Polyceptron":
        return Polyceptron(
            max_iter=100, radius=1e4 if rng.random() < 0.7 else log_uniform(rng, *wide), **settings
        )
    if machine == "PC-SLP":
        return PCSLP(max_iter=10, radius=1e4 if rng.random() < 0.7 else log_uniform(rng, *wide), **settings)
    ridge = log_uniform(rng, *((-10, 8) if extreme else (-3, 1)))
    if machine == "SPLA1":
        return SPLA1(max_iter=20, ridge=ridge, positives=str(rng.choice(["cell", "all"])), **settings)
    gamma = float(rng.choice([0.0, 1.0, 1.0, 5.0, log_uniform(rng, *wide)]))
    decision = str(rng.choice(["posterior", "polytope"]))
    return PLUME(gamma=gamma, ridge=ridge, max_iter=700, decision=decision, **settings)


def _signed(model: Any, drawn: Draw) -> Any:
    """Labels in the paper's signs: +1 outside for the CPM, inside for the others."""
    positive = model.outer_label_ if isinstance(model, ConvexPolytopeMachine) else model.inside_label_
    return drawn.y if positive == model.classes_[1] else -drawn.y


def _margin(model: ConvexPolytopeMachine) -> str:
    return "total" if model.penalty is None else model.penalty.margin


def _truth(machine: str, model: Any, drawn: Draw, W: Any) -> tuple[Any, Point, Point]:
    """The problem, the model's point, and the best point known in the scope of its claim."""
    y, weights = _signed(model, drawn), np.asarray(drawn.costs, LD)
    if machine == "CPM":
        truth: Any = Cpm(drawn.values, y, LD(model.C) * weights, model.loss, _margin(model))
        if model.solver_ == "global":
            point = truth.at(W)
            return truth, point, _lesser(point, truth.best_of_all(W, _MAX_BRUTE_FORCE))
        z = np.asarray(model.assignment_)
        return truth, truth.at(W, z), truth.best_for(W, z)
    if machine in ("Polyceptron", "PC-SLP"):
        radius = model.radius
        if model.solver_ in ("batch", "online"):
            radius = max(radius, float(abs(W).max()))
        truth = Boxed(drawn.values, y, weights, radius, means=machine == "PC-SLP")
        cells = _cells(truth, model, W)
        u = model.solution_.duals.get("margin")
        if u is not None and len(W) > 1:
            cells.append(np.where(np.max(u, axis=1) > 1e-6 * truth.costs, np.argmax(u, axis=1), cells[0]))
        return truth, truth.at(W), _of_cells(truth, W, cells)
    if machine == "SPLA1":
        truth = Spla1(drawn.values, y, weights, model.ridge, model.positives)
        # Its certificate is of the program of the cells that the faces were fitted to.
        fitted = np.asarray(model.solution_.primal.get("assignment", truth.scores(W)[0].argmin(axis=1)))
        return truth, truth.at(W, fitted), truth.best_for(W, fitted)
    truth = Plume(drawn.values, y, weights, model.ridge, model.gamma)
    return truth, truth.at(W), truth.best_for(W)


def _cells(truth: Faces, model: Any, W: Any) -> list[Any]:
    """The cells that a certificate may mean: those of W, and those of the model where scores are tied."""
    return [truth.scores(W)[0].argmin(axis=1), np.asarray(model.assignment_)]


def _of_cells(truth: Any, W: Any, cells: list[Any]) -> Point:
    """The best point of each of these cells; of them the one of the greatest value.

    A bound must be above all of them to be called false.
    """
    distinct = {z.tobytes(): z for z in cells}
    return max((truth.best_for(W, z) for z in distinct.values()), key=lambda p: p.value)


def _lesser(*points: Point) -> Point:
    return min(points, key=lambda p: p.value + p.error)


def _judge_outputs(
    machine: str, model: Any, drawn: Draw, truth: Faces, point: Point, W: Any, rounding: float
) -> list[Untruth]:
    """Decisions against those that the faces imply; for PLUME the probabilities as well."""
    s, off = truth.scores(W)
    side = 1.0 if (truth.y == drawn.y).all() else -1.0
    error = off.max(axis=1)
    true = side * (s.max(axis=1) if machine == "CPM" else s.min(axis=1))
    reach, single = max(float(abs(true).max()), 1.0), 0.0
    if _is_single(drawn):
        single = min(_SINGLE * float((abs(truth.X) @ abs(W.T)).max()), _AT_MOST) / reach
    found = []
    given = model.decision_function(drawn.X)
    if machine == "PLUME":
        p = truth.probability(W) if side > 0 else 1 - truth.probability(W)  # type: ignore[attr-defined]
        shown = model.predict_proba(drawn.X)[:, 1]
        allowed = 1e-6 + (1 + 2 * float(model.gamma)) * (error + single * reach)
        if (abs(shown - p) > allowed).any():
            found.append(Untruth("probability of another model", f"off by {float(abs(shown - p).max()):.3g}"))
        if model.decision == "posterior":
            return found
    costs = truth.costs
    error = error + rounding / costs.min()  # what the certificate says that it may be
    return found + judge_outputs(
        given, true, error, drawn.y, costs, float(point.value), "predictions", single
    )


def _is_single(drawn: Draw) -> bool:
    return getattr(drawn.X, "dtype", None) == np.float32


def _free_function(rng: np.random.Generator, machine: str, model: Any, drawn: Draw) -> Trial:
    """The certificate's function at a perturbed point."""
    y, X, costs = _signed(model, drawn), drawn.values, drawn.costs
    W = np.column_stack([model.W_, model.b_]) * (1 + 10.0 ** rng.uniform(-8, 0) * rng.normal())
    arguments: dict[str, Any] = {"W": W}
    if machine == "CPM":
        door: Any = certify_cpm
        costs = model.C * costs
        arguments |= {"loss": model.loss, "margin": _margin(model)}
        truth: Any = Cpm(X, y, costs, model.loss, _margin(model))
    elif machine in ("Polyceptron", "PC-SLP"):
        door = certify_polyceptron if machine == "Polyceptron" else certify_pc_slp
        arguments["radius"] = model.radius
        truth = Boxed(X, y, costs, model.radius, means=machine == "PC-SLP")
    elif machine == "SPLA1":
        door = certify_spla1
        arguments |= {"ridge": model.ridge, "positives": model.positives}
        truth = Spla1(X, y, costs, model.ridge, model.positives)
    else:
        door = certify_plume
        arguments |= {"ridge": model.ridge, "gamma": model.gamma}
        truth = Plume(X, y, costs, model.ridge, model.gamma)
    cells = None
    if machine != "PLUME":  # ties are broken here, so that both mean the same program
        s = truth.scores(W)[0]
        cells = s.argmax(axis=1) if machine == "CPM" else s.argmin(axis=1)
        arguments["assignment"] = cells

    def act() -> tuple[str, list[Untruth]]:
        claimed = Claimed.by(door(X, y, C=costs, **arguments))
        point = truth.at(W) if cells is None else truth.at(W, cells)
        best = truth.best_for(W) if cells is None else truth.best_for(W, cells)
        radius = float(getattr(truth, "radius", 1.0))
        return claimed.claim, judge(
            claimed, Truth(point.value, point.error, best.value, best.error, point.beyond, radius)
        )

    return attempt(f"certify, {machine}, perturbed", act)
