"""The faces of a polytope for other programs: SQL, Python, JSON and Markdown.

A feature's name is text from outside. SQL has it quoted, Python and JSON as a literal, and Markdown with its
signs escaped, so that no name can end what it stands in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from polyopt.polytope.rules import Described

__all__ = ["Label", "as_json", "as_markdown", "as_python", "as_sql"]

Label: TypeAlias = "str | bool | int | float"
"""What a class is called."""

_TOGETHER = 50  # terms of a sum that stand side by side: parsers count their depth
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~&])")


def as_sql(polytope: Described, inside: Label, outside: Label) -> str:
    """A CASE expression over the columns: the label of a row, NULL where a value is missing.

    Parameters
    ----------
    polytope : Polytope
        The polytope, all of whose faces are taken.
    inside, outside : str, bool, int or float
        The labels.

    Raises
    ------
    ValueError
        Two features of one name, or a name with a NUL, which SQL cannot hold.
    """
    _check_names(polytope)
    if any("\x00" in name for name in polytope.names):
        raise ValueError("a feature's name holds the character NUL, which SQL cannot")
    used = np.flatnonzero((polytope.W != 0).any(axis=0)).tolist()
    lines = ["CASE"]
    if len(used):
        missing = _chain([f"{_identifier(polytope.names[j])} IS NULL" for j in used], " OR ")
        lines.append(f"  WHEN {missing} THEN NULL")
    for condition in _conditions(polytope, _identifier):
        lines.append(f"  WHEN {condition or '1 = 1'} THEN {_literal(outside)}")
    if len(lines) == 1:  # SQL has no CASE without WHEN
        lines.append(f"  WHEN 1 = 0 THEN {_literal(outside)}")
    return "\n".join([*lines, f"  ELSE {_literal(inside)}", "END"])


def as_python(polytope: Described, inside: Label, outside: Label) -> str:
    """A function of a mapping from names to numbers, without imports.

    Parameters
    ----------
    polytope, inside, outside
        As in :func:`as_sql`.
    """
    _check_names(polytope)
    used = [polytope.names[j] for j in np.flatnonzero((polytope.W != 0).any(axis=0)).tolist()]
    lines = ["def classify(sample):", '    """The label of a sample, a mapping of names to numbers."""']
    if used:
        lines += [
            f"    if any(sample[name] != sample[name] for name in {used!r}):",
            "        raise ValueError('a value is missing')",
        ]
    for condition in _conditions(polytope, lambda name: f"sample[{name!r}]"):
        lines += [f"    if {condition or 'True'}:", f"        return {outside!r}"]
    return "\n".join([*lines, f"    return {inside!r}"])


def as_json(polytope: Described, inside: Label, outside: Label) -> dict[str, Any]:
    """The faces as JSON has them: terms, limits, and which faces are redundant.

    Parameters
    ----------
    polytope, inside, outside
        As in :func:`as_sql`.
    """
    faces = [
        {
            "face": k,
            "terms": [
                {"feature": polytope.names[j], "coefficient": float(polytope.W[k, j])}
                for j in _order(polytope, k)
            ],
            "limit": 0.0 - float(polytope.b[k]),
            "redundant": bool(polytope.redundant[k]),
        }
        for k in range(polytope.n_faces)
    ]
    meaning = "outside where the terms of a face add up to more than its limit, else inside"
    return {"inside": inside, "outside": outside, "rule": meaning, "faces": faces}


def as_markdown(text: str) -> str:
    """Rules as :meth:`Polytope.rules` gives them, as a Markdown list whose names are text and nothing else.

    Parameters
    ----------
    text : str
        The rules.
    """
    heading, *rules = text.split("\n")
    shown = [f"- {_escaped(rule.strip())}" for rule in rules]
    return "\n".join([_escaped(heading), *([""] if shown else []), *shown])


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _check_names(polytope: Described) -> None:
    names: Sequence[str] = polytope.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"two features are called {twice!r}: rename one, so that a rule can tell them apart")


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(label: Label) -> str:
    """A label in SQL."""
    if isinstance(label, str):
        if "\x00" in label:
            raise ValueError("a label holds the character NUL, which SQL cannot")
        return "'" + label.replace("'", "''") + "'"
    return str(int(label)) if isinstance(label, (bool, int)) else json.dumps(float(label))


def _order(polytope: Described, k: int) -> list[int]:
    """The features of a face, in the order of the table."""
    return [int(j) for j in np.flatnonzero(polytope.W[k])]


def _conditions(polytope: Described, of_name: Callable[[str], str]) -> list[str]:
    """When a sample is outside by each face; "" for always. Faces that never are so are left out."""
    found = []
    for k in range(polytope.n_faces):
        used = _order(polytope, k)
        if not len(used):
            if polytope.b[k] > 0:
                found.append("")
            continue
        terms = [f"{float(polytope.W[k, j])!r} * {of_name(polytope.names[j])}" for j in used]
        found.append(f"{_chain(terms, ' + ')} > {0.0 - float(polytope.b[k])!r}")
    return found


def _chain(parts: list[str], sign: str) -> str:
    """The parts with a sign between them, some in brackets together."""
    while len(parts) > _TOGETHER:
        groups = [parts[i : i + _TOGETHER] for i in range(0, len(parts), _TOGETHER)]
        parts = [f"({sign.join(group)})" for group in groups]
    return sign.join(parts)
