"""Answers to a client's requests, by their names in :data:`COMPUTED`.

A trace shows the iterates of a solver. A state is exported as Python lines that reproduce it, and as a file
with the certificate's claim.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from formulations.language.clock import Clock
from polyopt.compare.trace import UNITS
from polyopt.compare.trace import trace as history_of
from polyopt.lab.fitting import Fitted, fit_state
from polyopt.lab.picture import MAX_NODES, drawing, picture, read_grid
from polyopt.lab.programs import program_shown
from polyopt.lab.samples import Rows
from polyopt.lab.sets import MAX_TEXT, beginning, columns_of, dataset, menu
from polyopt.lab.state import MAX_POINTS, State, machines, read_state, read_view

_MAX_STEPS = 60  # iterates shown of a run
_FROM_RANDOM = (
    "Alternation from a random assignment: a round solves the convex program of each face, then moves "
    "samples to the face where they pay less. It may end above the answer, which is the best of many "
    "prepared starts."
)
_NO_POINTS = (
    "Seen are the value and the bound that the solver has by then, and no boundary: its points are "
    "multipliers, and of those only some are computed on the way."
)
_HELD = "The assignment is held, so there is one convex program, and no round but this."
_POINT_FIELDS = ("W", "w", "assignment", "p")  # faces, one function, active faces, probabilities
_OBJECTIVES = ("objective", "criterion", "best")  # names of the objective in records of solvers
_CLAIM, _DATA = "claim.json", "points.svm"


@dataclass
class Context:
    """A request of a client, the means to answer it, the last picture, and the one of the answer."""

    message: Mapping[str, Any]
    run: Clock
    last: Fitted | None
    drawn: Fitted | None = None

    @property
    def state(self) -> State:
        """State of the message, checked."""
        return read_state(self.message.get("state"))

    def fit(self, state: State, **more: Any) -> Fitted:
        """Solve a state as a part of the request."""
        return fit_state(state, self.run, **more)

    def solved(self) -> Fitted:
        """Return the state of the message, solved; the last picture's if it is the same."""
        state, last = self.state, self.last
        if last is not None and last.state.to_dict() == state.to_dict() and not last.is_stopped:
            return last
        return self.fit(state)


def hello(begin: Mapping[str, Any] | None) -> dict[str, Any]:
    """Describe the lab to a client: machines, data sets, limits, and the state to begin with."""
    return {
        "kind": "hello", "v": 1,
        "machines": [machine.shown() for machine in machines().values()], "datasets": menu(),
        "limits": {"points": MAX_POINTS, "grid": MAX_NODES, "text": MAX_TEXT},
        "state": dict(beginning() if begin is None else begin),
    }  # fmt: skip


def explain(told: Mapping[str, Any], last: tuple[int, Fitted] | None) -> dict[str, Any]:
    """Return a point's rows in sentences, and whether and why it is a support vector of the last picture."""
    if last is None:
        raise ValueError("there is no picture yet whose point could be explained")
    number, fitted = last
    sample, n = told.get("sample"), len(fitted.state.y)
    if type(sample) is not int or not 0 <= sample < n:
        raise ValueError(f"sample must be a whole number from 0 to {n - 1}")
    rows, label = Rows(fitted), int(fitted.state.y[sample])
    return {
        "kind": "explain", "of": number, "why": rows.why(sample),
        "rows": [rows.plain(row, label) for row in rows.at_points[sample]],
    }  # fmt: skip


def _solve(context: Context) -> dict[str, Any]:
    message, state = context.message, context.state
    view, grid = read_view(message.get("view"), state.X), read_grid(message.get("grid", (72, 72)))
    context.drawn = context.fit(state)
    return picture(context.drawn, view, grid)


class _Trajectory:
    """The iterates of a run; of several starts those with the best end, of equal ones the most.

    unit: name of a step of the solver.
    """

    def __init__(self) -> None:
        self._starts: list[list[dict[str, Any]]] = []
        self.unit = "step"

    def add(self, record: Mapping[str, float], point: Mapping[str, Any]) -> None:
        """Add an iterate; one with a smaller number, or other fields, begins another start."""
        fields = {name: np.array(point[name]) for name in _POINT_FIELDS if point.get(name) is not None}
        if not fields:
            return
        last = self._starts[-1][-1] if self._starts else None
        self.unit = next((name for name in UNITS if name in record), self.unit)
        number = int(record.get(self.unit, 0 if last is None else last["step"] + 1))
        if last is None or number <= last["step"] or fields.keys() != last["point"].keys():
            self._starts = [self.best(), []] if self._starts else [[]]
        value = point.get("objective", next((record[name] for name in _OBJECTIVES if name in record), np.nan))
        iterate = {"step": number, "objective": float(value), "bound": record.get("bound"), "point": fields}
        self._starts[-1].append(iterate)

    def best(self) -> list[dict[str, Any]]:
        """Return the iterates of the best start, compared to six digits."""
        return min(
            self._starts, default=[], key=lambda start: (float(f"{start[-1]['objective']:.6g}"), -len(start))
        )


def _trace(context: Context) -> dict[str, Any]:
    """Solve a state, and return the iterates on the way."""
    state = context.state
    trajectory = _Trajectory()
    fitted = context.fit(state, seeing=trajectory.add)
    solver = fitted.estimator.solver_
    # Rounds from a random assignment show more than the run of the answer, which has a good start.
    is_free = state.machine.takes_assignments and state.assignment is None
    is_random = is_free and solver == "exact" and len(fitted.estimator.W_) > 1
    if is_random:
        trajectory = _Trajectory()
        first = np.random.default_rng(state.seed).integers(len(fitted.estimator.W_), size=len(state.y))
        context.fit(state, seeing=trajectory.add, begin=first)
    iterates, unit = trajectory.best(), trajectory.unit
    points = "1 point" if len(iterates) == 1 else f"{len(iterates)} points"
    sentence = f"The run of the answer: {points}, one each {unit}."
    if is_random or state.assignment is not None:
        sentence = _FROM_RANDOM if is_random else _HELD
    if not iterates:
        iterates, unit = _records(fitted), fitted.method.unit
        sentence = _NO_POINTS if iterates else f"The solver {solver} keeps no record of its way."
    places = np.linspace(0, len(iterates) - 1, min(len(iterates), _MAX_STEPS)).round().astype(int).tolist()
    if len(places) < len(iterates):
        sentence += f" {len(places)} of its {len(iterates)} are shown."
    steps: list[dict[str, Any]] = []
    for place in places:
        steps.append(_step(iterates[place], fitted, steps[-1]["assignment"] if steps else None))
    exact = fitted
    if state.solver != "exact" and not context.run.is_over:
        exact = context.fit(replace(state, solver="exact"))
    fields = iterates[0]["point"] if iterates else {}
    kind = "descent" if "W" in fields else "run"
    if "assignment" in fields and solver != "sgd":
        kind = "alternation"
    certificate, drawn = exact.certificate.to_dict(), drawing(exact, (0.0, 1.0, 0.0, 1.0), None)
    return {
        "kind": "trace", "what": "cross-entropy" if "p" in fields else kind, "unit": unit, "steps": steps,
        "optimum": {
            "solver": exact.estimator.solver_, "objective": certificate["primal_value"],
            "bound": certificate["dual_value"], "certificate": certificate,
            "faces": drawn["faces"] or ([drawn["line"]] if drawn["line"] is not None and fields else []),
        },
        "sentence": sentence,
    }  # fmt: skip


def _records(fitted: Fitted) -> list[dict[str, Any]]:
    """Return objective and bound alone, for a solver that shows no iterates."""
    if not set(UNITS) & set(fitted.estimator.history_):
        return []
    return [
        {"step": int(row["iteration"]), "objective": row["objective"], "bound": row.get("bound"), "point": {}}
        for row in history_of(fitted.estimator).to_dict("records")
    ]


def _step(iterate: Mapping[str, Any], fitted: Fitted, before: list[int] | None) -> dict[str, Any]:
    """Return an iterate as plain values; by default the assignment is to the face of largest score."""
    point = iterate["point"]
    W, assignment, faces = point.get("W"), point.get("assignment"), None
    if "w" in point:
        faces = [{"w": point["w"][:-1].tolist(), "b": float(point["w"][-1])}]
    if W is not None and W.ndim == 2:
        W = getattr(fitted.estimator, "_outward", 1.0) * W
        faces = [{"w": w[:-1].tolist(), "b": float(w[-1])} for w in W]
        if assignment is None:
            assignment = (fitted.state.X @ W[:, :-1].T + W[:, -1]).argmax(axis=1)
    active = None if assignment is None else assignment.astype(int).tolist()
    changed = None
    if active is not None and before is not None:
        changed = sum(a != b for a, b in zip(before, active, strict=True))
    return {
        "step": iterate["step"], "objective": iterate["objective"], "bound": iterate["bound"],
        "faces": faces, "assignment": active, "changed": changed,
        "probabilities": point["p"].tolist() if "p" in point else None,
    }  # fmt: skip


def exported(fitted: Fitted) -> dict[str, Any]:
    """Return the Python lines and the claim, as texts."""
    claim, data, sentence = _claim(fitted)
    return {
        "kind": "export", "python": python_lines(fitted), "claim": claim, "claim_sentence": sentence,
        "claim_name": _CLAIM, "data": data, "data_name": _DATA,
    }  # fmt: skip


def python_lines(fitted: Fitted) -> str:
    """Return lines of Python that give the same estimator and the same certificate."""
    state, name = fitted.state, type(fitted.estimator).__name__
    held = state.assignment
    values = {"solver": state.solver if held is None else "exact", **fitted.settings}
    if fitted.method.is_random:
        values["random_state"] = state.seed
    values = {key: value.item() if isinstance(value, np.generic) else value for key, value in values.items()}
    arguments = {key: f"{key}={value!r}" for key, value in values.items()}
    settings = ", ".join(text for key, text in arguments.items() if "__" not in key)
    nested = ", ".join(text for key, text in arguments.items() if "__" in key)
    nested = f"set_params({nested})." if nested else ""
    points = ",\n".join(
        f"    [{u!r}, {v!r}, {label}]"
        for (u, v), label in zip(state.X.tolist(), state.y.tolist(), strict=True)
    )
    fit = "fit(X, y)" if held is None else f"fit_from(X, y, {held.tolist()}, hold=True)"
    return (
        "import numpy as np\n"
        f"from polyopt import {name}\n\n"
        f"points = np.array([\n{points},\n])\n"
        "X, y = points[:, :2], points[:, 2].astype(int)\n"
        f"model = {name}({settings}).{nested}{fit}\n"
        "print(model.certificate())\n"
        "print(model.duals_)\n"
    )


def _claim(fitted: Fitted) -> tuple[str | None, str | None, str]:
    """Return the claim's file, the file of its points, and a sentence; None, None and the reason if none."""
    with tempfile.TemporaryDirectory(prefix="polyopt-lab-") as folder:
        claim, data = Path(folder) / _CLAIM, Path(folder) / _DATA
        try:
            fitted.certificate.save(claim, data=data)
        except ValueError as error:
            return None, None, f"There is no claim to save: {error}"
        texts = claim.read_text(encoding="utf-8"), data.read_text(encoding="utf-8")
    return *texts, f"Checked anywhere by: python check.py {_CLAIM} {_DATA}"


COMPUTED: dict[str, Callable[[Context], dict[str, Any]]] = {
    "solve": _solve,
    "dataset": lambda context: dataset(context.message),
    "columns": lambda context: columns_of(context.message),
    "trace": _trace,
    "program": lambda context: program_shown(context.solved()),
    "export": lambda context: exported(context.solved()),
}
"""Requests that are computed one after the other."""
