"""One sample's explanation as text in lines of at most 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.solution import Status
from polyopt.explanations.words import NAME, cut, named, number, others, wrapped

if TYPE_CHECKING:
    from polyopt.explanations.records import SampleRecord
    from polyopt.explanations.way import Way

__all__ = [
    "crossing_sentence", "fidelity_sentence", "heading_of_sample", "hidden_sentence", "sample_text",
    "way_sentence",
]  # fmt: skip

_ALONE = "'alone' is what a feature would have to be if it alone changed, - if that cannot do it."


def sample_text(e: SampleRecord) -> str:
    """One sample's explanation.

    e: the explanation.
    """
    lines = [*wrapped(heading_of_sample(e)), "", *_score(e), *wrapped(fidelity_sentence(e)), ""]
    lines += wrapped(way_sentence(e))
    if e.way.changes:
        lines += ["", *_changes(e.way, e.top, _unit(e)), *wrapped(hidden_sentence(e))]
    if e.way.found.point is not None:
        lines += ["", *wrapped(crossing_sentence(e))]
    return "\n".join(lines)


def heading_of_sample(e: SampleRecord) -> str:
    """Its label, on which side it is, and the face that answers.

    e: the explanation.
    """
    where = {"polytope": ("inside of", "outside of"), "union": ("inside of a piece of", "outside of")}
    side = where.get(e.subject.kind)
    noun = "union" if e.subject.kind == "union" else "polytope"
    place = "" if side is None else f", {side[int(e.is_beyond)]} the {noun}"
    by_faces = e.subject.labels[1] if e.is_beyond else e.subject.labels[0]
    text = f"Class {named(e.label)}{place}. "
    if by_faces != e.label:
        text += f"(The model decides by its probabilities; the faces alone would say {named(by_faces)}.) "
    name = e.subject.face_name(e.answer.name)
    if e.subject.kind == "difference":
        return text + (
            f"It answers by {name}: their scores differ by {e.score:.4g}; positive is class "
            f"{named(e.subject.labels[1])}."
        )
    if not np.isfinite(e.margin):  # a price has left the face no weight
        return text + (
            f"{name[0].upper()}{name[1:]} answers: it has no weights, and its score is {e.score:.4g} "
            f"whatever the sample; positive is class {named(e.subject.labels[1])}."
        )
    unit = "spreads" if e.subject.has_units else "units"
    beyond = "beyond" if e.margin > 0 else "short of"
    return text + (
        f"{name[0].upper()}{name[1:]} answers: its score is {e.score:.4g}, which is {abs(e.margin):.4g} "
        f"{unit} {beyond} its plane; positive is class {named(e.subject.labels[1])}."
    )


def _score(e: SampleRecord) -> list[str]:
    """The terms of the score as a table."""
    shown, hidden = e.terms[: e.top], e.terms[e.top :]
    head = f"  {'what makes the score':<{NAME}} {'value':>12} {'mean':>12} {'adds':>12}"
    rows = [f"  {'the mean sample':<{NAME}} {'':>12} {'':>12} {e.base:>12.4g}"]
    rows += [
        f"  {cut(term.column):<{NAME}} {number(term.value):>12} {number(term.usual):>12} "
        f"{term.amount:>+12.4g}"
        for term in shown
    ]
    if hidden:
        rows.append(f"  {others(len(hidden)):<{NAME}} {'':>12} {'':>12} {e.rest:>+12.4g}")
    return [head, *rows, f"  {'together':<{NAME}} {'':>12} {'':>12} {e.score:>12.4g}"]


def fidelity_sentence(e: SampleRecord) -> str:
    """What leaving out the terms that are not shown would do; empty where all are.

    e: the explanation.
    """
    hidden = len(e.terms) - e.top
    if hidden <= 0:
        return ""
    short = e.score - e.rest
    same = "the same side" if (short > 0.0) == (e.score > 0.0) else "the OTHER side"
    text = f"Without the {others(hidden)} it would be {short:.4g}, on {same}."
    if e.samples:
        share = f"{100 * e.same / e.samples:.1f} % of the data ({e.same} of {e.samples})"
        text += f" With these {e.top} terms alone this face is on the same side on {share}."
    return text


def way_sentence(e: SampleRecord) -> str:
    """How far the other side is, and which faces decide it.

    e: the explanation.
    """
    way = e.way
    if way.found.point is None:
        if way.found.status is Status.INFEASIBLE:
            return "No point of the other class can be reached with what is held and bounded as asked."
        return "No point of the other class was found within the limit of the search."
    other = e.subject.labels[0] if e.is_beyond else e.subject.labels[1]
    best = "The nearest point" if way.is_nearest else "The nearest point found"
    text = f"{best} of class {named(other)} is {way.distance:.6g} {_unit(e)} away{_by(e)}."
    if not way.is_nearest:
        text += f" None is nearer than {way.found.bound:.6g}: {way.found.status}"
    return text


def _unit(e: SampleRecord) -> str:
    return "spreads" if e.subject.has_units else "units"


def _by(e: SampleRecord) -> str:
    """Which faces hold the nearest point where it is."""
    names = [e.subject.face_name(name) for name, _ in e.way.found.deciding()]
    if not names:
        return ", where bounds decide" if e.way.distance else ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", on " + ", ".join(names[:3]) + more


def _changes(way: Way, top: int, unit: str) -> list[str]:
    lines = [f"  {'what changes':<{NAME}} {'from':>12} {'to':>12} {f'by {unit}':>12} {'alone':>9}"]
    lines += [
        f"  {cut(c.column):<{NAME}} {number(c.before):>12} {number(c.after):>12} {c.amount:>12.4g} "
        f"{'-' if c.alone is None else number(c.alone):>9}"
        for c in way.changes[:top]
    ]
    return lines


def hidden_sentence(e: SampleRecord) -> str:
    """What the changes that are not shown come to; empty where all are.

    e: the explanation.
    """
    hidden = e.way.changes[e.top :]
    if not hidden:
        return ""
    total = float(np.sqrt(sum(change.amount**2 for change in hidden)))
    text = (
        f"And {others(len(hidden))} by at most {hidden[0].amount:.3g} each, {total:.3g} together (root of "
        "the sum of squares)."
    )
    if e.way.is_enough is not None:
        text += f" Those shown would {'' if e.way.is_enough else 'not '}be enough by themselves."
    return text


def crossing_sentence(e: SampleRecord) -> str:
    """From where on the model itself gives the other label, and what the lengths are.

    e: the explanation.
    """
    way = e.way
    if way.crossing is None:
        text = "No point near there was found to which the model itself gives the other label."
    else:
        more = way.crossing_distance - way.distance
        where = "there" if more <= 0.0 else f"{more:.1e} {_unit(e)} farther on"
        text = f"The model says {named(e.other)} {where}."
    if way.changes:
        text += f" {_ALONE}"
    return text + (
        " A spread is the standard deviation of a feature in the data of the fit."
        if e.subject.has_units
        else " How much the features vary is not known, so all are measured in their own units."
    )
