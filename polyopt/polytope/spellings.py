"""Spellings of a category: True, "true" and 1 are one truth, and 2, 2.0 and "2" one number."""

import math
from collections.abc import Iterable

TRUE, FALSE = ("True", "true", "TRUE", "1", "1.0"), ("False", "false", "FALSE", "0", "0.0")


def other_spellings(texts: Iterable[str | None]) -> dict[str, str]:
    """Return the other spellings of a column's truths, each with the column's own text; None is a gap.

    The result is empty unless all texts are truths, each spelled in one way.

    >>> other_spellings(["False", "True"])["1"]
    'True'
    >>> other_spellings(["1", "2"])
    {}
    """
    known = {text for text in texts if text is not None}
    if not known <= {*TRUE, *FALSE}:
        return {}
    found: dict[str, str] = {}
    for spelled in (TRUE, FALSE):
        own = known.intersection(spelled)
        if len(own) > 1:
            return {}
        found |= {other: text for text in own for other in spelled if other != text}
    return found


def text_of_number(number: float) -> str:
    """Return the text of a number as a category: without a fraction if it is whole."""
    return str(int(number)) if float(number).is_integer() else str(number)


def number_spelled(text: str) -> float | None:
    """Return the number whose text as a category this is; None if there is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and text_of_number(number) == text else None
