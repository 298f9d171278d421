"""A point's rows of the optimality conditions in words and numbers, and why it is a support vector."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from polyopt.certificates.certificate import Claim

if TYPE_CHECKING:
    from polyopt.lab.fitting import Fitted
    from polyopt.lab.samples import Held

__all__ = ["Words", "number_told"]

_TOLERANCE = 1e-5  # relative: an output is at its level
_MARGIN = ("beyond the margin", "on the margin", "inside the margin")
_OF_OUTPUTS = ("margin", "score", "bound_above", "bound_below")  # other rows are of slacks and coefficients
_PROVEN = (Claim.OPTIMAL, Claim.STATIONARY)


class Words:
    """The words for one solution."""

    def __init__(self, fitted: Fitted):
        estimator = fitted.estimator
        self._bound = float(getattr(estimator, "B", math.nan))
        self._outward = getattr(estimator, "_outward", None)
        self._inside = getattr(estimator, "inside_label_", None) if self._outward is not None else None
        self._while = " while the assignment stays as it is" if fitted.method.has_faces else ""
        if fitted.method.is_integer:
            self._while = " while the centres stay those that they are"
        self._is_proven = fitted.certificate.claim in _PROVEN

    def row(self, held: Held, label: int) -> dict[str, Any]:
        """A row as plain values, with its words."""
        return {
            "row": held.row, "letter": held.letter, "face": held.face, "multiplier": held.multiplier,
            "slack": held.slack, "state": held.state, "binding": not held.is_zero,
            "left": self._left(held, label) if held.row in _OF_OUTPUTS else None,
            "words": self.sentence(held, label),
        }  # fmt: skip

    def _left(self, held: Held, label: int) -> float:
        """The left side of the row: y f of a margin, f or -f of a bound."""
        if held.row == "bound_below":
            return -held.output
        if held.row == "bound_above":
            return held.output
        return self._side(label) * held.output

    def _side(self, label: int) -> float:
        """The sign by which an output is on the label's own side."""
        if self._outward is None or self._inside is None:
            return float(label)
        return -self._outward if label == self._inside else self._outward

    def sentence(self, held: Held, label: int) -> str:
        """A row in words and numbers."""
        where = "" if held.face is None or held.face < 0 else f" at face {held.face}"
        price = f"{held.letter} = {number_told(0.0 if held.is_zero else held.multiplier)}"
        if math.isnan(held.multiplier):
            price = f"{held.letter} is not known"
        over = f", slack {number_told(held.xi)}" if held.xi is not None and held.xi > _TOLERANCE else ""
        if held.row.startswith("bound"):
            sign = "−" if held.row == "bound_below" else ""
            left = self._left(held, label)
            level = _beside(left, self._bound, f"B = {number_told(self._bound)}")
            return f"{sign}f(x) = {level}{over}; {price}: {held.state}"
        if held.row.startswith("slack"):
            used = "" if held.slack is None else f"slack ξ = {number_told(held.slack)}{where}; "
            return f"{used}{price}: {held.state}"
        if held.state in _MARGIN:
            left = self._left(held, label)
            limits = "" if held.is_zero else ": between its limits"
            if not held.is_zero and held.state == _MARGIN[2]:
                limits = ": at the upper limit"
            return f"y f(x) = {_beside(left, 1.0)}{where}{over}; {price}{limits}"
        own = f"output {number_told(held.output)}, " if held.row in _OF_OUTPUTS else ""
        return f"{held.row}{where}: {own}{held.state}; {price}"

    def why(self, rows: list[Held], label: int, is_support: bool) -> str:
        """Say if a point is a support vector, and by which multipliers.

        is_support: whether the solution leans on it.
        """
        if any(math.isnan(held.multiplier) for held in rows):
            return "This solver leaves no multipliers; the exact one does."
        pulling = sorted(
            (held for held in rows if held.pulls and not held.is_zero), key=lambda held: -abs(held.multiplier)
        )
        short = (
            ""
            if self._is_proven
            else " The point is not proven optimal: these multipliers are those at hand."
        )
        if not pulling:
            zero = " = ".join(dict.fromkeys(held.letter for held in rows if held.pulls)) + " = 0"
            if is_support:
                return f"It is a centre of the model, though {zero}.{short}"
            told = f"{zero}, so relaxing what is asked of it would change nothing"
            return f"It is no support vector: {told}{self._while}.{short}"
        name = (
            "It is a support vector"
            if is_support
            else "It is no centre of the model, but its rows have prices"
        )
        told = "; ".join(self._reason(held, label) for held in pulling[:3])
        more = f"; and {len(pulling) - 3} more" if len(pulling) > 3 else ""
        return f"{name}: {told}{more}.{short}"

    def _reason(self, held: Held, label: int) -> str:
        """Say why a multiplier is positive."""
        where = "" if held.face is None or held.face < 0 else f" at face {held.face}"
        price = f"{held.letter} = {number_told(held.multiplier)}"
        if held.state == _MARGIN[2]:
            left = self._left(held, label)
            place = "inside" if left < 1.0 - _TOLERANCE else "on"
            margin = f"the point is {place} the margin (y f = {number_told(left)})"
            return f"{price}{where} is at its upper limit, as {margin}"
        if held.state == _MARGIN[1]:
            return f"{price}{where} is between its limits, as the point is on the margin and holds it"
        if held.row.startswith("bound"):
            return f"{price} is the price of the bound on its output ({held.state})"
        return f"{price}{where}, the price of its row {held.row} ({held.state})"


def _beside(left: float, level: float, name: str = "") -> str:
    """A value beside its level, such as ``0.4 < 1``, ``2.5 > B = 2``; what is at the level has its name."""
    name = name or number_told(level)
    if abs(left - level) <= _TOLERANCE * max(1.0, abs(level)):
        return name
    return f"{number_told(left)} {'<' if left < level else '>'} {name}"


def number_told(value: float) -> str:
    """Four digits; what is next to nothing is 0."""
    if abs(value) < 1e-9:
        return "0"
    return f"{value:.4g}".replace("-", "−", 1) if value < 0 and "e" not in f"{value:.4g}" else f"{value:.4g}"
