"""`Entry`: what is known beforehand about a named data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from polyopt.datasets._download import DIGESTS

UCI = "CC BY 4.0, as UCI states for the sets it hosts"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
UCI_FILES = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


@dataclass(frozen=True)
class Entry:
    """A named public data set, described without loading it.

    name: what :func:`polyopt.datasets.load` calls it.
    about: what the rows and the labels are.
    source, licence: where it comes from and under which terms, as far as known.
    n_samples: rows of the training part, the only one where there is no test part.
    n_features: number of columns m.
    counts: rows per label of the training part; ``None`` where the publisher does not state it.
    counts_test: rows per label of the test part.
    n_test: rows of the test part; 0 when there is none.
    target_names: what each label means, in the order of the sorted labels.
    feature_names: names of the columns.
    files: names (without .npz) a local file may have; the first is the set's own.
    url: where a person would download it; empty for the sets that need no download.
    downloads: names of the publisher's files, of a set that is fetched; none where scikit-learn fetches and
        checks it.
    dtype: numpy's name of the element type of X.
    """

    name: str
    about: str
    source: str
    licence: str
    n_samples: int
    n_features: int
    counts: Mapping[int, int | None]
    target_names: tuple[str, ...]
    counts_test: Mapping[int, int | None] = field(default_factory=dict)
    n_test: int = 0
    feature_names: tuple[str, ...] | None = None
    files: tuple[str, ...] = ()
    url: str = ""
    downloads: tuple[str, ...] = ()
    dtype: str = "float64"

    @property
    def is_checked(self) -> bool:
        """Whether its files are compared with digests that were known beforehand."""
        return all(file in DIGESTS for file in self.downloads)

    @property
    def check(self) -> str:
        """What its files are compared with when they are downloaded."""
        if not self.url:
            return "in the package"
        kinds = {DIGESTS[file].partition(":")[0] for file in self.downloads if file in DIGESTS}
        if not self.is_checked:
            return "no digest known"
        return "MD5" if "md5" in kinds else "SHA-256"

    @property
    def description(self) -> str:
        """What the rows are, the labels, source and licence, as text."""
        labels = "; ".join(
            f"{label} = {meaning}"
            for label, meaning in zip(sorted(self.counts), self.target_names, strict=True)
        )
        checked = "" if self.is_checked else f"\nA download of it cannot be checked: {self.check}."
        return f"{self.about}\nLabels: {labels}.\nSource: {self.source}.\nLicence: {self.licence}.{checked}"


def pixels(rows: int, columns: int) -> tuple[str, ...]:
    """Column names of a flattened image, row by row."""
    return tuple(f"pixel_{r}_{c}" for r in range(rows) for c in range(columns))


def named(columns: str) -> tuple[str, ...]:
    """Column names that stand in one text, with spaces between them."""
    return tuple(columns.split())


def single(url: str) -> dict[str, Any]:
    """Where a set is that is one file, and the name of that file."""
    return {"url": url, "downloads": (url.rpartition("/")[2],)}
