"""The texts of exercises, from ``words/<chapter>.toml``: they can be edited, or translated, without code."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

__all__ = ["words_of"]


def words_of(chapter: str) -> dict[str, dict[str, Any]]:
    """Return the texts of a chapter's exercises by name: title, task, hint, solution, why and mistakes.

    A line break inside of a text is a space, and an empty line a new paragraph.
    """
    read = (files("polyopt.exercises") / "words" / f"{chapter}.toml").read_text(encoding="utf-8")
    return {name: _said(entry) for name, entry in tomllib.loads(read).items()}


def _said(entry: dict[str, Any]) -> dict[str, Any]:
    said = {part: _paragraphs(value) if isinstance(value, str) else value for part, value in entry.items()}
    if "mistakes" in said:
        said["mistakes"] = tuple(tuple(pair) for pair in said["mistakes"])
    return said


def _paragraphs(text: str) -> str:
    return "\n".join(" ".join(part.split()) for part in text.split("\n\n"))
