"""Extension of Sphinx: formulas as MathML, and the directives ``program`` and ``exercises``.

Browsers draw MathML without a script or a network.
"""

import re
from itertools import starmap
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from polyopt.base.text import escape
from polyopt.exercises import exercises
from polyopt.exercises.exercise import Exercise
from polyopt.methods.programs import find_programs
from polyopt.report.programs import mathml, program_section

_USAGE = (
    "<p>They check themselves: <code>from polyopt.exercises import {0}</code>, then "
    "<code>{0}.check(answer)</code>. The data of which a task speaks are <code>{0}.data</code>.</p>"
)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f"<div class='scroll' tabindex='0'>{mathml(node.astext(), display=True)}</div>")
    raise nodes.SkipNode


class _Raw(Directive):
    """A directive whose argument becomes HTML; an error in the argument is a warning of the build."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content: ClassVar[bool] = False

    def html(self, argument: str) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        try:
            text = self.html(self.arguments[0])
        except (ValueError, RuntimeError) as error:
            return [self.state_machine.reporter.warning(str(error), line=self.lineno)]
        return [nodes.raw("", text, format="html")]


class _Program(_Raw):
    """A program by its name, as of ``polyopt show``."""

    def html(self, argument: str) -> str:
        return "".join(program_section(program) for program in find_programs(argument))


class _Exercises(_Raw):
    """The exercises of a chapter: tasks, with hints and solutions that unfold."""

    def html(self, argument: str) -> str:
        stem = argument.removesuffix("s")
        members = {
            name: exercise
            for name, exercise in exercises().items()
            if name.rpartition("_")[0] in (argument, stem)
        }
        if not members:
            raise ValueError(f"there are no exercises of {argument!r}")
        return _USAGE.format(next(iter(members))) + "".join(starmap(_exercise, members.items()))


def _exercise(name: str, exercise: Exercise) -> str:
    solution = exercise.solution if isinstance(exercise.solution, str) else repr(exercise.solution)
    answer = f"<p><code>{escape(solution)}</code></p>" if len(solution) <= 300 and "<" not in solution else ""
    task = " ".join(filter(None, [exercise.task, exercise.form]))
    return (
        f"<div class='exercise' id='exercise-{name}'><p><code>{name}</code> <b>{escape(exercise.title)}.</b> "
        f"{escape(task)}</p><details><summary>Hint</summary><p>{escape(exercise.hint)}</p></details>"
        f"<details><summary>Solution</summary>{answer}<p>{escape(exercise.why)}</p></details></div>"
    )


def _readable(
    _app: Sphinx, what: str, _name: str, _thing: object, _options: object, lines: list[str]
) -> None:
    """Convert a docstring to reStructuredText: escape bars, and make references plain numbers.

    Indented formulas of a module keep their lines.
    """
    formulas = _indented(lines) if what == "module" else set()
    for i, line in enumerate(lines):
        if i in formulas:
            continue
        parts = re.split(r"(``.*?``)", re.sub(r"\[(\d)\]_", r"[\1]", line))
        # In a table a bar becomes another sign of the same width, so that columns stay aligned.
        bar = "\u2223" if re.search(r"``.*``   ", line) else r"\|"
        lines[i] = "".join(part if part.startswith("``") else part.replace("|", bar) for part in parts)
        lines[i] = re.sub(r"^(\s*)\.\. \[(\d)\] ", r"\1[\2] ", lines[i])
        if what == "module" and i and line and set(line) == {"-"} and len(line) == len(lines[i - 1]):
            lines[i - 1], lines[i] = f"**{lines[i - 1]}**", ""
    for i in sorted(formulas, reverse=True):
        if i - 1 not in formulas:
            lines[i:i] = ["::", ""]


def _indented(lines: list[str]) -> set[int]:
    """Return the places of indented lines after a blank line that belong to no list."""
    places: set[int] = set()
    above = ""  # the last line that is neither blank nor one of these
    for i, line in enumerate(lines):
        is_after = i > 0 and (i - 1 in places or not lines[i - 1].strip())
        if line.startswith("    ") and is_after and not re.match(r"(-|\*|\d+\.|\.\.) ", above):
            places.add(i)
        elif line.strip():
            above = line
    return places


def setup(app: Sphinx) -> dict[str, Any]:
    """Add formulas and directives to Sphinx, which calls this."""
    app.add_html_math_renderer("polyopt", (_inline, None), (_display, None))
    app.add_directive_to_domain("std", "program", _Program, override=True)  # Sphinx's own is of command lines
    app.add_directive("exercises", _Exercises)
    app.connect("autodoc-process-docstring", _readable, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
