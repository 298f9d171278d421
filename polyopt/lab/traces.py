"""The steps of a solver to its answer: faces, assignments, probabilities, beside the optimum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.compare.trace import trace as history_of
from polyopt.lab.fitting import fit_state
from polyopt.lab.picture import drawing

if TYPE_CHECKING:
    from formulations.language.clock import Clock
    from polyopt.base.progress import Listener
    from polyopt.lab.fitting import Fitted
    from polyopt.lab.state import State

__all__ = ["MAX_STEPS", "trace_told"]

MAX_STEPS = 400
_UNITS = ("iteration", "epoch", "step", "round", "pass")
_BEGUN = (
    "Alternation from a random assignment: a round solves the convex program of each face, then moves "
    "samples to the face where they pay less. It may end above the answer, which is the best of many "
    "prepared starts."
)
_HELD = "The assignment is held, so there is one convex program, and no round but this."
_SHOWN = ("W", "w", "assignment", "p")  # faces, a machine of one function, who answers, probabilities
_VALUES = ("objective", "criterion", "best")  # what a loop calls the value that it lowers


class _Album:
    """The points of a run: of several starts those of the one that ended best, of equal ones the longest."""

    def __init__(self) -> None:
        self._best: list[dict[str, Any]] = []
        self._now: list[dict[str, Any]] = []
        self.unit = "step"

    def see(self, record: Mapping[str, float], point: Mapping[str, Any]) -> None:
        """Take a point."""
        unit = next((name for name in _UNITS if name in record), "")
        number = int(record.get(unit, len(self._now)))
        shown = {name: np.array(point[name]) for name in _SHOWN if point.get(name) is not None}
        if not shown:
            return
        if self._now and (number <= self._now[-1]["step"] or shown.keys() != self._now[-1]["point"].keys()):
            self._turn()
        self.unit = unit or self.unit
        value = point.get("objective", next((record[name] for name in _VALUES if name in record), np.nan))
        step = {"step": number, "objective": float(value), "bound": record.get("bound"), "point": shown}
        self._now.append(step)

    def _turn(self) -> None:
        ends = [pages[-1]["objective"] for pages in (self._now, self._best) if pages]
        near = len(ends) == 2 and abs(ends[0] - ends[1]) <= 1e-6 * abs(ends[1])
        if len(ends) == 1 or (len(self._now) > len(self._best) if near else ends[0] < ends[1]):
            self._best = self._now
        self._now = []

    def pages(self) -> list[dict[str, Any]]:
        """The points of the best start."""
        if self._now:
            self._turn()
        return self._best


def trace_told(state: State, most: object, run: Clock, hear: Listener) -> dict[str, Any]:
    """A state solved, with the points on the way.

    most: how many steps are told at most; of more some are left out.
    """
    most = 60 if most is None else most
    if type(most) is not int or not 2 <= most <= MAX_STEPS:
        raise ValueError(f"most must be a whole number from 2 to {MAX_STEPS}")
    album = _Album()
    fitted = fit_state(state, run, hear, seeing=album.see)
    begun = _alternates(fitted)
    if begun:
        album = _from_random(fitted, run, hear)
    pages = album.pages()
    if not pages:
        return _history(fitted, most)
    kept = np.unique(np.linspace(0, len(pages) - 1, most).round().astype(int))
    steps, before = [], None
    for place in kept.tolist():
        step = _step(pages[place], fitted, before)
        before = step["assignment"]
        steps.append(step)
    some = "" if len(kept) == len(pages) else f" {len(kept)} of its {len(pages)} are told."
    which = _BEGUN if begun else _HELD if state.assignment is not None else ""
    which = which or f"The run of the answer: {_points(len(pages))}, one each {album.unit}.{some}"
    return {
        "kind": "trace", "what": _kind(pages[0]["point"], fitted), "unit": album.unit, "steps": steps,
        "optimum": _optimum(fitted, run, hear),
        "sentence": which,
    }  # fmt: skip


def _alternates(fitted: Fitted) -> bool:
    """True if rounds from a random assignment tell more than the run of the answer, which is prepared."""
    takes = fitted.state.machine.takes_assignments and fitted.state.assignment is None
    return takes and fitted.estimator.solver_ == "exact" and len(fitted.estimator.W_) > 1


def _from_random(fitted: Fitted, run: Clock, hear: Listener) -> _Album:
    """The alternation from the state's own random assignment."""
    state, album = fitted.state, _Album()
    first = np.random.default_rng(state.seed).integers(len(fitted.estimator.W_), size=len(state.y))
    fit_state(state, run, hear, seeing=album.see, begin=first)
    return album


def _points(number: int) -> str:
    return "1 point" if number == 1 else f"{number} points"


def _kind(point: Mapping[str, Any], fitted: Fitted) -> str:
    if "p" in point:
        return "cross-entropy"
    if "w" in point:
        return "run"
    return "alternation" if "assignment" in point and fitted.estimator.solver_ != "sgd" else "descent"


def _step(page: Mapping[str, Any], fitted: Fitted, before: list[int] | None) -> dict[str, Any]:
    """One point as plain values; the assignment is the highest of the faces where the loop has none."""
    point, estimator = page["point"], fitted.estimator
    W, assignment, faces = point.get("W"), point.get("assignment"), None
    if "w" in point:
        faces = [{"w": point["w"][:-1].tolist(), "b": float(point["w"][-1])}]
    if W is not None and W.ndim == 2:
        W = getattr(estimator, "_outward", 1.0) * W
        faces = [{"w": w[:-1].tolist(), "b": float(w[-1])} for w in W]
        if assignment is None:
            assignment = (fitted.state.X @ W[:, :-1].T + W[:, -1]).argmax(axis=1)
    told = None if assignment is None else assignment.astype(int).tolist()
    changed = None
    if told is not None and before is not None and len(before) == len(told):
        changed = sum(a != b for a, b in zip(before, told, strict=True))
    return {
        "step": page["step"], "objective": page["objective"], "bound": page["bound"], "faces": faces,
        "assignment": told, "changed": changed,
        "probabilities": point["p"].tolist() if "p" in point else None,
    }  # fmt: skip


def _optimum(fitted: Fitted, run: Clock, hear: Listener) -> dict[str, Any]:
    """Solve the same state exactly, and return the solution with its certificate."""
    from dataclasses import replace

    exact = fitted
    if fitted.state.solver != "exact" and not run.is_over:
        exact = fit_state(replace(fitted.state, solver="exact"), run, hear)
    shown = drawing(exact, (0.0, 1.0, 0.0, 1.0), None)
    lines = shown["faces"] or ([shown["line"]] if shown["line"] is not None else [])
    certificate = exact.certificate.to_dict()
    return {
        "solver": exact.estimator.solver_, "objective": certificate["primal_value"],
        "bound": certificate["dual_value"], "faces": lines, "certificate": certificate,
    }  # fmt: skip


def _history(fitted: Fitted, most: int) -> dict[str, Any]:
    """Objective and bound alone, of a solver that shows no points."""
    frame = fitted.estimator.history_
    frame = history_of(fitted.estimator) if set(_UNITS) & set(frame) else frame.iloc[:0]
    if len(frame) > most:
        frame = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, most).round().astype(int))]
    nothing = {"faces": None, "assignment": None, "changed": None, "probabilities": None}
    steps = [
        {"step": int(row["iteration"]), "objective": row["objective"], "bound": row.get("bound"), **nothing}
        for row in frame.to_dict("records")
    ]
    certificate = fitted.certificate.to_dict()
    sentence = (
        f"Seen are the value and the bound that {fitted.estimator.solver_} has by then, and no boundary: its "
        "points are multipliers, and of those only some are computed on the way."
    )
    if not steps:
        sentence = f"The solver {fitted.estimator.solver_} keeps no record of its way."
    return {
        "kind": "trace", "what": "run", "unit": fitted.method.unit, "steps": steps, "sentence": sentence,
        "optimum": {
            "solver": fitted.estimator.solver_, "objective": certificate["primal_value"],
            "bound": certificate["dual_value"], "faces": [], "certificate": certificate,
        },
    }  # fmt: skip
