"""What explanations are made of, before anyone puts it into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from formulations.matrices import Array
    from polyopt.explanations.subject import Answer, Subject
    from polyopt.explanations.way import Way

__all__ = ["FaceRole", "ModelRecord", "SampleRecord", "Term"]


@dataclass(frozen=True)
class Term:
    """What one column adds to the score of the face that answers.

    column: its name.
    value: what the sample has.
    usual: what the mean sample has; None for a text.
    amount: what the difference adds to the score.
    """

    column: str
    value: float | str
    usual: float | None
    amount: float


@dataclass(frozen=True)
class SampleRecord:
    """Why a sample has its label.

    subject: the model.
    x (m,): the sample.
    label, other: its label by the model, and the other one.
    answer: the face that answers for it.
    score, margin: its score, positive for the second label, and how far beyond that face's plane it is, in
        spreads.
    base: the score of the mean sample at that face; the terms add up to the difference.
    terms: all terms, the weightiest first.
    top: how many of them, and of the changes, are shown.
    same, samples: on how many samples of some data the face is on the same side with the terms shown alone; 0
        of 0 where there are no data.
    way: the way to the other side.
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
        """What the terms that are not shown add up to."""
        return float(sum(term.amount for term in self.terms[self.top :]))

    @property
    def is_beyond(self) -> bool:
        """True if the score is one of the second label."""
        return bool(self.subject.are_second(self.score))


@dataclass(frozen=True)
class FaceRole:
    """What one face does on the data.

    name: piece and face.
    weights: columns and their weights, the largest first: w_j times the spread of feature j, with its sign;
        of a column of texts the difference between its largest and its least indicator.
    answers: samples that it answers for.
    beyond, alone: samples beyond it, and those of them that no other face of its polytope has beyond itself.
    alone_right: those of the latter whose true label is that outside of this polytope; None without labels.
    changed: samples whose label by the polytopes would be another one without this face; None where the model
        has no meaning without it.
    error_without: the share of wrong labels by the polytopes without it; None without labels, too.
    """

    name: tuple[int, int]
    weights: tuple[tuple[str, float], ...]
    answers: int
    beyond: int
    alone: int
    alone_right: int | None
    changed: int | None
    error_without: float | None


@dataclass(frozen=True)
class ModelRecord:
    """What a model goes by.

    subject: the model.
    samples: samples on which all of it was counted.
    second: those of them whose true label is the second; None without labels.
    shares: columns and their shares, the largest first, which add up to 1: the part of Σ|w_j| s_j, s_j the
        spread of feature j, over the faces, each as often as it answers for a sample.
    faces: every face.
    error: the share of wrong labels by the polytopes; None without labels.
    agreement: the share of the samples on which the polytopes have the model's own label.
    top: how many columns are shown.
    """

    subject: Subject
    samples: int
    second: int | None
    shares: tuple[tuple[str, float], ...]
    faces: tuple[FaceRole, ...]
    error: float | None
    agreement: float
    top: int
