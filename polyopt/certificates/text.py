"""A certificate as people see it: a table on a terminal, a few lines, and a part of a page."""

from __future__ import annotations

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
        for column in ("condition", "row", "violation", "relative", "worst at", ""):
            is_number = column in ("violation", "relative", "worst at")
            table.add_column(column, justify="right" if is_number else "left")
        table.add_row("value", "primal", f"{self.primal_value:.10g}", "", "", "")
        table.add_row("value", "dual bound", f"{self.dual_value:.10g}", "", "", "")
        table.add_row("value", "rounding", f"{self.rounding:.2e}", "", "", "")
        if self.stated is not None:
            table.add_row("value", "stated", f"{self.stated:.10g}", "", "", "")
        table.add_row(
            "gap", "", f"{self.gap:.2e}", f"{self.relative_gap:.2e}", "", _mark(self.relative_gap, self.tol)
        )
        table.add_section()
        for r in self.residuals:
            where = "" if r.worst is None else str(r.worst)
            table.add_row(
                r.condition, r.row, f"{r.value:.2e}", f"{r.relative:.2e}", where, _mark(r.relative, self.tol)
            )
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
        rows = tuple(
            (
                r.condition, r.row, f"{r.value:.2e}", f"{r.relative:.2e}",
                "–" if r.worst is None else str(r.worst), _mark(r.relative, self.tol),
            )
            for r in self.residuals
        )  # fmt: skip
        columns = ("condition", "row", "violation", "relative", "worst at", "")
        tables = (Table("optimality conditions", columns, rows),) if rows else ()
        return Summary(f"Certificate: {self.program}", tuple(facts), tables)


def _mark(relative: float, tol: float) -> str:
    return "ok" if relative <= tol else "FAILS"
