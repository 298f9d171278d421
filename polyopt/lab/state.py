"""The state of the lab: points with labels, a machine, its solver and settings. It is what a link holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.lab.machines import HELD, find_machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Array
    from polyopt.lab.machines import Machine

__all__ = ["MAX_COORDINATE", "MAX_POINTS", "State", "read_state", "read_view"]

MAX_POINTS = 400
MAX_COORDINATE = 1e6


@dataclass(frozen=True)
class State:
    """A checked state.

    X (n, 2): the points.
    y (n,): their labels, -1 and +1.
    settings: every setting that the lab shows of it; None where the data choose.
    seed: of all randomness.
    assignment (n,): with the assignment held: the face of each point, -1 for those that need none.
    """

    X: Array
    y: NDArray[np.int64]
    machine: Machine
    solver: str
    settings: dict[str, Any]
    seed: int = 0
    assignment: NDArray[np.int64] | None = None

    def told(self, **settings: object) -> dict[str, Any]:
        """As plain values, with other settings in the place of some."""
        points = [[float(u), float(v), int(label)] for (u, v), label in zip(self.X, self.y, strict=True)]
        held = {} if self.assignment is None else {"assignment": self.assignment.tolist()}
        return {
            "v": 1,
            "points": points,
            "machine": self.machine.name,
            "method": self.solver,
            "settings": {**self.settings, **settings},
            "seed": self.seed,
            **held,
        }


def read_state(told: object) -> State:
    """A state from what a client says.

    ValueError: what is wrong with it, as a sentence.
    """
    if not isinstance(told, Mapping):
        raise ValueError("state must be an object with points, machine, method and settings")
    if told.get("v", 1) != 1:
        raise ValueError("the state is of a later version of the lab than this one")
    machine = find_machine(told.get("machine"))
    solver = told.get("method", machine.solvers[0])
    if solver not in machine.solvers:
        known = ", ".join(machine.solvers)
        raise ValueError(f"method must be one of {known} for {machine.name}, not {str(solver)[:40]!r}")
    given = told.get("settings", {})
    if not isinstance(given, Mapping):
        raise ValueError("settings must be an object of names and values")
    if unknown := [name for name in given if name not in machine.settings]:
        known = ", ".join(machine.settings)
        raise ValueError(f"{machine.name} has no setting {str(unknown[0])[:40]!r}; it has {known}")
    settings = {
        name: one.read(given[name]) if name in given else one.default
        for name, one in machine.settings.items()
    }
    seed = told.get("seed", 0)
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise ValueError(f"seed must be a whole number from 0 to {2**31 - 1}")
    X, y = _points(told.get("points"))
    held = _assignment(told.get("assignment"), len(y)) if solver == HELD else None
    return State(X, y, machine, solver, settings, seed, held)


def _assignment(told: object, count: int) -> NDArray[np.int64]:
    if not isinstance(told, (list, tuple)) or len(told) != count:
        raise ValueError(f"assignment must be a list of {count} faces, one for each point, to be held")
    if any(type(face) is not int or not -1 <= face < MAX_POINTS for face in told):
        raise ValueError("assignment must be of whole numbers: the face of each point, -1 for none")
    return np.array(told, dtype=np.int64)


def _points(told: object) -> tuple[Array, NDArray[np.int64]]:
    if not isinstance(told, (list, tuple)) or not told:
        raise ValueError("there are no points: draw some of both classes, or load a data set")
    if len(told) > MAX_POINTS:
        raise ValueError(f"there are {len(told)} points; the lab takes {MAX_POINTS} at most")
    for i, point in enumerate(told):
        if not isinstance(point, (list, tuple)) or len(point) != 3:
            raise ValueError(f"point {i} must be [x, y, label]")
        if any(type(value) not in (int, float) for value in point):
            raise ValueError(f"point {i} must be three numbers")
        if not all(abs(value) <= MAX_COORDINATE for value in point[:2]):  # which NaN is not, either
            limits = f"{-MAX_COORDINATE:g} to {MAX_COORDINATE:g}"
            raise ValueError(f"point {i} must have coordinates from {limits}")
        if point[2] not in (-1, 1):
            raise ValueError(f"point {i} must have the label 1 or -1, not {point[2]}")
    table = np.array(told, dtype=np.float64)
    y = table[:, 2].astype(np.int64)
    if len(np.unique(y)) < 2:
        which = f"all {len(y)} are" if len(y) > 1 else "the only one is"
        raise ValueError(f"points must be of two classes: {which} {int(y[0]):+d}")
    return np.ascontiguousarray(table[:, :2]), y


def read_view(told: object, X: Array) -> tuple[float, float, float, float]:
    """The part of the plane that is shown: as asked, or the points' box and a margin.

    told: ``[x0, x1, y0, y1]``, or None.
    """
    if told is None:
        low, high = X.min(axis=0), X.max(axis=0)
        pad = 0.12 * np.where(high > low, high - low, 1.0)
        x0, y0, x1, y1 = (float(value) for value in (*(low - pad), *(high + pad)))
        return x0, x1, y0, y1
    if (
        not isinstance(told, (list, tuple))
        or len(told) != 4
        or any(type(v) not in (int, float) for v in told)
    ):
        raise ValueError("view must be four numbers: x0, x1, y0, y1")
    x0, x1, y0, y1 = (float(value) for value in told)
    if not all(abs(value) <= 10 * MAX_COORDINATE for value in (x0, x1, y0, y1)):
        raise ValueError("view must be within ten million")
    # A view narrower than its numbers' last digits is no picture.
    if any(not high - low > 1e-10 * max(abs(low), abs(high)) for low, high in ((x0, x1), (y0, y1))):
        raise ValueError("view must have x0 below x1 and y0 below y1, and not by next to nothing")
    return x0, x1, y0, y1
