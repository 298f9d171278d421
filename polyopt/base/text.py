"""Text from outside (labels, headers, names of files), escaped for terminals, HTML pages and plots.

The last functions are of a category's spellings: True, "true" and 1 are one truth, and 2, 2.0 and "2" one
number.
"""

import html
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Unicode categories: control characters (such as ESC), format characters (text direction, zero width),
# surrogates (bytes of a file's name that are not UTF-8), and separators of lines and of paragraphs.
_INVISIBLE_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")


def visible(text: str, keep: str = "") -> str:
    r"""Return a text with its invisible characters, except those in `keep`, as escapes such as ``\x1b``.

    Examples
    --------
    >>> print(visible("red\x1b[31m"))
    red\x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(
        repr(char)[1:-1] if unicodedata.category(char) in _INVISIBLE_CATEGORIES and char not in keep else char
        for char in text
    )


def first_of(names: Sequence[str], count: int = 8) -> str:
    """Return the first `count` names as a phrase, with the number of further names.

    Examples
    --------
    >>> first_of(["age", "height", "weight"], 2)
    'age, height and 1 more'
    """
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more


def cut_short(text: str, letters: int) -> str:
    """Return a text of at most this number of letters; a longer text is cut and ends with an ellipsis.

    Examples
    --------
    >>> cut_short("sepal length", 8)
    'sepal l…'
    """
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def escape(text: str, quote: bool = True) -> str:
    """Return a text for an HTML page: markup and invisible characters are escaped."""
    return html.escape(visible(text, keep="\n\t"), quote=quote)


def in_picture(text: str) -> str:
    r"""Return a text for matplotlib, with ``$``, which begins a formula, escaped.

    A text that begins with ``_`` would be left out of legends; it is prefixed by an invisible character.

    Examples
    --------
    >>> print(in_picture("5$ or 6$"))
    5\$ or 6\$
    """
    escaped = visible(text).replace("$", r"\$")
    return f"\u2060{escaped}" if escaped.startswith("_") else escaped


def plain(value: object) -> Any:
    """Return a value for JSON: arrays as lists, None for infinite numbers and NaN, other objects as text."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)


# -- spellings of a category -----------------------------------------------------------------------------

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
