"""Coefficients as plain numbers: fields by name (JSON, .npz), or a table (CSV, .npy).

A table has a row for each face, or one row or one column: the weights, the intercept last. A CSV table may
have the names of the features in its first line.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import real_array, real_number
from polyopt.check.check import plain
from polyopt.foreign.answer import Answer
from polyopt.text import visible

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["read_archive", "read_csv_table", "read_fields", "read_json", "read_table"]

LETTERS = {"alpha": "margin", "lam": "bound_above", "lam_star": "bound_below"}
_ROWS = ("margin", "bound_above", "bound_below")


def read_fields(fields: Mapping[str, object], source: str) -> Answer:
    """A solution by the names of its parts.

    Parameters
    ----------
    fields : mapping
        ``w`` (m,), or with a kernel (n,), and ``b``; or the faces ``W`` (K, m+1), the bias last. Multipliers
        where there are any: ``alpha``, ``lam`` and ``lam_star``, or ``multipliers`` by the names of the rows.
    source : str
        What they are from.

    Raises
    ------
    ValueError
        A name that is none of these, nothing at all, or numbers that are none.
    """
    known = ("w", "b", "W", "multipliers", *LETTERS)
    if unknown := [visible(str(name)) for name in fields if name not in known]:
        raise ValueError(f"{source} has a field {unknown[0]!r}; there are {', '.join(known)}")
    given = fields.get("multipliers", {})
    if not isinstance(given, Mapping) or not set(given) <= set(_ROWS):
        raise ValueError(f"the multipliers of {source} must be named {', '.join(_ROWS)}")
    multipliers = {LETTERS[name]: fields[name] for name in LETTERS if name in fields} | dict(given)
    found = {row: real_array(row, values) for row, values in multipliers.items()}
    answer = Answer(source, multipliers=found or None)
    if "W" in fields:
        return replace(answer, faces=np.atleast_2d(real_array("W", fields["W"])))  # type: ignore[arg-type]
    if "w" not in fields and not found:
        raise ValueError(f"{source} has neither w nor W nor multipliers")
    w = real_array("w", fields["w"]) if "w" in fields else None  # type: ignore[arg-type]
    if w is not None and w.ndim == 2 and 1 in w.shape:
        w = w.ravel()
    b = fields.get("b")
    if isinstance(b, Sequence | np.ndarray) and np.size(b) == 1:
        b = np.ravel(np.asarray(b))[0]
    if w is not None and w.ndim == 2:
        b = real_array("b", b, (len(w),))  # type: ignore[arg-type]
        return replace(answer, faces=np.column_stack([w, b]))
    return replace(answer, w=w, b=None if b is None else real_number("b", b))


def read_table(table: ArrayLike, source: str) -> Answer:
    """A solution as one table of numbers.

    Parameters
    ----------
    table : array_like of shape (m+1,), (K, m+1) or (m+1, 1)
        Weights, the intercept last.
    source : str
        What it is from.

    Raises
    ------
    ValueError
        Another shape, or numbers that are not finite.
    """
    numbers = real_array(source, table)
    if numbers.ndim == 2 and 1 in numbers.shape:
        numbers = numbers.ravel()
    if numbers.ndim not in (1, 2) or numbers.shape[-1] < 2:
        raise ValueError(f"{source} must hold weights and an intercept; its shape is {numbers.shape}")
    if numbers.ndim == 2:
        return Answer(source, faces=numbers)
    return Answer(source, numbers[:-1], float(numbers[-1]))


def read_csv_table(text: str, source: str, names: Sequence[str] | None) -> Answer:
    """A solution in a CSV table.

    Parameters
    ----------
    text : str
        The table.
    source : str
        What it is called.
    names : sequence of str, optional
        The features of the data, as which the columns of a table with a first line of names are ordered.

    Raises
    ------
    ValueError
        Rows of several lengths, texts among the numbers, or names that are not those of the data.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{source} is empty")
    delimiter = max(",;\t ", key=lines[0].count)
    rows = [
        [cell for cell in row if cell or delimiter != " "] for row in csv.reader(lines, delimiter=delimiter)
    ]
    head = (
        None
        if all(not isinstance(plain(cell), str) for cell in rows[0])
        else [cell.strip() for cell in rows.pop(0)]
    )
    if not rows or len({len(row) for row in rows}) != 1 or (head and len(head) != len(rows[0])):
        raise ValueError(f"{source} is no table of numbers: its rows are of several lengths, or it has none")
    try:
        numbers = np.array(rows, dtype=float)
    except ValueError:
        raise ValueError(f"{source} is no table of numbers, nor a model file that is known here") from None
    if head and names is not None:
        if sorted(head[:-1]) != sorted(names) or len(set(names)) < len(names):
            raise ValueError(
                f"the columns of {source} are not the features of the data, and the intercept last"
            )
        numbers = numbers[:, [*(head.index(name) for name in names), len(head) - 1]]
    return read_table(numbers, source)


def read_json(text: str, source: str) -> Answer:
    """A solution in JSON; see :func:`read_fields`, or a list as in :func:`read_table`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source} is no JSON ({str(error)[:80]})") from None
    if isinstance(found, list):
        return read_table(found, source)
    if not isinstance(found, dict):
        raise ValueError(f"{source} holds neither fields nor a list of numbers")
    return read_fields(found, source)


def read_archive(content: bytes, source: str) -> Answer:
    """A solution in a ``.npy`` or ``.npz`` file."""
    try:
        found = np.load(io.BytesIO(content), allow_pickle=False)
        parts = found if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}
    except Exception as error:  # a broken archive may raise anything
        raise ValueError(f"{source} is no file of numpy's that is safe to read ({str(error)[:80]})") from None
    return read_table(parts, source) if isinstance(parts, np.ndarray) else read_fields(parts, source)
