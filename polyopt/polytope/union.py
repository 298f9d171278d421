"""The rules of a union of polytopes: inside where all conditions of one of several lists hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyopt.polytope.code import Label
from polyopt.polytope.forms import as_json
from polyopt.polytope.rules import Described, conditions_of

__all__ = ["union_as_json", "union_rules"]


def union_rules(
    polytopes: Sequence[Described], digits: int = 4, threshold: float = 0.0, max_terms: int | None = None, *,
    inside: str | None = None, outside: str | None = None,
) -> str:  # fmt: skip
    """The pieces as text that reads as a classifier: a list of conditions for each.

    polytopes: the pieces.
    """
    within = "Inside" if inside is None else f"Inside, class '{inside}'"
    beyond = "outside" if outside is None else f"outside, class '{outside}'"
    lines, face = [f"{within}, if all conditions of one piece hold; else {beyond}:"], 0
    for d, polytope in enumerate(polytopes):
        conditions = conditions_of(polytope, digits, threshold, max_terms)
        note = "  [empty: no point is inside]" if polytope.is_empty else ""
        lines.append(f"  {'or' if d else 'if'} piece {d}:{note}")
        for k, (condition, redundant) in enumerate(zip(conditions, polytope.redundant, strict=True)):
            spare = "  [redundant: leaving it out changes nothing]" if redundant else ""
            lines.append(f"    {'and' if k else 'all of'} face {face}: {condition}{spare}")
            face += 1
    return "\n".join(lines)


def union_as_json(polytopes: Sequence[Described], inside: Label, outside: Label) -> dict[str, Any]:
    """The pieces as JSON has them, each a list of faces.

    polytopes: the pieces.
    inside, outside: the labels.
    """
    closed = all(polytope.is_closed for polytope in polytopes)
    reached = "more than its limit" if closed else "its limit or more"
    meaning = f"inside where, for one piece, the terms of no face add up to {reached}, else outside"
    pieces = [
        {"piece": d, "faces": as_json(polytope, inside, outside)["faces"]}
        for d, polytope in enumerate(polytopes)
    ]
    return {"inside": inside, "outside": outside, "rule": meaning, "pieces": pieces}
