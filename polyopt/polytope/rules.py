"""The faces of a polytope as sentences in the features' own names and units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.polytope.body import Polytope

    Array = NDArray[np.float64]

__all__ = ["rules_of"]

_ROUNDING = 1e-9


def rules_of(
    polytope: Polytope,
    digits: int,
    threshold: float,
    max_terms: int | None,
    inside: str | None,
    outside: str | None,
) -> str:
    """The text of :meth:`Polytope.rules`; arguments as in there."""
    if not 1 <= digits <= 17:
        raise ValueError(f"digits must be from 1 to 17, not {digits!r}")
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(f"threshold must be from 0 to 1, a share of the largest term, not {threshold!r}")
    if max_terms is not None and max_terms < 1:
        raise ValueError(f"max_terms must be at least 1, or None for all, not {max_terms!r}")
    weights = np.abs(polytope.W) * _sizes(polytope)
    lines = [_heading(polytope, inside, outside)]
    width = len(str(polytope.n_faces - 1))
    for k, redundant in enumerate(polytope.redundant):
        text = _rule(polytope, k, weights[k], digits, threshold, max_terms)
        note = "  [redundant: leaving it out changes nothing]" if redundant else ""
        lines.append(f"  face {k:>{width}}: {text}{note}")
    return "\n".join(lines)


def _heading(polytope: Polytope, inside: str | None, outside: str | None) -> str:
    within = "Inside" if inside is None else f"Inside, class '{inside}'"
    beyond = "outside" if outside is None else f"outside, class '{outside}'"
    if polytope.is_empty:
        return f"Always {beyond}: no point is inside all faces, the polytope is empty."
    if polytope.redundant.all():
        return f"{within}, always: no face shuts anything out."
    return f"{within}, unless one of these holds; then {beyond}:"


def _rule(
    polytope: Polytope, k: int, weights: Array, digits: int, threshold: float, max_terms: int | None
) -> str:
    """One face as "outside if 0.52 length − 1.2 width > 3.4"."""
    row = polytope.W[k]
    order = np.argsort(-weights, kind="stable")
    order = order[row[order] != 0]
    if not len(order):
        return f"{'always' if polytope.b[k] > 0 else 'never'} outside: it has no normal"
    if polytope.spread is not None and weights.sum() <= _ROUNDING * abs(polytope.b[k]):
        # What a solver's rounding leaves of a face that fell out of use: no data come near it.
        return f"{'always' if polytope.b[k] > 0 else 'never'} outside: its normal is 0 but for rounding"
    shown = order[weights[order] >= threshold * weights[order[0]]][:max_terms]
    text = ""
    for j in shown:
        sign = "-" if row[j] < 0 else "+"
        lead = ("-" if sign == "-" else "") if not text else f" {sign} "
        text += f"{lead}{abs(row[j]):.{digits}g} {polytope.names[j]}"
    hidden = len(order) - len(shown)
    if hidden:
        text += f" + ({hidden} smaller term{'s' if hidden > 1 else ''})"
    limit = 0.0 - polytope.b[k]  # never "-0"
    return f"outside if {text} > {limit:.{digits}g}"


def _sizes(polytope: Polytope) -> Array:
    """How much each feature varies: as given, else the polytope's own width, else all alike."""
    if polytope.spread is not None:
        return polytope.spread
    if polytope.is_empty or polytope.is_flat or not polytope.is_bounded:
        return np.ones(polytope.n_features)
    low, high = polytope.bounding_box()
    return high - low
