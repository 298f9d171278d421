"""Numbers and sentences for each point of a solution: its constraint rows with their multipliers."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formulations.language.typeset import printed_name
from polyopt.certificates.certificate import Claim
from polyopt.lab.fitting import Fitted

NO_MULTIPLIERS = "This solver leaves no multipliers; the exact one does."
_LEVEL_TOLERANCE = 1e-5  # relative, within which an output equals the level of its row
_ZERO_MULTIPLIER = 1e-6  # relative to the largest multiplier, up to which one counts as 0
_MARGIN_STATES = ("beyond the margin", "on the margin", "inside the margin")
_OUTPUT_ROWS = ("margin", "score", "bound_above", "bound_below")  # others bound slacks or coefficients
_PROVEN = (Claim.OPTIMAL, Claim.STATIONARY)


@dataclass(frozen=True)
class RowAtPoint:
    """A constraint row at one point, with its multiplier, its slack, and the output at its face."""

    row: str
    letter: str
    face: int | None
    multiplier: float
    slack: float | None
    output: float
    state: str
    is_leftover: bool  #: True if the multiplier is determined by others, as that of a slack is
    is_zero: bool  #: True if the multiplier counts as 0
    xi: float | None  #: the slack variable of the row, None if the program has none


class Rows:
    """Rows of a solved state at its points, from ``duals_``, in numbers and in sentences."""

    def __init__(self, fitted: Fitted):
        estimator = fitted.estimator
        self._fitted = fitted
        self._leftovers = fitted.method.leftovers
        self.frame = fitted.duals[fitted.duals["sample"] >= 0]
        self.has_multipliers = not self.frame["multiplier"].isna().any()
        self._zero = _ZERO_MULTIPLIER * float(self.frame["multiplier"].abs().max())
        self._bound = float(getattr(estimator, "B", math.nan))
        self._outward = getattr(estimator, "_outward", None)
        self._inside = getattr(estimator, "inside_label_", None) if self._outward is not None else None
        self._while = " while the assignment stays as it is" if fitted.method.has_faces else ""
        if fitted.method.is_integer:
            self._while = " while the centres stay those that they are"
        self._caveat = " The point is not proven optimal: these multipliers are those at hand."
        if fitted.certificate.claim in _PROVEN:
            self._caveat = ""

    def families(self) -> list[dict[str, Any]]:
        """Return the families of rows as plain values, a column for each number; none without multipliers."""
        if not self.has_multipliers:
            return []
        caps = {
            family.letter: float(family.cap[0])
            for family in getattr(self._fitted.estimator, "families_", ())
            if np.isfinite(family.cap[0]) and (family.cap == family.cap[0]).all()
        }
        families = []
        for letter, part in self.frame.groupby("letter", sort=False):
            columns = {
                name: part[name].tolist() for name in ("sample", "multiplier", "slack") if name in part
            }
            families.append(
                {
                    "letter": letter, "row": part["row"].iloc[0], "pulls": letter not in self._leftovers,
                    "upper": caps.get(str(letter)), **columns,
                }
            )  # fmt: skip
        return families

    def samples(self) -> dict[str, Any]:
        """Return each point's output, predicted label, active face, and whether it is a support vector.

        `size` is the largest multiplier of the point, relative to that of all points.
        """
        estimator, X = self._fitted.estimator, self._fitted.state.X
        size = np.zeros(len(X))
        if self.has_multipliers:
            counts = ~self.frame["letter"].isin(self._leftovers).to_numpy()
            multipliers = self.frame["multiplier"].abs().to_numpy()[counts]
            np.maximum.at(size, self.frame["sample"].to_numpy()[counts], multipliers)
            size[size <= self._zero] = 0.0
        support = size > 0.0
        if getattr(estimator, "support_", None) is not None:
            support = np.isin(np.arange(len(X)), estimator.support_)
        return {
            "f": estimator.decision_function(X).tolist(), "label": estimator.predict(X).tolist(),
            "face": active_faces(estimator, len(X)).tolist(), "support": support.tolist(),
            "size": (size / (size.max() or 1.0)).tolist(),
        }  # fmt: skip

    @cached_property
    def at_points(self) -> list[list[RowAtPoint]]:
        """The rows of each point."""
        records = self.frame.to_dict("records")
        xi = {
            (record["sample"], record.get("face"), record["row"].removeprefix("slack")): max(
                record["slack"], 0.0
            )
            for record in records
            if record["row"].startswith("slack") and "slack" in record
        }
        found: list[list[RowAtPoint]] = [[] for _ in self._fitted.state.y]
        for record in records:
            sample, face, row, letter = record["sample"], record.get("face"), record["row"], record["letter"]
            multiplier = record["multiplier"]
            suffix = row.removeprefix("bound") if row.startswith("bound") else ""
            found[sample].append(
                RowAtPoint(
                    row, printed_name(letter), face, multiplier, record.get("slack"),
                    record.get("output", math.nan), record["state"], letter in self._leftovers,
                    not abs(multiplier) > self._zero,
                    xi.get((sample, face, suffix), xi.get((sample, -1, suffix))),
                )
            )  # fmt: skip
        return found

    def plain(self, row: RowAtPoint, label: int) -> dict[str, Any]:
        """Return a row as plain values, with its sentence."""
        return {
            "row": row.row, "letter": row.letter, "face": row.face, "multiplier": row.multiplier,
            "slack": row.slack, "binding": not row.is_zero,
            "left": self._left_side(row, label) if row.row in _OUTPUT_ROWS else None,
            "words": self._sentence(row, label),
        }  # fmt: skip

    def _left_side(self, row: RowAtPoint, label: int) -> float:
        """Return the left side of the row: y f of a margin, f or -f of a bound."""
        if row.row.startswith("bound"):
            return -row.output if row.row == "bound_below" else row.output
        if self._outward is None or self._inside is None:
            return label * row.output
        return (-self._outward if label == self._inside else self._outward) * row.output

    def _sentence(self, row: RowAtPoint, label: int) -> str:
        """Return a row in words and numbers."""
        face = _at_face(row)
        multiplier = f"{row.letter} = {number_text(0.0 if row.is_zero else row.multiplier)}"
        if math.isnan(row.multiplier):
            multiplier = f"{row.letter} is not known"
        xi = f", slack {number_text(row.xi)}" if row.xi is not None and row.xi > _LEVEL_TOLERANCE else ""
        if row.row.startswith("bound"):
            sign = "−" if row.row == "bound_below" else ""
            left = self._left_side(row, label)
            level = _compared(left, self._bound, f"B = {number_text(self._bound)}")
            return f"{sign}f(x) = {level}{xi}; {multiplier}: {row.state}"
        if row.row.startswith("slack"):
            slack = "" if row.slack is None else f"slack ξ = {number_text(row.slack)}{face}; "
            return f"{slack}{multiplier}: {row.state}"
        if row.state in _MARGIN_STATES:
            limits = "" if row.is_zero else ": between its limits"
            if not row.is_zero and row.state == _MARGIN_STATES[2]:
                limits = ": at the upper limit"
            return f"y f(x) = {_compared(self._left_side(row, label), 1.0)}{face}{xi}; {multiplier}{limits}"
        output = f"output {number_text(row.output)}, " if row.row in _OUTPUT_ROWS else ""
        return f"{row.row}{face}: {output}{row.state}; {multiplier}"

    def why(self, sample: int) -> str:
        """Say whether a point is a support vector, and name its positive multipliers."""
        rows, is_support = self.at_points[sample], self.samples()["support"][sample]
        if any(math.isnan(row.multiplier) for row in rows):
            return NO_MULTIPLIERS
        counted = [row for row in rows if not row.is_leftover]
        active = sorted((row for row in counted if not row.is_zero), key=lambda row: -abs(row.multiplier))
        if not active:
            zero = " = ".join(dict.fromkeys(row.letter for row in counted)) + " = 0"
            if is_support:
                return f"It is a centre of the model, though {zero}.{self._caveat}"
            reason = f"{zero}, so relaxing what is asked of it would change nothing"
            return f"It is no support vector: {reason}{self._while}.{self._caveat}"
        kind = "It is no centre of the model, but its rows have prices"
        kind = "It is a support vector" if is_support else kind
        reasons = "; ".join(
            f"{row.letter} = {number_text(row.multiplier)}{_at_face(row)}, {row.state}" for row in active[:3]
        )
        more = f"; and {len(active) - 3} more" if len(active) > 3 else ""
        return f"{kind}: {reasons}{more}.{self._caveat}"


def active_faces(estimator: object, n: int) -> NDArray[np.int64]:
    """Return the active face of each point; -1 without faces."""
    assignment = getattr(estimator, "assignment_", None)
    return np.full(n, -1) if assignment is None else np.asarray(assignment, dtype=np.int64)


def _at_face(row: RowAtPoint) -> str:
    return "" if row.face is None or row.face < 0 else f" at face {row.face}"


def _compared(left: float, level: float, name: str = "") -> str:
    """Compare a value with its level, as ``0.4 < 1`` or ``2.5 > B = 2``, or return the level's name."""
    name = name or number_text(level)
    if abs(left - level) <= _LEVEL_TOLERANCE * max(1.0, abs(level)):
        return name
    return f"{number_text(left)} {'<' if left < level else '>'} {name}"


def number_text(value: float) -> str:
    """Return a number with four digits; one below 1e-9 is 0."""
    if abs(value) < 1e-9:
        return "0"
    return f"{value:.4g}".replace("-", "−", 1) if value < 0 and "e" not in f"{value:.4g}" else f"{value:.4g}"
