"""The handouts of a lecture: exercises as notebooks, and programs as LaTeX that compiles by itself."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from formulations.language.statement import Statement
from formulations.language.typeset import latex_of
from polyopt.base.text import escape
from polyopt.exercises.exercise import Exercise

_OPEN = "Each cell judges your answer: put it in the place of the dots, and run the cell."
_SOLVED = "Each with a solution, and why it is right."


def notebook(cells: Iterable[tuple[str, str]]) -> str:
    """Return a notebook without outputs, in the format 4.5 of Jupyter."""
    made: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        made.append({**cell, "source": text.strip().splitlines(keepends=True)})
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def exercise_notebook(title: str, exercises: Mapping[str, Exercise], *, solved: bool) -> str:
    """Return the exercises, each with its task, a hint to unfold, and a cell that judges an answer."""
    what, how = ("solutions", _SOLVED) if solved else ("exercises", _OPEN)
    cells = [("markdown", f"# {title}: {what}\n\n{how}")]
    for name, exercise in exercises.items():
        task = "\n\n".join(map(_plain, [*exercise.task.split("\n"), *filter(None, [exercise.form])]))
        hint = f"<details><summary>A hint</summary>\n\n{_plain(exercise.hint)}\n\n</details>"
        cells.append(("markdown", f"## {name}: {_plain(exercise.title)}\n\n{task}\n\n{hint}"))
        first = f"from polyopt.exercises import {name}\n"
        if exercise.data:
            first += f"\ndata = {name}.data\n"
        if solved:
            cells.append(("code", f"{first}\nprint({name}.solution)\nprint({name}.check({name}.solution))"))
        else:
            cells.append(("code", f"{first}\nanswer = ...\nprint({name}.check(answer))"))
    return notebook(cells)


def _plain(text: str) -> str:
    """Return a text to which Markdown does nothing: its stars, dollars and lines are what they are."""
    return "".join(f"\\{char}" if char in "\\`*_$[]#" else char for char in escape(text, quote=False))


_HEAD = r"""\documentclass[10pt]{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage[a4paper,margin=17mm]{geometry}
\usepackage{amsmath,amssymb}
\setlength{\parindent}{0pt}
\allowdisplaybreaks
\begin{document}
\small
"""
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "—": "---", "–": "--", "−": "$-$",
}  # fmt: skip


def latex_file(title: str, programs: Iterable[Statement]) -> str:
    """Return a document with each program as ``polyopt show --format latex`` prints it."""
    lines = [_HEAD, rf"\section*{{{_text(title)}: the programs}}"]
    for program in programs:
        lines.append(rf"\subsection*{{{_text(program.title)}}}")
        lines.append(rf"\texttt{{{_text(program.name)}}}. {_text(program.source)}.")
        formulas = latex_of(program).strip("$").replace("{aligned}", "{align*}")  # it breaks across pages
        lines.append(formulas)
    return "\n".join([*lines, r"\end{document}", ""])


def _text(words: str) -> str:
    return "".join(_SPECIAL.get(char, char) for char in words)
