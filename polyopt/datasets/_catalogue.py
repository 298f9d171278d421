"""The list of named sets, and the way to find one by its name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from polyopt.datasets._built_in import SHIPPED, WITH_SKLEARN
from polyopt.datasets._entry import Entry
from polyopt.datasets._public import FETCHED

if TYPE_CHECKING:
    import pandas as pd

ENTRIES = {entry.name: entry for entry in (*SHIPPED, *WITH_SKLEARN, *FETCHED)}


def names() -> tuple[str, ...]:
    """Names that :func:`polyopt.datasets.load` knows, those that need no download first."""
    return tuple(ENTRIES)


def built_in() -> tuple[str, ...]:
    """Names of the sets that need no download: those of the package, and of scikit-learn."""
    return tuple(entry.name for entry in (*SHIPPED, *WITH_SKLEARN))


def find_entry(name: str) -> Entry:
    """The entry of that name.

    ValueError: when there is none; the message lists those there are.
    """
    if name in ENTRIES:
        return ENTRIES[name]
    close = difflib.get_close_matches(str(name), ENTRIES, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"name={name!r} is not a known data set.{hint} Known: {', '.join(ENTRIES)}")


def catalogue() -> pd.DataFrame:
    """Every named set on one line, without loading any.

    Returns
    -------
    DataFrame
        Indexed by ``name``: ``n`` (training rows), ``n_test`` (rows of the publisher's test part, 0 when
        there is none), ``m`` (columns), ``classes`` (how many), ``kept`` ("built in" or "fetched"),
        ``checked`` (what a download is compared with: "SHA-256", "MD5", or "no digest known"), ``source`` and
        ``licence``.
    """
    import pandas as pd

    fetched = {entry.name for entry in FETCHED}
    rows = [
        {
            "name": entry.name,
            "n": entry.n_samples,
            "n_test": entry.n_test,
            "m": entry.n_features,
            "classes": len(entry.counts),
            "kept": "fetched" if entry.name in fetched else "built in",
            "checked": entry.check,
            "source": entry.source,
            "licence": entry.licence,
        }
        for entry in ENTRIES.values()
    ]
    return pd.DataFrame(rows).set_index("name")
