"""A polytope as an expression of SQL, in which names of columns and texts from outside are quoted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from formulations.language.types import Array
from polyopt.base.text import number_spelled, other_spellings

if TYPE_CHECKING:
    from polyopt.polytope import Polytope

Label: TypeAlias = str | bool | int | float
"""The name of a class."""

_MAX_CHAIN = 50  # terms of a sum without brackets: parsers limit the depth of expressions


@dataclass(frozen=True)
class Reading:
    """The features of a polytope in the columns of a table."""

    columns: Sequence[str]  #: names of the columns
    #: Column of each feature and, for an indicator, the text for which it is 1.
    features: Sequence[tuple[int, str | None]]
    #: Substitute of a missing value for each column; None if a row without a value has no label.
    fills: Sequence[float | str | None]


def as_sql(pieces: Sequence[Polytope], inside: Label, outside: Label, reading: Reading) -> str:
    """Return a CASE expression over the columns: the label of a row, NULL if a value is missing.

    A row has the label `inside` if it is inside at least one of the pieces. ValueError: two columns of one
    name, or a text with a NUL, which SQL cannot hold.
    """
    names = list(reading.columns)
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two features are called {name!r}: rename one, so that a rule can tell them apart")
    has_term = (np.vstack([piece.W for piece in pieces]) != 0).any(axis=0)
    columns = dict.fromkeys(reading.features[j][0] for j in np.flatnonzero(has_term).tolist())
    missing = [f"{_identifier(names[j])} IS NULL" for j in columns if reading.fills[j] is None]
    lines = ["CASE"]
    if missing:
        lines.append(f"  WHEN {_chain(missing, ' OR ')} THEN NULL")
    for piece in pieces:
        conditions, sign = [], "<=" if piece.is_closed else "<"
        for w, b in zip(piece.W, piece.b.tolist(), strict=True):
            if w.any():
                conditions.append(f"{_sum(w, reading)} {sign} {0.0 - b!r}")
            elif piece.are_beyond(b):  # a face that excludes every point
                conditions.append("1 = 0")
        together = _chain(conditions, "\n    AND ") or "1 = 1"
        lines.append(f"  WHEN {together}\n    THEN {_literal(inside)}")
    return "\n".join([*lines, f"  ELSE {_literal(outside)}", "END"])


def _sum(w: Array, reading: Reading) -> str:
    """Return the sum of the terms of a face w (m,), one for each column."""
    # For each column, the weight of each category's text; for a column of numbers its weight, by the key
    # None.
    weights_of: dict[int, dict[str | None, float]] = {}
    for j in np.flatnonzero(w).tolist():
        column, text = reading.features[j]
        weights_of.setdefault(column, {})[text] = float(w[j])
    terms = []
    for column, weights in weights_of.items():
        name, fill = _identifier(reading.columns[column]), reading.fills[column]
        if None in weights:
            terms.append(f"{weights[None]!r} * {_filled(name, fill)}")
            continue
        # The database may spell a category in another way than the data of the fit. Truths: "true" or "1" for
        # "True". Numbers: a column of numbers is cast to text, which may be "2.0" for "2".
        texts = {str(text): weight for text, weight in weights.items()}
        spellings = other_spellings(text for j, text in reading.features if j == column)
        texts |= {other: texts[own] for other, own in spellings.items() if own in texts}
        numbers = {str(number): texts[text] for text in texts if (number := number_spelled(text)) is not None}
        if numbers:
            name = f"CAST({name} AS VARCHAR(255))"
        cases = " ".join(
            f"WHEN {_literal(text)} THEN {weight!r}" for text, weight in (texts | numbers).items()
        )
        terms.append(f"CASE {_filled(name, fill)} {cases} ELSE 0.0 END")
    return _chain(terms, " + ")


def _filled(name: str, fill: float | str | None) -> str:
    return name if fill is None else f"COALESCE({name}, {_literal(fill)})"


def _identifier(name: str) -> str:
    if "\x00" in name:
        raise ValueError("a feature's name holds the character NUL, which SQL cannot")
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Label) -> str:
    """Write a label or another value in SQL."""
    if isinstance(value, str):
        if "\x00" in value:
            raise ValueError("a label or a text holds the character NUL, which SQL cannot")
        return "'" + value.replace("'", "''") + "'"
    return str(int(value)) if isinstance(value, (bool, int)) else json.dumps(float(value))


def _chain(parts: list[str], sign: str) -> str:
    """Join the parts by a sign; more than _MAX_CHAIN parts are first joined in groups, in brackets."""
    while len(parts) > _MAX_CHAIN:
        groups = [parts[i : i + _MAX_CHAIN] for i in range(0, len(parts), _MAX_CHAIN)]
        parts = [f"({sign.join(group)})" for group in groups]
    return sign.join(parts)
