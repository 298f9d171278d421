"""A person's own data in the lab: a file on the command line, or what the page's file picker has read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import sparse

from polyopt.base.text import visible
from polyopt.datasets import DataFileError, Dataset, Source, is_svmlight, read_csv, read_svmlight
from polyopt.datasets.tables import first_cells

__all__ = ["MAX_TEXT", "columns_of", "read_own", "source_of"]

MAX_TEXT = 1_000_000
"""Characters of a file that the page may send."""


def source_of(told: object) -> Source:
    """Return a file that the page has read, from its ``name`` and ``text``."""
    if not isinstance(told, Mapping) or not all(isinstance(told.get(key), str) for key in ("name", "text")):
        raise ValueError("table must be an object with the name and the text of a file")
    if len(told["text"]) > MAX_TEXT:
        raise ValueError(
            f"the file has more than {MAX_TEXT} characters; polyopt lab --points FILE takes larger ones"
        )
    name = visible(told["name"][:100]).replace("/", " ") or "file"
    return Source(Path(name), told["text"].encode("utf-8", "replace"))


def columns_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a table that may hold the classes: their names, or their places where they have none."""
    source = source_of(told.get("table"))
    try:
        cells = [] if is_svmlight(source) else first_cells(source)
    except DataFileError:
        cells = []  # the reader of the whole table says what is wrong
    return {"kind": "columns", "names": [visible(cell)[:60] for cell in cells[:200]]}


def read_own(source: Source, target: object = None) -> tuple[Dataset, str]:
    """A table with all that the lab needs of it: gaps filled, texts made features.

    target: place or name of the column of the classes; the last one by default.
    Returns data: not yet prepared.
    Returns note: what was done about gaps and texts, as a clause; empty where there are none.
    """
    if is_svmlight(source):
        found = read_svmlight(source)
        return (replace(found, y=found.y.astype(str)) if found.y.dtype.kind == "f" else found), ""
    if target is not None and type(target) not in (int, str):
        raise ValueError("target must be the place or the name of a column")
    column = _place(source, target)
    found = read_csv(source, column, categorical="all", impute="median")
    gaps = 0 if sparse.issparse(found.X) else int(pd.isna(found.X).sum())
    notes = [f"{gaps} gap{'s' if gaps > 1 else ''} filled by the column's median or most frequent text"]
    notes = notes if gaps else []
    if found.X.dtype == object:
        notes.append("each text of a column a feature of its own")
    return found, ", ".join(notes)


def _place(source: Source, target: object) -> int | str:
    """A column by its name, where the file has it in its first row, else by its place."""
    if target is None:
        return -1
    if isinstance(target, int):
        return target
    name = str(target)
    if name not in first_cells(source) and re.fullmatch(r"-?\d{1,9}", name, re.ASCII):
        return int(name)
    return name
