"""All kept tables and pictures as one page: ``python -m benchmarks report``."""

from __future__ import annotations

import base64
import os
import platform
import re
from html import escape
from pathlib import Path

import pandas as pd

from polyopt.report.frame import framed, scrolling

RESULTS = Path(__file__).parent / "results"
TABLES = RESULTS / "tables"
PAGE = RESULTS / "report.html"

# Pictures that a benchmark draws, beside one of its own name.
_PICTURES = {"pictures": ("rmm", "cpm", "polyhedral", "l0")}


def machine_facts() -> str:
    """What the figures of a run depend on, in a line."""
    return f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs"


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
    body = [
        "<h1>Benchmarks</h1>",
        "<p>One thread unless a table says otherwise. Smaller times are better.</p>",
    ]
    missing = []
    for name, doc in docs.items():
        section = _section(name, doc)
        if section:
            body.append(section)
        else:
            missing.append(name)
    if missing:
        how = "<code>python -m benchmarks run NAME</code> computes a table and keeps it."
        body.append(f"<p>Not kept here: {escape(', '.join(missing))}. {how}</p>")
    path.write_text(framed("polyopt: benchmarks", "\n".join(body)), encoding="utf-8")
    return path


def _section(name: str, doc: str) -> str:
    """Title, words, table and pictures of one benchmark; nothing where there is nothing kept."""
    head, _, rest = doc.strip().partition("\n")
    parts = []
    file = TABLES / f"{name}.csv"
    if file.is_file():
        facts = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        parts += [
            _table(pd.read_csv(file, comment="#")),
            f"<p><small><code>{escape(facts)}</code></small></p>",
        ]
    for picture in (name, *_PICTURES.get(name, ())):
        image = RESULTS / f"{picture}.png"
        if image.is_file():
            data = base64.b64encode(image.read_bytes()).decode("ascii")
            image_tag = (
                f"<img style='max-width: 100%' alt='{escape(picture)}' src='data:image/png;base64,{data}'>"
            )
            parts.append(f"<p>{image_tag}</p>")
    if not parts:
        return ""
    words = "".join(f"<p>{escape(text)}</p>" for text in re.split(r"\n\s*\n", rest.strip()) if text)
    return f"<h2 id='{name}'>{escape(head)}</h2>{words}{''.join(parts)}"


def _table(table: pd.DataFrame) -> str:
    head = "".join(f"<th>{escape(str(column))}</th>" for column in table.columns)
    rows = [
        "<tr>" + "".join(f"<td>{escape(_shown(value))}</td>" for value in row) + "</tr>"
        for row in table.itertuples(index=False)
    ]
    return scrolling(head, "".join(rows))


def _shown(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value)
