"""The points of a solution: their rows of the optimality conditions in numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from formulations.cpm_sparse import rows_of_prices
from formulations.language.program import Row
from formulations.language.typeset import latex_name, printed_name
from polyopt.certificates.certificate import Claim
from polyopt.lab.fitting import Fitted
from polyopt.methods.programs import find_programs

_LEVEL_TOLERANCE = 1e-5  # relative: an output is at its level
_MARGIN = ("beyond the margin", "on the margin", "inside the margin")
_OF_OUTPUTS = ("margin", "score", "bound_above", "bound_below")  # other rows are of slacks and coefficients
_PROVEN = (Claim.OPTIMAL, Claim.STATIONARY)


@dataclass(frozen=True)
class Held:
    """One row of one point, with the solution's numbers: multiplier, slack, and the output at its face."""

    row: str
    letter: str
    face: int | None
    multiplier: float
    slack: float | None
    output: float
    state: str
    pulls: bool  # a price by itself, and not what another leaves
    is_zero: bool
    xi: float | None  # the slack that the multiplier pays for, if the program has such a variable


@dataclass(frozen=True)
class RowsOf:
    """The rows of a solution: ``duals_`` without the rows of no point, and the program's rows by letter."""

    frame: pd.DataFrame
    program: dict[str, Row]
    leftovers: tuple[str, ...]  # letters of multipliers that others leave
    small: float  # a multiplier up to this counts as 0

    @property
    def has_multipliers(self) -> bool:
        """True if the solver left any."""
        return not self.frame["multiplier"].isna().any()


@cache
def _program_rows(program: str) -> dict[str, Row]:
    rows = {row.multiplier: row for row in find_programs(program)[0].rows}
    return rows | {row.multiplier: row for row in rows_of_prices() if row.multiplier not in rows}


def rows_held(fitted: Fitted) -> RowsOf:
    """Return the rows of a solved state."""
    method, frame = fitted.method, fitted.duals
    frame = frame[frame["sample"] >= 0]
    sizes = frame["multiplier"].abs().to_numpy()
    largest = float(np.nanmax(sizes, initial=0.0)) if len(sizes) else 0.0
    rows = _program_rows(method.duals_of or method.programs_for(fitted.settings)[0])
    return RowsOf(frame, rows, method.leftovers, 1e-6 * largest)


def family_rows(rows: RowsOf, fitted: Fitted) -> list[dict[str, Any]]:
    """Return the families as plain values, a column for each number."""
    from polyopt.report.programs import mathml

    caps = _caps(fitted)
    found = []
    for letter, part in rows.frame.groupby("letter", sort=False):
        stated = rows.program.get(str(letter))
        family: dict[str, Any] = {
            "letter": str(letter), "text": printed_name(str(letter)), "row": str(part["row"].iloc[0]),
            "mathml": mathml(latex_name(str(letter))), "meaning": stated.meaning if stated else "",
            "pulls": letter not in rows.leftovers, "upper": caps.get(str(letter)),
        }  # fmt: skip
        for name in ("sample", "face", "multiplier", "slack", "state"):
            family[name] = part[name].tolist() if name in part else None
        found.append(family)
    return found


def _caps(fitted: Fitted) -> dict[str, float]:
    """Return the caps of multipliers by letter, where all samples have the same finite one."""
    families = getattr(fitted.estimator, "families_", ())
    return {
        family.letter: float(family.cap[0])
        for family in families
        if np.isfinite(family.cap[0]) and (family.cap == family.cap[0]).all()
    }


def samples_of(rows: RowsOf, fitted: Fitted) -> dict[str, Any]:
    """Per point: output, predicted label, slack, the face that answers, whether it carries the solution."""
    estimator, n = fitted.estimator, len(fitted.state.y)
    f = np.asarray(estimator.decision_function(fitted.state.X), dtype=float)
    frame, slack = rows.frame, None
    paid = frame["row"].str.startswith("slack").to_numpy()
    if paid.any() and "slack" in frame:
        slack = np.zeros(n)
        np.add.at(slack, frame["sample"].to_numpy()[paid], np.maximum(frame["slack"].to_numpy()[paid], 0.0))
    size = np.zeros(n)
    if rows.has_multipliers:
        pulls = ~frame["letter"].isin(rows.leftovers).to_numpy()
        np.maximum.at(size, frame["sample"].to_numpy()[pulls], frame["multiplier"].abs().to_numpy()[pulls])
        size[size <= rows.small] = 0.0
    support = size > 0.0
    if getattr(estimator, "support_", None) is not None:
        support = np.zeros(n, dtype=bool)
        support[estimator.support_] = True
    return {
        "f": f.tolist(), "label": estimator.predict(fitted.state.X).astype(int).tolist(),
        "slack": None if slack is None else slack.tolist(), "face": faces_answering(estimator, n).tolist(),
        "support": support.tolist(), "size": (size / (size.max() or 1.0)).tolist(),
    }  # fmt: skip


def faces_answering(estimator: object, n: int) -> NDArray[np.int64]:
    """Return the face that answers for each point; -1 without faces."""
    assignment = getattr(estimator, "assignment_", None)
    return np.full(n, -1) if assignment is None else np.asarray(assignment, dtype=np.int64)


def rows_by_sample(rows: RowsOf, n: int) -> list[list[Held]]:
    """Return the rows of each point."""
    frame = rows.frame
    columns = {name: frame[name].tolist() for name in frame.columns}
    count = len(frame)
    faces = columns.get("face") or [None] * count
    slacks = columns.get("slack") or [None] * count
    outputs = columns.get("output") or [float("nan")] * count
    paid = {
        (sample, face, row.removeprefix("slack")): max(slack, 0.0)
        for sample, face, row, slack in zip(columns["sample"], faces, columns["row"], slacks, strict=True)
        if row.startswith("slack") and slack is not None
    }
    found: list[list[Held]] = [[] for _ in range(n)]
    for i, sample in enumerate(columns["sample"]):
        row, letter, multiplier = columns["row"][i], columns["letter"][i], columns["multiplier"][i]
        suffix = row.removeprefix("bound") if row.startswith("bound") else ""
        xi = paid.get((sample, faces[i], suffix), paid.get((sample, -1, suffix)))
        found[sample].append(
            Held(
                row, printed_name(letter), faces[i], multiplier, slacks[i], outputs[i], columns["state"][i],
                letter not in rows.leftovers, not abs(multiplier) > rows.small, xi,
            )
        )  # fmt: skip
    return found


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
        """Return a row as plain values, with its words."""
        return {
            "row": held.row, "letter": held.letter, "face": held.face, "multiplier": held.multiplier,
            "slack": held.slack, "state": held.state, "binding": not held.is_zero,
            "left": self._left(held, label) if held.row in _OF_OUTPUTS else None,
            "words": self.sentence(held, label),
        }  # fmt: skip

    def _left(self, held: Held, label: int) -> float:
        """Return the left side of the row: y f of a margin, f or -f of a bound."""
        if held.row == "bound_below":
            return -held.output
        if held.row == "bound_above":
            return held.output
        return self._side(label) * held.output

    def _side(self, label: int) -> float:
        """Return the sign by which an output is on the label's own side."""
        if self._outward is None or self._inside is None:
            return float(label)
        return -self._outward if label == self._inside else self._outward

    def sentence(self, held: Held, label: int) -> str:
        """Return a row in words and numbers."""
        where = "" if held.face is None or held.face < 0 else f" at face {held.face}"
        price = f"{held.letter} = {number_told(0.0 if held.is_zero else held.multiplier)}"
        if math.isnan(held.multiplier):
            price = f"{held.letter} is not known"
        over = f", slack {number_told(held.xi)}" if held.xi is not None and held.xi > _LEVEL_TOLERANCE else ""
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
        """Say if a point is a support vector, and by which multipliers."""
        if any(math.isnan(held.multiplier) for held in rows):
            return "This solver leaves no multipliers; the exact one does."
        pulling = sorted(
            (held for held in rows if held.pulls and not held.is_zero), key=lambda held: -abs(held.multiplier)
        )
        short = " The point is not proven optimal: these multipliers are those at hand."
        short = "" if self._is_proven else short
        if not pulling:
            zero = " = ".join(dict.fromkeys(held.letter for held in rows if held.pulls)) + " = 0"
            if is_support:
                return f"It is a centre of the model, though {zero}.{short}"
            told = f"{zero}, so relaxing what is asked of it would change nothing"
            return f"It is no support vector: {told}{self._while}.{short}"
        name = "It is no centre of the model, but its rows have prices"
        name = "It is a support vector" if is_support else name
        told = "; ".join(self._reason(held, label) for held in pulling[:3])
        more = f"; and {len(pulling) - 3} more" if len(pulling) > 3 else ""
        return f"{name}: {told}{more}.{short}"

    def _reason(self, held: Held, label: int) -> str:
        """Say why a multiplier is positive."""
        where = "" if held.face is None or held.face < 0 else f" at face {held.face}"
        price = f"{held.letter} = {number_told(held.multiplier)}"
        if held.state == _MARGIN[2]:
            left = self._left(held, label)
            place = "inside" if left < 1.0 - _LEVEL_TOLERANCE else "on"
            margin = f"the point is {place} the margin (y f = {number_told(left)})"
            return f"{price}{where} is at its upper limit, as {margin}"
        if held.state == _MARGIN[1]:
            return f"{price}{where} is between its limits, as the point is on the margin and holds it"
        if held.row.startswith("bound"):
            return f"{price} is the price of the bound on its output ({held.state})"
        return f"{price}{where}, the price of its row {held.row} ({held.state})"


def _beside(left: float, level: float, name: str = "") -> str:
    """Compare a value with its level, as ``0.4 < 1`` or ``2.5 > B = 2``; at the level it has its name."""
    name = name or number_told(level)
    if abs(left - level) <= _LEVEL_TOLERANCE * max(1.0, abs(level)):
        return name
    return f"{number_told(left)} {'<' if left < level else '>'} {name}"


def number_told(value: float) -> str:
    """Four digits; what is next to nothing is 0."""
    if abs(value) < 1e-9:
        return "0"
    return f"{value:.4g}".replace("-", "−", 1) if value < 0 and "e" not in f"{value:.4g}" else f"{value:.4g}"
