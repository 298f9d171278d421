"""A polytope as a rule of other programs: an expression of SQL, a function of Python.

Names of columns and texts, which are from outside, are quoted in SQL and literals in Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from polyopt.polytope.faces import Faces
from polyopt.polytope.spellings import number_spelled, other_spellings

Label: TypeAlias = "str | bool | int | float"
"""The name of a class."""
Terms: TypeAlias = "dict[int, float | dict[str, float]]"
"""A face's terms by column: a coefficient or, for a column of texts, one for each text."""

_MAX_CHAIN = 50  # terms of a sum that stand side by side: parsers count their depth
_MAX_LENGTH = 1_000_000  # characters of a statement, as many as SQLite takes by default


@dataclass(frozen=True)
class Reading:
    """The features in the columns of a table.

    columns: the columns' names.
    features: for each feature its column and, for an indicator, the text for which it is 1.
    fills: for each column the substitute of a missing value; None if a row without it has no label.
    """

    columns: Sequence[str]
    features: Sequence[tuple[int, str | None]]
    fills: Sequence[float | str | None]

    @classmethod
    def plain(cls, names: Sequence[str]) -> Reading:
        """Each feature is a column of numbers."""
        return cls(names, [(j, None) for j in range(len(names))], [None] * len(names))

    def used(self, polytopes: Sequence[Faces]) -> list[int]:
        """Columns that a face has a term of."""
        weights = np.vstack([polytope.W for polytope in polytopes])
        places = np.flatnonzero((weights != 0).any(axis=0)).tolist()
        return list(dict.fromkeys(self.features[j][0] for j in places))

    def terms(self, polytope: Faces, k: int) -> Terms:
        """The terms of face k."""
        found: Terms = {}
        for j in np.flatnonzero(polytope.W[k]).tolist():
            (column, text), weight = self.features[j], float(polytope.W[k, j])
            if text is None:
                found[column] = weight
                continue
            texts = found.setdefault(column, {})
            assert isinstance(texts, dict)
            texts[text] = weight
        return found

    def spelled(self, column: int, weights: dict[str, float]) -> dict[str, float]:
        """The weights of a column's texts, by every spelling of its truths."""
        other = other_spellings(text for place, text in self.features if place == column)
        return weights | {one: weights[text] for one, text in other.items() if text in weights}

    def check(self) -> None:
        """Raise ValueError if two columns have one name."""
        names = list(self.columns)
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(
                f"two features are called {twice!r}: rename one, so that a rule can tell them apart"
            )


def _conditions(
    polytope: Faces, reading: Reading, sum_of: Callable[[Reading, Terms], str], sign: str, constant: str
) -> list[str]:
    """A comparison for each face with terms, and a constant for each that shuts everything out."""
    found = []
    for k in range(polytope.n_faces):
        if terms := reading.terms(polytope, k):
            found.append(f"{sum_of(reading, terms)} {sign} {0.0 - float(polytope.b[k])!r}")
        elif polytope.are_beyond(polytope.b[k]):
            found.append(constant)
    return found


def _sums(polytope: Faces, reading: Reading, sum_of: Callable[[Reading, Terms], str]) -> list[str]:
    """The sums of all faces, with their offsets."""
    pairs = ((sum_of(reading, reading.terms(polytope, k)), float(b)) for k, b in enumerate(polytope.b))
    return [f"({terms or '0.0'} + {b!r})" for terms, b in pairs]


# -- SQL ---------------------------------------------------------------------------------------------


def as_sql(polytope: Faces, inside: Label, outside: Label, reading: Reading) -> str:
    """A CASE expression over the columns: the label of a row, NULL if a value is missing.

    ValueError: two columns of one name, or a text with a NUL, which SQL cannot hold.
    """
    rows = _conditions(polytope, reading, _sql_sum, polytope.outside_sign, "1 = 1")
    # SQL has no CASE without WHEN
    lines = [f"  WHEN {beyond} THEN {_literal(outside)}" for beyond in rows or ["1 = 0"]]
    return "\n".join([*_beginning(reading, [polytope]), *lines, f"  ELSE {_literal(inside)}", "END"])


def two_as_sql(polytopes: Sequence[Faces], labels: Sequence[Label], reading: Reading) -> str:
    """The same for two polytopes: the outer label of the one with the larger largest sum, or the second.

    SQL has no largest of several sums that all programs know, so each sum of the first stands against each of
    the second. ValueError also for an expression of more than a million characters.
    """
    first, second = (_sums(polytope, reading, _sql_sum) for polytope in polytopes)
    length = sum(map(len, first)) * len(second) + sum(map(len, second)) * len(first)
    if length > _MAX_LENGTH:
        raise ValueError(
            f"the {len(first)} sums of one side against the {len(second)} of the other take {length:,} "
            f"characters of SQL, more than the {_MAX_LENGTH:,} that databases take; take fewer terms a face, "
            "or the rules as Python"
        )
    lines = _beginning(reading, polytopes)
    for own in first:
        above = _chain([f"{own} > {other}" for other in second], "\n    AND ")
        lines.append(f"  WHEN {above}\n    THEN {_literal(labels[0])}")
    return "\n".join([*lines, f"  ELSE {_literal(labels[1])}", "END"])


def union_as_sql(polytopes: Sequence[Faces], inside: Label, outside: Label, reading: Reading) -> str:
    """The same for a union: the inner label of a point that is in one of the polytopes, at least one."""
    lines = _beginning(reading, polytopes)
    for polytope in polytopes:
        all_of = _conditions(polytope, reading, _sql_sum, polytope.inside_sign, "1 = 0")
        together = "\n    AND ".join(all_of) or "1 = 1"
        lines.append(f"  WHEN {together}\n    THEN {_literal(inside)}")
    return "\n".join([*lines, f"  ELSE {_literal(outside)}", "END"])


def _beginning(reading: Reading, polytopes: Sequence[Faces]) -> list[str]:
    reading.check()
    missing = [_identifier(reading.columns[j]) for j in reading.used(polytopes) if reading.fills[j] is None]
    if not missing:
        return ["CASE"]
    return ["CASE", f"  WHEN {_chain([f'{name} IS NULL' for name in missing], ' OR ')} THEN NULL"]


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
    """A label or another value in SQL."""
    if isinstance(value, str):
        if "\x00" in value:
            raise ValueError("a label or a text holds the character NUL, which SQL cannot")
        return "'" + value.replace("'", "''") + "'"
    return str(int(value)) if isinstance(value, (bool, int)) else json.dumps(float(value))


# -- Python ------------------------------------------------------------------------------------------


def as_python(polytope: Faces, inside: Label, outside: Label, reading: Reading) -> str:
    """A function of a mapping from columns' names to values, without imports."""
    lines = _head(reading, [polytope])
    for beyond in _conditions(polytope, reading, _python_sum, polytope.outside_sign, "True"):
        lines += [f"    if {beyond}:", f"        return {outside!r}"]
    return "\n".join([*lines, f"    return {inside!r}"])


def two_as_python(polytopes: Sequence[Faces], labels: Sequence[Label], reading: Reading) -> str:
    """The same for two polytopes."""
    lines = _head(reading, polytopes)
    for name, polytope in zip(("first", "second"), polytopes, strict=True):
        terms = [f"        {own}," for own in _sums(polytope, reading, _python_sum)]
        lines += [f"    {name} = max([", *terms, "    ])"]
    return "\n".join([*lines, f"    return {labels[0]!r} if first > second else {labels[1]!r}"])


def union_as_python(polytopes: Sequence[Faces], inside: Label, outside: Label, reading: Reading) -> str:
    """The same for a union."""
    lines = _head(reading, polytopes)
    for polytope in polytopes:
        all_of = _conditions(polytope, reading, _python_sum, polytope.inside_sign, "False")
        lines += ["    if all([", *(f"        {one}," for one in all_of), "    ]):"]
        lines.append(f"        return {inside!r}")
    return "\n".join([*lines, f"    return {outside!r}"])


def _head(reading: Reading, polytopes: Sequence[Faces]) -> list[str]:
    """The beginning of the function, which looks for missing values."""
    reading.check()
    used = reading.used(polytopes)
    is_text = any(text is not None for _, text in reading.features)
    what = "numbers and texts" if is_text else "numbers"
    lines = ["def classify(sample):", f'    """The label of a sample, a mapping of names to {what}."""']
    if not used:
        return lines
    usual = {reading.columns[j]: reading.fills[j] for j in used if reading.fills[j] is not None}
    filled = [
        "            if name not in usual:",
        "                raise ValueError('a value is missing')",
        "            value[name] = usual[name]",
    ]
    return [
        *lines,
        *([f"    usual = {usual!r}"] if usual else []),
        "    value = {}",
        f"    for name in {[reading.columns[j] for j in used]!r}:",
        "        value[name] = sample[name]",
        "        if value[name] is None or value[name] != value[name]:",
        *(filled if usual else ["            raise ValueError('a value is missing')"]),
    ]


def _python_sum(reading: Reading, terms: Terms) -> str:
    parts = []
    for j, weights in terms.items():
        value = f"value[{reading.columns[j]!r}]"
        if isinstance(weights, float):
            parts.append(f"{weights!r} * {value}")
            continue
        # A table may hold a category as a number, or a truth as a bool, which is a key equal to 0 or 1.
        texts = reading.spelled(j, weights)
        numbers = {number: texts[text] for text in texts if (number := number_spelled(text)) is not None}
        parts.append(f"{texts | numbers!r}.get({value}, 0.0)")
    return _chain(parts, " + ")


def _chain(parts: list[str], sign: str) -> str:
    """The parts with a sign between them, some in brackets together."""
    while len(parts) > _MAX_CHAIN:
        groups = [parts[i : i + _MAX_CHAIN] for i in range(0, len(parts), _MAX_CHAIN)]
        parts = [f"({sign.join(group)})" for group in groups]
    return sign.join(parts)
