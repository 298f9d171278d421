"""Text from outside (labels, headers, names of files) as a person is to see it: shown, never interpreted."""

from __future__ import annotations

import html
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cut_short", "escape", "first_of", "in_picture", "visible"]

# Control and format characters (ESC, overrides of the direction of text, what has no width), halves of
# pairs (bytes of a file's name that are no UTF-8), and the separators of lines and paragraphs.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def visible(text: str, keep: str = "") -> str:
    r"""A text whose control characters are written out, such as ``\x1b`` and ``\u202e``.

    text: any text.
    keep: characters to leave as they are, such as a line's end in a text of several lines.

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
    """The first names, and the number of the others.

    names: any names, as they are to be shown.
    most: names that are shown.

    Examples
    --------
    >>> first_of(["age", "height", "weight"], 2)
    'age, height and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def cut_short(text: str, letters: int) -> str:
    """A text of at most so many letters, the last of them an ellipsis where some are missing.

    Examples
    --------
    >>> cut_short("sepal length", 8)
    'sepal l…'
    """
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def escape(text: str, quote: bool = True) -> str:
    """A text for an HTML page: markup is escaped, control characters are written out.

    text: any text; the ends of its lines and its tabs stay.
    quote: whether quotation marks are escaped too.
    """
    return html.escape(visible(text, keep="\n\t"), quote=quote)


def in_picture(text: str) -> str:
    r"""A text for matplotlib, to which ``$`` would begin a formula and ``_`` a name that no legend shows.

    text: any text.

    Examples
    --------
    >>> print(in_picture("5$ or 6$"))
    5\$ or 6\$
    """
    seen = visible(text).replace("$", r"\$")
    return f"\u2060{seen}" if seen.startswith("_") else seen
