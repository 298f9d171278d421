"""Explanation of a model on a data set: the importance of the columns, and the role of each face.

The importance, or share, of a column is its part of Σ_j |w_j| s_j, summed over the active faces w of all
samples; s_j is the spread of feature j, its standard deviation. A sample is beyond a face if its score at
the face is positive, that is, if the face puts it outside of the polytope.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array, refuse_masked, whole
from formulations.language.types import Array
from polyopt.explanations.decision_model import NAME_WIDTH, DecisionModel, others, quoted, shortened, wrapped


@dataclass(frozen=True)
class FaceRole:
    """The role of one face on the data."""

    name: tuple[int, int]  # polytope and face
    weights: tuple[tuple[str, float], ...]  # column and w_j s_j, the largest first
    active: int  # samples of which this is the active face
    beyond: int  # samples beyond this face
    alone: int  # samples beyond this face and no other face of its polytope
    alone_right: int | None  # those of `alone` whose true label is that of the outside
    changed: int | None  # samples whose label by the scores would change without this face
    error_without: float | None  # error rate without this face


@dataclass(frozen=True)
class ModelExplanation:
    """Explanation of a model on data. Fields about true labels are None without labels.

    A face's `changed` and `error_without` are None if the model is not defined without the face. The weight
    of a categorical column is the difference of the largest and the smallest weight of its indicators.
    """

    model: DecisionModel
    samples: int
    shares: tuple[tuple[str, float], ...]  # column and its share, the largest first
    faces: tuple[FaceRole, ...]
    error: float | None  # error rate of the labels by the scores
    agreement: float  # fraction of samples whose label by the scores is that of the classifier itself
    top: int  # number of columns in the text

    def text(self) -> str:
        """Return the explanation in words, in lines of at most 80 columns."""
        faces = ["".join(f"{cell:>9}" for cell in row) for row in face_rows(self)]
        faces += wrapped(face_sentence(self))
        return "\n".join([*wrapped(heading_of_model(self)), "", *_share_lines(self), "", *faces])

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values, for JSON."""
        faces = [
            {**vars(role), "name": list(role.name), "weights": [list(pair) for pair in role.weights]}
            for role in self.faces
        ]
        return {
            "kind": self.model.kind, "labels": np.array(self.model.labels).tolist(), "samples": self.samples,
            "shares": [{"feature": name, "share": share} for name, share in self.shares], "faces": faces,
            "error": self.error, "agreement": self.agreement,
        }  # fmt: skip

    def __str__(self) -> str:
        return self.text()


def explain_model(
    model: DecisionModel, X: ArrayLike, y: ArrayLike | None = None, *, top: int = 8
) -> ModelExplanation:
    """Explain a model on data; ValueError for samples or labels that do not fit it or are not finite.

    Parameters
    ----------
    model : DecisionModel
        The model.
    X, y : array_like of shape (n, m), and of shape (n,), optional
        Samples in the units of the polytopes, and their true labels.
    top : int
        Number of columns in the text.
    """
    top, samples = whole("top", top), real_array("X", X)
    if samples.ndim != 2 or samples.shape[1] != model.n_features or not len(samples):
        raise ValueError(f"X must be of shape (n, {model.n_features}), n at least 1, not {samples.shape}")
    is_second = None
    if y is not None:
        refuse_masked("y", y)
        labels = np.asarray(y)
        if labels.shape != samples.shape[:1]:
            raise ValueError(f"y must have shape ({len(samples)},), not {labels.shape}")
        is_second = labels == model.labels[1]
    scores, active = model.face_scores(samples), model.active_faces(samples)
    by_scores = model.are_second(model.combine_scores([face_scores.max(axis=1) for face_scores in scores]))
    roles = [
        _role(model, (d, k), scores, active[d], by_scores, is_second)
        for d, polytope in enumerate(model.polytopes)
        for k in range(polytope.n_faces)
    ]
    by_classifier = model.predict(samples) == model.labels[1]
    return ModelExplanation(
        model, len(samples), _shares(model, roles), tuple(roles),
        None if is_second is None else float(np.mean(by_scores != is_second)),
        float(np.mean(by_scores == by_classifier)),
        top,
    )  # fmt: skip


def _role(
    model: DecisionModel, name: tuple[int, int], scores: Sequence[Array], active: NDArray[np.intp],
    by_scores: NDArray[np.bool_], is_second: NDArray[np.bool_] | None,
) -> FaceRole:  # fmt: skip
    """Return the role of a face.

    scores: scores (n, K) at the faces of each polytope. active (n,): active faces in the polytope of the
    face. by_scores, is_second (n,): True for the second label, by the scores and by the true labels.
    """
    d, k = name
    polytope, other_scores = model.polytopes[d], np.delete(scores[d], k, axis=1)
    beyond = polytope.are_beyond(scores[d][:, k])
    alone = beyond & ~polytope.are_beyond(other_scores).any(axis=1)
    outside_is_second = model.kind != "difference" or d == 0
    alone_right = None if is_second is None else int((alone & (is_second == outside_is_second)).sum())
    changed, error = None, None
    if other_scores.shape[1] or model.kind != "difference":
        best = [face_scores.max(axis=1) for face_scores in scores]
        best[d] = other_scores.max(axis=1, initial=-np.inf)
        without_face = model.are_second(model.combine_scores(best))
        changed = int((without_face != by_scores).sum())
        error = None if is_second is None else float(np.mean(without_face != is_second))
    return FaceRole(
        name, _weights(model, polytope.W[k]), int((active == k).sum()), int(beyond.sum()), int(alone.sum()),
        alone_right, changed, error,
    )  # fmt: skip


def _weights(model: DecisionModel, w: Array) -> tuple[tuple[str, float], ...]:
    """Return the columns with nonzero weights of a face w (m,), the largest first."""
    scaled, weights = w * model.spread, []
    for column in model.columns:
        column_weights = scaled[list(column.features)]
        weight = column_weights[0] if column.categories is None else np.ptp(column_weights)
        weights.append((column.name, float(weight)))
        if column.missing is not None:
            weights.append((f"{column.name}=(missing)", float(scaled[column.missing])))
    return tuple(sorted((pair for pair in weights if pair[1]), key=lambda pair: -abs(pair[1])))


def _shares(model: DecisionModel, roles: Sequence[FaceRole]) -> tuple[tuple[str, float], ...]:
    """Return the share of each column in Σ_j |w_j| s_j, every face counted as often as it is active."""
    totals = np.zeros(model.n_features)
    for role in roles:
        d, k = role.name
        totals += role.active * np.abs(model.polytopes[d].W[k]) * model.spread
    total = float(totals.sum()) or 1.0
    shares = [(column.name, float(totals[list(column.features)].sum()) / total) for column in model.columns]
    return tuple(sorted(shares, key=lambda pair: -pair[1]))


# -- as text -------------------------------------------------------------------------------------------


def heading_of_model(e: ModelExplanation) -> str:
    """Return the parts of the model, and the agreement of its scores with the classifier, as sentences."""
    inside, outside = (quoted(label) for label in e.model.labels)
    text = {
        "polytope": f"One polytope of {len(e.faces)} faces: class {inside} inside, class {outside} outside.",
        "union": f"A union of {len(e.model.polytopes)} polytopes, {len(e.faces)} faces: class {inside} "
        f"inside of one of them, class {outside} outside of all.",
        "difference": f"Two polytopes, {len(e.faces)} faces, that decide by the difference of their scores: "
        f"class {outside} where the first one's is larger, else class {inside}.",
    }[e.model.kind]
    if e.agreement < 1.0:
        fraction = f"{100 * e.agreement:.2f} % of the samples"
        text += f" The model decides by its probabilities: these faces agree with it on {fraction}."
    return text


def _share_lines(e: ModelExplanation) -> list[str]:
    """Return the definition of a feature's share, and the largest shares with bars."""
    unit = "times the feature's spread" if e.model.has_units else "in the feature's own unit"
    lines = wrapped(
        f"Features by their share of the faces' weights (the size of the weight {unit}; each face counts "
        f"as often as it is active for one of {e.samples} samples):"
    )
    top, hidden = e.shares[: e.top], [pair for pair in e.shares[e.top :] if pair[1]]
    largest = max((share for _, share in top), default=0.0) or 1.0
    for name, share in top:
        bar = "█" * round(20 * share / largest)
        lines.append(f"  {shortened(name):<{NAME_WIDTH}} {100 * share:>6.1f} %  {bar}".rstrip())
    if hidden:
        hidden_share = sum(share for _, share in hidden)
        lines.append(f"  {others(len(hidden)):<{NAME_WIDTH}} {100 * hidden_share:>6.1f} %")
    return lines


def face_rows(e: ModelExplanation) -> list[list[str]]:
    """Return the rows of the table of faces, the header first; columns about true labels only with these."""
    labelled, rows = e.error is not None, []
    for role in e.faces:
        polytope, face = role.name
        name = str(face) if e.model.kind == "polytope" else f"{polytope}.{face}"
        row = [name, str(role.active), str(role.beyond), str(role.alone)]
        row += [str(role.alone_right)] if labelled else []
        row += ["-" if role.changed is None else str(role.changed)]
        if labelled:
            row += ["-" if role.error_without is None else f"{100 * role.error_without:.2f} %"]
        rows.append(row)
    right, error = (["right"], ["error"]) if labelled else ([], [])
    return [["face", "active", "beyond", "only it", *right, "changes", *error], *rows]


def face_sentence(e: ModelExplanation) -> str:
    """Return the definitions of the columns of the table of faces."""
    right = "" if e.error is None else ", and 'right' those of the class outside"
    error = "" if e.error is None else f"; 'error': of the model without it, with it {100 * e.error:.2f} %"
    return (
        "'active': samples whose score it determines. 'beyond': samples outside of it; 'only it': of no "
        f"other face of its polytope{right}. 'changes': labels that would change without it{error}."
    )
