"""Extension of Sphinx: formulas as MathML, and the directives ``program`` and ``exercises``.

Browsers draw MathML without a script or a network.

The contents beside each page are made once for each folder of the site, and the lines of the page and of its
parents are marked. Sphinx makes the contents of each page anew: on a site of 140 pages, two fifths of the
build.
"""

import posixpath
import re
from collections.abc import Callable
from functools import cache
from itertools import starmap
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

from polyopt.base.text import escape
from polyopt.exercises import exercises
from polyopt.exercises.exercise import Exercise
from polyopt.methods.programs import find_programs
from polyopt.report.programs import mathml, program_section

_WHOLE = {"collapse": False, "titles_only": True, "maxdepth": -1, "includehidden": True}  # as furo asks
_LINE = re.compile(r'<li class="toctree-l(\d+)')
_NAME = r"\*{0,2}(?:[a-z_]|[A-Z](?![a-z]))\w*(?: \([^)]*\))?"  # with its shape
_ARGUMENT = re.compile(rf"({_NAME}(?:, {_NAME})*|\w+(?:Error|Warning)(?:, \w+Error)*|Returns[\w, ]*): ")
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

    Indented formulas of a module keep their lines, and lines on arguments become a list.
    """
    formulas = _indented(lines) if what == "module" else set()
    if what != "module":
        _list_arguments(lines)
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


def _list_arguments(lines: list[str]) -> None:
    """Turn lines such as ``name: text``, with their indented continuations, into the items of a list."""
    is_item, above = False, ""
    for i, line in enumerate(lines):
        found = _ARGUMENT.match(line)
        if found and (is_item or not above.strip()):
            lines[i], is_item = f"- ``{found[1]}``: {line[found.end() :]}", True
        elif is_item and line.startswith("    "):
            lines[i] = f"  {line.strip()}"
        else:
            is_item = False
        above = line


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


def marked(contents: str, link: str) -> str:
    """Return the contents of a folder with the lines of one of its pages marked, whose path is `link`."""
    lines = contents.split("\n")
    reference = f'<a class="reference internal" href="{link}">'
    places = [place for place, line in enumerate(lines) if reference in line and _LINE.match(line)]
    for place in places:
        lines[place] = lines[place].replace(reference, '<a class="current reference internal" href="#">', 1)
        _mark_above(lines, place)
    if places:
        lines[places[-1]] = re.sub(r'^(<li class="[^"]*)', r"\1 current-page", lines[places[-1]])
    return "\n".join(lines)


def _mark_above(lines: list[str], place: int) -> None:
    """Mark a line, its parents in the tree, and their lists."""
    lines[place] = _current(lines[place])
    level = int(_LINE.match(lines[place])[1])  # type: ignore[index]
    for above in range(place - 1, -1, -1):
        found = _LINE.match(lines[above])
        if level == 1 and lines[above].startswith("<ul"):
            lines[above] = '<ul class="current">'
            return
        if found and int(found[1]) == level - 1:
            lines[above] = re.sub("<ul>$", '<ul class="current">', _current(lines[above]))
            level -= 1


def _current(line: str) -> str:
    line = re.sub(r'^(<li class="toctree-l\d+)(?! current)', r"\1 current", line)
    return re.sub(r'(<input aria-label="[^"]*") (?!checked)', r'\1 checked="" ', line)


def connect(app: Sphinx) -> None:
    """Make the contents once for each folder, in place of the theme furo."""
    from furo.navigation import get_navigation_tree

    makers: dict[str, Callable[..., str]] = {}
    made: dict[str, str] = {}

    def before(_app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
        makers[page] = context.pop("toctree")  # without it the theme makes none

    def after(app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
        context["toctree"] = makers.pop(page)
        folder = posixpath.dirname(page)
        if folder not in made:
            nowhere = posixpath.join(folder, "-")  # no page has this name
            made[folder] = get_navigation_tree(app.builder._get_local_toctree(nowhere, **_WHOLE))
        link = app.builder.get_target_uri(posixpath.basename(page))
        context["furo_navigation_tree"] = marked(made[folder], link)

    app.connect("html-page-context", before, priority=400)  # the theme's own is at 500
    app.connect("html-page-context", after, priority=600)


class _English(SearchEnglish):
    """English words for the search, with a cache of their stems."""

    stem = cache(SearchEnglish.stem)


def setup(app: Sphinx) -> dict[str, Any]:
    """Add formulas, directives and contents to Sphinx, which calls this."""
    app.add_html_math_renderer("polyopt", (_inline, None), (_display, None))
    app.add_directive_to_domain("std", "program", _Program, override=True)  # Sphinx's own is of command lines
    app.add_directive("exercises", _Exercises)
    app.add_search_language(_English)
    app.connect("autodoc-process-docstring", _readable, priority=400)  # before napoleon
    app.connect("builder-inited", connect)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
