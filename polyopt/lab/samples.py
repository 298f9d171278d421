"""The numbers of each point in a solution: its multipliers by families of rows, slack, output, and face."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.cpm_sparse import rows_of_prices
from formulations.language.typeset import latex_name, printed_name
from polyopt.methods.programs import find_programs

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.language.program import Row
    from polyopt.lab.fitting import Fitted

__all__ = [
    "Held", "RowsOf", "faces_answering", "family_rows", "rows_by_sample", "rows_held", "samples_of",
]  # fmt: skip

"""The share of the largest multiplier up to which one counts as 0, as in ``polyopt duals``."""


@dataclass(frozen=True)
class Held:
    """One row of one point, with the solution's numbers.

    row, letter: the row's name, and that of its multiplier as a person reads it.
    face: the face that it is asked at.
    slack: how far it is from binding.
    output: the point's output there.
    state: in words.
    pulls: whether the multiplier is a price by itself, and not what another leaves.
    is_zero: whether the multiplier counts as 0.
    xi: the slack that it pays for, where the program has such a variable.
    """

    row: str
    letter: str
    face: int | None
    multiplier: float
    slack: float | None
    output: float
    state: str
    pulls: bool
    is_zero: bool
    xi: float | None


@dataclass(frozen=True)
class RowsOf:
    """The rows of a solution, family by family.

    frame: ``duals_``, without the rows that are of no point.
    program: the program's rows by letter.
    leftovers: letters of multipliers that are what others leave.
    small: up to which a multiplier counts as 0.
    """

    frame: pd.DataFrame
    program: dict[str, Row]
    leftovers: tuple[str, ...]
    small: float

    @property
    def has_multipliers(self) -> bool:
        """True if the solver left any."""
        return not self.frame["multiplier"].isna().any()


@cache
def _program_rows(program: str) -> dict[str, Row]:
    rows = {row.multiplier: row for row in find_programs(program)[0].rows}
    return rows | {row.multiplier: row for row in rows_of_prices() if row.multiplier not in rows}


def rows_held(fitted: Fitted) -> RowsOf:
    """The rows of a solved state."""
    method, frame = fitted.method, fitted.duals
    frame = frame[frame["sample"] >= 0]
    sizes = frame["multiplier"].abs().to_numpy()
    largest = float(np.nanmax(sizes, initial=0.0)) if len(sizes) else 0.0
    rows = _program_rows(method.duals_of or method.programs_for(fitted.settings)[0])
    return RowsOf(frame, rows, method.leftovers, 1e-6 * largest)


def family_rows(rows: RowsOf, fitted: Fitted) -> list[dict[str, Any]]:
    """The families as plain values, a column for each number."""
    from polyopt.report.mathml import mathml

    caps = _caps(fitted)
    found = []
    for letter, part in rows.frame.groupby("letter", sort=False):
        stated = rows.program.get(str(letter))
        family: dict[str, Any] = {
            "letter": str(letter),
            "text": printed_name(str(letter)),
            "row": str(part["row"].iloc[0]),
            "mathml": mathml(latex_name(str(letter))),
            "meaning": stated.meaning if stated else "",
            "pulls": letter not in rows.leftovers,
            "upper": caps.get(str(letter)),
        }
        for name in ("sample", "face", "multiplier", "slack", "state"):
            family[name] = part[name].tolist() if name in part else None
        found.append(family)
    return found


def _caps(fitted: Fitted) -> dict[str, float]:
    """The caps of multipliers by letter, where all samples have the same finite one."""
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
        "f": f.tolist(),
        "label": estimator.predict(fitted.state.X).astype(int).tolist(),
        "slack": None if slack is None else slack.tolist(),
        "face": faces_answering(estimator, n).tolist(),
        "support": support.tolist(),
        "size": (size / (size.max() or 1.0)).tolist(),
    }


def faces_answering(estimator: object, n: int) -> NDArray[np.int64]:
    """The face that answers for each point; -1 where there are none."""
    assignment = getattr(estimator, "assignment_", None)
    return np.full(n, -1) if assignment is None else np.asarray(assignment, dtype=np.int64)


def rows_by_sample(rows: RowsOf, n: int) -> list[list[Held]]:
    """Each point's rows."""
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
