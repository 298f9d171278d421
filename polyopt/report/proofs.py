"""The section of a comparison's page that holds every solver against one bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from polyopt.compare.table import duration, number
from polyopt.plots import gaps
from polyopt.report.frame import scrolling
from polyopt.report.pictures import Picture, svg
from polyopt.text import escape

if TYPE_CHECKING:
    from polyopt.compare.proofs import Proof

__all__ = ["proof_section"]

_TOLD = "Relative gap from each solver's objective to the bound on all points, and its seconds."
_CAPTION = (
    "A line is the run of a proving solver, from its best point to its bound as they were (of several "
    "classes there is none); a mark is where a solver ended, from its objective to the bound that was proven "
    "in the end."
)


def proof_section(proofs: list[Proof], title: str, figure: Callable[[Picture], str]) -> str:
    """How far each solver ended from the bound on all points, as a table and as a picture.

    proofs: at least one.
    title: the heading, as HTML.
    figure: makes a picture into HTML.
    """
    solvers = list(dict.fromkeys(solver for proof in proofs for solver in proof.objectives))
    kinds = ["text", "text", *[""] * (2 + len(solvers))]
    head = "".join(
        f"<th scope='col' class='{kind}'>{escape(name)}</th>"
        for name, kind in zip(("data", "method", "best", "proven bound", *solvers), kinds, strict=True)
    )
    body = []
    for proof in proofs:
        best = min(proof.objectives.values())
        cells = [escape(proof.data), escape(proof.method), number(best), number(proof.bound)]
        cells += [_ended(proof, solver) for solver in solvers]
        columns = zip(cells, kinds, strict=True)
        body.append(f"<tr>{''.join(f'<td class={kind!r}>{cell}</td>' for cell, kind in columns)}</tr>")
    table = scrolling(head, "\n".join(body), "comparison")
    return (
        f"<section>{title}<p class='quiet'>{_TOLD}</p>{table}"
        f"<div class='pictures'>{figure(_picture(proofs))}</div></section>"
    )


def _ended(proof: Proof, solver: str) -> str:
    if solver not in proof.gaps:
        return "–"
    return f"{100 * proof.gaps[solver]:.3g} % in {duration(proof.seconds[solver])} s"


def _picture(proofs: list[Proof]) -> Picture:
    several = len({proof.method for proof in proofs}) > 1
    names = [f"{proof.method} on {proof.data}" if several else proof.data for proof in proofs]
    runs = {name: proof.run for name, proof in zip(names, proofs, strict=True)}
    ends = {
        name: {solver: (proof.seconds[solver], gap) for solver, gap in proof.gaps.items()}
        for name, proof in zip(names, proofs, strict=True)
    }
    return Picture(svg(gaps(runs, ends), "Gap against time"), "Gap against time", _CAPTION)
