"""The result of a comparison: one row per data set, method and solver."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.console import Console, ConsoleOptions, Group, RenderableType

from polyopt.base.text import plain
from polyopt.compare import results
from polyopt.compare.data import Prepared
from polyopt.compare.results import Row
from polyopt.compare.tables import comparison_tables, repeat_notes
from polyopt.methods import METHODS


@dataclass(frozen=True)
class Comparison:
    """Rows of a comparison, their data sets, and the arguments; a rich console prints it at any width."""

    rows: tuple[Row, ...]  #: in the order of computation: the exact solver's row, then the fast one's
    datasets: tuple[Prepared, ...]  #: the data sets
    seed: int = 0  #: as in :func:`compare`, like `time_limit` and `splits`
    time_limit: float | None = None
    seconds: float = 0.0  #: total time
    interrupted: bool = False  #: True if the run was stopped before its end
    splits: int = 1
    given: str = ""  #: the argument `settings` as text

    @property
    def is_repeated(self) -> bool:
        """True if there are several splits."""
        return self.splits > 1

    @property
    def first_rows(self) -> tuple[Row, ...]:
        """The rows of the first split, which have estimators."""
        return tuple(row for row in self.rows if row.split == self.seed)

    def summaries(self) -> list[results.Summary]:
        """Return means over splits, with intervals, for each data set, method and solver."""
        return results.summaries_of(self.rows, self._ratios())

    def differences(self) -> list[results.Difference]:
        """Return differences of test error between every two methods over several splits."""
        return results.differences_of(self.rows, self._ratios())

    def proofs(self) -> list[results.Proof]:
        """Return the gap of each solver to the bound on all points, for the first split."""
        return results.proofs_of(self.first_rows)

    def _ratios(self) -> dict[str, float]:
        return {data.name: len(data.y_test) / len(data.y_train) for data in self.datasets}

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a frame, one column per field of :class:`Row` but the estimator."""
        return results.frame_of(self.rows)

    def to_table(self) -> pd.DataFrame:
        """Return all in one frame, for CSV: rows, and of a repeated run summaries and differences.

        A column ``kind`` then says if a line is a ``fit``, a ``mean`` or a ``difference``.
        """
        if not self.is_repeated:
            return self.to_frame()
        kinds: dict[str, list[dict[Any, Any]]] = {
            "fit": self.to_frame().to_dict("records"),
            "mean": [each._asdict() for each in self.summaries()],
            "difference": [each.to_dict() for each in self.differences()],
        }
        lines = [{"kind": kind, **line} for kind, each in kinds.items() for line in each]
        table = pd.DataFrame(lines)
        counts = [name for name in ("split", "seed", "fits", "splits", "failed") if name in table]
        return table.astype(dict.fromkeys(counts, "Int64"))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        means = [plain(each._asdict()) for each in self.summaries()]
        sets = [
            {
                "name": data.name, "n_train": data.X_train.shape[0], "n_test": data.X_test.shape[0],
                "n_features": data.X_train.shape[1],
            }
            for data in self.datasets
        ]  # fmt: skip
        return {
            "seed": self.seed, "time_limit": self.time_limit, "seconds": self.seconds,
            "interrupted": self.interrupted, "notes": self.notes(), "data": sets,
            "splits": self.splits, "settings": self.given, "rows": [row.to_dict() for row in self.rows],
            "means": means if self.is_repeated else [],
            "differences": [each.to_dict() for each in self.differences()],
        }  # fmt: skip

    def notes(self) -> list[str]:
        """Return sentences on how the numbers are computed."""
        tests = f"a stratified quarter (seed {self.seed})"
        if all(d.published for d in self.datasets):
            tests = "the publisher's"
        elif self.splits > 1:
            tests = f"a stratified quarter (seeds {self.seed} to {self.seed + self.splits - 1})"
            if published := [d.name for d in self.datasets if d.published]:
                tests += f"; of {', '.join(published)} the publisher's, one split"
        notes = [f"Settings given: {self.given}."] if self.given else []
        if self.is_repeated:
            notes += repeat_notes(self.splits)
        elif self.datasets:
            sizes = ", ".join(f"{100 / len(d.y_test):.1f} on {d.name}" for d in self.datasets)
            notes.append(
                f"Of one split no difference of test errors is a result: a sample counts in points {sizes}. "
                "--splits 10 gives intervals and paired differences."
            )
        notes += [
            f"Features are scaled to unit variance on the training part; the test part is {tests}.",
            "Objective and bound come from certificates, computed from the data and the vectors, not from "
            "the solver. Gap and worst residual are relative. Seconds are of the fit, without imports.",
        ]
        anew = ", chosen on each split; on the first" if self.splits > 1 else ""
        tuned = self._tuned().items()
        notes += [f"{rule[0].upper()}{rule[1:]}{anew}: {', '.join(where)}." for rule, where in tuned]
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
        for row in self.first_rows:
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
        means = self.summaries() if self.is_repeated else []
        for name, summary in titles.items():
            if (count := len({row.split for row in self.rows if row.data == name})) > 1:
                titles[name] = summary.replace(f"{name}: ", f"{name}: {count} splits of ", 1)
        proofs = [] if means else self.proofs()
        return comparison_tables(self.rows, means, self.differences(), proofs, titles, notes, width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield self.table(options.max_width)
