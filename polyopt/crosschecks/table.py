"""The outcomes of the cross-checks, as a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Outcome

__all__ = ["crosscheck_table", "summary", "tolerance_of"]

_STYLES = {"ok": "green", "FAILS": "bold red", "not run": "yellow"}


def summary(outcomes: list[Outcome]) -> str:
    """Say how many checks hold, in what time, and which do not."""
    counts = {verdict: sum(o.verdict == verdict for o in outcomes) for verdict in _STYLES}
    text = (
        f"{counts['ok']} of {len(outcomes)} cross-checks hold, in {sum(o.seconds for o in outcomes):.0f} s"
        " (= ≤ ≥ up to the tolerance, < > by more than it)"
    )
    for verdict, words in (("FAILS", "FAILING"), ("not run", "not run")):
        if counts[verdict]:
            text += f"; {words}: {', '.join(o.check.name for o in outcomes if o.verdict == verdict)}"
    return text


def tolerance_of(outcome: Outcome) -> str:
    """The tolerance, with the side of it on which the difference has to be."""
    strict = outcome.check.relation in ("<", ">")
    return f"{'>' if strict else '≤'} {outcome.check.tolerance:.0e}"


def crosscheck_table(outcomes: list[Outcome]) -> Table:
    """The outcomes as a rich table.

    Parameters
    ----------
    outcomes : list of Outcome
        What :func:`polyopt.crosschecks.run` gave for each check.
    """
    table = Table(
        title="Cross-checks", caption=summary(outcomes), title_justify="left", caption_justify="left",
        box=None, pad_edge=False, header_style="bold",
    )  # fmt: skip
    table.add_column("", no_wrap=True)
    table.add_column("identity", ratio=1)
    table.add_column("computed", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("expected", justify="right", no_wrap=True)
    table.add_column("differs", justify="right", no_wrap=True)
    table.add_column("tolerance", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    family = ""
    for o in outcomes:
        if family and o.check.family != family:
            table.add_row()
        family = o.check.family
        identity = Text(o.check.identity)
        if o.note:
            identity.append(f"\n{o.note}", style="yellow")
        table.add_row(
            o.check.name, identity, f"{o.computed:.6g}", o.check.relation, f"{o.expected:.6g}",
            f"{o.difference:.1e}", tolerance_of(o), Text(o.verdict, style=_STYLES[o.verdict]),
        )  # fmt: skip
    return table
