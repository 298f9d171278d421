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
    """A claim of a paper."""

    where: str  # where the paper says it
    says: str  # what it says, in a sentence
    by: str  # what shows it: a benchmark, or a test, as ``file.py::function``
    # gives whether we see it, and the figures, from kept tables; None where the test is the proof
    seen: Callable[[], Seen] | None = None
    remark: str = ""  # what is to be added: the likely reason where the paper and we disagree
    tested: str = "yes"  # what the test shows, if it is the proof: that it is so, or that it is not

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
    """Something that the paper has: a program, a table, a figure, a protocol, a remark."""

    what: str  # what it is
    by: str  # the command or the test that has it
    # gives its state and the details, from kept tables; None where the test is all there is to it
    seen: Callable[[], Seen] | None = None
    remark: str = ""  # what is to be added

    def row(self) -> list[str]:
        """Its line."""
        return [self.what, *_answer(self.seen, self.remark, "tested"), self.by]


@dataclass(frozen=True)
class Chapter:
    """A paper."""

    title: str  # what it is called here, and where it appeared
    source: str
    claims: tuple[Claim, ...]  # what it claims
    items: tuple[Item, ...]  # what it has

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

    Raise NotKeptError if there is none.
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
