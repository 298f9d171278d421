"""What each page of the site still needs when the theme has made it: for screen readers, keys and lines.

Captions of the contents get the level of their heading, what scrolls sideways can be reached by the keyboard,
the two columns beside a page have names, and a point does not begin a line after a formula.
"""

from __future__ import annotations

import re
from pathlib import Path

from polyopt.report.mathml import held

__all__ = ["finish", "finished"]

_TITLE = '<article role="main" id="furo-main-content">'
_CHANGES = (
    ('class="caption" role="heading">', 'class="caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="The handbook">'),
    ('<aside class="toc-drawer">', '<aside class="toc-drawer" aria-label="On this page">'),
    ('<div class="table-wrapper docutils container">',
     '<div class="table-wrapper docutils container" tabindex="0">'),
    ("<pre>", '<pre tabindex="0">'),
)  # fmt: skip


def finished(page: str) -> str:
    """A page as it is shown.

    page: as the theme made it, HTML.
    """
    for before, after in _CHANGES:
        page = page.replace(before, after)
    if "<h1" not in page:  # the page of the search
        title = re.search(r"<title>([^<]*?)(?: - [^<]*)?</title>", page)
        page = page.replace(_TITLE, f"{_TITLE}<h1>{title[1] if title else 'The handbook'}</h1>", 1)
    return held(page)


def finish(site: Path) -> None:
    """Do so to all pages of a site.

    site: its folder.
    """
    for path in site.rglob("*.html"):
        path.write_text(finished(path.read_text(encoding="utf-8")), encoding="utf-8")
