"""The answers to the requests of a client, by their names in :data:`COMPUTED`.

A path over one parameter is a film strip, a small picture of each value. A state is exported as the Python
lines that reproduce it and the certificate's claim as a file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from polyopt.lab.fitting import fit_state
from polyopt.lab.machines import machines
from polyopt.lab.picture import MAX_NODES, drawing, explained, picture, read_grid
from polyopt.lab.programs import program_told
from polyopt.lab.samples import rows_held, samples_of
from polyopt.lab.sets import beginning, dataset, datasets
from polyopt.lab.state import MAX_POINTS, read_state, read_view
from polyopt.lab.tables import MAX_TEXT, columns_of
from polyopt.lab.traces import trace_told

if TYPE_CHECKING:
    from formulations.language.clock import Clock
    from polyopt.base.progress import Listener
    from polyopt.lab.fitting import Fitted
    from polyopt.lab.state import State

    View = tuple[float, float, float, float]

__all__ = ["COMPUTED", "Context", "explain", "hello"]

MAX_FRAMES = 24
_DECADES = 2.0  # to both sides of the state's own value
_SMALL_GRID = (24, 24)  # nodes of a frame
_CLAIM, _DATA = "claim.json", "points.svm"


Answer: TypeAlias = "tuple[dict[str, Any], Fitted | None]"


@dataclass(frozen=True)
class Context:
    """A request of a client, and the means to answer it.

    run: by which it can be stopped.
    last: what the last picture shows.
    """

    message: Mapping[str, Any]
    run: Clock
    hear: Listener
    tell: Callable[..., None]
    last: Fitted | None

    def solved(self) -> Fitted:
        """The state of the message, solved; the last picture's where it is the same."""
        state = read_state(self.message.get("state"))
        last = self.last
        if last is not None and last.state.told() == state.told() and not last.is_stopped:
            return last
        return fit_state(state, self.run, self.hear)


def hello(begin: Mapping[str, Any] | None) -> dict[str, Any]:
    """Describe the lab to a client: machines, data sets, limits, and the state to begin with."""
    import polyopt

    return {
        "kind": "hello",
        "v": 1,
        "version": polyopt.__version__,
        "machines": [machine.shown() for machine in machines().values()],
        "datasets": datasets(),
        "limits": {"points": MAX_POINTS, "grid": MAX_NODES, "text": MAX_TEXT},
        "state": dict(beginning() if begin is None else begin),
    }


def explain(told: Mapping[str, Any], last: tuple[int, Fitted] | None) -> dict[str, Any]:
    """One point of the last picture."""
    if last is None:
        raise ValueError("there is no picture yet whose point could be explained")
    number, fitted = last
    sample = told.get("sample")
    if type(sample) is not int or not 0 <= sample < len(fitted.state.y):
        raise ValueError(f"sample must be a whole number from 0 to {len(fitted.state.y) - 1}")
    return {"kind": "explain", "of": number, **explained(fitted, sample)}


def _solve(context: Context) -> Answer:
    message = context.message
    state = read_state(message.get("state"))
    view, grid = read_view(message.get("view"), state.X), read_grid(message.get("grid", "default"))
    fitted = fit_state(state, context.run, context.hear)
    return picture(fitted, view, grid, words=message.get("words") is not False), fitted


def _dataset(context: Context) -> Answer:
    return dataset(context.message), None


def _columns(context: Context) -> Answer:
    return columns_of(context.message), None


def _trace(context: Context) -> Answer:
    state = read_state(context.message.get("state"))
    return trace_told(state, context.message.get("most"), context.run, context.hear), None


def _path(context: Context) -> Answer:
    message = context.message
    state, parameter = read_state(message.get("state")), message.get("parameter")
    values = read_values(state, parameter, message.get("values"), message.get("count"))
    view, grid = (
        read_view(message.get("view"), state.X),
        read_grid(message.get("grid", "default"), _SMALL_GRID),
    )
    return film(state, str(parameter), values, view, grid, context.run, context.hear, context.tell), None


def _program(context: Context) -> Answer:
    return program_told(context.solved()), None


def _export(context: Context) -> Answer:
    return exported(context.solved()), None


def read_values(state: State, parameter: object, values: object, count: object) -> list[float]:
    """The values of a path: as asked, or spread about the state's own.

    count: how many, where they are not given; None for 9.
    """
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


def film(
    state: State, parameter: str, values: list[float], view: View, grid: tuple[int, int] | None, run: Clock,
    hear: Listener, tell: Callable[..., None],
) -> dict[str, Any]:  # fmt: skip
    """The small pictures; each is told as soon as it is there.

    run: by which it can be stopped: the pictures made by then are kept.
    """
    frames: list[dict[str, Any]] = []
    for number, value in enumerate(values):
        if run.is_over and frames:
            break
        fitted = fit_state(replace(state, settings={**state.settings, parameter: value}), run, hear)
        frames.append({"value": value, **_frame(fitted, view, grid)})
        tell(
            share=(number + 1) / len(values),
            frame=frames[-1],
            number=number,
            text=f"{parameter} = {value:.4g}",
        )
    stopped = len(frames) < len(values)
    return {"kind": "path", "parameter": parameter, "frames": frames, "stopped": stopped}


def _frame(fitted: Fitted, view: View, grid: tuple[int, int] | None) -> dict[str, Any]:
    support = samples_of(rows_held(fitted), fitted)["support"]
    return {
        **drawing(fitted, view, grid),
        "support": sum(support),
        "certificate": fitted.certificate.to_dict(),
        "settings": fitted.shown_settings,
    }


def exported(fitted: Fitted) -> dict[str, Any]:
    """The Python lines and the claim, as texts."""
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
    """The claim and the points that it is about; a sentence on them, or on why there are none."""
    with tempfile.TemporaryDirectory(prefix="polyopt-lab-") as folder:
        claim, data = Path(folder) / _CLAIM, Path(folder) / _DATA
        try:
            fitted.certificate.save(claim, data=data)
        except ValueError as error:
            return None, None, f"There is no claim to save: {error}"
        told, points = claim.read_text(encoding="utf-8"), data.read_text(encoding="utf-8")
    return told, points, f"Checked anywhere by: python check.py {_CLAIM} {_DATA}"


COMPUTED: dict[str, Callable[[Context], Answer]] = {
    "solve": _solve, "dataset": _dataset, "columns": _columns, "trace": _trace, "path": _path,
    "program": _program, "export": _export,
}  # fmt: skip
"""The requests that are computed one after the other: what is answered, and what a picture shows."""
