"""The judge: holds what was claimed of a fitted model to what is true of it, and an exception to its words.

It knows claims and statuses by name only, so that it cannot inherit a mistake of what it judges.
"""

from __future__ import annotations

import linecache
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "Claimed",
    "Truth",
    "Untruth",
    "judge",
    "judge_outputs",
    "judge_status",
    "sentence_of",
]

_EPS = 2.0**-52
# What a certificate that states no rounding of its own is granted, relative: the digits that it prints.
_PRINTED = 1e-10
_OUTPUT = 1e-6  # relative, by which outputs may differ
_MODEST = ("CONTRADICTION", "SOLVERS_WORD", "CONDITIONS")  # claims that vouch for neither value nor bound


@dataclass(frozen=True)
class Claimed:
    """What a certificate says: the claim's name, its values, its tolerance and its stated rounding."""

    claim: str
    primal: float
    dual: float
    tol: float = 1e-6
    rounding: float | None = None

    @classmethod
    def by(cls, certificate: Any) -> Claimed:
        """Read a certificate."""
        return cls(
            certificate.claim.name,
            certificate.primal_value,
            certificate.dual_value,
            certificate.tol,
            getattr(certificate, "rounding", None),
        )


@dataclass(frozen=True)
class Truth:
    """What is true: the model's value, the best value known in the claim's scope, and errors of both."""

    value: Any  # the objective at the model, and the error of that
    error: Any
    best: Any  # the objective at the best feasible point known
    best_error: Any
    beyond: float = 0.0  # by how much the model breaks its hard rows, in their units
    unit: float = 1.0  # what a violation is relative to
    # whether the model's value belongs to the program of the bound (not for an indefinite matrix)
    bounded: bool = True


@dataclass(frozen=True)
class Untruth:
    """A claim that is not true: its kind, and the numbers that show it."""

    kind: str
    detail: str = field(compare=False)


def judge(claimed: Claimed, truth: Truth) -> list[Untruth]:
    """Every claim of a certificate that the truth refutes."""
    p, d, name = claimed.primal, claimed.dual, claimed.claim
    value, best = truth.value, truth.best
    if name in _MODEST:
        return []
    if name == "INFEASIBLE":
        return (
            [Untruth("infeasible, but there is a point", f"value {float(best):.10g}")]
            if np.isfinite(best)
            else []
        )
    if name == "NONE" and np.isnan(d):
        return []
    if np.isnan(d) or (np.isnan(p) and name != "NONE"):
        return [Untruth("not a number", f"claim {name}, p={p!r}, d={d!r}")]

    def granted(*values: Any) -> float:
        """What rounding is granted to a comparison of these."""
        size = max(abs(float(v)) for v in values)
        return (_PRINTED * size if claimed.rounding is None else claimed.rounding) + 8 * _EPS * size

    found = []
    if d > best + truth.best_error + granted(d if np.isfinite(d) else 0.0, best):
        found.append(
            Untruth("bound above a feasible point", f"{name}: d={d:.12g}, a point has {float(best):.12g}")
        )
    if name == "NONE":
        return found
    if p < value - truth.error - granted(p, value):
        found.append(Untruth("value below the model's", f"{name}: p={p:.12g}, truly {float(value):.12g}"))
    if name in ("OPTIMAL", "STATIONARY"):
        gap = value - truth.error - best - truth.best_error
        if truth.bounded and gap > claimed.tol * max(abs(value), abs(best)) + granted(value, best):
            found.append(
                Untruth("not optimal", f"{name}: model {float(value):.12g}, a point has {float(best):.12g}")
            )
    if truth.beyond > claimed.tol * truth.unit * (1 + 1e-3) + 8 * _EPS * truth.unit:
        found.append(Untruth("outside its rows", f"{name}: by {truth.beyond:.3g} of {truth.unit:.3g}"))
    return found


def judge_outputs(
    given: Any, true: Any, error: Any, y: Any, costs: Any, value: float, words: str, single: float = 0.0
) -> list[Untruth]:
    """Outputs that are not those of the model: they cost otherwise, or put a sample on the other side.

    `given` are the outputs as the model gives them, `true` those that its vectors imply in extended
    precision, up to `error`; `single` is granted relative to the largest output, where outputs are in
    single precision.
    """
    given = np.asarray(given, dtype=np.longdouble)
    if given.shape != true.shape or not np.isfinite(given).all():
        return [Untruth(f"{words} are not finite", "")]
    reach = max(float(abs(true).max()), 1.0)
    off = abs(given - true) - error
    granted = (_OUTPUT + single) * reach
    turned = (given > 0) != (true > 0)
    if (turned & (abs(true) > granted + error)).any():
        return [
            Untruth(f"{words} on the other side", f"off by {float(off.max()):.3g}, outputs to {reach:.3g}")
        ]
    paid = abs(costs @ (np.maximum(0, 1 - y * given) - np.maximum(0, 1 - y * true)))
    allowed = _OUTPUT * abs(value) + costs.sum() * (_OUTPUT + single * reach) + costs.sum() * np.max(error)
    if paid > allowed or off.max() > 1e-3 * reach:
        return [
            Untruth(
                f"{words} of another model",
                f"off by {float(off.max()):.3g}, they cost {float(paid):.3g} more",
            )
        ]
    return []


def judge_status(status: str, gap: float, stated: float) -> list[Untruth]:
    """A solver that calls itself done at a gap beyond what its documentation says."""
    if status != "SOLVED" or not gap > stated:
        return []
    return [Untruth("status solved at a gap", f"relative gap {gap:.3g}, stated {stated:.3g}")]


def sentence_of(error: BaseException) -> str | None:
    """The words of a refusal, or None for an exception that is none.

    A refusal is a ValueError or RuntimeError that this library or scikit-learn's validation raises on
    purpose, at a ``raise`` of its own.
    """
    if not isinstance(error, (ValueError, RuntimeError)) or isinstance(
        error, (np.linalg.LinAlgError, RecursionError)
    ):
        return None
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = Path(frame.filename).parts
    ours = "polyopt" in place or "formulations" in place or ("sklearn" in place and "utils" in place)
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    words = str(error)
    if not ours or not line.startswith("raise") or len(words.split()) < 4:
        return None
    return words
