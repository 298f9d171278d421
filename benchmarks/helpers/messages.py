"""The SMS Spam Collection (UCI 228): 5,574 text messages, and which of them are spam.

T. A. Almeida, J. M. Gómez Hidalgo, A. Yamakami, Contributions to the study of SMS spam filtering: new
collection and results, ACM Symposium on Document Engineering, 2011. CC BY 4.0, as UCI states.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polyopt.datasets import DataFileError, DatasetUnavailable
from polyopt.datasets._download import cache_folder, retrieve

__all__ = ["TEXT", "as_messages", "messages"]

TEXT = "text"
"""The name of the one column."""

URL = "https://archive.ics.uci.edu/static/public/228/sms+spam+collection.zip"
FILE, LOCAL = "SMSSpamCollection", "sms_spam.npz"
COUNTS = {"ham": 4827, "spam": 747}


def messages() -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """The messages as one column of text, and 1 for spam.

    They come from ``sms_spam.npz`` (``text`` and ``y``) in the folder that ``POLYOPT_DATA`` names, or in the
    cache; else from UCI, checked by the SHA-256 of the archive, and are then put in the cache.
    """
    folder = os.environ.get("POLYOPT_DATA")
    cached = cache_folder() / LOCAL
    for path in (*([Path(folder) / LOCAL] if folder else []), cached):
        if path.is_file():
            with np.load(path) as kept:
                return _frame(kept["text"].tolist(), kept["y"])
    text, y = _fetched()
    cached.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(cached, text=np.array(text), y=y)
    return _frame(text, y)


def as_messages(content: bytes) -> tuple[list[str], NDArray[np.int64]]:
    """What the publisher's file says: a line is ``ham`` or ``spam``, a tab, and a message."""
    lines = [line.partition("\t") for line in content.decode("utf-8").split("\n") if line]
    found = {kind: sum(line[0] == kind for line in lines) for kind in COUNTS}
    if found != COUNTS or len(lines) != sum(COUNTS.values()):
        raise DataFileError(Path(FILE), f"holds {len(lines)} lines, {found}; expected {COUNTS}")
    return [text for _, _, text in lines], np.array([kind == "spam" for kind, _, _ in lines], dtype=np.int64)


def _fetched() -> tuple[list[str], NDArray[np.int64]]:
    with TemporaryDirectory() as folder:
        try:
            with ZipFile(retrieve(URL, Path(folder))) as archive:
                return as_messages(archive.read(FILE))
        except OSError as error:
            raise DatasetUnavailable(
                f"the SMS Spam Collection is not on this machine and could not be downloaded from {URL} "
                f"({error}). Either connect to the internet, or set POLYOPT_DATA to a folder that holds "
                f"{LOCAL}, made by numpy.savez(text=..., y=...)."
            ) from error


def _frame(text: list[str], y: NDArray[np.int64]) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    return pd.DataFrame({TEXT: text}), y.astype(np.int64)
