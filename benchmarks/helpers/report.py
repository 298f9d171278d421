"""All kept tables and pictures as one HTML page: ``python -m benchmarks report``."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from pandas.api.types import is_numeric_dtype

from benchmarks.helpers.kept import RESULTS, kept_table, paragraphs_of, pictures_of, shown
from polyopt.files import write_text
from polyopt.report.frame import Contents, framed, scrolling
from polyopt.text import escape

if TYPE_CHECKING:
    from benchmarks.papers.chapter import Chapter

PAGE = RESULTS / "report.html"

# Pictures are kept with white paper; in the dark they are turned over, hues back to where they were.
_STYLE = """
main { max-width: 1180px; }
section > p { max-width: 52rem; }
section code, nav code { font-size: 0.92em; background: var(--soft); padding: 0 0.2em; border-radius: 3px; }
section table { width: auto; min-width: 40%; margin: 0.6rem 0; }
section th { white-space: normal; max-width: 9rem; vertical-align: bottom; }
section th, section td { padding-left: 0.8rem; padding-right: 0.8rem; }
section table.wide { font-size: 0.7rem; }
section .wide td.text { white-space: normal; }
section .wide th, section .wide td { padding-left: 0.35rem; padding-right: 0.35rem; }
section figure { max-width: none; margin: 1rem 0; overflow-x: auto; }
section img { display: block; max-width: min(100%, 760px); min-width: min(620px, 180vw); }
tr.first td:first-child { font-weight: inherit; }
section table.papers { width: 100%; }
section .papers td { vertical-align: top; }
section .papers td:last-child { width: 14rem; min-width: 0; overflow-wrap: anywhere; }
@media screen and (prefers-color-scheme: dark) {
  section img { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen; }
}
@media print {
  section img { min-width: 0; max-width: 150mm; max-height: 150mm; }
  section table, section table.wide { font-size: 6.6pt; }
  section th, section td, section .wide th, section .wide td { padding: 0.1rem 0.3rem; }
}
"""


def write_report(docs: dict[str, str], path: Path = PAGE) -> Path:
    """Write the page of all that is kept.

    Parameters
    ----------
    docs : dict of str to str
        What each benchmark says of itself, in the order of the page.
    path : Path
        The file.
    """
    from benchmarks.papers import CHAPTERS

    contents = Contents()
    chapters = [_chapter(chapter, docs, contents) for chapter in CHAPTERS]
    sections = {name: _section(name, doc, docs, contents) for name, doc in docs.items()}
    written = [name for name, section in sections.items() if section]
    body = [
        "<h1>Benchmarks</h1>",
        "<p>One thread unless a table says otherwise. <i>CPU seconds</i> are of the processor; other work on "
        "the machine disturbs them less than seconds by the clock. All times move by some per cent from run "
        "to run. Under each table is the command that computed it, and on what.</p>",
        "<p>The first five chapters are the papers: what each claims and what we find, and where everything "
        "in it is, by the benchmarks below and by tests.</p>",
        contents.nav(),
        *chapters,
        *(sections[name] for name in written),
    ]
    if missing := [f"<code>{escape(name)}</code>" for name in docs if name not in written]:
        how = "<code>python -m benchmarks run NAME</code> computes a table and keeps it."
        body.append(f"<h2>Not kept here</h2><p>{', '.join(missing)}. {how}</p>")
    write_text(path, framed("polyopt: benchmarks", "\n".join(body), style=_STYLE, wide=True))
    return path


def _chapter(chapter: Chapter, names: Iterable[str], contents: Contents) -> str:
    """A paper: its claims, and its items."""
    anchor = "paper-" + re.sub(r"[^a-z0-9]+", "-", chapter.title.lower())
    words = f"<p class='quiet'>{escape(chapter.source.rstrip('.'))}.</p>"
    tables = "".join(_prose(table, names) for table in chapter.tables())
    return f"<section>{contents.heading(2, anchor, escape(chapter.title))}{words}{tables}</section>"


def _prose(table: pd.DataFrame, names: Iterable[str]) -> str:
    """A table of sentences; names of benchmarks lead there."""
    head = "".join(f"<th scope='col' class='text'>{escape(column)}</th>" for column in table.columns)
    rows = []
    for *cells, by in table.itertuples(index=False):
        link = f"<a href='#{by}'>{by}</a>" if by in names else escape(by)
        tds = "".join(
            f"<td class='text'>{cell}</td>" for cell in (*(_rich(str(c), names) for c in cells), link)
        )
        rows.append(f"<tr>{tds}</tr>")
    return scrolling(head, "".join(rows), "prose papers")


def _section(name: str, doc: str, names: Iterable[str], contents: Contents) -> str:
    """Title, words, table and pictures of one benchmark; nothing where there is nothing kept."""
    parts = []
    kept = kept_table(name)
    if kept is not None:
        table, (command, *facts) = kept
        parts += [
            _table(table),
            f"<p class='quiet'><code>{escape(command)}</code>{escape('; '.join(['', *facts]))}</p>",
        ]
    for image in pictures_of(name):
        data = base64.b64encode(image.read_bytes()).decode("ascii")
        parts.append(f"<figure><img alt='{escape(image.stem)}' src='data:image/png;base64,{data}'></figure>")
    if not parts:
        return ""
    others = [other for other in names if other != name]
    words = "".join(f"<p>{_rich(text, others)}</p>" for text in paragraphs_of(doc)[1])
    return f"<section>{contents.heading(2, name, _title(doc))}{words}{''.join(parts)}</section>"


def _title(doc: str) -> str:
    """The first line of a docstring."""
    return _rich(paragraphs_of(doc)[0])


def _rich(text: str, names: Iterable[str] = ()) -> str:
    """Words of a docstring as HTML: double backticks are code, and names of other benchmarks lead there."""
    text = re.sub(r"``([^`]+)``", r"<code>\1</code>", escape(text))
    for name in names:
        if "_" in name:  # the others are words like any other
            text = re.sub(rf"(?<![\w./]){name}(?![\w./<])", f"<a href='#{name}'>{name}</a>", text)
    return text


def _table(table: pd.DataFrame) -> str:
    """Numbers of a column have the same decimals; what the row above says as well is not said again."""
    styles = ["" if is_numeric_dtype(table[column]) else " class='text'" for column in table.columns]
    head = "".join(
        f"<th scope='col'{style}>{escape(str(column))}</th>"
        for column, style in zip(table.columns, styles, strict=True)
    )
    rows = []
    for row, same, is_first in shown(table):
        kind = " class='first'" if is_first else ""
        again = (f"<span class='again'>{escape(cell)}</span>" for cell in row[:same])
        cells = [*again, *map(escape, row[same:])]
        tds = "".join(f"<td{style}>{cell}</td>" for cell, style in zip(cells, styles, strict=True))
        rows.append(f"<tr{kind}>{tds}</tr>")
    return scrolling(head, "".join(rows), "wide" if len(styles) > 11 else "", sortable=True)
