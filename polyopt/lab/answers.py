"""Answers to a client's requests, by their names in :data:`COMPUTED`.

A path is a row of small pictures, one for each value of a parameter; a trace shows the iterates of a solver.
A state is exported as Python lines that reproduce it, and as a file with the certificate's claim.
"""

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
_FROM_RANDOM = (
    "Alternation from a random assignment: a round solves the convex program of each face, then moves "
    "samples to the face where they pay less. It may end above the answer, which is the best of many "
    "prepared starts."
)
_HELD = "The assignment is held, so there is one convex program, and no round but this."
_POINT_FIELDS = ("W", "w", "assignment", "p")  # faces, one function, active faces, probabilities
_OBJECTIVES = ("objective", "criterion", "best")  # names of the objective in records of solvers
MAX_FRAMES = 24
_DECADES = 2.0  # of a path, on both sides of the state's value
_SMALL_GRID = (24, 24)  # nodes of a small picture
_CLAIM, _DATA = "claim.json", "points.svm"


@dataclass
class Context:
    """A request of a client, the means to answer it, the last picture, and the one of the answer."""

    message: Mapping[str, Any]
    run: Clock
    on_record: Listener
    send: Callable[..., None]
    last: Fitted | None
    drawn: Fitted | None = None

    @property
    def state(self) -> State:
        """State of the message, checked."""
        return read_state(self.message.get("state"))

    def fit(self, state: State, **more: Any) -> Fitted:
        """Solve a state as a part of the request."""
        return fit_state(state, self.run, self.on_record, **more)

    def solved(self) -> Fitted:
        """Return the state of the message, solved; the last picture's if it is the same."""
        state, last = self.state, self.last
        if last is not None and last.state.to_dict() == state.to_dict() and not last.is_stopped:
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
    """Explain one point of the last picture."""
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
    """Return the `values` of a path or, by default, `count` values (9) around the state's own."""
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
    value = state.settings[setting.name]
    if not setting.log:
        return np.linspace(setting.low, setting.high, number + 2)[1:-1].tolist()
    middle = np.log10(float(value)) if value is not None else np.log10(max(setting.low, 1.0)) + _DECADES / 4
    decades = _DECADES if setting.low < 1.0 else _DECADES / 4  # a bound from 1 on changes most near 1
    path = np.logspace(middle - decades, middle + decades, number)
    return np.unique(np.clip(path, setting.low, setting.high)).tolist()


def _path(context: Context) -> dict[str, Any]:
    """Draw the small pictures of a path, and send each at once; a stopped run keeps those drawn."""
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
    """The iterates of a run; of several starts those with the best end, of equal ones the most.

    unit: name of a step of the solver.
    """

    def __init__(self) -> None:
        self._best: list[dict[str, Any]] = []
        self._current: list[dict[str, Any]] = []
        self.unit = "step"

    def add(self, record: Mapping[str, float], point: Mapping[str, Any]) -> None:
        """Add an iterate; one with a smaller number, or other fields, begins another start."""
        unit = next((name for name in _UNITS if name in record), "")
        number, current = int(record.get(unit, len(self._current))), self._current
        fields = {name: np.array(point[name]) for name in _POINT_FIELDS if point.get(name) is not None}
        if not fields:
            return
        if current and (number <= current[-1]["step"] or fields.keys() != current[-1]["point"].keys()):
            self._end_start()
        self.unit = unit or self.unit
        value = point.get("objective", next((record[name] for name in _OBJECTIVES if name in record), np.nan))
        iterate = {"step": number, "objective": float(value), "bound": record.get("bound"), "point": fields}
        self._current.append(iterate)

    def _end_start(self) -> None:
        """Keep the iterates of the current start if it is the best."""
        current, best, self._current = self._current, self._best, []
        if not best:
            self._best = current
            return
        value, least = current[-1]["objective"], best[-1]["objective"]
        is_equal = abs(value - least) <= 1e-6 * abs(least)
        if len(current) > len(best) if is_equal else value < least:
            self._best = current

    def iterates(self) -> list[dict[str, Any]]:
        """Return the iterates of the best start."""
        if self._current:
            self._end_start()
        return self._best


def _trace(context: Context, state: State, most: object) -> dict[str, Any]:
    """Solve a state, and return at most `most` of the iterates (60 by default)."""
    most = 60 if most is None else most
    if type(most) is not int or not 2 <= most <= MAX_STEPS:
        raise ValueError(f"most must be a whole number from 2 to {MAX_STEPS}")
    trajectory = _Trajectory()
    fitted = context.fit(state, seeing=trajectory.add)
    # Rounds from a random assignment show more than the run of the answer, which has a good start.
    is_free = state.machine.takes_assignments and state.assignment is None
    is_random = is_free and fitted.estimator.solver_ == "exact" and len(fitted.estimator.W_) > 1
    if is_random:
        trajectory = _Trajectory()
        first = np.random.default_rng(state.seed).integers(len(fitted.estimator.W_), size=len(state.y))
        context.fit(state, seeing=trajectory.add, begin=first)
    iterates = trajectory.iterates()
    if not iterates:
        return _history(fitted, most)
    places = np.unique(np.linspace(0, len(iterates) - 1, most).round().astype(int)).tolist()
    steps: list[dict[str, Any]] = []
    for place in places:
        steps.append(_step(iterates[place], fitted, steps[-1]["assignment"] if steps else None))
    shown = "" if len(places) == len(iterates) else f" {len(places)} of its {len(iterates)} are shown."
    points = "1 point" if len(iterates) == 1 else f"{len(iterates)} points"
    sentence = f"The run of the answer: {points}, one each {trajectory.unit}.{shown}"
    if is_random or state.assignment is not None:
        sentence = _FROM_RANDOM if is_random else _HELD
    exact = fitted
    if state.solver != "exact" and not context.run.is_over:
        exact = context.fit(replace(state, solver="exact"))
    point = iterates[0]["point"]
    kind = "alternation" if "assignment" in point and fitted.estimator.solver_ != "sgd" else "descent"
    kind = "cross-entropy" if "p" in point else "run" if "w" in point else kind
    drawn = drawing(exact, (0.0, 1.0, 0.0, 1.0), None)
    lines = drawn["faces"] or ([drawn["line"]] if drawn["line"] is not None else [])
    return {
        "kind": "trace", "what": kind, "unit": trajectory.unit, "steps": steps,
        "optimum": _optimum(exact, lines), "sentence": sentence,
    }  # fmt: skip


def _optimum(exact: Fitted, faces: list[Any]) -> dict[str, Any]:
    certificate = exact.certificate.to_dict()
    return {
        "solver": exact.estimator.solver_, "objective": certificate["primal_value"],
        "bound": certificate["dual_value"], "faces": faces, "certificate": certificate,
    }  # fmt: skip


def _step(iterate: Mapping[str, Any], fitted: Fitted, before: list[int] | None) -> dict[str, Any]:
    """Return an iterate as plain values; by default the assignment is to the face of largest score."""
    point, estimator = iterate["point"], fitted.estimator
    W, assignment, faces = point.get("W"), point.get("assignment"), None
    if "w" in point:
        faces = [{"w": point["w"][:-1].tolist(), "b": float(point["w"][-1])}]
    if W is not None and W.ndim == 2:
        W = getattr(estimator, "_outward", 1.0) * W
        faces = [{"w": w[:-1].tolist(), "b": float(w[-1])} for w in W]
        if assignment is None:
            assignment = (fitted.state.X @ W[:, :-1].T + W[:, -1]).argmax(axis=1)
    active = None if assignment is None else assignment.astype(int).tolist()
    changed = None
    if active is not None and before is not None and len(before) == len(active):
        changed = sum(a != b for a, b in zip(before, active, strict=True))
    return {
        "step": iterate["step"], "objective": iterate["objective"], "bound": iterate["bound"],
        "faces": faces, "assignment": active, "changed": changed,
        "probabilities": point["p"].tolist() if "p" in point else None,
    }  # fmt: skip


def _history(fitted: Fitted, most: int) -> dict[str, Any]:
    """Return objective and bound alone, for a solver that shows no iterates."""
    frame = fitted.estimator.history_
    frame = history_of(fitted.estimator) if set(_UNITS) & set(frame) else frame.iloc[:0]
    if len(frame) > most:
        frame = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, most).round().astype(int))]
    empty = {"faces": None, "assignment": None, "changed": None, "probabilities": None}
    steps = [
        {"step": int(row["iteration"]), "objective": row["objective"], "bound": row.get("bound"), **empty}
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
    "trace": lambda context: _trace(context, context.state, context.message.get("most")),
    "path": _path,
    "program": lambda context: program_shown(context.solved()),
    "export": lambda context: exported(context.solved()),
}
"""Requests that are computed one after the other."""
