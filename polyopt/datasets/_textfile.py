"""What the two readers of text files share: finding the file, and reading a number strictly."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from polyopt.datasets._dataset import Labels

# float() would also take "1_000", "nan" and digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def existing_file(path: str | Path) -> Path:
    """The path, if a file is there.

    Raises
    ------
    FileNotFoundError
        When there is none.
    """
    found = Path(path)
    if not found.is_file():
        kind = "is a folder" if found.is_dir() else "does not exist"
        raise FileNotFoundError(f"cannot read {str(path)!r}: it {kind} (looked at {found.absolute()})")
    return found


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


def whole_if_possible(labels: Labels) -> Labels:
    """Float labels as int64 where every one of them is a whole number that int64 holds."""
    if np.all(labels == np.rint(labels)) and np.all(np.abs(labels) < 2**53):
        return labels.astype(np.int64)
    return labels


def label_names(y: Labels) -> tuple[str, ...]:
    """The labels themselves as names, for files that say no more about them."""
    return tuple(str(label) for label in np.unique(y))
