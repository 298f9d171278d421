"""What a chapter is made of: claims with what we see of them, and items with their state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from benchmarks.helpers.kept import kept_table

__all__ = [
    "Chapter",
    "Claim",
    "Item",
    "NotKeptError",
    "Seen",
    "geometric_mean",
    "mostly",
    "shared",
    "table_of",
    "verdict",
]

Seen = tuple[str, str]  # whether we see it, and by which figures


class NotKeptError(LookupError):
    """A table that is not kept, or not its part that is asked for."""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Attributes
    ----------
    where : str
        Where the paper says it.
    says : str
        What it says, in a sentence.
    by : str
        What shows it: a benchmark, or a test, as ``file.py::function``.
    seen : callable, optional
        Gives whether we see it, and the figures, from kept tables; None where the test is the proof.
    remark : str
        What is to be added: the likely reason where the paper and we disagree.
    tested : str
        What the test shows, if it is the proof: that it is so, or that it is not.
    """

    where: str
    says: str
    by: str
    seen: Callable[[], Seen] | None = None
    remark: str = ""
    tested: str = "yes"

    def row(self) -> list[str]:
        """Its line."""
        return [
            self.where,
            self.says,
            *_answer(self.seen, self.remark, f"{self.tested}, by a test"),
            self.by,
        ]


@dataclass(frozen=True)
class Item:
    """Something that the paper has: a program, a table, a figure, a protocol, a remark.

    Attributes
    ----------
    what : str
        What it is.
    by : str
        The command or the test that has it.
    seen : callable, optional
        Gives its state and the details, from kept tables; None where the test is all there is to it.
    remark : str
        What is to be added.
    """

    what: str
    by: str
    seen: Callable[[], Seen] | None = None
    remark: str = ""

    def row(self) -> list[str]:
        """Its line."""
        return [self.what, *_answer(self.seen, self.remark, "tested"), self.by]


@dataclass(frozen=True)
class Chapter:
    """A paper.

    Attributes
    ----------
    title, source : str
        What it is called here, and where it appeared.
    claims : tuple of Claim
        What it claims.
    items : tuple of Item
        What it has.
    """

    title: str
    source: str
    claims: tuple[Claim, ...]
    items: tuple[Item, ...]

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Claims and items, as they are shown."""
        claims = pd.DataFrame(
            [claim.row() for claim in self.claims],
            columns=["where", "the paper says", "seen", "what we find", "by"],
        )
        items = pd.DataFrame(
            [item.row() for item in self.items], columns=["item", "state", "what there is", "by"]
        )
        return claims, items


def _answer(seen: Callable[[], Seen] | None, remark: str, tested: str) -> list[str]:
    if seen is None:
        return [tested, remark]
    try:
        word, figures = seen()
    except NotKeptError as missing:
        return ["not computed", f"{missing}"]
    return [word, " ".join(part for part in (figures, remark) if part)]


def table_of(name: str) -> pd.DataFrame:
    """The kept table of a benchmark.

    Raises
    ------
    NotKeptError
        There is none.
    """
    kept = kept_table(name)
    if kept is None:
        raise NotKeptError(f"The table of {name} is not kept here.")
    return kept[0]


def verdict(share: float) -> str:
    """Yes where a claim holds in all cases, partly where in some of them, no where in none."""
    return "yes" if share == 1.0 else "partly" if share > 0.0 else "no"


def mostly(share: float) -> str:
    """Yes where a claim of most cases holds in more than half of them."""
    return "yes" if share > 0.5 else "no"


def shared(count: int, of: int) -> str:
    """So many of so many."""
    return f"{count} of {of}"


def geometric_mean(values: pd.Series) -> float:
    """Of positive values."""
    return float(values.astype(float).prod() ** (1 / len(values)))
