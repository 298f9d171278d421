"""`write_verification`: every program and every cross-check on one page that needs no network."""

from collections.abc import Sequence
from pathlib import Path

from polyopt.base.files import write_text
from polyopt.base.table import Column
from polyopt.base.text import escape
from polyopt.crosschecks import Outcome
from polyopt.crosschecks.registry import CROSSCHECK_COLUMNS, VERDICT_COLOURS, summary
from polyopt.methods.programs import Entry
from polyopt.report.frame import Contents, badge, framed, rows_table
from polyopt.report.programs import program_section
from polyopt.verify import CHECK_COLUMNS, TOLERANCE, Check, falls_short

_SOURCE = Column[Outcome]("source", lambda outcome: outcome.check.source, is_text=True)
_LEGEND = (
    "T: identities of the papers. N: misprints of the papers; these checks fail if someone changes the code "
    "to match the print. For vectors, the pair with the largest violation is shown. Differences are relative "
    "to the largest expected number, absolute if that is 0."
)


def write_verification(
    entries: Sequence[Entry], checks: list[Check], outcomes: list[Outcome], path: str | Path
) -> Path:
    """Write the programs, their checks and the evaluated cross-checks as one page; replace a file."""
    short = falls_short(checks)
    failing = [outcome.check.name for outcome in outcomes if outcome.verdict == "FAILS"]
    verdict = "" if not (short or failing) else f" Failing: {escape(', '.join([*short, *failing]))}."
    contents = Contents()
    identities = contents.heading(2, "cross-checks", "Cross-checks")
    table = rows_table(
        (*CROSSCHECK_COLUMNS, _SOURCE), outcomes, "prose checks", sortable=True,
        group=lambda outcome: outcome.check.family,
    )  # fmt: skip
    heading = contents.heading(2, "programs", "The programs")
    programs = "".join(_program(entry, checks, entry.name in short, contents) for entry in entries)
    body = (
        "<h1>Programs and cross-checks, verified</h1>"
        f"<p>{len(entries)} programs, each solved by every solver that can, each point checked against the "
        f"optimality conditions at {TOLERANCE:g}; {escape(summary(outcomes))}.{verdict}</p>{contents.nav()}"
        f"<section>{identities}<p class='quiet'>{_LEGEND}</p>{table}</section>"
        f"<section>{heading}<p class='quiet'>Sizes are those on each family's own small data.</p>"
        f"{programs}</section>"
    )
    write_text(Path(path), framed("polyopt: programs and cross-checks, verified", body, wide=True))
    return Path(path)


def _program(entry: Entry, checks: list[Check], short: bool, contents: Contents) -> str:
    """Return a part to unfold: a program's mathematics and its checks."""
    checks = [check for check in checks if check.program == entry.name]
    verdict = "FAILS" if short else "ok" if any(check.verdict == "ok" for check in checks) else "not run"
    partner = f" · with {escape(entry.partner)}" if entry.partner else ""
    anchor = contents.anchor(entry.name, escape(entry.name), level=3)
    return (
        f"<details id='{anchor}'><summary><b>{escape(entry.name)}</b> {escape(entry.program.title)} "
        f"<span class='quiet'>{escape(entry.program.kind)}{partner}</span> "
        f"{badge(verdict, VERDICT_COLOURS[verdict])}</summary>"
        f"{program_section(entry.program)}{rows_table(CHECK_COLUMNS, checks, sortable=True)}</details>"
    )
