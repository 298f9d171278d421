"""The tables that benchmarks leave, with the facts of the machine, and how they are shown."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from polyopt.files import write_text

RESULTS = Path(__file__).parents[1] / "results"
TABLES = RESULTS / "tables"

# Pictures that a benchmark draws, beside one of its own name.
_PICTURES = {"pictures": ("rmm", "cpm", "polyhedral", "l0")}


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
    write_text(TABLES / f"{name}.csv", facts + table.to_csv(index=False, float_format="%.6g"))


def kept_table(name: str) -> tuple[pd.DataFrame, list[str]] | None:
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


def pictures_of(name: str) -> list[Path]:
    """The pictures of a benchmark that are kept."""
    named = (RESULTS / f"{picture}.png" for picture in (name, *_PICTURES.get(name, ())))
    return [image for image in named if image.is_file()]


def paragraphs_of(doc: str) -> tuple[str, list[str]]:
    """The title of a benchmark, from its docstring, and the paragraphs below it."""
    title, _, rest = doc.strip().partition("\n")
    return title.rstrip("."), [text for text in re.split(r"\n\s*\n", rest.strip()) if text]


def groups(table: pd.DataFrame) -> int:
    """How many columns, from the left, say what a run of rows has in common.

    A column of words comes after them, or there is but one.
    """
    for place in range(len(table.columns) - 1, 0, -1):
        before = table.iloc[:, :place].astype(str)
        runs = (before != before.shift()).any(axis=1).sum()
        if (not is_numeric_dtype(table.iloc[:, place]) or place == 1) and runs <= 0.7 * len(table):
            return place
    return 0


def formatter(column: pd.Series) -> Callable[[object], str]:
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


def shown(table: pd.DataFrame) -> list[tuple[list[str], int, bool]]:
    """The cells of every row as they are written.

    With each, how many of its first cells the row above says as well, which are not said again, and whether
    a run of rows begins with it.
    """
    columns = [table[column] for column in table.columns]
    many, rows = groups(table), []
    last = [""] * len(columns)
    for row in map(list, zip(*[[*map(formatter(column), column)] for column in columns], strict=True)):
        same = 0
        while same < many and row[same] == last[same]:
            same += 1
        rows.append((row, same, same < many))
        last = row
    return rows
