"""Numbers and labels as text files spell them.

Numbers are read strictly. Labels become numbers if nothing is lost by it, and stay texts otherwise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from unicodedata import normalize

import numpy as np

from polyopt.datasets._dataset import Labels

# float() would also take "1_000", "nan" and digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = ("nan", "inf", "infinity")  # in small letters and without sign
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,99})", re.ASCII)  # more digits are no number that anything holds
_LIMITS = np.iinfo(np.int64)


def quoted(text: str) -> str:
    """A text as a message quotes it: a long one by its beginning."""
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}..."


def is_like_number(text: str) -> bool:
    """Whether a text spells a number, be it one that no float holds."""
    return _NUMBER.fullmatch(text) is not None or text.strip("+-").lower() in _NOT_FINITE


def finite_number(text: str) -> float:
    """The number a text spells.

    ValueError: when it spells none, or one that is not finite; the message is a sentence fragment.
    """
    if not text:
        raise ValueError("is empty")
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not {'finite' if is_like_number(text) else 'a number'}")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{quoted(text)} is too large for a float")
    return value


def label_names(y: Labels) -> tuple[str, ...]:
    """The labels themselves as names, for files that say no more about them."""
    return tuple(str(label) for label in np.unique(y))


def labels_of_text(cells: list[str]) -> Labels:
    """Labels of a table: int64 where all are plain whole numbers and stay as many, else texts.

    ``-1`` and ``+1`` are numbers; ``001``, ``1.0`` and ``-0`` stay as they are, and so does all else in
    a file that holds one of them.

    Parameters
    ----------
    cells : list of str
        The labels' texts, one per row.
    """
    different = set(cells)
    if all(_WHOLE.fullmatch(cell) and cell != "-0" for cell in different):
        numbers = {cell: int(cell) for cell in different}
        if len(set(numbers.values())) == len(different) and all(map(_fits, numbers.values())):
            return np.array([numbers[cell] for cell in cells], dtype=np.int64)
    return np.array(cells, dtype=str)


def alike(cells: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of labels that are two texts and may be meant as one: one number, or one word but for its case.

    cells: labels.
    """
    first: dict[Decimal | str, str] = {}
    pairs = []
    for cell in sorted(set(cells)):
        key: Decimal | str = " ".join(normalize("NFKC", cell).casefold().split())
        if len(cell) < 50 and _NUMBER.fullmatch(cell):
            key = Decimal(cell)
        pairs += [(first[key], cell)] if key in first else []
        first.setdefault(key, cell)
    return pairs


def labels_of_numbers(words: list[str]) -> Labels:
    """Labels of a format whose labels are numbers: ``+1``, ``1`` and ``1.0`` are one.

    int64 where all are whole numbers that it holds; float64 where those stay as many as there are
    numbers; else each number's own text.
    """
    exact = {word: Decimal(word) for word in set(words)}
    numbers = set(exact.values())
    if all(number == number.to_integral_value() and _fits(int(number)) for number in numbers):
        return np.array([int(exact[word]) for word in words], dtype=np.int64)
    if len({float(number) for number in numbers}) == len(numbers):
        return np.array([float(exact[word]) for word in words])
    return np.array([format(exact[word].normalize(), "f") for word in words], dtype=str)


def _fits(number: int) -> bool:
    return _LIMITS.min <= number <= _LIMITS.max


def as_known(labels: Labels, known: Labels) -> Labels:
    """Labels written as those that a model knows, where they say the same.

    The number 1 of one file is the text ``1`` of another, whose other labels are no numbers.

    Parameters
    ----------
    labels, known : array
        Labels of a file, and of the model.

    Returns
    -------
    array
        Those of the file; with the model's own where the texts are the same, or where one side has
        numbers and the other their texts.
    """
    if labels.dtype.kind == known.dtype.kind or {labels.dtype.kind, known.dtype.kind} <= set("iuf"):
        return labels
    by_text = {str(label): label for label in known.tolist()}
    if labels.dtype.kind in "iuf":
        by_number = {
            number: label for text, label in by_text.items() if (number := _number(text)) is not None
        }
        found = [by_text.get(str(one), by_number.get(one, one)) for one in labels.tolist()]
    else:
        found = [by_text.get(one, by_text.get(_plain(one), one)) for one in labels.tolist()]
    return np.array(found, dtype=object)


def _number(text: str) -> float | int | None:
    try:
        return int(text) if _WHOLE.fullmatch(text) else float(text)
    except ValueError:
        return None


def _plain(text: str) -> str:
    """A whole number without its plus sign."""
    return str(int(text)) if _WHOLE.fullmatch(text) else text
