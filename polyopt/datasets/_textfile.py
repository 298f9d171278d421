"""What the two readers of text files share: reading a number strictly."""

from __future__ import annotations

import math
import re

import numpy as np

from polyopt.datasets._dataset import Labels

# float() would also take "1_000", "nan" and digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = ("nan", "inf", "infinity")  # in small letters and without sign
_SHOWN = 60  # characters of a cell in a message


def quoted(text: str) -> str:
    """A text as a message quotes it: a long one by its beginning."""
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


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
