"""Gaps of all solvers to the bound proven over all assignments: one line per data set and method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from polyopt.certificates.certificate import relative_gap
from polyopt.methods import METHODS

if TYPE_CHECKING:
    from formulations.language.types import Vector
    from polyopt.compare.row import Row

__all__ = ["Proof", "proof_table", "proofs_of"]


@dataclass(frozen=True)
class Proof:
    """Results of one method's solvers on one data set, measured against one bound.

    data, method: what was solved.
    bound: what the proving solver proves of every point: no solver's objective is below it.
    objectives, seconds: of each solver that ended with a point.
    gaps: relative, from each objective to the bound.
    proving: the solver whose bound it is.
    run (records, 2): seconds and relative gap between its own best point and its bound, as it went; empty
        where it keeps no records of both, and of several classes, where each pair has a run of its own.
    """

    data: str
    method: str
    bound: float
    objectives: dict[str, float]
    seconds: dict[str, float]
    proving: str
    run: Vector = field(repr=False, compare=False)

    @property
    def gaps(self) -> dict[str, float]:
        """Relative, from each objective to the bound."""
        return {solver: relative_gap(value, self.bound) for solver, value in self.objectives.items()}


def proofs_of(rows: Iterable[Row]) -> list[Proof]:
    """Of all data sets and methods of which the proving solver has a bound, in their order.

    rows: of one split and seed.
    """
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.data, row.method), []).append(row)
    proofs = []
    for (data, method), own in found.items():
        proving = METHODS[method].proving
        last = next((row for row in own if proving and row.solver == proving), None)
        if last is None or not np.isfinite(last.bound):
            continue
        ended = [row for row in own if np.isfinite(row.objective)]
        proofs.append(
            Proof(
                data, method, last.bound, {row.solver: row.objective for row in ended},
                {row.solver: row.seconds for row in ended}, proving, _run(last.estimator),
            )
        )  # fmt: skip
    return proofs


def _run(estimator: Any) -> Vector:
    """Seconds and gap of each record that has both values."""
    history = getattr(estimator, "history_", None)
    if history is None or "pair" in history or not {"seconds", "objective", "bound"} <= set(history):
        return np.empty((0, 2))
    kept = history[["seconds", "objective", "bound"]].dropna().to_numpy(dtype=float)
    gaps = [relative_gap(value, bound) for _, value, bound in kept]
    return np.column_stack([kept[:, 0], np.array(gaps)]) if len(kept) else np.empty((0, 2))


def proof_table(proofs: list[Proof], width: int = 120) -> Table:
    """The proofs as a table for a console: the bound, and each solver's gap to it and seconds.

    Where the line is too short for all of it the seconds are left out, then the digits that matter least.
    """
    solvers = list(dict.fromkeys(solver for proof in proofs for solver in proof.objectives))
    for digits, timed in ((7, True), (5, True), (7, False), (5, False)):
        headers, rows = _cells(proofs, solvers, digits, timed)
        needs = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
        if sum(needs) + 2 * len(needs) <= width:
            break
    table = Table(
        title=f"Gap to the bound on all points, in percent{', and seconds' if timed else ''}",
        title_justify="left", title_style="bold", box=None, show_edge=False, pad_edge=False,
        padding=(0, 2, 0, 0), header_style="bold",
    )  # fmt: skip
    for header in headers:
        is_name = header in ("data", "method")
        table.add_column(header, no_wrap=True, justify="left" if is_name else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _cells(
    proofs: list[Proof], solvers: list[str], digits: int, timed: bool
) -> tuple[list[str], list[list[str]]]:
    """Headers and rows; the methods are named where there are several."""
    from polyopt.compare.table import duration, number

    several = len({proof.method for proof in proofs}) > 1
    rows = []
    for proof in proofs:
        gaps = proof.gaps
        ends = [
            f"{100 * gaps[solver]:.3g}" + (f" ({duration(proof.seconds[solver])})" if timed else "")
            if solver in gaps
            else "–"
            for solver in solvers
        ]
        best = min(proof.objectives.values(), default=np.nan)
        names = [proof.data, proof.method] if several else [proof.data]
        rows.append([*names, number(best, digits), number(proof.bound, digits), *ends])
    return ["data", *(["method"] if several else []), "best", "bound", *solvers], rows
