"""What the two readers of text files share: reading a number strictly."""

from __future__ import annotations

import math
import re

import numpy as np

from polyopt.datasets._dataset import Labels

# float() would also take "1_000", "nan" and digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def finite_number(text: str) -> float:
    """The number a text spells.

    Raises
    ------
    ValueError
        When it spells none, or one that is not finite; the message is a sentence fragment.
    """
    if not text:
        raise ValueError("is empty")
    if not _NUMBER.fullmatch(text):
        kind = "finite" if text.strip("+-").lower() in ("nan", "inf", "infinity") else "a number"
        raise ValueError(f"{text!r} is not {kind}")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is too large for a float")
    return value


def label_names(y: Labels) -> tuple[str, ...]:
    """The labels themselves as names, for files that say no more about them."""
    return tuple(str(label) for label in np.unique(y))
