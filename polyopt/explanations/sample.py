"""One sample explained: the face that answers for it, what its features add to the score, and the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from formulations.arguments import real_array, whole
from polyopt.explanations.records import SampleRecord, Term
from polyopt.explanations.sample_words import sample_text
from polyopt.explanations.way import way_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from formulations.matrices import Array
    from polyopt.certificates.certificate import Certificate
    from polyopt.explanations.subject import Answer, Subject

__all__ = ["SampleExplanation", "explain_sample"]


@dataclass(frozen=True)
class SampleExplanation(SampleRecord):
    """Why a sample has its label; arguments as in :class:`polyopt.explanations.records.SampleRecord`."""

    def text(self) -> str:
        """The explanation in words, in lines of at most 80 columns."""
        return sample_text(self)

    def certificate(self, tol: float = 1e-9) -> Certificate:
        """What is proven of the nearest point, or that there is none: see ``certify_nearest``.

        Parameters
        ----------
        tol : float
            Relative tolerance.
        """
        from polyopt.certificates.projection import certify_nearest

        return certify_nearest(self.way.found, tol)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; what is infinite is None.

        What a change alone would have to be is worked out for those that are shown.
        """
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
    """What each column adds, the weightiest first; a column without a weight adds nothing and is left out."""
    found, amounts = [], answer.w * (x - subject.centre)
    for column in subject.columns:
        places = list(column.places)
        if answer.w[places].any():
            usual = None if column.texts is not None else _mean(subject, places[0])
            found.append(Term(column.name, column.value(x), usual, float(amounts[places].sum())))
    return sorted(found, key=lambda term: -abs(term.amount))


def _mean(subject: Subject, j: int) -> float:
    """The mean of a feature, 0 where it is nothing but rounding."""
    mean = float(subject.centre[j])
    return mean if abs(mean) > 1e-12 * subject.spread[j] else 0.0


def _fidelity(subject: Subject, answer: Answer, shown: list[Term], data: Array) -> tuple[int, int]:
    """On how many samples the face is on the same side with the other columns at their means."""
    names = {term.column for term in shown}
    keep = np.zeros(subject.n_features, dtype=bool)
    for column in subject.columns:
        keep[list(column.places)] = column.name in names
    whole_scores = data @ answer.w + answer.b
    short = data[:, keep] @ answer.w[keep] + answer.w[~keep] @ subject.centre[~keep] + answer.b
    same = subject.are_second(whole_scores) == subject.are_second(short)
    return int(same.sum()), len(data)


def _plain(value: Any) -> Any:
    """A value that JSON has."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not np.isfinite(value) else cast("Any", value)
