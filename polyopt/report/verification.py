"""`write_verification`: every program and every cross-check on one page that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from formulations.catalogue import Entry
from polyopt.base.files import write_text
from polyopt.base.text import escape
from polyopt.crosschecks import Outcome
from polyopt.crosschecks.registry import summary, tolerance_of
from polyopt.report.frame import Contents, columns, framed, head_cells, scrolling, table_row
from polyopt.report.programs import program_section
from polyopt.verify import TOLERANCE, Check, falls_short

_COLOURS = {"ok": "green", "FAILS": "red", "gave up": "yellow", "not run": "yellow"}
_CROSSCHECKS = columns("*, identity*, computed, , expected, differs, tolerance, *, source*")
_SOLUTIONS = columns("by*, value, differs, residual, worst at*, *")
_LEGEND = (
    "T: identities of the papers. N: misprints of the papers; these checks fail if someone changes the code "
    "to match the print. Of vectors, the pair is shown that is farthest from what must "
    "hold. Differences are relative to the largest expected number, absolute where that is 0."
)


def write_verification(
    entries: Sequence[Entry], checks: list[Check], outcomes: list[Outcome], path: str | Path
) -> Path:
    """Write one self-contained page.

    Parameters
    ----------
    entries : sequence of Entry
        The programs, from :func:`formulations.catalogue.catalogue`.
    checks : list of Check
        What :func:`polyopt.verify.verify` found about them.
    outcomes : list of Outcome
        The cross-checks, evaluated.
    path : str or Path
        The file to write, in UTF-8; one that is there is replaced.
    """
    short = falls_short(checks)
    failing = [outcome.check.name for outcome in outcomes if outcome.verdict == "FAILS"]
    verdict = "" if not (short or failing) else f" Failing: {escape(', '.join([*short, *failing]))}."
    contents = Contents()
    first = contents.heading(2, "cross-checks", "Cross-checks")
    second = contents.heading(2, "programs", "The programs")
    programs = "".join(_program(entry, checks, entry.name in short, contents) for entry in entries)
    body = (
        "<h1>Programs and cross-checks, verified</h1>"
        f"<p>{len(entries)} programs, each solved by every solver that can, each point checked against the "
        f"optimality conditions at {TOLERANCE:g}; {escape(summary(outcomes))}.{verdict}</p>{contents.nav()}"
        f"<section>{first}<p class='quiet'>{_LEGEND}</p>{_crosschecks(outcomes)}</section>"
        f"<section>{second}<p class='quiet'>Sizes are those on each family's own small data.</p>"
        f"{programs}</section>"
    )
    write_text(Path(path), framed("polyopt: programs and cross-checks, verified", body, wide=True))
    return Path(path)


def _badge(verdict: str) -> str:
    return f"<span class='badge {_COLOURS[verdict]}'>{escape(verdict)}</span>"


def _crosschecks(outcomes: list[Outcome]) -> str:
    rows = []
    for _, group in groupby(outcomes, key=lambda outcome: outcome.check.family):
        for place, o in enumerate(group):
            note = f"<br><span class='quiet'>{escape(o.note)}</span>" if o.note else ""
            cells = (
                o.check.name, escape(o.check.identity) + note, f"{o.computed:.6g}", o.check.relation,
                f"{o.expected:.6g}", f"{o.difference:.1e}", tolerance_of(o), _badge(o.verdict),
                f"<span class='quiet'>{escape(o.check.source)}</span>",
            )  # fmt: skip
            rows.append(table_row(cells, _CROSSCHECKS, f" class='{'first' if place == 0 else ''}'"))
    return scrolling(head_cells(_CROSSCHECKS), "".join(rows), "prose checks", sortable=True)


def _program(entry: Entry, checks: list[Check], short: bool, contents: Contents) -> str:
    """Return a program to be opened: its mathematics, and what each solver made of it."""
    own = [check for check in checks if check.program == entry.name]
    verdict = "FAILS" if short else "ok" if any(check.verdict == "ok" for check in own) else "not run"
    cells = [
        (
            escape(c.solver), f"{c.value:.8g}", f"{c.difference:.1e}", f"{c.residual:.1e}",
            escape(c.where), _badge(c.verdict),
        )
        for c in own
    ]  # fmt: skip
    rows = "".join(table_row(row, _SOLUTIONS, " class=''") for row in cells)
    partner = f" · with {escape(entry.partner)}" if entry.partner else ""
    anchor = contents.anchor(entry.name, escape(entry.name), level=3)
    return (
        f"<details id='{anchor}'><summary><b>{escape(entry.name)}</b> {escape(entry.program.title)} "
        f"<span class='quiet'>{escape(entry.program.kind)}{partner}</span> {_badge(verdict)}</summary>"
        f"{program_section(entry.program)}{scrolling(head_cells(_SOLUTIONS), rows, sortable=True)}</details>"
    )
