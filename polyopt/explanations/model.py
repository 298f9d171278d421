"""A whole model explained on data: which columns count, and what each face catches that no other does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.arguments import real_array, refuse_masked, whole
from polyopt.explanations.model_words import model_text
from polyopt.explanations.records import FaceRole, ModelRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Array
    from polyopt.explanations.subject import Subject

__all__ = ["ModelExplanation", "explain_model"]


@dataclass(frozen=True)
class ModelExplanation(ModelRecord):
    """What a model goes by; arguments as in :class:`polyopt.explanations.records.ModelRecord`."""

    def text(self) -> str:
        """The explanation in words, in lines of at most 80 columns."""
        return model_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        faces = [
            {**vars(role), "name": list(role.name), "weights": [list(pair) for pair in role.weights]}
            for role in self.faces
        ]
        return {
            "kind": self.subject.kind,
            "labels": [getattr(label, "item", lambda label=label: label)() for label in self.subject.labels],
            "samples": self.samples,
            "second": self.second,
            "shares": [{"feature": name, "share": share} for name, share in self.shares],
            "faces": faces,
            "error": self.error,
            "agreement": self.agreement,
        }

    def __str__(self) -> str:
        return self.text()


def explain_model(
    subject: Subject, X: ArrayLike, y: ArrayLike | None = None, *, top: int = 8
) -> ModelExplanation:
    """Explain a model on data.

    Parameters
    ----------
    subject : Subject
        The model.
    X : array_like of shape (n, m)
        Samples, in the units of the polytopes.
    y : array_like of shape (n,), optional
        Their true labels.
    top : int
        Columns that are shown.

    Raises
    ------
    ValueError
        No samples, samples of another size or not finite, labels of another number.
    """
    top, samples = whole("top", top), real_array("X", X)
    if samples.ndim != 2 or samples.shape[1] != subject.n_features or not len(samples):
        raise ValueError(f"X must be of shape (n, {subject.n_features}), n at least 1, not {samples.shape}")
    is_second = None
    if y is not None:
        refuse_masked("y", y)
        labels = np.asarray(y)
        if labels.shape != samples.shape[:1]:
            raise ValueError(f"y must have shape ({len(samples)},), not {labels.shape}")
        is_second = labels == subject.labels[1]
    scores, answering = subject.face_scores(samples), subject.answering(samples)
    said = subject.are_second(subject.combined([own.max(axis=1) for own in scores]))
    roles = [
        _role(subject, (d, k), scores, answering[d], said, is_second)
        for d, polytope in enumerate(subject.polytopes)
        for k in range(polytope.n_faces)
    ]
    own = subject.predict(samples) == subject.labels[1]
    return ModelExplanation(
        subject, len(samples), None if is_second is None else int(is_second.sum()),
        _shares(subject, roles), tuple(roles),
        None if is_second is None else float((said != is_second).mean()), float((said == own).mean()), top,
    )  # fmt: skip


def _role(
    subject: Subject, name: tuple[int, int], scores: Sequence[Array], answering: NDArray[np.intp],
    said: NDArray[np.bool_], is_second: NDArray[np.bool_] | None,
) -> FaceRole:  # fmt: skip
    piece, face = name
    own, others = scores[piece][:, face], np.delete(scores[piece], face, axis=1)
    beyond, is_first = subject.polytopes[piece].are_beyond(own), subject.kind != "difference" or piece == 0
    alone = beyond & ~subject.polytopes[piece].are_beyond(others).any(axis=1)
    changed, error = None, None
    if others.shape[1] or subject.kind != "difference":
        best = [each.max(axis=1) for each in scores]
        best[piece] = others.max(axis=1, initial=-np.inf)
        without = subject.are_second(subject.combined(best))
        changed = int((without != said).sum())
        error = None if is_second is None else float((without != is_second).mean())
    return FaceRole(
        name, _weights(subject, subject.polytopes[piece].W[face]), int((answering == face).sum()),
        int(beyond.sum()), int(alone.sum()),
        None if is_second is None else int((alone & (is_second == is_first)).sum()), changed, error,
    )  # fmt: skip


def _weights(subject: Subject, w: Array) -> tuple[tuple[str, float], ...]:
    """The columns of a face by the size of their weights; those of none are left out."""
    scaled, found = w * subject.spread, []
    for column in subject.columns:
        own = list(column.places)
        weight = float(scaled[own[0]] if column.texts is None else np.ptp(scaled[own]))
        found.append((column.name, weight))
        if column.gap is not None:
            found.append((f"{column.name}=(missing)", float(scaled[column.gap])))
    return tuple(sorted((pair for pair in found if pair[1]), key=lambda pair: -abs(pair[1])))


def _shares(subject: Subject, roles: Sequence[FaceRole]) -> tuple[tuple[str, float], ...]:
    """The part of Σ|w_j| s_j that each column has, over the faces, each as often as it answers."""
    total = np.zeros(subject.n_features)
    for role in roles:
        piece, face = role.name
        total += role.answers * np.abs(subject.polytopes[piece].W[face]) * subject.spread
    whole_sum = float(total.sum()) or 1.0
    found = [(column.name, float(total[list(column.places)].sum()) / whole_sum) for column in subject.columns]
    return tuple(sorted(found, key=lambda pair: -pair[1]))
