"""The contents beside each page: made once for each folder of the site, then marked with the page itself.

Sphinx makes them anew for each page from all titles, and the theme reads what it made: of a site of 140 pages
this was two fifths of the whole build. Only the marks are of the page: its own line, and those above it.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx

__all__ = ["connect", "marked"]

_WHOLE = {"collapse": False, "titles_only": True, "maxdepth": -1, "includehidden": True}  # as furo asks
_LINE = re.compile(r'<li class="toctree-l(\d+)')


def marked(contents: str, link: str) -> str:
    """The contents of a folder as they stand beside one of its pages.

    link: where the page is, from its folder.
    """
    lines = contents.split("\n")
    own = f'<a class="reference internal" href="{link}">'
    places = [place for place, line in enumerate(lines) if own in line and _LINE.match(line)]
    for place in places:
        lines[place] = lines[place].replace(own, '<a class="current reference internal" href="#">', 1)
        _mark_above(lines, place)
    if places:
        lines[places[-1]] = re.sub(r'^(<li class="[^"]*)', r"\1 current-page", lines[places[-1]])
    return "\n".join(lines)


def _mark_above(lines: list[str], place: int) -> None:
    """Mark a line, those above it in the tree, and the lists in which they stand."""
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
    """Have the contents made so.

    app: the application; its theme is furo.
    """
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
