"""The tables that benchmarks leave, each with the facts of the machine in its first line."""

from __future__ import annotations

import os
import platform
import re
from enum import Enum
from pathlib import Path

import pandas as pd

from polyopt.base.files import write_text

RESULTS = Path(__file__).parents[1] / "results"
TABLES = RESULTS / "tables"


def word_of(end: Enum) -> str:
    """How a status or a claim is called in a table: its name in small letters."""
    return end.name.lower().replace("_", " ")


def machine_facts() -> str:
    """What the figures of a run depend on, in a line."""
    facts = [f"Python {platform.python_version()}", platform.machine(), f"{os.cpu_count()} CPUs"]
    processors = Path("/proc/cpuinfo")  # of Linux
    named = re.search(r"model name\s*:\s*(.+)", processors.read_text()) if processors.is_file() else None
    return ", ".join([*facts, named[1].strip()] if named else facts)


def keep(name: str, table: pd.DataFrame, seconds: float) -> None:
    """Keep the table of a benchmark, which its ``run`` returned after so many seconds."""
    TABLES.mkdir(parents=True, exist_ok=True)
    facts = f"# python -m benchmarks run {name}; {machine_facts()}; {seconds:.0f} s\n"
    write_text(TABLES / f"{name}.csv", facts + table.to_csv(index=False, float_format="%.6g"))


def kept_table(name: str) -> tuple[pd.DataFrame, list[str]] | None:
    """The table of a benchmark, and what its first line says: the command, the machine, the seconds."""
    file = TABLES / f"{name}.csv"
    if not file.is_file():
        return None
    facts = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").split("; ")
    by_cells = (RESULTS / f"{name}.csv").is_file()
    took = f"its cells are kept in results/{name}.csv" if by_cells else f"took {facts[-1]}"
    return pd.read_csv(file, comment="#"), [*facts[:-1], took]
