"""State of the lab, which a link holds: points with labels, a machine, its solver and settings."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from formulations.language.types import Array
from polyopt.base.text import cut_short
from polyopt.methods import Method
from polyopt.methods.registry import METHODS, for_kernel

HELD = "fixed"
"""The lab's own solver for machines of faces: the convex program of a fixed assignment."""

_KERNELS = ("linear", "rbf", "poly")
_WITH_GAMMA = ("rbf", "poly")


@dataclass(frozen=True)
class Setting:
    """A parameter of estimators with a control on the page."""

    name: str
    title: str
    kind: str  #: ``"number"``, ``"integer"``, ``"flag"`` or ``"choice"``
    #: low, high, log: range of a number; its slider is logarithmic if `log`.
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[object, ...] = ()  #: values of a choice
    default: object = None
    tuned: bool = False  #: True if the data choose the value by default
    kernels: tuple[str, ...] = ()  #: kernels with this parameter; empty for all

    def shown(self) -> dict[str, Any]:
        """Return plain values."""
        shown: dict[str, Any] = {
            "name": self.name, "title": self.title, "kind": self.kind, "default": self.default,
            "tuned": self.tuned, "needs": {"kernel": list(self.kernels)} if self.kernels else {},
        }  # fmt: skip
        if self.kind in ("number", "integer"):
            shown |= {"low": self.low, "high": self.high, "log": self.log}
        return shown | ({"choices": list(self.choices)} if self.kind == "choice" else {})

    def read(self, value: object) -> object:
        """Return the value, checked."""
        if value is None and self.tuned:
            return None
        if self.kind == "flag" and isinstance(value, bool):
            return value
        if self.kind == "choice" and not isinstance(value, bool) and value in self.choices:
            return value
        if self.kind in ("number", "integer") and type(value) in (int, float):
            number = float(value)  # type: ignore[arg-type]
            if self.low <= number <= self.high and (self.kind == "number" or number.is_integer()):
                return number if self.kind == "number" else int(number)
        raise ValueError(f"{self.name} must be {self._allowed()}, not {cut_short(repr(value), 40)}")

    def _allowed(self) -> str:
        if self.kind in ("flag", "choice"):
            return "true or false" if self.kind == "flag" else f"one of {', '.join(map(str, self.choices))}"
        number = "a whole number" if self.kind == "integer" else "a number"
        return f"{number} from {self.low:g} to {self.high:g}"


_SHOWN = (
    Setting("kernel", "kernel", "choice", choices=_KERNELS),
    Setting("gamma", "gamma of the kernel", "number", 1e-4, 1e4, log=True, tuned=True, kernels=_WITH_GAMMA),
    Setting("degree", "degree", "integer", 1, 6, kernels=("poly",)),
    Setting("coef0", "constant of the kernel", "number", 0.0, 100.0, kernels=("poly",)),
    Setting("C", "C, the price of slack", "number", 1e-4, 1e4, log=True),
    Setting("B", "B, the bound on the outputs", "number", 1.0, 1e4, log=True),
    Setting("bound_cost", "cost of outputs beyond B; automatic: hard bounds", "number", 1e-4, 1e4, log=True),
    Setting("D", "D", "number", 1e-4, 0.999),
    Setting("n_faces", "K, the number of faces", "integer", 1, 10),
    Setting("sgd__perplexity", "floor of the faces in use", "number", 1.0, 10.0),
    Setting("ridge", "ridge, the price of large weights", "number", 1e-4, 1e4, log=True),
    Setting("inside_label", "class inside", "choice", choices=(1, -1)),
    Setting("positives", "faces that a sample inside is asked at", "choice"),
    Setting("loss", "slacks of a sample inside", "choice"),
    Setting("sgd__average", "answer with the average of the iterates", "flag"),
    Setting("n_init", "starts", "integer", 1, 20),
    Setting("max_iter", "epochs or rounds at most", "integer", 1, 10_000, log=True),
)
"""The settings with controls, as far as a machine has them."""

_NOT_CONVEX = ("max_iter",)  # settings without a control if the program is convex
_TITLES = {
    "auto": "fast, as suits the data",
    "exact": "exact, the explicit program",
    HELD: "held assignment, convex",
}


@dataclass(frozen=True)
class Machine:
    """A machine of the lab: an estimator with all its kernels, by its first method in the registry."""

    method: Method

    @property
    def name(self) -> str:
        """Name of the machine in a state."""
        return self.method.name

    @property
    def title(self) -> str:
        """Title of the machine, without its kernel."""
        return self.method.title.removesuffix(", linear")

    @property
    def is_convex(self) -> bool:
        """True if the program is convex."""
        return not self.method.has_faces and not self.method.is_integer

    def _options(self, name: str) -> set[str]:
        """Return the texts that a parameter of the estimator accepts."""
        rules = getattr(self.method.estimator_class, "_parameter_constraints", {})[name]
        return set().union(*(rule.options for rule in rules if isinstance(rule, StrOptions)))

    @cached_property
    def solvers(self) -> tuple[str, ...]:
        """Names of the solvers, the default first."""
        known = self._options("solver")
        first = ("auto", "exact", self.method.fast, self.method.proving)
        names = tuple(dict.fromkeys(name for name in (*first, *sorted(known)) if name in known))
        return (*names, HELD) if self.takes_assignments else names

    @property
    def takes_assignments(self) -> bool:
        """True if a fit can begin at an assignment, or keep it fixed."""
        return hasattr(self.method.estimator_class, "fit_from")

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """Settings of the machine by name."""
        defaults = self.method.estimator_class().get_params(deep=False)
        for group, kind in getattr(self.method.estimator_class, "_settings", {}).items():
            defaults |= {f"{group}__{name}": value for name, value in kind().get_params().items()}
        defaults |= self.method.settings
        hidden = _NOT_CONVEX if self.is_convex else ()
        shown = [setting for setting in _SHOWN if setting.name in defaults and setting.name not in hidden]
        return {setting.name: self._adapted(setting, defaults[setting.name]) for setting in shown}

    def _adapted(self, setting: Setting, default: object) -> Setting:
        """Return a setting with this machine's default, choices and range."""
        name = setting.name
        if setting.kernels and "kernel" not in self.method.parameters:
            setting = replace(setting, title=name, kernels=(), tuned=False)
        if setting.kind == "choice" and not setting.choices:
            setting = replace(setting, choices=tuple(sorted(self._options(name))))
        is_tuned = default in (None, math.inf) or isinstance(default, str) != (setting.kind == "choice")
        if is_tuned or name == self.method.tuned:
            return replace(setting, tuned=True)
        return replace(setting, tuned=False, default=default)

    def entry(self, settings: dict[str, Any]) -> Method:
        """Return the method of its kernel."""
        return for_kernel(self.method, settings.get("kernel"))

    def shown(self) -> dict[str, Any]:
        """Return plain values for the front end."""
        return {
            "name": self.name, "title": self.title,
            "shape": "polytope" if self.method.has_faces else "function",
            "methods": [{"name": name, "title": _TITLES.get(name, name)} for name in self.solvers],
            "settings": [setting.shown() for setting in self.settings.values()],
        }  # fmt: skip


@cache
def machines() -> dict[str, Machine]:
    """Return the machines by name: one for each estimator of the registry."""
    first: dict[str, Method] = {}
    for method in METHODS.values():
        first.setdefault(method.home, method)
    return {method.name: Machine(method) for method in first.values()}


def find_machine(name: object) -> Machine:
    """Return the machine of a name."""
    known = machines()
    key = name.replace("_", "-") if isinstance(name, str) else ""
    if key in known:
        return known[key]
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"machine {cut_short(repr(name), 40)} is not known.{hint} Known: {', '.join(known)}")


MAX_POINTS = 400
MAX_COORDINATE = 1e6


@dataclass(frozen=True)
class State:
    """A checked state."""

    X: Array  # (n, 2), points
    y: NDArray[np.int64]  # (n,), their labels -1 and +1
    machine: Machine
    solver: str
    settings: dict[str, Any]  # values by name; None if the data choose
    seed: int = 0
    assignment: NDArray[np.int64] | None = None  # (n,), face that the solver keeps for a point, -1 for none

    def to_dict(self, **settings: object) -> dict[str, Any]:
        """Return plain values, with some other settings."""
        points = [[float(u), float(v), int(label)] for (u, v), label in zip(self.X, self.y, strict=True)]
        held = {} if self.assignment is None else {"assignment": self.assignment.tolist()}
        return {
            "v": 1, "points": points, "machine": self.machine.name, "method": self.solver,
            "settings": {**self.settings, **settings}, "seed": self.seed, **held,
        }  # fmt: skip


def read_state(state: object) -> State:
    """Check a client's state; a ValueError says in a sentence why it is refused."""
    if not isinstance(state, Mapping):
        raise ValueError("state must be an object with points, machine, method and settings")
    if state.get("v", 1) != 1:
        raise ValueError("the state is of a later version of the lab than this one")
    machine = find_machine(state.get("machine"))
    solver = state.get("method", machine.solvers[0])
    if solver not in machine.solvers:
        known = ", ".join(machine.solvers)
        raise ValueError(f"method must be one of {known} for {machine.name}, not {str(solver)[:40]!r}")
    given = state.get("settings", {})
    if not isinstance(given, Mapping):
        raise ValueError("settings must be an object of names and values")
    if unknown := [name for name in given if name not in machine.settings]:
        known = ", ".join(machine.settings)
        raise ValueError(f"{machine.name} has no setting {str(unknown[0])[:40]!r}; it has {known}")
    settings = {
        name: setting.read(given[name]) if name in given else setting.default
        for name, setting in machine.settings.items()
    }
    seed = state.get("seed", 0)
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise ValueError(f"seed must be a whole number from 0 to {2**31 - 1}")
    X, y = _points(state.get("points"))
    assignment = _assignment(state.get("assignment"), len(y)) if solver == HELD else None
    return State(X, y, machine, solver, settings, seed, assignment)


def _assignment(faces: object, n: int) -> NDArray[np.int64]:
    if not isinstance(faces, (list, tuple)) or len(faces) != n:
        raise ValueError(f"assignment must be a list of {n} faces, one for each point, to be held")
    if any(type(face) is not int or not -1 <= face < MAX_POINTS for face in faces):
        raise ValueError("assignment must be of whole numbers: the face of each point, -1 for none")
    return np.array(faces, dtype=np.int64)


def _points(points: object) -> tuple[Array, NDArray[np.int64]]:
    if not isinstance(points, (list, tuple)) or not points:
        raise ValueError("there are no points: draw some of both classes, or load a data set")
    if len(points) > MAX_POINTS:
        raise ValueError(f"there are {len(points)} points; the lab takes {MAX_POINTS} at most")
    for i, point in enumerate(points):
        if not isinstance(point, (list, tuple)) or len(point) != 3:
            raise ValueError(f"point {i} must be [x, y, label]")
        if any(type(value) not in (int, float) for value in point):
            raise ValueError(f"point {i} must be three numbers")
        if not all(abs(value) <= MAX_COORDINATE for value in point[:2]):  # false for NaN
            limits = f"{-MAX_COORDINATE:g} to {MAX_COORDINATE:g}"
            raise ValueError(f"point {i} must have coordinates from {limits}")
        if point[2] not in (-1, 1):
            raise ValueError(f"point {i} must have the label 1 or -1, not {point[2]}")
    table = np.array(points, dtype=np.float64)
    y = table[:, 2].astype(np.int64)
    if len(np.unique(y)) < 2:
        which = f"all {len(y)} are" if len(y) > 1 else "the only one is"
        raise ValueError(f"points must be of two classes: {which} {int(y[0]):+d}")
    return np.ascontiguousarray(table[:, :2]), y


def read_view(view: Any, X: Array) -> tuple[float, float, float, float]:
    """Check a client's view, ``[x0, x1, y0, y1]`` of the plane; None is the points' box with a margin."""
    if view is None:
        low, high = X.min(axis=0), X.max(axis=0)
        pad = 0.12 * np.where(high > low, high - low, 1.0)
        x0, y0, x1, y1 = (float(value) for value in (*(low - pad), *(high + pad)))
        return x0, x1, y0, y1
    is_four = isinstance(view, (list, tuple)) and len(view) == 4
    if not is_four or any(type(value) not in (int, float) for value in view):
        raise ValueError("view must be four numbers: x0, x1, y0, y1")
    x0, x1, y0, y1 = (float(value) for value in view)
    if not all(abs(value) <= 10 * MAX_COORDINATE for value in (x0, x1, y0, y1)):
        raise ValueError("view must be within ten million")
    # A narrower view has no digits left between its ends.
    if any(not high - low > 1e-10 * max(abs(low), abs(high)) for low, high in ((x0, x1), (y0, y1))):
        raise ValueError("view must have x0 below x1 and y0 below y1, and not by next to nothing")
    return x0, x1, y0, y1
