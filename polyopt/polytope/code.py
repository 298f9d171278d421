"""A polytope as code: an expression of SQL, a function of Python.

Names of columns and texts come from outside: they are quoted in SQL, and literals in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from polyopt.base.text import number_spelled, other_spellings

if TYPE_CHECKING:
    from polyopt.polytope import Polytope

Label: TypeAlias = str | bool | int | float
"""The name of a class."""
Terms: TypeAlias = "dict[int, float | dict[str, float]]"
"""Terms of a face by column: a coefficient or, for a column of texts, one for each text."""
SumOf: TypeAlias = "Callable[[Reading, Terms], str]"
"""Writes the sum of some terms."""

_MAX_CHAIN = 50  # terms of a sum without brackets: parsers limit the depth of expressions


@dataclass(frozen=True)
class Reading:
    """The features of a polytope in the columns of a table."""

    columns: Sequence[str]  #: names of the columns
    #: Column of each feature and, for an indicator, the text for which it is 1.
    features: Sequence[tuple[int, str | None]]
    #: Substitute of a missing value for each column; None if a row without a value has no label.
    fills: Sequence[float | str | None]

    @classmethod
    def plain(cls, names: Sequence[str]) -> Reading:
        """Return a reading in which each feature is a column of numbers."""
        return cls(names, [(j, None) for j in range(len(names))], [None] * len(names))

    def columns_of(self, polytopes: Sequence[Polytope]) -> list[int]:
        """Return the columns with a term in some face."""
        weights = np.vstack([polytope.W for polytope in polytopes])
        places = np.flatnonzero((weights != 0).any(axis=0)).tolist()
        return list(dict.fromkeys(self.features[j][0] for j in places))

    def terms(self, polytope: Polytope, k: int) -> Terms:
        """Return the terms of face k."""
        terms: Terms = {}
        for j in np.flatnonzero(polytope.W[k]).tolist():
            (column, text), weight = self.features[j], float(polytope.W[k, j])
            if text is None:
                terms[column] = weight
                continue
            texts = terms.setdefault(column, {})
            assert isinstance(texts, dict)
            texts[text] = weight
        return terms

    def spelled(self, column: int, weights: dict[str, float]) -> dict[str, float]:
        """Return the weights of a column's texts, by every spelling of true and false."""
        other = other_spellings(text for place, text in self.features if place == column)
        return weights | {spelling: weights[text] for spelling, text in other.items() if text in weights}

    def check(self) -> None:
        """Raise ValueError if two columns have one name."""
        names = list(self.columns)
        if len(set(names)) < len(names):
            name = next(name for name in names if names.count(name) > 1)
            raise ValueError(
                f"two features are called {name!r}: rename one, so that a rule can tell them apart"
            )


def _conditions(polytope: Polytope, reading: Reading, sum_of: SumOf, never: str) -> list[str]:
    """Return the conditions of the inside: a comparison a face, and `never` for a face that excludes all."""
    conditions, sign = [], "<=" if polytope.is_closed else "<"
    for k, b in enumerate(polytope.b):
        if terms := reading.terms(polytope, k):
            conditions.append(f"{sum_of(reading, terms)} {sign} {0.0 - float(b)!r}")
        elif polytope.are_beyond(b):
            conditions.append(never)
    return conditions


# -- SQL ---------------------------------------------------------------------------------------------


def as_sql(pieces: Sequence[Polytope], inside: Label, outside: Label, reading: Reading) -> str:
    """Return a CASE expression over the columns: the label of a row, NULL if a value is missing.

    A row has the label `inside` if it is inside at least one of the pieces. ValueError: two columns of one
    name, or a text with a NUL, which SQL cannot hold.
    """
    reading.check()
    missing = [f"{_identifier(reading.columns[j])} IS NULL" for j in reading.columns_of(pieces)
               if reading.fills[j] is None]  # fmt: skip
    lines = ["CASE", *([f"  WHEN {_chain(missing, ' OR ')} THEN NULL"] if missing else [])]
    for piece in pieces:
        conditions = _chain(_conditions(piece, reading, _sql_sum, "1 = 0"), "\n    AND ")
        lines.append(f"  WHEN {conditions or '1 = 1'}\n    THEN {_literal(inside)}")
    return "\n".join([*lines, f"  ELSE {_literal(outside)}", "END"])


def _sql_sum(reading: Reading, terms: Terms) -> str:
    parts = []
    for j, weights in terms.items():
        name, fill = _identifier(reading.columns[j]), reading.fills[j]
        texts = {} if isinstance(weights, float) else reading.spelled(j, weights)
        numbers = {str(number): texts[text] for text in texts if (number := number_spelled(text)) is not None}
        if numbers:  # the database may hold the column as numbers or booleans, and 2 as 2.0
            name, texts = f"CAST({name} AS VARCHAR(255))", texts | numbers
        value = name if fill is None else f"COALESCE({name}, {_literal(fill)})"
        if isinstance(weights, float):
            parts.append(f"{weights!r} * {value}")
        else:
            cases = " ".join(f"WHEN {_literal(text)} THEN {weight!r}" for text, weight in texts.items())
            parts.append(f"CASE {value} {cases} ELSE 0.0 END")
    return _chain(parts, " + ")


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


# -- Python ------------------------------------------------------------------------------------------


def as_python(pieces: Sequence[Polytope], inside: Label, outside: Label, reading: Reading) -> str:
    """Return a function of a mapping from columns' names to values, without imports; see :func:`as_sql`."""
    reading.check()
    columns = reading.columns_of(pieces)
    is_text = any(text is not None for _, text in reading.features)
    values = "numbers and texts" if is_text else "numbers"
    lines = ["def classify(sample):", f'    """The label of a sample, a mapping of names to {values}."""']
    if columns:
        lines += [
            f"    usual = { {reading.columns[j]: reading.fills[j] for j in columns}!r}",
            "    value = {}",
            "    for name in usual:",
            "        value[name] = sample[name]",
            "        if value[name] is None or value[name] != value[name]:",
            "            if usual[name] is None:",
            "                raise ValueError('a value is missing')",
            "            value[name] = usual[name]",
        ]
    for piece in pieces:
        conditions = _conditions(piece, reading, _python_sum, "False")
        lines += ["    if all([", *(f"        {one}," for one in conditions), "    ]):"]
        lines.append(f"        return {inside!r}")
    return "\n".join([*lines, f"    return {outside!r}"])


def _python_sum(reading: Reading, terms: Terms) -> str:
    parts = []
    for j, weights in terms.items():
        value = f"value[{reading.columns[j]!r}]"
        if isinstance(weights, float):
            parts.append(f"{weights!r} * {value}")
            continue
        # A table may hold a category as a number, or as a bool, which as a key equals 0 or 1.
        texts = reading.spelled(j, weights)
        numbers = {number: texts[text] for text in texts if (number := number_spelled(text)) is not None}
        parts.append(f"{texts | numbers!r}.get({value}, 0.0)")
    return _chain(parts, " + ")


def _chain(parts: list[str], sign: str) -> str:
    """Join the parts by a sign; of many parts, groups in brackets."""
    while len(parts) > _MAX_CHAIN:
        groups = [parts[i : i + _MAX_CHAIN] for i in range(0, len(parts), _MAX_CHAIN)]
        parts = [f"({sign.join(group)})" for group in groups]
    return sign.join(parts)
