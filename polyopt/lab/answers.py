"""The answers to the requests of a client, by their names in :data:`COMPUTED`.

A path over one parameter is a film strip, a small picture of each value; a trace is a film of a solver's
iterates. A state is exported as the Python lines that reproduce it and the certificate's claim as a file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from formulations.language.clock import Clock
from polyopt.base.progress import Listener
from polyopt.compare.trace import trace as history_of
from polyopt.lab.fitting import Fitted, fit_state
from polyopt.lab.picture import MAX_NODES, drawing, explained, picture, read_grid
from polyopt.lab.programs import program_shown
from polyopt.lab.samples import dual_rows, samples_of
from polyopt.lab.sets import MAX_TEXT, beginning, columns_of, dataset, menu
from polyopt.lab.state import MAX_POINTS, State, machines, read_state, read_view

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
MAX_FRAMES = 24
_DECADES = 2.0  # to both sides of the state's own value
_SMALL_GRID = (24, 24)  # nodes of a frame
_CLAIM, _DATA = "claim.json", "points.svm"


@dataclass
class Context:
    """A request of a client, the means to answer it, the last picture, and the one that the answer draws."""

    message: Mapping[str, Any]
    run: Clock
    on_record: Listener
    send: Callable[..., None]
    last: Fitted | None
    drawn: Fitted | None = None

    @property
    def state(self) -> State:
        """The state of the message, checked."""
        return read_state(self.message.get("state"))

    def fit(self, state: State, **more: Any) -> Fitted:
        """Solve a state as a part of the request."""
        return fit_state(state, self.run, self.on_record, **more)

    def solved(self) -> Fitted:
        """Return the state of the message, solved; the last picture's if it is the same."""
        state, last = self.state, self.last
        if last is not None and last.state.told() == state.told() and not last.is_stopped:
            return last
        return self.fit(state)


def hello(begin: Mapping[str, Any] | None) -> dict[str, Any]:
    """Describe the lab to a client: machines, data sets, limits, and the state to begin with."""
    import polyopt

    return {
        "kind": "hello", "v": 1, "version": polyopt.__version__,
        "machines": [machine.shown() for machine in machines().values()], "datasets": menu(),
        "limits": {"points": MAX_POINTS, "grid": MAX_NODES, "text": MAX_TEXT},
        "state": dict(beginning() if begin is None else begin),
    }  # fmt: skip


def explain(told: Mapping[str, Any], last: tuple[int, Fitted] | None) -> dict[str, Any]:
    """One point of the last picture."""
    if last is None:
        raise ValueError("there is no picture yet whose point could be explained")
    number, fitted = last
    sample = told.get("sample")
    if type(sample) is not int or not 0 <= sample < len(fitted.state.y):
        raise ValueError(f"sample must be a whole number from 0 to {len(fitted.state.y) - 1}")
    return {"kind": "explain", "of": number, **explained(fitted, sample)}


def _solve(context: Context) -> dict[str, Any]:
    message, state = context.message, context.state
    view, grid = read_view(message.get("view"), state.X), read_grid(message.get("grid", "default"))
    context.drawn = context.fit(state)
    return picture(context.drawn, view, grid, words=message.get("words") is not False)


def read_values(state: State, parameter: object, values: object, count: object) -> list[float]:
    """Return the values of a path: as asked, or `count` (9 by default) spread about the state's own."""
    paths = state.machine.shown()["paths"]
    if parameter not in paths:
        raise ValueError(f"parameter must be one of {', '.join(paths)} for {state.machine.name}")
    setting = state.machine.settings[str(parameter)]
    if values is not None:
        if not isinstance(values, (list, tuple)) or not 1 <= len(values) <= MAX_FRAMES:
            raise ValueError(f"values must be a list of 1 to {MAX_FRAMES} numbers")
        return [float(setting.read(value)) for value in values]  # type: ignore[arg-type]
    number = 9 if count is None else count
    if type(number) is not int or not 2 <= number <= MAX_FRAMES:
        raise ValueError(f"count must be a whole number from 2 to {MAX_FRAMES}")
    own = state.settings[setting.name]
    if not setting.log:
        return np.linspace(setting.low, setting.high, number + 2)[1:-1].tolist()
    middle = np.log10(float(own)) if own is not None else np.log10(max(setting.low, 1.0)) + _DECADES / 4
    wide = _DECADES if setting.low < 1.0 else _DECADES / 4  # a bound from 1 on is most telling near 1
    spread = np.logspace(middle - wide, middle + wide, number)
    return np.unique(np.clip(spread, setting.low, setting.high)).tolist()


def _film(context: Context) -> dict[str, Any]:
    """Draw the small pictures of a path, each told as soon as it is there; a stopped run keeps those made."""
    message, state, parameter = context.message, context.state, str(context.message.get("parameter"))
    values = read_values(state, message.get("parameter"), message.get("values"), message.get("count"))
    view = read_view(message.get("view"), state.X)
    grid = read_grid(message.get("grid", "default"), _SMALL_GRID)
    frames: list[dict[str, Any]] = []
    for number, value in enumerate(values):
        if context.run.is_over and frames:
            break
        fitted = context.fit(replace(state, settings={**state.settings, parameter: value}))
        frame = {
            "value": value, **drawing(fitted, view, grid),
            "support": sum(samples_of(dual_rows(fitted), fitted)["support"]),
            "certificate": fitted.certificate.to_dict(), "settings": fitted.shown_settings,
        }  # fmt: skip
        frames.append(frame)
        share, text = (number + 1) / len(values), f"{parameter} = {value:.4g}"
        context.send(share=share, frame=frame, number=number, text=text)
    stopped = len(frames) < len(values)
    return {"kind": "path", "parameter": parameter, "frames": frames, "stopped": stopped}


class _Trajectory:
    """The points of a run: of several starts those of the one that ended best, of equal ones the longest."""

    def __init__(self) -> None:
        self._best: list[dict[str, Any]] = []
        self._now: list[dict[str, Any]] = []
        self.unit = "step"

    def add(self, record: Mapping[str, float], point: Mapping[str, Any]) -> None:
        """Add a point of the run."""
        unit = next((name for name in _UNITS if name in record), "")
        number = int(record.get(unit, len(self._now)))
        shown = {name: np.array(point[name]) for name in _SHOWN if point.get(name) is not None}
        if not shown:
            return
        if self._now and (number <= self._now[-1]["step"] or shown.keys() != self._now[-1]["point"].keys()):
            self._end_start()
        self.unit = unit or self.unit
        value = point.get("objective", next((record[name] for name in _VALUES if name in record), np.nan))
        step = {"step": number, "objective": float(value), "bound": record.get("bound"), "point": shown}
        self._now.append(step)

    def _end_start(self) -> None:
        """Keep the points of the start that ends here, if it is the best so far."""
        ends = [visited[-1]["objective"] for visited in (self._now, self._best) if visited]
        near = len(ends) == 2 and abs(ends[0] - ends[1]) <= 1e-6 * abs(ends[1])
        if len(ends) == 1 or (len(self._now) > len(self._best) if near else ends[0] < ends[1]):
            self._best = self._now
        self._now = []

    def visited(self) -> list[dict[str, Any]]:
        """Return the points of the best start."""
        if self._now:
            self._end_start()
        return self._best


def _trace(context: Context, state: State, most: object) -> dict[str, Any]:
    """Solve a state, and tell `most` of the points on the way."""
    most = 60 if most is None else most
    if type(most) is not int or not 2 <= most <= MAX_STEPS:
        raise ValueError(f"most must be a whole number from 2 to {MAX_STEPS}")
    trajectory = _Trajectory()
    fitted = context.fit(state, seeing=trajectory.add)
    # Rounds from a random assignment tell more than the run of the answer, which is prepared.
    is_free = state.machine.takes_assignments and state.assignment is None
    begun = is_free and fitted.estimator.solver_ == "exact" and len(fitted.estimator.W_) > 1
    if begun:
        trajectory = _Trajectory()
        first = np.random.default_rng(state.seed).integers(len(fitted.estimator.W_), size=len(state.y))
        context.fit(state, seeing=trajectory.add, begin=first)
    visited = trajectory.visited()
    if not visited:
        return _history(fitted, most)
    kept = np.unique(np.linspace(0, len(visited) - 1, most).round().astype(int))
    steps: list[dict[str, Any]] = []
    for place in kept.tolist():
        steps.append(_step(visited[place], fitted, steps[-1]["assignment"] if steps else None))
    some = "" if len(kept) == len(visited) else f" {len(kept)} of its {len(visited)} are told."
    which = _BEGUN if begun else _HELD if state.assignment is not None else ""
    points = "1 point" if len(visited) == 1 else f"{len(visited)} points"
    which = which or f"The run of the answer: {points}, one each {trajectory.unit}.{some}"
    exact = fitted
    if state.solver != "exact" and not context.run.is_over:
        exact = context.fit(replace(state, solver="exact"))
    point = visited[0]["point"]
    kind = "alternation" if "assignment" in point and fitted.estimator.solver_ != "sgd" else "descent"
    kind = "cross-entropy" if "p" in point else "run" if "w" in point else kind
    shown = drawing(exact, (0.0, 1.0, 0.0, 1.0), None)
    lines = shown["faces"] or ([shown["line"]] if shown["line"] is not None else [])
    return {
        "kind": "trace", "what": kind, "unit": trajectory.unit, "steps": steps,
        "optimum": _optimum(exact, lines), "sentence": which,
    }  # fmt: skip


def _optimum(exact: Fitted, faces: list[Any]) -> dict[str, Any]:
    certificate = exact.certificate.to_dict()
    return {
        "solver": exact.estimator.solver_, "objective": certificate["primal_value"],
        "bound": certificate["dual_value"], "faces": faces, "certificate": certificate,
    }  # fmt: skip


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
    sentence = (
        f"Seen are the value and the bound that {fitted.estimator.solver_} has by then, and no boundary: its "
        "points are multipliers, and of those only some are computed on the way."
    )
    if not steps:
        sentence = f"The solver {fitted.estimator.solver_} keeps no record of its way."
    return {
        "kind": "trace", "what": "run", "unit": fitted.method.unit, "steps": steps, "sentence": sentence,
        "optimum": _optimum(fitted, []),
    }  # fmt: skip


def exported(fitted: Fitted) -> dict[str, Any]:
    """Return the Python lines and the claim, as texts."""
    claim, data, sentence = _claim(fitted)
    return {
        "kind": "export", "python": python_lines(fitted), "claim": claim, "claim_sentence": sentence,
        "claim_name": _CLAIM, "data": data, "data_name": _DATA,
    }  # fmt: skip


def python_lines(fitted: Fitted) -> str:
    """Lines of Python that give the same estimator and the same certificate."""
    state, name = fitted.state, type(fitted.estimator).__name__
    held = state.assignment
    chosen = {"solver": state.solver if held is None else "exact", **fitted.settings}
    if fitted.method.is_random:
        chosen["random_state"] = state.seed
    words = {
        key: f"{key}={getattr(value, 'item', lambda value=value: value)()!r}" for key, value in chosen.items()
    }
    settings = ", ".join(word for key, word in words.items() if "__" not in key)
    grouped = ", ".join(word for key, word in words.items() if "__" in key)
    grouped = f"set_params({grouped})." if grouped else ""
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
        f"model = {name}({settings}).{grouped}{fit}\n"
        "print(model.certificate())\n"
        "print(model.duals_)\n"
    )


def _claim(fitted: Fitted) -> tuple[str | None, str | None, str]:
    """Return the claim and the points that it is about; a sentence on them, or on why there are none."""
    with tempfile.TemporaryDirectory(prefix="polyopt-lab-") as folder:
        claim, data = Path(folder) / _CLAIM, Path(folder) / _DATA
        try:
            fitted.certificate.save(claim, data=data)
        except ValueError as error:
            return None, None, f"There is no claim to save: {error}"
        told, points = claim.read_text(encoding="utf-8"), data.read_text(encoding="utf-8")
    return told, points, f"Checked anywhere by: python check.py {_CLAIM} {_DATA}"


COMPUTED: dict[str, Callable[[Context], dict[str, Any]]] = {
    "solve": _solve,
    "dataset": lambda context: dataset(context.message),
    "columns": lambda context: columns_of(context.message),
    "trace": lambda context: _trace(context, context.state, context.message.get("most")),
    "path": _film,
    "program": lambda context: program_shown(context.solved()),
    "export": lambda context: exported(context.solved()),
}
"""The requests that are computed one after the other."""
