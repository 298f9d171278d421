"""What each request of a client is answered by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from polyopt.lab.exports import exported
from polyopt.lab.films import film, read_values
from polyopt.lab.fitting import fit_state
from polyopt.lab.machines import machines
from polyopt.lab.picture import MOST_NODES, explained, picture, read_grid
from polyopt.lab.programs import program_told
from polyopt.lab.sets import beginning, dataset, datasets
from polyopt.lab.state import MOST_POINTS, read_state, read_view
from polyopt.lab.tables import MOST_TEXT, columns_of
from polyopt.lab.traces import trace_told

if TYPE_CHECKING:
    from formulations.clock import Clock
    from polyopt.lab.fitting import Fitted
    from polyopt.watch import Listener

__all__ = ["COMPUTED", "Context", "explain", "hello"]

Answer: TypeAlias = "tuple[dict[str, Any], Fitted | None]"


@dataclass(frozen=True)
class Context:
    """What an answer is made of.

    message: the client's.
    run: by which it can be stopped.
    hear: hears the records of solvers.
    tell: tells the client how far it is.
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
    """What there is."""
    import polyopt

    return {
        "kind": "hello",
        "v": 1,
        "version": polyopt.__version__,
        "machines": [machine.shown() for machine in machines().values()],
        "datasets": datasets(),
        "limits": {"points": MOST_POINTS, "grid": MOST_NODES, "text": MOST_TEXT},
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


_SMALL_GRID = (24, 24)

COMPUTED: dict[str, Callable[[Context], Answer]] = {
    "solve": _solve, "dataset": _dataset, "columns": _columns, "trace": _trace, "path": _path,
    "program": _program, "export": _export,
}  # fmt: skip
"""The requests that are computed one after the other: what is answered, and what a picture shows."""
