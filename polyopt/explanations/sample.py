"""Explanation of one sample: its active face, the terms of its score, and its nearest counterfactual.

The active face determines the score w·x + b of the sample x. With the mean c of the training samples the
score is w·c + b plus the terms w_j (x_j − c_j), one for each column of the data.

The nearest counterfactual is the projection of x onto the region of the other label, computed exactly. It
lies on the boundary, where the label of ``predict`` depends on rounding. A second point, the crossing, is
therefore computed in the interior of that region, as near to the boundary as ``predict`` gives the other
label. Both distances are reported, in spreads: one spread is the standard deviation of a feature.
"""

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
from polyopt.polytope.nearest import Nearest, nearest
from polyopt.polytope.projection import Question

_MIN_RELATIVE_MEAN = 1e-12  # multiple of a feature's spread, below which its mean is a rounding error
_DEPTHS = 2.0 ** np.arange(-50, 2)  # distances from the boundary at which a crossing is sought, in spreads


# -- the explanation -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """Term of one column in the score of the active face."""

    column: str
    value: float | str
    usual: float | None  # mean of the column; None for a category
    amount: float  # the term: w_j (x_j − c_j), summed over the features of the column


@dataclass(frozen=True)
class Change:
    """Values of one column in the sample and at the nearest counterfactual."""

    column: str
    before: float | str
    after: float | str
    amount: float  # distance in spreads; for a category the distance of its indicators


@dataclass(frozen=True)
class Counterfactual:
    """Nearest point of the region of the other label."""

    nearest: Nearest  # the projection: point, lower bound of the distance, and status
    changes: tuple[Change, ...] = ()  # changed columns, the largest change first
    crossing: Array | None = None  # (m,), a point near it with the other label by the classifier
    crossing_distance: float = np.inf  # distance of the crossing from the sample, in spreads

    @property
    def distance(self) -> float:
        """Distance of the nearest point in spreads; inf if the region of the other label is infeasible."""
        return self.nearest.distance


@dataclass(frozen=True)
class SampleExplanation:
    """Explanation of a sample's label."""

    model: DecisionModel
    x: Array  # (m,)
    label: Any  # by ``predict`` of the classifier
    other: Any  # the other label
    active_face: ActiveFace
    score: float  # of the sample, positive for the second label
    margin: float  # signed distance from the plane of the active face, in spreads
    base: float  # score of the mean at the active face; score - base is the sum of the terms
    terms: tuple[Term, ...]  # the largest first
    top: int  # number of terms and changes in the text
    counterfactual: Counterfactual

    @property
    def rest(self) -> float:
        """Sum of the terms after the first `top`."""
        return float(sum(term.amount for term in self.terms[self.top :]))

    @property
    def is_beyond(self) -> bool:
        """True if the score means the second label."""
        return bool(self.model.are_second(self.score))

    def text(self) -> str:
        """Return the explanation in words, in lines of at most 80 columns."""
        lines = [*wrapped(heading_of_sample(self)), "", *_table_lines(term_rows(self))]
        lines += [*wrapped(rest_sentence(self)), "", *wrapped(distance_sentence(self))]
        if self.counterfactual.changes:
            lines += ["", *_table_lines(change_rows(self))]
        if self.counterfactual.nearest.point is not None:
            lines += ["", *wrapped(crossing_sentence(self))]
        return "\n".join(lines)

    def certificate(self, tol: float = 1e-9) -> Certificate:
        """Return the certificate of the nearest point, or of infeasibility, at a relative tolerance."""
        from polyopt.certificates.projection import certify_nearest

        return certify_nearest(self.counterfactual.nearest, tol)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, for JSON; infinity is None."""
        counterfactual, name = self.counterfactual, self.active_face.name
        nearest_point = counterfactual.nearest
        values = {
            "label": self.label, "other": self.other, "face": name, "face_name": self.model.face_name(name),
            "score": self.score, "margin": self.margin, "mean_score": self.base,
            "terms": [vars(term) for term in self.terms],
            "nearest": {
                "status": nearest_point.status.name.lower(), "distance": counterfactual.distance,
                "bound": nearest_point.bound, "crossing_distance": counterfactual.crossing_distance,
                "point": [] if nearest_point.point is None else nearest_point.point,
                "crossing": counterfactual.crossing,
                "decided_by": [{"face": face, "share": share} for face, share in nearest_point.deciding()],
                "changes": [vars(change) for change in counterfactual.changes],
            },
        }  # fmt: skip
        plain: dict[str, Any] = _plain(values)
        return plain

    def __str__(self) -> str:
        return self.text()


def _plain(value: Any) -> Any:
    """Convert arrays and tuples to lists, and infinity to None, for JSON."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def explain_sample(
    model: DecisionModel, x: ArrayLike, *, held: Sequence[str | int] = (),
    bounds: tuple[ArrayLike, ArrayLike] | None = None, top: int = 5,
) -> SampleExplanation:  # fmt: skip
    """Explain one sample of finite numbers; ValueError for another size, column or order of bounds.

    Parameters
    ----------
    model, x : DecisionModel and array_like of shape (m,)
        The model, and the sample's features in the units of its polytopes.
    held : sequence of str or int
        Columns that may not change.
    bounds : pair of array_like of shape (m,), optional
        Lower and upper bounds of the features at the nearest point.
    top : int
        Number of terms and changes in the text.
    """
    top = whole("top", top)
    point = real_array("x", x, (model.n_features,))
    label = model.predict(point[None])[0]
    first, second = model.labels
    face, score = model.active_face(point), float(model.scores(point[None])[0])
    norm = float(np.linalg.norm(face.w * model.spread))
    return SampleExplanation(
        model=model,
        x=point,
        label=label,
        other=first if label == second else second,
        active_face=face,
        score=score,
        margin=score / norm if norm else np.copysign(np.inf, score),
        base=float(face.w @ model.centre + face.b),
        terms=tuple(_terms(model, face, point)),
        top=top,
        counterfactual=_counterfactual(model, point, held, bounds),
    )


def _terms(model: DecisionModel, face: ActiveFace, x: Array) -> list[Term]:
    """Return the terms of the columns with nonzero weights, the largest first."""
    terms, amounts = [], face.w * (x - model.centre)
    for column in model.columns:
        features = list(column.features)
        if face.w[features].any():
            mean = None if column.categories is not None else float(model.centre[features[0]])
            if mean is not None and abs(mean) <= _MIN_RELATIVE_MEAN * model.spread[features[0]]:
                mean = 0.0
            terms.append(Term(column.name, column.value(x), mean, float(amounts[features].sum())))
    return sorted(terms, key=lambda term: -abs(term.amount))


# -- the counterfactual ----------------------------------------------------------------------------------


def _counterfactual(
    model: DecisionModel, x: Array, held: Sequence[str | int], bounds: tuple[ArrayLike, ArrayLike] | None,
) -> Counterfactual:  # fmt: skip
    """Project the sample x (m,) onto the region of the other label, with the columns `held` fixed."""
    low, high = (None, None) if bounds is None else bounds
    groups = [column.features for column in model.columns if column.categories is not None]
    gaps = [(column.features[0], column.missing) for column in model.columns if column.missing is not None]
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
        amount = float(np.linalg.norm(steps[list(column.features)]))
        if amount > 0.0:
            changes.append(Change(column.name, column.value(x), column.value(z), amount))
    changes.sort(key=lambda change: -change.amount)
    crossing = _crossing(model, result, model.predict(x[None])[0])
    distance = np.inf if crossing is None else float(np.linalg.norm((crossing - x) / model.spread))
    return Counterfactual(result, tuple(changes), crossing, distance)


def _crossing(model: DecisionModel, result: Nearest, label: Any) -> Array | None:
    """Return the first point, by depth, to which the classifier gives another label; None without one."""
    for depth in (0.0, *_DEPTHS.tolist()):
        point = result.deeper(depth) if depth else result.point
        if point is not None and model.predict(point[None])[0] != label:
            return point
    return None


# -- as text -------------------------------------------------------------------------------------------


def heading_of_sample(e: SampleExplanation) -> str:
    """Return the label, the side and the active face as a sentence."""
    sides = {"polytope": ("inside of", "outside of"), "union": ("inside of a piece of", "outside of")}
    side = sides.get(e.model.kind)
    noun = "union" if e.model.kind == "union" else "polytope"
    position = "" if side is None else f", {side[int(e.is_beyond)]} the {noun}"
    label_by_score = e.model.labels[int(e.is_beyond)]
    text = f"Class {quoted(e.label)}{position}. "
    if label_by_score != e.label:
        text += (
            f"(The model decides by its probabilities; the faces alone would say {quoted(label_by_score)}.) "
        )
    name, positive = e.model.face_name(e.active_face.name), f"positive is class {quoted(e.model.labels[1])}."
    if e.model.kind == "difference":
        return f"{text}Active is {name}: their scores differ by {e.score:.4g}; {positive}"
    text += f"Active is {name}: "
    if not np.isfinite(e.margin):  # a penalty has made all weights 0
        return f"{text}it has no weights, and its score is {e.score:.4g} whatever the sample; {positive}"
    beyond = "beyond" if e.margin > 0 else "short of"
    return (
        f"{text}its score is {e.score:.4g}, which is {abs(e.margin):.4g} {_unit(e)} {beyond} its plane; "
        f"{positive}"
    )


def rest_sentence(e: SampleExplanation) -> str:
    """Return the effect of omitting the terms after the first `top` as a sentence; empty without any."""
    hidden = len(e.terms) - e.top
    if hidden <= 0:
        return ""
    top_score = e.score - e.rest
    same = "the same side" if (top_score > 0.0) == (e.score > 0.0) else "the OTHER side"
    return f"Without the {others(hidden)} it would be {top_score:.4g}, on {same}."


def distance_sentence(e: SampleExplanation) -> str:
    """Return the distance of the other label, and the active faces of the projection, as a sentence."""
    found, model = e.counterfactual.nearest, e.model
    if found.point is None:
        if found.status is Status.INFEASIBLE:
            return "No point of the other class can be reached with what is held and bounded as asked."
        return "No point of the other class was found within the limit of the search."
    names = [model.face_name(name) for name, _ in found.deciding()]
    faces = f", on {first_of(names, 3)}" if names else ", where bounds decide" if found.distance else ""
    is_nearest = found.status is Status.SOLVED
    best = "The nearest point" if is_nearest else "The nearest point found"
    label = quoted(model.labels[int(not e.is_beyond)])
    text = f"{best} of class {label} is {found.distance:.6g} {_unit(e)} away{faces}."
    return text if is_nearest else f"{text} None is nearer than {found.bound:.6g}: {found.status}"


def crossing_sentence(e: SampleExplanation) -> str:
    """Return the distance of the crossing, and the unit of lengths, as sentences."""
    counterfactual = e.counterfactual
    if counterfactual.crossing is None:
        text = "No point near there was found to which the model itself gives the other label."
    else:
        further = counterfactual.crossing_distance - counterfactual.distance
        position = "there" if further <= 0.0 else f"{further:.1e} {_unit(e)} farther on"
        text = f"The model says {quoted(e.other)} {position}."
    return text + (
        " A spread is the standard deviation of a feature in the data of the fit."
        if e.model.has_units
        else " How much the features vary is not known, so all are measured in their own units."
    )


def _unit(e: SampleExplanation) -> str:
    return "spreads" if e.model.has_units else "units"


def term_rows(e: SampleExplanation) -> list[tuple[str, str, str, str]]:
    """Return the table of terms, its head first: column, value, mean, amount; the sum of the other terms."""
    rows = [("what makes the score", "value", "mean", "adds"), ("the mean sample", "", "", f"{e.base:.4g}")]
    rows += [(t.column, number(t.value), number(t.usual), f"{t.amount:+.4g}") for t in e.terms[: e.top]]
    if len(e.terms) > e.top:
        rows.append((others(len(e.terms) - e.top), "", "", f"{e.rest:+.4g}"))
    return [*rows, ("together", "", "", f"{e.score:.4g}")]


def change_rows(e: SampleExplanation) -> list[tuple[str, str, str, str]]:
    """Return the table of changes, its head first: column, both values, amount; the norm of the others."""
    changes, hidden = e.counterfactual.changes[: e.top], e.counterfactual.changes[e.top :]
    rows = [("what changes", "from", "to", f"by {_unit(e)}")]
    rows += [(c.column, number(c.before), number(c.after), f"{c.amount:.4g}") for c in changes]
    if hidden:
        norm = float(np.linalg.norm([change.amount for change in hidden]))
        rows.append((others(len(hidden)), "", "", f"{norm:.4g}"))
    return rows


def _table_lines(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    return [f"  {shortened(a):<{NAME_WIDTH}} {b:>12} {c:>12} {d:>12}" for a, b, c, d in rows]
