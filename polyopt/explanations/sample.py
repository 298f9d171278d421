"""Explanation of one sample: its active face, the terms of its score, and its nearest counterfactual.

The nearest point of the other side is exact, a projection. Whether a point *on* a face is inside is a matter
of rounding, so that a second point lies a little deeper, by as little as makes ``predict`` give the other
label; both distances are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array, whole
from formulations.language.solution import Status
from formulations.language.types import Array
from polyopt.base.text import first_of
from polyopt.certificates.certificate import Certificate
from polyopt.explanations.subject import (
    NAME_WIDTH,
    Answer,
    Column,
    Subject,
    cut,
    named,
    number,
    others,
    wrapped,
)
from polyopt.polytope.nearest import Nearest, Question, nearest

_MIN_DEPTH, _DEPTH_FACTOR, _MAX_DEPTH = 1e-15, 8.0, 2.0  # beyond the boundary, as tried, in spreads


@dataclass(frozen=True)
class Change:
    """The value of one column, and its value at the nearest point."""

    column: str
    before: float | str
    after: float | str
    amount: float  # in spreads, without its sign; of texts, of both indicators together
    alone: float | str | None = None  # value that changes the label if nothing else moves; None if none does


@dataclass(frozen=True)
class Way:
    """The nearest counterfactual.

    Attributes
    ----------
    found : Nearest
        The nearest point on the boundary, with its bound and its status.
    changes : tuple of Change
        The columns that change, the largest change first.
    crossing : ndarray of shape (m,) or None
        The nearest point found that the model puts on the other side.
    crossing_distance : float
        Its distance from the sample, in spreads; inf without one.
    is_enough : bool or None
        True if the changes shown would by themselves change the label; None if all are shown.
    """

    found: Nearest
    changes: tuple[Change, ...]
    crossing: Array | None
    crossing_distance: float
    is_enough: bool | None = None

    @property
    def distance(self) -> float:
        """Distance of the boundary in spreads; inf if no point of the other side can be reached."""
        return self.found.distance

    @property
    def is_nearest(self) -> bool:
        """True if the point is proven to be the nearest."""
        return self.found.status is Status.SOLVED


def way_out(
    subject: Subject, x: Array, held: NDArray[np.bool_], bounds: tuple[ArrayLike, ArrayLike] | None, top: int
) -> Way:
    """Return the nearest counterfactual of a sample x (m,); features `held` (m,) may not move.

    For the first `top` columns that change, their change alone is worked out too.
    """
    low, high = (None, None) if bounds is None else bounds
    groups = [column.places for column in subject.columns if column.texts is not None]
    gaps = [(column.places[0], column.gap) for column in subject.columns if column.gap is not None]
    question = Question.of(
        x, spread=subject.spread, low=low, high=high, held=held, groups=groups, gaps=gaps
    )  # fmt: skip
    region = subject.other_side(bool(subject.are_second(subject.scores(x[None]))[0]))
    found = nearest(question, region)
    if found.point is None:
        return Way(found, (), None, np.inf)
    z = found.point
    moved = [(_amount(column, x, z, subject.spread), column) for column in subject.columns]
    moved = sorted((each for each in moved if each[0] > 0.0), key=lambda each: -each[0])
    changes = [
        Change(
            column.name, column.value(x), column.value(z), amount,
            _alone(question, region, column) if place < top else None,
        )
        for place, (amount, column) in enumerate(moved)
    ]  # fmt: skip
    label = subject.predict(x[None])[0]
    point = _crossing(subject, found, label)
    if point is None:
        return Way(found, tuple(changes), None, np.inf)
    part = x.copy()
    for _, column in moved[:top]:
        part[list(column.places)] = point[list(column.places)]
    enough = None if len(moved) <= top else bool(subject.predict(part[None])[0] != label)
    far = float(np.linalg.norm((point - x) / subject.spread))
    return Way(found, tuple(changes), point, far, enough)


def _amount(column: Column, x: Array, z: Array, spread: Array) -> float:
    places = list(column.places)
    return float(np.linalg.norm((z[places] - x[places]) / spread[places]))


def _alone(question: Question, region: Any, column: Column) -> float | str | None:
    """Return the value that a column would need if it alone changed."""
    held = np.ones(len(question.x), dtype=bool)
    held[list(column.places)] = question.held[list(column.places)]
    own = Question.of(
        question.x, spread=question.spread, low=question.low, high=question.high, held=held,
        groups=[places for places in question.groups if not held[places].any()],
        gaps=[pair for pair in question.gaps if not held[pair].any()],
    )  # fmt: skip
    found = nearest(own, region)
    return None if found.point is None else column.value(found.point)


def _crossing(subject: Subject, found: Nearest, label: Any) -> Array | None:
    """Return the nearest point behind the boundary that the model gives the other label."""

    def is_across(point: Array | None) -> bool:
        return point is not None and bool(subject.predict(point[None])[0] != label)

    if is_across(found.point):
        return found.point
    depth, last = _MIN_DEPTH, 0.0
    while depth <= _MAX_DEPTH and not is_across(found.deeper(depth)):
        last, depth = depth, _DEPTH_FACTOR * depth
    if depth > _MAX_DEPTH:
        return None
    for _ in range(30 if depth > 1e-6 else 0):  # of rounding it is no matter
        middle = 0.5 * (last + depth)
        last, depth = (last, middle) if is_across(found.deeper(middle)) else (middle, depth)
    return found.deeper(depth)


_ALONE = "'alone' is what a feature would have to be if it alone changed, - if that cannot do it."


@dataclass(frozen=True)
class Term:
    """The term of one column in the score of the active face."""

    column: str
    value: float | str
    usual: float | None  # value of the mean sample; None for a text
    amount: float  # that the difference adds to the score


@dataclass(frozen=True)
class SampleExplanation:
    """Explanation of a sample's label.

    Attributes
    ----------
    subject : Subject
        The model.
    x : ndarray of shape (m,)
        The sample.
    label, other : label
        Its label by the model, and the other one.
    answer : Answer
        The face that answers for it.
    score, margin : float
        Its score, positive for the second label, and how far beyond that face's plane it is, in spreads.
    base : float
        The score of the mean sample at that face; the terms add up to the difference.
    terms : tuple of Term
        All terms, the weightiest first.
    top : int
        How many of them, and of the changes, are shown.
    same, samples : int
        On how many samples of some data the face is on the same side with the terms shown alone; 0 of 0
        without data.
    way : Way
        The way to the other side.
    """

    subject: Subject
    x: Array
    label: Any
    other: Any
    answer: Answer
    score: float
    margin: float
    base: float
    terms: tuple[Term, ...]
    top: int
    same: int
    samples: int
    way: Way

    @property
    def rest(self) -> float:
        """Sum of the terms that are not shown."""
        return float(sum(term.amount for term in self.terms[self.top :]))

    @property
    def is_beyond(self) -> bool:
        """True if the score is one of the second label."""
        return bool(self.subject.are_second(self.score))

    def text(self) -> str:
        """Return the explanation in words, in lines of at most 80 columns."""
        return sample_text(self)

    def certificate(self, tol: float = 1e-9) -> Certificate:
        """Certificate of the nearest point, or that there is none: see ``certify_nearest``.

        Parameters
        ----------
        tol : float
            Relative tolerance.
        """
        from polyopt.certificates.projection import certify_nearest

        return certify_nearest(self.way.found, tol)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; infinity is None."""
        way, subject = self.way, self.subject
        point = [] if way.found.point is None else way.found.point.tolist()
        return {
            "label": _plain(self.label),
            "other": _plain(self.other),
            "face": list(self.answer.name),
            "face_name": subject.face_name(self.answer.name),
            "score": self.score,
            "margin": _plain(self.margin),
            "mean_score": self.base,
            "terms": [vars(term) for term in self.terms],
            "fidelity": {"same": self.same, "samples": self.samples, "terms": min(self.top, len(self.terms))},
            "nearest": {
                "status": way.found.status.name.lower(),
                "distance": _plain(way.distance),
                "bound": _plain(way.found.bound),
                "crossing_distance": _plain(way.crossing_distance),
                "shown_are_enough": way.is_enough,
                "point": point,
                "crossing": None if way.crossing is None else way.crossing.tolist(),
                "decided_by": [
                    {"face": list(name), "share": pull} for name, pull in way.found.deciding()
                ],
                "changes": [
                    {name: own for name, own in vars(change).items() if name != "alone" or place < self.top}
                    for place, change in enumerate(way.changes)
                ],
            },
        }  # fmt: skip

    def __str__(self) -> str:
        return self.text()


def explain_sample(
    subject: Subject, x: ArrayLike, *, held: Sequence[str | int] = (),
    bounds: tuple[ArrayLike, ArrayLike] | None = None, top: int = 5, data: ArrayLike | None = None,
) -> SampleExplanation:  # fmt: skip
    """Explain one sample.

    Parameters
    ----------
    subject : Subject
        The model.
    x : array_like of shape (m,)
        The sample's features, in the units of the polytopes.
    held : sequence of str or int
        Columns that may not change.
    bounds : pair of array_like of shape (m,), optional
        The least and the largest value of each feature at the nearest point.
    top : int
        Terms and changes that are shown.
    data : array_like of shape (n, m), optional
        Samples on which it is counted how often the terms shown alone agree with all.

    Raises
    ------
    ValueError
        A sample of another size or not finite, a column that is not there, bounds that cross.
    """
    top = whole("top", top)
    point = real_array("x", x, (subject.n_features,))
    label = subject.predict(point[None])[0]
    second = subject.labels[1]
    answer, score = subject.answer(point), float(subject.scores(point[None])[0])
    length = float(np.linalg.norm(answer.w * subject.spread))
    terms = _terms(subject, answer, point)
    same, samples = (0, 0) if data is None else _fidelity(subject, answer, terms[:top], np.asarray(data))
    way = way_out(subject, point, subject.places(held), bounds, top)
    return SampleExplanation(
        subject, point, label, subject.labels[0] if label == second else second, answer, score,
        score / length if length else np.copysign(np.inf, score),
        float(answer.w @ subject.centre + answer.b), tuple(terms), top, same, samples, way,
    )  # fmt: skip


def _terms(subject: Subject, answer: Answer, x: Array) -> list[Term]:
    """Return the terms of the columns with a weight, the largest first."""
    found, amounts = [], answer.w * (x - subject.centre)
    for column in subject.columns:
        places = list(column.places)
        if answer.w[places].any():
            usual = None if column.texts is not None else _mean(subject, places[0])
            found.append(Term(column.name, column.value(x), usual, float(amounts[places].sum())))
    return sorted(found, key=lambda term: -abs(term.amount))


def _mean(subject: Subject, j: int) -> float:
    """Return the mean of a feature, 0 if it is nothing but rounding."""
    mean = float(subject.centre[j])
    return mean if abs(mean) > 1e-12 * subject.spread[j] else 0.0


def _fidelity(subject: Subject, answer: Answer, shown: list[Term], data: Array) -> tuple[int, int]:
    """Count the samples that the face leaves on the same side with the other columns at their means."""
    names = {term.column for term in shown}
    keep = np.zeros(subject.n_features, dtype=bool)
    for column in subject.columns:
        keep[list(column.places)] = column.name in names
    whole_scores = data @ answer.w + answer.b
    short = data[:, keep] @ answer.w[keep] + answer.w[~keep] @ subject.centre[~keep] + answer.b
    same = subject.are_second(whole_scores) == subject.are_second(short)
    return int(same.sum()), len(data)


def _plain(value: Any) -> Any:
    """Return a value that JSON has."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else cast("Any", value)


# -- in words ------------------------------------------------------------------------------------------


def sample_text(e: SampleExplanation) -> str:
    """Return the explanation in words."""
    lines = [*wrapped(heading_of_sample(e)), "", *_score(e), *wrapped(fidelity_sentence(e)), ""]
    lines += wrapped(way_sentence(e))
    if e.way.changes:
        lines += ["", *_changes(e.way, e.top, _unit(e)), *wrapped(hidden_sentence(e))]
    if e.way.found.point is not None:
        lines += ["", *wrapped(crossing_sentence(e))]
    return "\n".join(lines)


def heading_of_sample(e: SampleExplanation) -> str:
    """Return the label, the side and the active face as a sentence."""
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


def _score(e: SampleExplanation) -> list[str]:
    """Return the terms of the score as a table."""
    shown, hidden = e.terms[: e.top], e.terms[e.top :]
    head = f"  {'what makes the score':<{NAME_WIDTH}} {'value':>12} {'mean':>12} {'adds':>12}"
    rows = [f"  {'the mean sample':<{NAME_WIDTH}} {'':>12} {'':>12} {e.base:>12.4g}"]
    rows += [
        f"  {cut(term.column):<{NAME_WIDTH}} {number(term.value):>12} {number(term.usual):>12} "
        f"{term.amount:>+12.4g}"
        for term in shown
    ]
    if hidden:
        rows.append(f"  {others(len(hidden)):<{NAME_WIDTH}} {'':>12} {'':>12} {e.rest:>+12.4g}")
    return [head, *rows, f"  {'together':<{NAME_WIDTH}} {'':>12} {'':>12} {e.score:>12.4g}"]


def fidelity_sentence(e: SampleExplanation) -> str:
    """Return the effect of leaving out the terms that are not shown; empty if all are shown."""
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


def way_sentence(e: SampleExplanation) -> str:
    """Return the distance of the other side, and the faces that decide it, as a sentence."""
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


def _unit(e: SampleExplanation) -> str:
    return "spreads" if e.subject.has_units else "units"


def _by(e: SampleExplanation) -> str:
    """Return the faces that hold the nearest point."""
    names = [e.subject.face_name(name) for name, _ in e.way.found.deciding()]
    if not names:
        return ", where bounds decide" if e.way.distance else ""
    return f", on {first_of(names, 3)}"


def _changes(way: Way, top: int, unit: str) -> list[str]:
    lines = [f"  {'what changes':<{NAME_WIDTH}} {'from':>12} {'to':>12} {f'by {unit}':>12} {'alone':>9}"]
    lines += [
        f"  {cut(c.column):<{NAME_WIDTH}} {number(c.before):>12} {number(c.after):>12} {c.amount:>12.4g} "
        f"{'-' if c.alone is None else number(c.alone):>9}"
        for c in way.changes[:top]
    ]
    return lines


def hidden_sentence(e: SampleExplanation) -> str:
    """Return the size of the changes that are not shown; empty if all are shown."""
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


def crossing_sentence(e: SampleExplanation) -> str:
    """Return where the model itself gives the other label, and the unit of lengths."""
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
