"""The faces of a polytope as JSON and Markdown.

A feature's name is text from outside. JSON has it as a literal, and Markdown with its signs escaped, so that
no name can end what it stands in.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from polyopt.polytope.code import Label
from polyopt.polytope.rules import Described

__all__ = ["as_json", "as_markdown"]

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~&])")


def as_json(polytope: Described, inside: Label, outside: Label) -> dict[str, Any]:
    """The faces as JSON has them: terms, limits, and which faces are redundant."""
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
    reached = "more than its limit" if polytope.is_closed else "its limit or more"
    meaning = f"outside where the terms of a face add up to {reached}, else inside"
    return {"inside": inside, "outside": outside, "rule": meaning, "faces": faces}


def as_markdown(text: str) -> str:
    """Rules as :meth:`Polytope.rules` gives them, as a Markdown list whose names are text and nothing else.

    text: the rules.
    """
    heading, *rules = text.split("\n")
    # A list within the list is indented by two more.
    shown = [f"{rule[: len(rule) - len(rule.lstrip()) - 2]}- {_escaped(rule.strip())}" for rule in rules]
    return "\n".join([_escaped(heading), *([""] if shown else []), *shown])


def _escaped(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _order(polytope: Described, k: int) -> list[int]:
    """The features of a face, in the order of the table."""
    return [int(j) for j in np.flatnonzero(polytope.W[k])]
