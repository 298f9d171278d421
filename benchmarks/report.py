"""All kept tables and pictures as one page: ``python -m benchmarks report``."""

from __future__ import annotations

import base64
import os
import platform
import re
from collections.abc import Callable, Iterable
from html import escape
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from polyopt.report.frame import framed, scrolling

RESULTS = Path(__file__).parent / "results"
TABLES = RESULTS / "tables"
PAGE = RESULTS / "report.html"

# Pictures that a benchmark draws, beside one of its own name.
_PICTURES = {"pictures": ("rmm", "cpm", "polyhedral", "l0")}
_STYLE = """<style>
main { max-width: 1180px; }
nav ol { columns: 2; column-gap: 2.5rem; padding-left: 1.4rem; font-size: 0.9rem; }
nav li { break-inside: avoid; margin: 0 0 0.3rem; }
section > p { max-width: 52rem; }
section code, nav code { font-size: 0.92em; background: var(--soft); padding: 0 0.2em; border-radius: 3px; }
section table { width: auto; min-width: 40%; margin: 0.6rem 0; }
section th { white-space: normal; max-width: 9rem; vertical-align: bottom; }
section th, section td { padding-left: 0.8rem; padding-right: 0.8rem; }
section table.wide { font-size: 0.7rem; }
section .wide td.text { white-space: normal; }
section .wide th, section .wide td { padding-left: 0.35rem; padding-right: 0.35rem; }
section img { display: block; max-width: min(100%, 760px); margin: 1rem 0; background: #ffffff; }
tr.first td:first-child { font-weight: inherit; }
</style>"""


def machine_facts() -> str:
    """What the figures of a run depend on, in a line."""
    facts = [f"Python {platform.python_version()}", platform.machine(), f"{os.cpu_count()} CPUs"]
    processors = Path("/proc/cpuinfo")  # of Linux
    named = re.search(r"model name\s*:\s*(.+)", processors.read_text()) if processors.is_file() else None
    return ", ".join([*facts, named[1].strip()] if named else facts)


def keep(name: str, table: pd.DataFrame, seconds: float) -> None:
    """Keep the table of a benchmark, with the facts of the machine in its first line.

    Parameters
    ----------
    name : str
        The benchmark.
    table : DataFrame
        What its ``run`` returned.
    seconds : float
        How long it took.
    """
    TABLES.mkdir(parents=True, exist_ok=True)
    facts = f"# python -m benchmarks run {name}; {machine_facts()}; {seconds:.0f} s\n"
    (TABLES / f"{name}.csv").write_text(
        facts + table.to_csv(index=False, float_format="%.6g"), encoding="utf-8"
    )


def write_report(docs: dict[str, str], path: Path = PAGE) -> Path:
    """Write the page of all that is kept.

    Parameters
    ----------
    docs : dict of str to str
        What each benchmark says of itself, in the order of the page.
    path : Path
        The file.
    """
    sections = {name: _section(name, doc, docs) for name, doc in docs.items()}
    shown = [name for name, section in sections.items() if section]
    entries = [f"<li><a href='#{name}'>{_title(docs[name])}</a></li>" for name in shown]
    body = [
        _STYLE,
        "<h1>Benchmarks</h1>",
        "<p>One thread unless a table says otherwise. <i>CPU seconds</i> are of the processor; other work on "
        "the machine disturbs them less than seconds by the clock. All times move by some per cent from run "
        "to run. Under each table is the command that computed it, and on what.</p>",
        f"<nav><ol>{''.join(entries)}</ol></nav>",
        *(sections[name] for name in shown),
    ]
    if missing := [f"<code>{escape(name)}</code>" for name in docs if name not in shown]:
        how = "<code>python -m benchmarks run NAME</code> computes a table and keeps it."
        body.append(f"<h2>Not kept here</h2><p>{', '.join(missing)}. {how}</p>")
    path.write_text(framed("polyopt: benchmarks", "\n".join(body)), encoding="utf-8")
    return path


def _section(name: str, doc: str, names: Iterable[str]) -> str:
    """Title, words, table and pictures of one benchmark; nothing where there is nothing kept."""
    _, _, rest = doc.strip().partition("\n")
    parts = []
    kept = _kept(name)
    if kept is not None:
        table, (command, *facts) = kept
        parts += [
            _table(table),
            f"<p class='quiet'><code>{escape(command)}</code>{escape('; '.join(['', *facts]))}</p>",
        ]
    for picture in (name, *_PICTURES.get(name, ())):
        image = RESULTS / f"{picture}.png"
        if image.is_file():
            data = base64.b64encode(image.read_bytes()).decode("ascii")
            parts.append(f"<img alt='{escape(picture)}' src='data:image/png;base64,{data}'>")
    if not parts:
        return ""
    paragraphs = [text for text in re.split(r"\n\s*\n", rest.strip()) if text]
    others = [other for other in names if other != name]
    words = "".join(f"<p>{_rich(text, others)}</p>" for text in paragraphs)
    return f"<section><h2 id='{name}'>{_title(doc)}</h2>{words}{''.join(parts)}</section>"


def _kept(name: str) -> tuple[pd.DataFrame, list[str]] | None:
    """The table of a benchmark, and what its first line says of it."""
    file = TABLES / f"{name}.csv"
    if file.is_file():
        facts = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").split("; ")
        by_cells = (RESULTS / f"{name}.csv").is_file()
        took = f"its cells are kept in results/{name}.csv" if by_cells else f"took {facts[-1]}"
        return pd.read_csv(file, comment="#"), [*facts[:-1], took]
    if name == "rmm_table":
        from benchmarks import rmm_table

        # Its table takes hours: what of it is kept so far.
        if cells := rmm_table.kept_cells():
            so_far = rmm_table.as_printed(cells).to_csv(index=False)
            command, machine = f"python -m benchmarks run {name}", cells[-1]["machine"]
            return pd.read_csv(StringIO(so_far)), [command, machine, "not at its end yet"]
    return None


def _title(doc: str) -> str:
    """The first line of a docstring."""
    return _rich(doc.strip().splitlines()[0].rstrip("."))


def _rich(text: str, names: Iterable[str] = ()) -> str:
    """Words of a docstring as HTML: double backticks are code, and names of other benchmarks lead there."""
    text = re.sub(r"``([^`]+)``", r"<code>\1</code>", escape(text))
    for name in names:
        if "_" in name:  # the others are words like any other
            text = re.sub(rf"(?<![\w./]){name}(?![\w./<])", f"<a href='#{name}'>{name}</a>", text)
    return text


def _table(table: pd.DataFrame) -> str:
    """Numbers of a column have the same decimals; what the row above says as well is not said again."""
    columns = [table[column] for column in table.columns]
    styles = ["" if is_numeric_dtype(column) else " class='text'" for column in columns]
    head = "".join(
        f"<th{style}>{escape(str(column))}</th>" for column, style in zip(table.columns, styles, strict=True)
    )
    shown = [[*map(_formatter(column), column)] for column in columns]
    groups = _groups(table, styles)
    rows, last = [], [""] * len(columns)
    for row in map(list, zip(*shown, strict=True)):
        same = 0
        while same < groups and row[same] == last[same]:
            same += 1
        cells = ["" if place < same else escape(cell) for place, cell in enumerate(row)]
        kind = " class='first'" if same < groups else ""
        tds = "".join(f"<td{style}>{cell}</td>" for cell, style in zip(cells, styles, strict=True))
        rows.append(f"<tr{kind}>{tds}</tr>")
        last = row
    return scrolling(head, "".join(rows), "wide" if len(columns) > 11 else "")


def _groups(table: pd.DataFrame, styles: list[str]) -> int:
    """How many columns, from the left, say what a run of rows has in common.

    A column of words comes after them, or there is but one.
    """
    for place in range(len(styles) - 1, 0, -1):
        before = table.iloc[:, :place].astype(str)
        runs = (before != before.shift()).any(axis=1).sum()
        if (styles[place] or place == 1) and runs <= 0.7 * len(table):
            return place
    return 0


def _formatter(column: pd.Series) -> Callable[[object], str]:
    """How the values of a column are written."""
    if not is_numeric_dtype(column):
        return lambda value: "" if pd.isna(value) else str(value)
    sizes = column.abs()[np.isfinite(column) & (column != 0)]
    if sizes.empty or (sizes % 1 == 0).all():
        form = "{:,.0f}"
    elif str(column.name).endswith("%"):
        form = "{:.2f}"
    elif sizes.min() < 1e-4 or sizes.max() / sizes.min() > 1e6:
        form = "{:.1e}"
    else:
        # Three digits of the middle value and two of the smallest; four of all where they are of one size,
        # as values of an objective are.
        middle, least = np.floor(np.log10([sizes.median(), sizes.min()]))
        digits = 3 - least if 10 <= sizes.min() > sizes.max() / 20 else max(2 - middle, 1 - least)
        form = f"{{:,.{int(np.clip(digits, sizes.median() < 1000, 5))}f}}"
    return lambda value: "" if pd.isna(value) else form.format(value)
