"""Explanation of a whole model on data: shares of the columns, and the role of each face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array, refuse_masked, whole
from formulations.language.types import Array
from polyopt.explanations.subject import NAME_WIDTH, Subject, cut, named, others, wrapped


@dataclass(frozen=True)
class FaceRole:
    """The role of one face on the data.

    Attributes
    ----------
    name : tuple of int
        Polytope and face.
    weights : tuple of (str, float)
        Columns and their weights, the largest first: w_j times the spread of feature j, with its sign; of a
        column of texts the difference between its largest and its least indicator.
    answers, beyond, alone : int
        Samples that it is active for, samples beyond it, and those of them that no other face of its polytope
        has beyond itself.
    alone_right : int or None
        Those of the latter whose true label is that outside of this polytope; None without labels.
    changed, error_without : int or None, float or None
        Samples whose label by the polytopes would change without this face, and the share of wrong labels
        then; None if the model has no meaning without it (or without labels).
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
class ModelExplanation:
    """Explanation of a model.

    Attributes
    ----------
    subject : Subject
        The model.
    samples : int
        Samples on which all of it was counted.
    second : int or None
        Those of them whose true label is the second; None without labels.
    shares : tuple of (str, float)
        Columns and their shares, the largest first, which add up to 1: the part of Σ|w_j| s_j, s_j the
        spread of feature j, over the faces, each as often as it answers for a sample.
    faces : tuple of FaceRole
        Every face.
    error : float or None
        The share of wrong labels by the polytopes; None without labels.
    agreement : float
        The share of the samples on which the polytopes have the model's own label.
    top : int
        How many columns are shown.
    """

    subject: Subject
    samples: int
    second: int | None
    shares: tuple[tuple[str, float], ...]
    faces: tuple[FaceRole, ...]
    error: float | None
    agreement: float
    top: int

    def text(self) -> str:
        """Return the explanation in words, in lines of at most 80 columns."""
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
    """Return the columns of a face with a weight, the largest first."""
    scaled, found = w * subject.spread, []
    for column in subject.columns:
        own = list(column.places)
        weight = float(scaled[own[0]] if column.texts is None else np.ptp(scaled[own]))
        found.append((column.name, weight))
        if column.gap is not None:
            found.append((f"{column.name}=(missing)", float(scaled[column.gap])))
    return tuple(sorted((pair for pair in found if pair[1]), key=lambda pair: -abs(pair[1])))


def _shares(subject: Subject, roles: Sequence[FaceRole]) -> tuple[tuple[str, float], ...]:
    """Return each column's part of Σ|w_j| s_j over the faces, each as often as it is active."""
    total = np.zeros(subject.n_features)
    for role in roles:
        piece, face = role.name
        total += role.answers * np.abs(subject.polytopes[piece].W[face]) * subject.spread
    whole_sum = float(total.sum()) or 1.0
    found = [(column.name, float(total[list(column.places)].sum()) / whole_sum) for column in subject.columns]
    return tuple(sorted(found, key=lambda pair: -pair[1]))


# -- in words ------------------------------------------------------------------------------------------


def model_text(e: ModelExplanation) -> str:
    """Return the explanation in words."""
    lines = [*wrapped(heading_of_model(e)), "", *_share_lines(e), "", *_face_lines(e)]
    return "\n".join(lines)


def heading_of_model(e: ModelExplanation) -> str:
    """Return the parts of the model, and how often its faces agree with it, as a sentence."""
    inside, outside = (named(label) for label in e.subject.labels)
    text = {
        "polytope": f"One polytope of {len(e.faces)} faces: class {inside} inside, class {outside} outside.",
        "union": f"A union of {len(e.subject.polytopes)} polytopes, {len(e.faces)} faces: class {inside} "
        f"inside of one of them, class {outside} outside of all.",
        "difference": f"Two polytopes, {len(e.faces)} faces, that decide by the difference of their scores: "
        f"class {outside} where the first one's is larger, else class {inside}.",
    }[e.subject.kind]
    if e.agreement < 1.0:
        share = f"{100 * e.agreement:.2f} % of the samples"
        text += f" The model decides by its probabilities: these faces agree with it on {share}."
    return text


def share_sentence(e: ModelExplanation) -> str:
    """Return the definition of a feature's share."""
    spread = "times the feature's spread" if e.subject.has_units else "in the feature's own unit"
    return (
        f"Features by their share of the faces' weights (the size of the weight {spread}; each face counts "
        f"as often as it answers for one of {e.samples} samples):"
    )


def _share_lines(e: ModelExplanation) -> list[str]:
    lines = wrapped(share_sentence(e))
    shown, hidden = e.shares[: e.top], [pair for pair in e.shares[e.top :] if pair[1]]
    largest = max((share for _, share in shown), default=0.0) or 1.0
    lines += [
        f"  {cut(name):<{NAME_WIDTH}} {100 * share:>6.1f} %  {'█' * round(20 * share / largest)}".rstrip()
        for name, share in shown
    ]
    if hidden:
        rest = sum(share for _, share in hidden)
        lines.append(f"  {others(len(hidden)):<{NAME_WIDTH}} {100 * rest:>6.1f} %")
    return lines


def _face_lines(e: ModelExplanation) -> list[str]:
    labelled, of_pieces = e.error is not None, e.subject.kind != "polytope"
    head = f"{'face':>8} {'answers':>8} {'beyond':>7} {'only it':>8}"
    head += f" {'right':>6} {'changes':>8} {'error':>8}" if labelled else f" {'changes':>8}"
    lines = [head]
    for role in e.faces:
        piece, face = role.name
        name = f"{piece}.{face}" if of_pieces else str(face)
        line = f"{name:>8} {role.answers:>8} {role.beyond:>7} {role.alone:>8}"
        changed = "-" if role.changed is None else str(role.changed)
        if labelled:
            error = "-" if role.error_without is None else f"{100 * role.error_without:.2f} %"
            line += f" {role.alone_right:>6} {changed:>8} {error:>8}"
        else:
            line += f" {changed:>8}"
        lines.append(line)
    return [*lines, *wrapped(face_sentence(e))]


def face_sentence(e: ModelExplanation) -> str:
    """Return the definitions of the columns of the table of faces."""
    right = "" if e.error is None else ", and 'right' those of the class outside"
    error = "" if e.error is None else f"; 'error': of the model without it, with it {100 * e.error:.2f} %"
    return (
        "'answers': samples whose label it decides. 'beyond': samples outside of it; 'only it': of no other "
        f"face of its polytope{right}. 'changes': labels that would be others without it{error}."
    )
