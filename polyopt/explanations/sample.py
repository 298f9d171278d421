"""Explanation of one sample: its active face, the terms of its score, and its nearest counterfactual.

The nearest point of the other label's region is exact, a projection. It lies on a face, where rounding
decides on the label. A second point therefore lies deeper in the region, by as little as makes ``predict``
give the other label. Both distances are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.arguments import real_array, whole
from formulations.language.solution import Status
from formulations.language.types import Array
from polyopt.base.text import first_of
from polyopt.certificates.certificate import Certificate
from polyopt.explanations.decision_model import (
    NAME_WIDTH,
    ActiveFace,
    DecisionModel,
    number,
    others,
    quoted,
    shortened,
    wrapped,
)
from polyopt.polytope.nearest import Nearest, Question, nearest


@dataclass(frozen=True)
class Options:
    """Numbers of an explanation.

    min_rel_mean: means of a feature below this multiple of its spread are rounding errors, shown as 0.

    The search for a point to which the classifier itself gives the other label:

    first_depth, max_depth: distance beyond the boundary at first and at most, in spreads.
    depth_factor: factor by which the distance grows.
    rounding_depth: depth below which a shorter one is not searched: the difference is rounding.
    bisections: halvings of the last interval of depths.
    """

    min_rel_mean: float = 1e-12
    first_depth: float = 1e-15
    max_depth: float = 2.0
    depth_factor: float = 8.0
    rounding_depth: float = 1e-6
    bisections: int = 30


OPTIONS = Options()


# -- the explanation -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """Term of one column in the score of the active face."""

    column: str
    value: float | str
    usual: float | None  # value of the mean sample; None for a category
    amount: float  # added to the score by the difference between the two


@dataclass(frozen=True)
class Change:
    """Value of one column in the sample and at the nearest point."""

    column: str
    before: float | str
    after: float | str
    amount: float  # distance in spreads; of a category that of its indicators


@dataclass(frozen=True)
class Counterfactual:
    """Nearest point of the other label."""

    nearest: Nearest  # the nearest point on the boundary, its lower bound and its status
    changes: tuple[Change, ...] = ()  # columns that differ, the largest change first
    crossing: Array | None = None  # (m,), a point close to it to which the classifier gives the other label
    crossing_distance: float = np.inf  # distance of that point from the sample, in spreads

    @property
    def distance(self) -> float:
        """Distance of the boundary in spreads; inf if the other label cannot be reached."""
        return self.nearest.distance

    @property
    def is_nearest(self) -> bool:
        """True if the point is proven to be the nearest."""
        return self.nearest.status is Status.SOLVED


@dataclass(frozen=True)
class SampleExplanation:
    """Explanation of a sample's label."""

    model: DecisionModel
    x: Array  # (m,)
    label: Any  # by the classifier itself
    other: Any  # the other label
    active_face: ActiveFace
    score: float  # of the sample at that face, positive for the second label
    margin: float  # signed distance from that face's plane, in spreads
    base: float  # score of the mean sample at that face; the terms add up to the difference
    terms: tuple[Term, ...]  # the largest first
    top: int  # number of terms and changes that are shown
    same: int  # samples that the shown terms alone put on the same side of the face as all terms
    samples: int  # samples on which this was counted, 0 without data
    counterfactual: Counterfactual

    @property
    def rest(self) -> float:
        """Sum of the terms that are not shown."""
        return float(sum(term.amount for term in self.terms[self.top :]))

    @property
    def is_beyond(self) -> bool:
        """True if the score is one of the second label."""
        return bool(self.model.are_second(self.score))

    def text(self) -> str:
        """Return the explanation in words, in lines of at most 80 columns."""
        lines = [*wrapped(heading_of_sample(self)), "", *_term_lines(self)]
        lines += [*wrapped(fidelity_sentence(self)), "", *wrapped(distance_sentence(self))]
        if self.counterfactual.changes:
            lines += ["", *_change_lines(self)]
        if self.counterfactual.nearest.point is not None:
            lines += ["", *wrapped(crossing_sentence(self))]
        return "\n".join(lines)

    def certificate(self, tol: float = 1e-9) -> Certificate:
        """Return the certificate that the point is the nearest, or that there is none: ``certify_nearest``.

        Parameters
        ----------
        tol : float
            Relative tolerance.
        """
        from polyopt.certificates.projection import certify_nearest

        return certify_nearest(self.counterfactual.nearest, tol)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON; infinity is None."""
        other, name = self.counterfactual, self.active_face.name
        values = {
            "label": self.label,
            "other": self.other,
            "face": name,
            "face_name": self.model.face_name(name),
            "score": self.score,
            "margin": self.margin,
            "mean_score": self.base,
            "terms": [vars(term) for term in self.terms],
            "fidelity": {"same": self.same, "samples": self.samples, "terms": min(self.top, len(self.terms))},
            "nearest": {
                "status": other.nearest.status.name.lower(),
                "distance": other.distance,
                "bound": other.nearest.bound,
                "crossing_distance": other.crossing_distance,
                "point": [] if other.nearest.point is None else other.nearest.point,
                "crossing": other.crossing,
                "decided_by": [
                    {"face": face, "share": multiplier} for face, multiplier in other.nearest.deciding()
                ],
                "changes": [vars(change) for change in other.changes],
            },
        }
        plain: dict[str, Any] = _plain(values)
        return plain

    def __str__(self) -> str:
        return self.text()


def _plain(value: Any) -> Any:
    """Return the value as JSON has it."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def explain_sample(
    model: DecisionModel, x: ArrayLike, *, held: Sequence[str | int] = (),
    bounds: tuple[ArrayLike, ArrayLike] | None = None, top: int = 5, data: ArrayLike | None = None,
) -> SampleExplanation:  # fmt: skip
    """Explain one sample.

    Parameters
    ----------
    model : DecisionModel
        The model.
    x : array_like of shape (m,)
        The sample's features, in the units of the polytopes.
    held : sequence of str or int
        Columns that may not change.
    bounds : pair of array_like of shape (m,), optional
        The least and the largest value of each feature at the nearest point.
    top : int
        Number of terms and changes that are shown.
    data : array_like of shape (n, m), optional
        Samples on which it is counted how often the terms shown alone agree with all.

    Raises
    ------
    ValueError
        A sample of another size or not finite, a column that is not there, bounds that cross.
    """
    top = whole("top", top)
    point = real_array("x", x, (model.n_features,))
    label = model.predict(point[None])[0]
    first, second = model.labels
    face, score = model.active_face(point), float(model.scores(point[None])[0])
    length = float(np.linalg.norm(face.w * model.spread))
    terms = _terms(model, face, point)
    same, samples = (0, 0) if data is None else _fidelity(model, face, terms[:top], np.asarray(data))
    return SampleExplanation(
        model, point, label, first if label == second else second, face, score,
        score / length if length else np.copysign(np.inf, score), float(face.w @ model.centre + face.b),
        tuple(terms), top, same, samples, _counterfactual(model, point, held, bounds),
    )  # fmt: skip


def _terms(model: DecisionModel, face: ActiveFace, x: Array) -> list[Term]:
    """Return the terms of the columns with a weight, the largest first."""
    terms, amounts = [], face.w * (x - model.centre)
    for column in model.columns:
        places = list(column.places)
        if face.w[places].any():
            usual = None if column.texts is not None else _mean(model, places[0])
            terms.append(Term(column.name, column.value(x), usual, float(amounts[places].sum())))
    return sorted(terms, key=lambda term: -abs(term.amount))


def _mean(model: DecisionModel, j: int, options: Options = OPTIONS) -> float:
    """Return the mean of a feature, 0 if the mean is a rounding error."""
    mean = float(model.centre[j])
    return mean if abs(mean) > options.min_rel_mean * model.spread[j] else 0.0


def _fidelity(model: DecisionModel, face: ActiveFace, shown: list[Term], data: Array) -> tuple[int, int]:
    """Count the samples that the face leaves on the same side with the other columns at their means."""
    names = {term.column for term in shown}
    kept = np.zeros(model.n_features, dtype=bool)
    for column in model.columns:
        kept[list(column.places)] = column.name in names
    scores = data @ face.w + face.b
    shown_scores = data[:, kept] @ face.w[kept] + face.w[~kept] @ model.centre[~kept] + face.b
    same = model.are_second(scores) == model.are_second(shown_scores)
    return int(same.sum()), len(data)


# -- the counterfactual ----------------------------------------------------------------------------------


def _counterfactual(
    model: DecisionModel, x: Array, held: Sequence[str | int], bounds: tuple[ArrayLike, ArrayLike] | None,
    options: Options = OPTIONS,
) -> Counterfactual:  # fmt: skip
    """Return the nearest point of the other label, whose columns `held` are those of the sample x (m,)."""
    low, high = (None, None) if bounds is None else bounds
    groups = [column.places for column in model.columns if column.texts is not None]
    gaps = [(column.places[0], column.gap) for column in model.columns if column.gap is not None]
    question = Question.of(
        x, spread=model.spread, low=low, high=high, held=model.mask_of(held), groups=groups, gaps=gaps
    )
    is_second = bool(model.are_second(model.scores(x[None]))[0])
    result = nearest(question, model.region_of_label(second=not is_second))
    if result.point is None:
        return Counterfactual(result)
    z, steps = result.point, (result.point - x) / model.spread
    changes = []
    for column in model.columns:
        amount = float(np.linalg.norm(steps[list(column.places)]))
        if amount > 0.0:
            changes.append(Change(column.name, column.value(x), column.value(z), amount))
    changes.sort(key=lambda change: -change.amount)
    crossing = _crossing(model, result, model.predict(x[None])[0], options)
    distance = np.inf if crossing is None else float(np.linalg.norm((crossing - x) / model.spread))
    return Counterfactual(result, tuple(changes), crossing, distance)


def _crossing(model: DecisionModel, result: Nearest, label: Any, options: Options) -> Array | None:
    """Return the least deep point behind the boundary to which the classifier gives another label."""

    def is_across(point: Array | None) -> bool:
        return point is not None and bool(model.predict(point[None])[0] != label)

    if is_across(result.point):
        return result.point
    depth, last = options.first_depth, 0.0
    while depth <= options.max_depth and not is_across(result.deeper(depth)):
        last, depth = depth, options.depth_factor * depth
    if depth > options.max_depth:
        return None
    for _ in range(options.bisections if depth > options.rounding_depth else 0):
        middle = 0.5 * (last + depth)
        last, depth = (last, middle) if is_across(result.deeper(middle)) else (middle, depth)
    return result.deeper(depth)


# -- in words ------------------------------------------------------------------------------------------


def heading_of_sample(e: SampleExplanation) -> str:
    """Return the label, the side and the active face as a sentence."""
    sides = {"polytope": ("inside of", "outside of"), "union": ("inside of a piece of", "outside of")}
    side = sides.get(e.model.kind)
    noun = "union" if e.model.kind == "union" else "polytope"
    place = "" if side is None else f", {side[int(e.is_beyond)]} the {noun}"
    label_by_score = e.model.labels[int(e.is_beyond)]
    text = f"Class {quoted(e.label)}{place}. "
    if label_by_score != e.label:
        text += (
            f"(The model decides by its probabilities; the faces alone would say {quoted(label_by_score)}.) "
        )
    name, positive = e.model.face_name(e.active_face.name), f"positive is class {quoted(e.model.labels[1])}."
    if e.model.kind == "difference":
        return f"{text}Active is {name}: their scores differ by {e.score:.4g}; {positive}"
    text += f"Active is {name}: "
    if not np.isfinite(e.margin):  # a penalty has left the face no weight
        return f"{text}it has no weights, and its score is {e.score:.4g} whatever the sample; {positive}"
    beyond = "beyond" if e.margin > 0 else "short of"
    return (
        f"{text}its score is {e.score:.4g}, which is {abs(e.margin):.4g} {_unit(e)} {beyond} its plane; "
        f"{positive}"
    )


def fidelity_sentence(e: SampleExplanation) -> str:
    """Return the effect of leaving out the terms that are not shown; empty if all are shown."""
    hidden = len(e.terms) - e.top
    if hidden <= 0:
        return ""
    shown_score = e.score - e.rest
    same = "the same side" if (shown_score > 0.0) == (e.score > 0.0) else "the OTHER side"
    text = f"Without the {others(hidden)} it would be {shown_score:.4g}, on {same}."
    if e.samples:
        share = f"{100 * e.same / e.samples:.1f} % of the data ({e.same} of {e.samples})"
        text += f" With these {e.top} terms alone this face is on the same side on {share}."
    return text


def distance_sentence(e: SampleExplanation) -> str:
    """Return the distance of the other label, and the faces that decide it, as a sentence."""
    way, model = e.counterfactual, e.model
    if way.nearest.point is None:
        if way.nearest.status is Status.INFEASIBLE:
            return "No point of the other class can be reached with what is held and bounded as asked."
        return "No point of the other class was found within the limit of the search."
    names = [model.face_name(name) for name, _ in way.nearest.deciding()]
    faces = f", on {first_of(names, 3)}" if names else ", where bounds decide" if way.distance else ""
    best = "The nearest point" if way.is_nearest else "The nearest point found"
    label = quoted(model.labels[int(not e.is_beyond)])
    text = f"{best} of class {label} is {way.distance:.6g} {_unit(e)} away{faces}."
    if not way.is_nearest:
        text += f" None is nearer than {way.nearest.bound:.6g}: {way.nearest.status}"
    return text


def crossing_sentence(e: SampleExplanation) -> str:
    """Return where the classifier itself gives the other label, and the unit of lengths."""
    way = e.counterfactual
    if way.crossing is None:
        text = "No point near there was found to which the model itself gives the other label."
    else:
        further = way.crossing_distance - way.distance
        where = "there" if further <= 0.0 else f"{further:.1e} {_unit(e)} farther on"
        text = f"The model says {quoted(e.other)} {where}."
    return text + (
        " A spread is the standard deviation of a feature in the data of the fit."
        if e.model.has_units
        else " How much the features vary is not known, so all are measured in their own units."
    )


def _unit(e: SampleExplanation) -> str:
    return "spreads" if e.model.has_units else "units"


def term_rows(e: SampleExplanation) -> list[tuple[str, str, str, str]]:
    """Return the table of terms: column, value, mean and amount, then the sum of those not shown."""
    rows = [(t.column, number(t.value), number(t.usual), f"{t.amount:+.4g}") for t in e.terms[: e.top]]
    if len(e.terms) > e.top:
        rows.append((others(len(e.terms) - e.top), "", "", f"{e.rest:+.4g}"))
    return rows


def change_rows(e: SampleExplanation) -> list[tuple[str, str, str, str]]:
    """Return the table of changes: column, both values and amount, then the length of those not shown."""
    changes, hidden = e.counterfactual.changes[: e.top], e.counterfactual.changes[e.top :]
    rows = [(c.column, number(c.before), number(c.after), f"{c.amount:.4g}") for c in changes]
    if hidden:
        length = float(np.linalg.norm([change.amount for change in hidden]))
        rows.append((others(len(hidden)), "", "", f"{length:.4g}"))
    return rows


def _term_lines(e: SampleExplanation) -> list[str]:
    head = ("what makes the score", "value", "mean", "adds")
    base, total = ("the mean sample", "", "", f"{e.base:.4g}"), ("together", "", "", f"{e.score:.4g}")
    return _table_lines([head, base, *term_rows(e), total])


def _change_lines(e: SampleExplanation) -> list[str]:
    return _table_lines([("what changes", "from", "to", f"by {_unit(e)}"), *change_rows(e)])


def _table_lines(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    return [f"  {shortened(a):<{NAME_WIDTH}} {b:>12} {c:>12} {d:>12}" for a, b, c, d in rows]
