"""A certificate as people see it: a table on a terminal, a few lines, and a part of a page."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

from formulations.shown import Shown, Summary, Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from polyopt.certificates.residual import Residual

__all__ = ["CertificateText"]


class CertificateText(Shown):
    """Base of the certificate, whose attributes it prints."""

    program: str
    primal_value: float
    dual_value: float
    residuals: tuple[Residual, ...]
    tol: float
    rounding: float
    stated: float | None

    @property
    @abstractmethod
    def gap(self) -> float:
        """Absolute duality gap."""

    @property
    @abstractmethod
    def relative_gap(self) -> float:
        """The gap over the larger of the two values."""

    @property
    @abstractmethod
    def worst(self) -> Residual | None:
        """The residual that is largest relative to its scale."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The claim in full."""

    def table(self) -> RichTable:
        """The certificate as a rich table."""
        from rich.table import Table

        table = Table(title=f"Certificate: {self.program}", caption=self.sentence, title_justify="left")
        table.caption_justify = "left"
        for column in ("condition", "row", "amount", "relative", "worst at", f"to {self.tol:.0e}"):
            is_number = column in ("amount", "relative", "worst at")
            table.add_column(
                column, justify="right" if is_number else "left", no_wrap=column.startswith("to ")
            )
        table.add_row("objective", "primal", f"{self.primal_value:.10g}")
        table.add_row("objective", "dual bound", f"{self.dual_value:.10g}")
        table.add_row("objective", "rounding", f"{self.rounding:.2e}")
        if self.stated is not None:
            table.add_row("objective", "stated", f"{self.stated:.10g}")
        table.add_row("gap", "", f"{self.gap:.2e}", f"{self.relative_gap:.2e}", "", self._gap_in_words())
        table.add_section()
        for row in self._residual_rows():
            table.add_row(*row)
        return table

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get().rstrip()

    def _summary(self) -> Summary:
        facts = [
            ("claim", self.sentence),
            ("value", f"{self.primal_value:.10g}"),
            ("dual bound", f"{self.dual_value:.10g}"),
            ("gap", f"{self.gap:.2e}, relative {self.relative_gap:.2e} (tolerance {self.tol:.0e})"),
            ("rounding", f"{self.rounding:.2e}"),
        ]
        if self.stated is not None:
            facts.append(("stated", f"{self.stated:.10g} (by the solver's word)"))
        if self.worst is not None:
            facts.append(("worst", f"{self.worst.label}, relative {self.worst.relative:.2e}"))
        rows = self._residual_rows()
        columns = ("condition", "row", "violation", "relative", "worst at", f"to {self.tol:.0e}")
        tables = (Table("optimality conditions", columns, rows),) if rows else ()
        return Summary(f"Certificate: {self.program}", tuple(facts), tables)

    def _gap_in_words(self) -> str:
        """Say "closed" if the gap is within the tolerance, else "within" so many per cent of the optimum."""
        if self.relative_gap <= self.tol:
            return "closed"
        proven = self.gap >= 0.0 and math.isfinite(self.relative_gap)
        return f"within {100.0 * self.relative_gap:.2g} %" if proven else "open"

    def _residual_rows(self) -> tuple[tuple[str, ...], ...]:
        """Condition, row, violation, relative violation, worst sample, and whether the condition holds."""
        return tuple(
            (
                r.condition, r.row, f"{r.value:.2e}", f"{r.relative:.2e}",
                "–" if r.worst is None else str(r.worst),
                "holds" if r.relative <= self.tol else "violated",
            )
            for r in self.residuals
        )  # fmt: skip
