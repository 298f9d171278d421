"""Text from outside (labels, headers, names of files), escaped for terminals, HTML pages and plots."""

import html
import unicodedata
from collections.abc import Sequence

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
