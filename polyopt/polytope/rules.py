"""The faces of a polytope or a union as sentences and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.types import Array
from polyopt.polytope.sql import Label

if TYPE_CHECKING:
    from polyopt.polytope import Polytope

Places = NDArray[np.intp]
_ROUNDED_NORMAL = 1e-9  # sum of the weights of a normal, relative to |b|, up to which it is rounding error


def rules_of(
    polytope: Polytope, digits: int, max_terms: int | None, inside: str | None,
    outside: str | None,
) -> str:  # fmt: skip
    """Return the text of a polytope's ``rules``; arguments as of that method."""
    inside_text, outside_text = _class_names(inside, outside)
    if polytope.is_empty:
        heading = f"Always {outside_text}: no point is inside all faces, the polytope is empty."
    elif polytope.redundant.all():
        heading = f"{inside_text}, always: no face shuts anything out."
    else:
        heading = f"{inside_text}, unless one of these holds; then {outside_text}:"
    return "\n".join([heading, *_lines(polytope, digits, max_terms)])


def union_rules(
    pieces: Sequence[Polytope], digits: int, max_terms: int | None, inside: str, outside: str
) -> str:
    """Return a union of polytopes as text that reads as a classifier: a list of rules for each."""
    inside_text, outside_text = _class_names(inside, outside)
    lines = [f"{inside_text}, if inside of one piece; else {outside_text}:"]
    first_number = 0
    for d, polytope in enumerate(pieces):
        note = ": empty, no point is inside" if polytope.is_empty else ", unless one of these holds:"
        lines.append(f"  piece {d}{note}")
        lines += [f"  {line}" for line in _lines(polytope, digits, max_terms, first_number)]
        first_number += polytope.n_faces
    return "\n".join(lines)


def _lines(polytope: Polytope, digits: int, max_terms: int | None, first_number: int = 0) -> list[str]:
    """Return a rule for each face; the faces are numbered from `first_number`."""
    lines = []
    width = len(str(first_number + polytope.n_faces - 1))
    sign = ">" if polytope.is_closed else ">="
    for k, text in enumerate(_sums(polytope, digits, max_terms)):
        limit = 0.0 - polytope.b[k]  # never "-0"
        if text:
            rule = f"outside if {text} {sign} {limit:.{digits}g}"
        else:
            reason = "its normal is 0 but for rounding" if polytope.W[k].any() else "it has no normal"
            rule = f"{'always' if polytope.are_beyond(-limit) else 'never'} outside: {reason}"
        note = "  [redundant: leaving it out changes nothing]" if polytope.redundant[k] else ""
        lines.append(f"  face {first_number + k:>{width}}: {rule}{note}")
    return lines


def _class_names(inside: str | None, outside: str | None) -> tuple[str, str]:
    """Return the two sides as text, with the names of their classes if these are given."""
    inside_text = "Inside" if inside is None else f"Inside, class '{inside}'"
    outside_text = "outside" if outside is None else f"outside, class '{outside}'"
    return inside_text, outside_text


def shortened_faces(polytope: Polytope, digits: int | None, max_terms: int | None) -> tuple[Array, Array]:
    """Return normals and offsets as the rules state them: rounded, and hidden features at the centre."""
    if digits is not None:
        _check_digits(digits)
    W, b = np.zeros(polytope.W.shape), np.array(polytope.b)
    for k, (shown, hidden) in enumerate(_terms(polytope, max_terms)):
        if len(shown):
            W[k, shown] = _rounded(polytope.W[k, shown], digits)
            b[k] = _rounded(b[k], digits) + _rounded(_at_centre(polytope, k, hidden), digits)
    return W, b


def _rounded(values: ArrayLike, digits: int | None) -> Array:
    """Return the numbers as they are printed; unchanged if `digits` is None."""
    array = np.asarray(values, dtype=float)
    if digits is None:
        return array
    return np.array([float(f"{value:.{digits}g}") for value in array.ravel()]).reshape(array.shape)


def _terms(polytope: Polytope, max_terms: int | None) -> list[tuple[Places, Places]]:
    """Return the shown and the hidden features of each face by decreasing weight, |W_kj| times the spread."""
    if max_terms is not None and max_terms < 1:
        raise ValueError(f"max_terms must be at least 1, or None for all, not {max_terms!r}")
    terms, spread = [], _spread(polytope)
    for row, b in zip(polytope.W, polytope.b, strict=True):
        weights = np.abs(row) * spread
        order = np.argsort(-weights, kind="stable")
        order = order[row[order] != 0]
        if polytope.spread is not None and weights.sum() <= _ROUNDED_NORMAL * abs(b):
            order = order[:0]
        n_shown = len(order) if max_terms is None else max_terms
        terms.append((order[:n_shown], order[n_shown:]))
    return terms


def _at_centre(polytope: Polytope, k: int, hidden: Places) -> float:
    """Return the sum of the hidden terms at the centre; 0 if the centre is not known."""
    return 0.0 if polytope.centre is None else float(polytope.W[k, hidden] @ polytope.centre[hidden])


def _sums(polytope: Polytope, digits: int, max_terms: int | None) -> list[str]:
    """Return each face's terms as "0.52 length − 1.2 width"; empty if the normal is 0 or rounding."""
    _check_digits(digits)
    texts = []
    for k, (shown, hidden) in enumerate(_terms(polytope, max_terms)):
        row = polytope.W[k]
        terms = [f"{'-' if row[j] < 0 else '+'} {abs(row[j]):.{digits}g} {polytope.names[j]}" for j in shown]
        if len(hidden):
            value = _at_centre(polytope, k, hidden)
            average = "" if polytope.centre is None else f", together {value:.{digits}g} on average"
            terms.append(f"+ ({len(hidden)} smaller term{'s' if len(hidden) > 1 else ''}{average})")
        text = " ".join(terms)
        texts.append(text.removeprefix("+ ") if text.startswith("+") else text.replace("- ", "-", 1))
    return texts


def _check_digits(digits: int) -> None:
    if not 1 <= digits <= 17:
        raise ValueError(f"digits must be from 1 to 17, not {digits!r}")


def _spread(polytope: Polytope) -> Array:
    """Return the spread of each feature, by default the width of the polytope, or 1 if it is unbounded."""
    if polytope.spread is not None:
        return polytope.spread
    if polytope.is_empty or polytope.is_flat or not polytope.is_bounded:
        return np.ones(polytope.n_features)
    low, high = polytope.bounding_box()
    return high - low


# -- for other programs ------------------------------------------------------------------------------


def as_json(
    pieces: Sequence[Polytope], inside: Label, outside: Label, is_union: bool = False
) -> dict[str, Any]:
    """Return the faces of a polytope, or of the pieces of a union, for JSON: terms and limits."""
    closed = all(polytope.is_closed for polytope in pieces)
    exceeded = "more than its limit" if closed else "its limit or more"
    both = {"inside": inside, "outside": outside}
    if is_union:
        rule = f"inside where, for one piece, the terms of no face add up to {exceeded}, else outside"
        faces = [{"piece": d, "faces": _faces(polytope)} for d, polytope in enumerate(pieces)]
        return {**both, "rule": rule, "pieces": faces}
    rule = f"outside where the terms of a face add up to {exceeded}, else inside"
    return {**both, "rule": rule, "faces": _faces(pieces[0])}


def _faces(polytope: Polytope) -> list[dict[str, Any]]:
    return [
        {
            "face": k,
            "terms": [
                {"feature": polytope.names[j], "coefficient": float(polytope.W[k, j])}
                for j in np.flatnonzero(polytope.W[k]).tolist()  # in the order of the table
            ],
            "limit": 0.0 - float(polytope.b[k]),
            "redundant": bool(polytope.redundant[k]),
        }
        for k in range(polytope.n_faces)
    ]
