"""Convex Polytope Machines with ``inside_label="both"``: two polytopes, one around each class.

The machine has a fitted machine for each polytope, in ``sides_``, and decides by the difference of their
scores. The number `side` is +1 if ``classes_[1]`` is outside the polytope, −1 if ``classes_[0]`` is.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from formulations.language.clock import Clock
from polyopt.base.parallel import run_tasks
from polyopt.estimators.base import Part

if TYPE_CHECKING:
    import pandas as pd

BOTH = "both"  # the `inside_label` for two polytopes


class _Side(NamedTuple):
    """A machine to be fitted to one side; `X` to `side` are the arguments of its ``_fit_side``."""

    machine: Any
    X: Any
    y: Any
    weights: Any
    rows: Any
    side: float
    part: Part  # its part of the time limit


def fit_sides(machine: Any, X: Any, y: Any, weights: Any, rows: Any) -> None:
    """Fit a machine to each side, and set those of `machine`; both have a part of the time limit."""
    clock = Clock(machine.time_limit)
    tasks = [
        _Side(one_sided(machine), X, y, weights, rows, side, Part("side", number, 2, clock, machine.n_jobs))
        for number, side in enumerate((1.0, -1.0))
    ]
    set_sides(machine, run_tasks(_fit_side, tasks, machine.n_jobs, "side"))


def _fit_side(task: _Side) -> Any:
    with task.part.of_fit(task.machine):
        task.machine._fit_side(task.X, task.y, task.weights, task.rows, task.side)
    return task.machine


def one_sided(machine: Any) -> Any:
    """Return an unfitted machine with the same parameters, but for one polytope."""
    return machine._part_like(inside_label=None, class_weight=None, n_jobs=None)


def set_sides(machine: Any, sides: Sequence[Any]) -> None:
    """Set the fitted attributes of a machine from its two fitted sides."""
    machine._sides, machine._side = tuple(sides), 1.0
    machine.solver_ = sides[0].solver_
    machine.solution_ = [side.solution_ for side in sides]
    machine.n_iter_ = max(side.n_iter_ for side in sides)


def frame_of_sides(machine: Any, frames: "Sequence[pd.DataFrame]", last: bool = False) -> "pd.DataFrame":
    """Stack the frames of the sides, with a column for the class outside: the first, or the `last` one."""
    import pandas as pd

    for side, frame in zip(machine._sides, frames, strict=True):
        frame.insert(len(frame.columns) if last else 0, "outside", side.outer_label_)
    return pd.concat(frames, ignore_index=True)
