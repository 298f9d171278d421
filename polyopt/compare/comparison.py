"""The result of a comparison: one row per data set, method and solver."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import pandas as pd
from rich.console import Console, ConsoleOptions, Group, RenderableType

from polyopt.compare.data import Prepared
from polyopt.compare.results import Proof, Row, proofs_of
from polyopt.compare.tables import comparison_tables
from polyopt.methods import METHODS


@dataclass(frozen=True)
class Comparison:
    """Rows of a comparison, their data sets, and the arguments; a rich console prints it at any width."""

    rows: tuple[Row, ...]  #: in the order of computation: the exact solver's row, then the fast one's
    datasets: tuple[Prepared, ...]  #: the data sets
    seed: int = 0  #: as in :func:`compare`
    seconds: float = 0.0  #: total time
    interrupted: bool = False  #: True if the run was stopped before its end
    given: str = ""  #: the argument `settings` as text

    def proofs(self) -> list[Proof]:
        """Return the gap of each solver to the bound on all points."""
        return proofs_of(self.rows)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a frame, one column per field of :class:`Row` but the estimator."""
        columns = [f.name for f in fields(Row) if f.name != "estimator"]
        return pd.DataFrame([[getattr(row, name) for name in columns] for row in self.rows], columns=columns)

    def notes(self) -> list[str]:
        """Return sentences on how the numbers are computed."""
        tests = f"a stratified quarter (seed {self.seed})"
        if all(d.published for d in self.datasets):
            tests = "the publisher's"
        elif published := [d.name for d in self.datasets if d.published]:
            tests += f", of {', '.join(published)} the publisher's"
        notes = [f"Settings given: {self.given}."] if self.given else []
        if self.datasets:
            sizes = ", ".join(f"{100 / len(d.y_test):.1f} on {d.name}" for d in self.datasets)
            notes.append(
                f"Of one split no difference of test errors is a result: a sample counts in points {sizes}. "
                "scikit-learn's cross_val_score repeats splits."
            )
        notes += [
            f"Features are scaled to unit variance on the training part; the test part is {tests}.",
            "Objective and bound come from certificates, computed from the data and the vectors, not from "
            "the solver. Gap and worst residual are relative. Seconds are of the fit, without imports.",
        ]
        tuned = self._tuned().items()
        notes += [f"{rule[0].upper()}{rule[1:]}: {', '.join(where)}." for rule, where in tuned]
        with_faces = [row for row in self.rows if METHODS[row.method].has_faces]
        if with_faces:
            notes.append(
                "Methods with faces are not convex: their bounds are on the optimum for the assignment "
                "reached, which another assignment may beat."
            )
            proving = sorted({r.solver for r in with_faces if r.solver == METHODS[r.method].proving})
            for solver in proving:
                notes[-1] += f" The bound of the {solver} solver is on the optimum over all assignments."
            stated = {row.method for row in with_faces if row.solver == METHODS[row.method].proving}
            stated &= {method.name for method in METHODS.values() if method.is_bound_stated}
            if stated:
                notes[-1] += f" Of {', '.join(sorted(stated))} it is an integer solver's word."
        if self.interrupted:
            notes.append("The run was interrupted; what was done by then is shown.")
        return notes

    def _tuned(self) -> dict[str, list[str]]:
        """Return settings chosen for the data, such as ``B=8.47 (rmm on wbc)``, by their rule."""
        by_rule: dict[str, dict[tuple[str, str], dict[str, None]]] = {}
        for row in self.rows:
            tuned = f"{METHODS[row.method].tuned}="
            if setting := next((part for part in row.settings.split(", ") if part.startswith(tuned)), ""):
                settings = by_rule.setdefault(METHODS[row.method].rule, {})
                settings.setdefault((setting, row.data), {})[row.method] = None
        return {
            rule: [f"{text} ({', '.join(methods)} on {data})" for (text, data), methods in settings.items()]
            for rule, settings in by_rule.items()
        }

    def table(self, width: int = 120) -> Group:
        """Return the comparison as rich tables, one per data set, laid out for a width in characters."""
        titles = {data.name: data.summary for data in self.datasets}
        notes = self.notes() if self.rows or self.interrupted else []
        return comparison_tables(self.rows, self.proofs(), titles, notes, width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield self.table(options.max_width)
