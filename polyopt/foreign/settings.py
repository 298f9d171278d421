"""The program that a solution is held to: its name and numbers, checked, and the samples of two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.arguments import at_least as least
from formulations.arguments import one_of, positive, real_number, whole, within
from polyopt.foreign.answer import gamma_by
from polyopt.foreign.programs import PROGRAMS
from polyopt.kernels import Kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formulations.matrices import Matrix, Vector
    from polyopt.foreign.answer import Answer, Samples

__all__ = ["Pair", "Settings", "settings_of"]


@dataclass(frozen=True)
class Pair:
    """Samples X (n, m) of two classes, signs y (n,), and weights (n,) of their costs, all positive."""

    X: Matrix
    y: Vector
    weights: Vector


@dataclass(frozen=True)
class Settings:
    """A program and its numbers; see :func:`polyopt.certify_solution`."""

    program: str
    C: float
    B: float = np.inf
    D: float = np.nan
    kernel: Kernel | None = None
    intercept: str = "free"
    loss: Any = "sum"
    margin: Any = "total"

    @property
    def rows(self) -> tuple[str, ...]:
        """The families of its rows."""
        return ("margin", "bound_above", "bound_below") if "rmm" in self.program else ("margin",)

    def told(self) -> dict[str, Any]:
        """The parameters of our own machine."""
        found: dict[str, Any] = {
            name: getattr(self, name) for name in PROGRAMS[self.program] if name in "CBD"
        }
        if self.kernel is None:
            return found | {"kernel": "linear"}
        k = self.kernel
        return found | {"kernel": k.name, "gamma": k.gamma, "degree": k.degree, "coef0": k.coef0}


def settings_of(program: str, given: Mapping[str, Any], answer: Answer, samples: Samples) -> Settings:
    """What was given, and else what the answer tells.

    Parameters
    ----------
    program : str
        One of :data:`polyopt.foreign.programs.PROGRAMS`.
    given : mapping of str to object
        Settings; those that are None are not given.
    answer : Answer
        The solution.
    samples : Samples
        What ``gamma="scale"`` is taken from.

    Raises
    ------
    ValueError
        Another program, a setting that it does not have, one that is missing, or a value out of its range.
    """
    one_of("program", program, tuple(PROGRAMS))
    asked = {name: value for name, value in given.items() if value is not None}
    if foreign := [name for name in asked if name not in PROGRAMS[program]]:
        raise ValueError(f"{foreign[0]} is no setting of {program}, which has {', '.join(PROGRAMS[program])}")
    asked = {**answer.costs, **asked}
    found: dict[str, Any] = {"C": positive("C", asked.get("C", 1.0), infinite=program != "cpm")}
    for name in {"B", "D"} & set(PROGRAMS[program]):
        if name not in asked:
            raise ValueError(f"{program} needs {name}: the program that the solution is of")
        found[name] = least(name, asked[name], 0.0, infinite=True)
    if program == "sigma-svm":
        found["D"] = within("D", asked["D"], 0.0, 1.0)
    if program == "cpm":
        for name, values in (("loss", ("sum", "max")), ("margin", ("total", "worst"))):
            found[name] = asked.get(name, values[0])
            one_of(name, found[name], values)
        return Settings(program, **found)
    found["kernel"] = _kernel_of(asked, answer.kernel, samples)
    found["intercept"] = asked.get("intercept") or answer.intercept or "free"
    one_of("intercept", found["intercept"], ("free", "penalised", "none"))
    if found["intercept"] != "free" and (program != "svm" or found["kernel"] is not None):
        raise ValueError(
            f"a solution with the intercept {found['intercept']!r} is of the linear svm, not of "
            f"{program} or a kernel"
        )
    return Settings(program, **found)


def _kernel_of(asked: Mapping[str, Any], told: Kernel | None, samples: Samples) -> Kernel | None:
    """The kernel; None of a linear machine whose w are weights of features."""
    name = asked.get("kernel", "linear" if told is None else told.name)
    one_of("kernel", name, ("linear", "poly", "rbf"))
    if told is None and name == "linear":
        return None
    start = told or Kernel("linear")
    gamma = asked.get("gamma", "scale" if told is None else told.gamma)
    if gamma in ("scale", "auto"):
        gamma = gamma_by(gamma, samples)
    degree = whole("degree", asked.get("degree", start.degree))
    return Kernel(
        name, positive("gamma", gamma), degree, real_number("coef0", asked.get("coef0", start.coef0))
    )
