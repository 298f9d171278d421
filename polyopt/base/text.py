"""Text from outside (labels, headers, names of files), escaped for terminals, pages and pictures."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence

# Control and format characters (ESC, overrides of the direction of text, what has no width), halves of
# pairs (bytes of a file's name that are no UTF-8), and the separators of lines and paragraphs.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def visible(text: str, keep: str = "") -> str:
    r"""Return a text whose control characters, but those to `keep`, are written out, such as ``\x1b``.

    Examples
    --------
    >>> print(visible("red\x1b[31m"))
    red\x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(
        repr(char)[1:-1] if unicodedata.category(char) in _UNSEEN and char not in keep else char
        for char in text
    )


def first_of(names: Sequence[str], most: int = 8) -> str:
    """Return the first names, and the number of the others.

    Examples
    --------
    >>> first_of(["age", "height", "weight"], 2)
    'age, height and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def cut_short(text: str, letters: int) -> str:
    """Return a text of at most so many letters, the last of them an ellipsis if some are missing.

    Examples
    --------
    >>> cut_short("sepal length", 8)
    'sepal l…'
    """
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def escape(text: str, quote: bool = True) -> str:
    """Return a text for an HTML page: markup is escaped, control characters are written out."""
    return html.escape(visible(text, keep="\n\t"), quote=quote)


def in_picture(text: str) -> str:
    r"""Return a text for matplotlib, to which ``$`` would begin a formula and ``_`` hides it from a legend.

    Examples
    --------
    >>> print(in_picture("5$ or 6$"))
    5\$ or 6\$
    """
    seen = visible(text).replace("$", r"\$")
    return f"\u2060{seen}" if seen.startswith("_") else seen
