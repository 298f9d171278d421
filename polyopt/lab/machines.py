"""The machines that the lab offers: those of the registry, each with its solvers and the settings shown."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from sklearn.utils._param_validation import StrOptions

from polyopt.methods.registry import METHODS, for_kernel

if TYPE_CHECKING:
    from polyopt.methods import Method

__all__ = ["HELD", "Machine", "Setting", "find_machine", "machines"]

HELD = "fixed"
"""The lab's own way for machines of faces: the assignment stays as it is, and what is left is convex."""

_KERNELS = ("linear", "rbf", "poly")
_WIDE = ("rbf", "poly")


@dataclass(frozen=True)
class Setting:
    """A parameter of estimators that a person can set, and what is shown of it.

    name, title: the parameter, and what it is in words.
    kind: ``"number"``, ``"integer"``, ``"flag"`` or ``"choice"``.
    low, high: the least and the largest value that the lab takes.
    log: whether a slider runs over the orders of magnitude.
    choices: the values of a choice.
    default: the value where none is given; None where the data choose.
    tuned: whether the data choose where none is given.
    kernels: the kernels that it is of; empty for all.
    """

    name: str
    title: str
    kind: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[object, ...] = ()
    default: object = None
    tuned: bool = False
    kernels: tuple[str, ...] = ()

    def shown(self) -> dict[str, Any]:
        """As plain values."""
        told: dict[str, Any] = {"name": self.name, "title": self.title, "kind": self.kind}
        told |= {"default": self.default, "tuned": self.tuned}
        told["needs"] = {"kernel": list(self.kernels)} if self.kernels else {}
        if self.kind in ("number", "integer"):
            told |= {"low": self.low, "high": self.high, "log": self.log}
        return told | ({"choices": list(self.choices)} if self.kind == "choice" else {})

    def read(self, value: object) -> object:
        """The value, checked."""
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
        raise ValueError(f"{self.name} must be {self._allowed()}, not {_short(value)}")

    def _allowed(self) -> str:
        if self.kind == "flag":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(str(choice) for choice in self.choices)
        return (
            f"{'a whole number' if self.kind == 'integer' else 'a number'} from {self.low:g} to {self.high:g}"
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


_SHOWN = (
    Setting("kernel", "kernel", "choice", choices=_KERNELS),
    Setting("gamma", "gamma of the kernel", "number", 1e-4, 1e4, log=True, tuned=True, kernels=_WIDE),
    Setting("degree", "degree", "integer", 1, 6, kernels=("poly",)),
    Setting("coef0", "constant of the kernel", "number", 0.0, 100.0, kernels=("poly",)),
    Setting("C", "C, the price of slack", "number", 1e-4, 1e4, log=True),
    Setting("B", "B, the bound on the outputs", "number", 1.0, 1e4, log=True),
    Setting("bound_cost", "cost of outputs beyond B; automatic: hard bounds", "number", 1e-4, 1e4, log=True),
    Setting("D", "D", "number", 1e-4, 1e4, log=True),
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
"""The settings that the lab shows, of the machines that have them."""

_PATHS = ("C", "B", "bound_cost", "D", "ridge", "gamma")  # parameters that a film may run over
_OF_LOOPS = ("max_iter",)  # which a convex machine needs no person to choose
_TITLES = {
    "auto": "fast, as suits the data",
    "exact": "exact, the explicit program",
    HELD: "held assignment, convex",
}
_LOWER_ENDS = (0.999, 0.99, 0.9)  # tried where a machine refuses the upper end of a setting


@dataclass(frozen=True)
class Machine:
    """A machine of the lab: a method of the registry, with all its kernels.

    method: its first entry.
    """

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
        """True if the program is convex, so that a certificate proves its optimum at once."""
        return not self.method.has_faces and not self.method.is_integer

    @cached_property
    def solvers(self) -> tuple[str, ...]:
        """Its solvers, the one that is taken by default first."""
        options = [
            rule.options for rule in self.method.estimator_class._parameter_constraints["solver"]  # type: ignore[attr-defined]
            if isinstance(rule, StrOptions)
        ]  # fmt: skip
        known = set().union(*options)
        first = ("auto", "exact", self.method.fast, self.method.proving)
        own = tuple(dict.fromkeys(name for name in (*first, *sorted(known)) if name in known))
        return (*own, HELD) if self.takes_assignments else own

    @property
    def takes_assignments(self) -> bool:
        """True if a fit can begin at an assignment, or hold it."""
        return hasattr(self.method.estimator_class, "fit_from")

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """Its settings by name."""
        given = self.method.estimator_class().get_params(deep=False)
        for group, kind in getattr(self.method.estimator_class, "_settings", {}).items():
            given |= {f"{group}__{name}": value for name, value in kind().get_params().items()}
        defaults = {**given, **self.method.settings}
        shown = [
            one for one in _SHOWN if one.name in defaults and not (one.name in _OF_LOOPS and self.is_convex)
        ]
        return {one.name: self._own(one, defaults[one.name]) for one in shown}

    def _own(self, one: Setting, default: object) -> Setting:
        """A setting with this machine's default, choices and range."""
        if one.kernels and "kernel" not in self.method.parameters:
            one = replace(one, title=one.name, kernels=(), tuned=False)
        if one.kind == "choice" and not one.choices:
            rules = self.method.estimator_class._parameter_constraints[one.name]  # type: ignore[attr-defined]
            options = set().union(*(rule.options for rule in rules if isinstance(rule, StrOptions)))
            one = replace(one, choices=tuple(sorted(options)))
        if one.kind == "number" and not self._takes(one.name, one.high):
            ends = (end for end in _LOWER_ENDS if self._takes(one.name, end))
            one = replace(one, high=next(ends, one.high), log=False)
        if (
            one.name == self.method.tuned
            or default in (None, math.inf)
            or isinstance(default, str) != (one.kind == "choice")
        ):
            return replace(one, tuned=True)
        return replace(one, tuned=False, default=default)

    def _takes(self, name: str, value: float) -> bool:
        try:
            self.method.check({name: value})
        except ValueError:
            return False
        return True

    def entry(self, settings: dict[str, Any]) -> Method:
        """The method of its kernel."""
        return for_kernel(self.method, settings.get("kernel"))

    def shown(self) -> dict[str, Any]:
        """As plain values, for the front end."""
        paths = [name for name in _PATHS if name in self.settings]
        return {
            "name": self.name,
            "title": self.title,
            "shape": "polytope" if self.method.has_faces else "function",
            "convex": self.is_convex,
            "methods": [{"name": name, "title": _TITLES.get(name, name)} for name in self.solvers],
            "settings": [setting.shown() for setting in self.settings.values()],
            "offers": ["trace", "path", "program", "export"] if paths else ["trace", "program", "export"],
            "paths": paths,
        }


@cache
def machines() -> dict[str, Machine]:
    """The machines by name: one for each estimator of the registry."""
    first: dict[str, Method] = {}
    for method in METHODS.values():
        first.setdefault(method.home, method)
    return {method.name: Machine(method) for method in first.values()}


def find_machine(name: object) -> Machine:
    """The machine of a name."""
    known = machines()
    key = name.replace("_", "-") if isinstance(name, str) else ""
    if key in known:
        return known[key]
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"machine {_short(name)} is not known.{hint} Known: {', '.join(known)}")
