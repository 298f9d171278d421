"""The named sets, as ``catalogue.toml`` describes them: their list, and a set's entry by its name.

Seven need no download: five are shipped with the package, two with scikit-learn. The others are fetched when
first used, from a local folder, the cache or the internet. A set is the same whichever way it comes.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Entry:
    """A named public data set, described without loading it."""

    name: str  #: the set's name for :func:`polyopt.datasets.load`
    about: str  #: meaning of the rows and the labels
    #: source, licence: origin and terms, as far as known.
    source: str
    licence: str
    #: n_samples, n_test: rows of the training part, and of the publisher's test part (0 if there is none).
    n_samples: int
    n_test: int
    n_features: int
    #: counts, counts_test: rows per label; ``None`` if the publisher does not state the number.
    counts: Mapping[int, int | None]
    counts_test: Mapping[int, int | None]
    target_names: tuple[str, ...]  #: meaning of each label, in the order of the sorted labels
    feature_names: tuple[str, ...] | None
    files: tuple[str, ...]  #: names (without .npz) a local file may have; the first is the set's own
    url: str  #: a person's address for the download; empty for the sets that need no download
    form: str  #: format of the publisher's files
    #: The publisher's files, each with its digest, "" if none is known; none if scikit-learn fetches and
    #: checks the set.
    downloads: Mapping[str, str]
    dtype: str  #: numpy's name of the element type of X

    @classmethod
    def of(cls, name: str, told: dict[str, Any]) -> "Entry":
        """Return the entry of a table of the catalogue."""
        unknown = [None] * len(told["labels"])
        counts, tests = told.get("counts", unknown), told.get("counts_test", unknown)
        n, n_test = (told.get(key, sum(some)) if None not in some else told.get(key, 0)
                     for key, some in (("n", counts), ("n_test", tests)))  # fmt: skip
        names = [each for text in told.get("feature_names", []) for each in expanded(text)]
        return cls(
            name, told["about"], told["source"], told["licence"], n, n_test, told["m"],
            dict(zip(told["labels"], counts, strict=True)),
            dict(zip(told["labels"], tests, strict=True)) if n_test else {},
            tuple(told["target_names"]), tuple(names) or None, tuple(told.get("files", [name])),
            told.get("url", ""), told.get("form", ""), told.get("downloads", {}),
            told.get("dtype", "float64"),
        )  # fmt: skip

    @property
    def is_checked(self) -> bool:
        """True if every file of the set is compared with a known digest when it is downloaded."""
        return all(self.downloads.values())

    @property
    def check(self) -> str:
        """Kind of the digest that downloaded files are compared with."""
        if not self.url:
            return "in the package"
        if not self.is_checked:
            return "no digest known"
        return "MD5" if any(digest.startswith("md5") for digest in self.downloads.values()) else "SHA-256"

    @property
    def description(self) -> str:
        """Rows, labels, source and licence, as text."""
        pairs = zip(sorted(self.counts), self.target_names, strict=True)
        labels = "; ".join(f"{label} = {meaning}" for label, meaning in pairs)
        checked = "" if self.is_checked else f"\nA download of it cannot be checked: {self.check}."
        return f"{self.about}\nLabels: {labels}.\nSource: {self.source}.\nLicence: {self.licence}.{checked}"


def expanded(text: str) -> list[str]:
    """Expand braces as a shell does: ``A{1..3}`` is A1, A2, A3, and ``{a,b}`` is a, b."""
    parts: list[Sequence[str]] = []
    for k, part in enumerate(text.replace("}", "{").split("{")):
        if k % 2 == 0:
            parts.append([part])
        elif ".." in part:
            first, last = part.split("..")
            parts.append([str(number) for number in range(int(first), int(last) + 1)])
        else:
            parts.append(part.split(","))
    return ["".join(each) for each in product(*parts)]


_TOLD = tomllib.loads((resources.files("polyopt.datasets") / "catalogue.toml").read_text(encoding="utf-8"))
ENTRIES = {name: Entry.of(name, told) for name, told in _TOLD.items()}


def names() -> tuple[str, ...]:
    """Return the names that :func:`polyopt.datasets.load` knows, those without a download first."""
    return tuple(ENTRIES)


def built_in() -> tuple[str, ...]:
    """Return the names of the sets that need no download, of the package and of scikit-learn."""
    return tuple(entry.name for entry in ENTRIES.values() if not entry.url)


def find_entry(name: str) -> Entry:
    """Return the entry of that name; ValueError, with a suggestion, if there is none."""
    if name in ENTRIES:
        return ENTRIES[name]
    close = difflib.get_close_matches(str(name), ENTRIES, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"name={name!r} is not a known data set.{hint} Known: {', '.join(ENTRIES)}")


def catalogue() -> "pd.DataFrame":
    """Return a frame of all named sets, indexed by ``name``, without loading any.

    Its columns are ``n`` and ``n_test`` (rows of the training and the publisher's test part), ``m``
    (columns), ``classes`` (their number), ``kept`` ("built in" or "fetched"), ``checked`` (the digest that a
    download is compared with: "SHA-256", "MD5", or "no digest known"), ``source`` and ``licence``.
    """
    import pandas as pd

    rows = [
        {
            "name": entry.name, "n": entry.n_samples, "n_test": entry.n_test, "m": entry.n_features,
            "classes": len(entry.counts), "kept": "fetched" if entry.url else "built in",
            "checked": entry.check, "source": entry.source, "licence": entry.licence,
        }
        for entry in ENTRIES.values()
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index("name")
