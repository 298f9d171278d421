"""What a comparison found: one row per data set, method and solver."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from polyopt.compare.data import Prepared
from polyopt.compare.row import Row
from polyopt.methods import METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from rich.console import Console, ConsoleOptions, Group, RenderableType

__all__ = ["Comparison", "Row"]


@dataclass(frozen=True)
class Comparison:
    """Rows, the data they were computed on, and how.

    It prints itself on a rich console, at any width.

    Attributes
    ----------
    rows : tuple of Row
        In the order they were computed: the exact solver's row, then the fast one's.
    datasets : tuple of Prepared
        The data sets.
    seed : int
        Seed of the splits and of the stochastic solvers.
    time_limit : float or None
        Seconds at most for each fit.
    seconds : float
        Seconds in all.
    interrupted : bool
        Whether the run was stopped before its end.
    """

    rows: tuple[Row, ...]
    datasets: tuple[Prepared, ...]
    seed: int = 0
    time_limit: float | None = None
    seconds: float = 0.0
    interrupted: bool = False

    def to_frame(self) -> pd.DataFrame:
        """The rows as a frame, one column per field of :class:`Row` but the estimator."""
        import pandas as pd

        columns = [f.name for f in fields(Row) if f.name != "estimator"]
        return pd.DataFrame(
            [{name: getattr(row, name) for name in columns} for row in self.rows], columns=columns
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {
            "seed": self.seed,
            "time_limit": self.time_limit,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "notes": self.notes(),
            "data": [
                {
                    "name": data.name,
                    "n_train": data.X_train.shape[0],
                    "n_test": data.X_test.shape[0],
                    "n_features": data.X_train.shape[1],
                }
                for data in self.datasets
            ],
            "rows": [row.to_dict() for row in self.rows],
        }

    def notes(self) -> list[str]:
        """How the numbers came about, as sentences."""
        tests = (
            "the publisher's"
            if all(d.published for d in self.datasets)
            else f"a stratified quarter (seed {self.seed})"
        )
        notes = [
            f"Features are scaled to unit variance on the training part; the test part is {tests}.",
            "Objective and bound come from certificates, computed from the data and the vectors; "
            "a solver's word counts for nothing. Gap and worst residual are relative. Seconds are of the fit "
            "alone, compilation apart.",
        ]
        notes += [
            f"{rule[0].upper()}{rule[1:]}: {', '.join(where)}." for rule, where in self._tuned().items()
        ]
        with_faces = [row for row in self.rows if METHODS[row.method].has_faces]
        if with_faces:
            notes.append(
                "Methods with faces are not convex: their bounds are on the optimum for the assignment "
                "reached, which another assignment may beat."
            )
            proving = sorted({r.solver for r in with_faces if r.solver == METHODS[r.method].proving})
            notes[-1] += "".join(
                f" The bound of the {solver} solver is on the optimum over all assignments."
                for solver in proving
            )
        if self.interrupted:
            notes.append("The run was interrupted; what was done by then is shown.")
        return notes

    def _tuned(self) -> dict[str, list[str]]:
        """What was chosen for the data, by the rule that chose it: ``B=8.47 (rmm on wbc)``."""
        found: dict[str, dict[tuple[str, str], dict[str, None]]] = {}
        for row in self.rows:
            if value := _tuned_value(row):
                places = found.setdefault(METHODS[row.method].rule, {})
                places.setdefault((value, row.data), {})[row.method] = None
        return {
            rule: [f"{value} ({', '.join(methods)} on {data})" for (value, data), methods in places.items()]
            for rule, places in found.items()
        }

    def table(self, width: int = 120) -> Group:
        """The comparison as rich tables, one per data set, laid out for a width in characters."""
        from polyopt.compare.table import tables

        titles = {data.name: data.summary for data in self.datasets}
        return tables(self.rows, titles, self.notes() if self.rows or self.interrupted else (), width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield self.table(options.max_width)


def _tuned_value(row: Row) -> str:
    """The setting that was chosen for the data, such as ``B=8.47``; empty where there is none."""
    name = METHODS[row.method].tuned
    return next((part for part in row.settings.split(", ") if part.startswith(f"{name}=")), "")
