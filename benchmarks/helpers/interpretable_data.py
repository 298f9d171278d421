"""The public sets of the comparison with interpretable models: numbers, categories, texts, as frames.

What :func:`polyopt.datasets.load` knows comes from there, the training and the test part together; two
further sets from the folder that ``POLYOPT_DATA`` names, or from OpenML through scikit-learn, which compares
OpenML's MD5; the messages, the SMS Spam Collection (Almeida, Gómez Hidalgo and Yamakami 2011, CC BY 4.0),
from UCI, by their SHA-256. Of a set with more than ROWS rows a stratified part of
as many is drawn once, by a seed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polyopt import datasets
from polyopt.datasets import DatasetUnavailable
from polyopt.datasets.loading import cache_folder, read_npz, retrieve

__all__ = ["ROWS", "SETS", "PublicSet", "drawn_rows", "framed", "load_set"]

ROWS = 14_000
"""Rows of a set at most; seven in ten of them train."""

TEXT = "text"
"""The name of the one column of a set of texts."""

_SEED = 0
_SMS = "https://archive.ics.uci.edu/static/public/228/sms+spam+collection.zip"
# Stated alike by several independent projects that pin it.
_SMS_DIGEST = "sha256:1587ea43e58e82b14ff1f5425c88e17f8496bfcdb67a583dbff9eefaf9963ce3"

_ADULT = {
    "workclass": "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov "
    "Without-pay",
    "education": "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate "
    "HS-grad Masters Preschool Prof-school Some-college",
    "marital-status": "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married "
    "Separated Widowed",
    "occupation": "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
    "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
    "Transport-moving",
    "relationship": "Husband Not-in-family Other-relative Own-child Unmarried Wife",
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "sex": "Female Male",
    "native-country": "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England "
    "France Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy "
    "Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal "
    "Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago United-States Vietnam Yugoslavia",
}
"""The words of each of adult's categories, in the order of their ranks."""

_COVTYPE = {
    "Wilderness_Area": tuple(f"Wilderness_Area_{i}" for i in range(4)),
    "Soil_Type": tuple(f"Soil_Type_{i}" for i in range(40)),
}
_OPENML = {"banana": "banana", "magic": "MagicTelescope"}


class PublicSet(NamedTuple):
    """A set: what is in it, where it is from, and which labels are the 1 of two classes."""

    kind: str  # ``"numbers"``, ``"mixed"`` (numbers and categories) or ``"text"``
    source: str  # what the loader calls it
    positive: tuple[int, ...] = (1,)  # the labels that are 1
    # of a column of ranks, the words of the categories; none: the numbers are the words
    words: Mapping[str, str] = {}
    folded: Mapping[str, tuple[str, ...]] = {}  # of a category, the columns of 0 and 1 that it is in the file


_numbers = partial(PublicSet, "numbers")
_mixed = partial(PublicSet, "mixed")

SETS: dict[str, PublicSet] = {
    "heart": _mixed("heart_statlog", (2,), dict.fromkeys(("chest_pain", "resting_ecg", "thal"), "")),
    "wbc": _numbers("wbc"),
    "bupa": _numbers("bupa", (2,)),
    "fourclass": _numbers("fourclass_scaled"),
    "pima": _numbers("pima"),
    "australian": _mixed("australian", (1,), dict.fromkeys(("A4", "A5", "A6", "A12"), "")),
    "svmguide1": _numbers("svmguide1"),
    "banana": _numbers("banana"),
    "german": _numbers("german_numer", (2,)),
    "wdbc": _numbers("wdbc", (0,)),
    "ionosphere": _numbers("ionosphere"),
    "sonar": _numbers("sonar"),
    "cod_rna": _numbers("cod_rna"),
    "magic": _numbers("magic"),
    "ijcnn1": _numbers("ijcnn1"),
    "adult": _mixed("adult", (1,), _ADULT),
    "covtype": _mixed("covtype", (2,), folded=_COVTYPE),
    "optdigits": _numbers("optdigits", (2,)),
    "sms": PublicSet("text", TEXT),
    "usps": _numbers("usps", (2,)),
}
"""The sets by name, those that take the least time first."""


def load_set(name: str) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """A set as a frame.

    Columns are of float64, of pandas categories of words, or the one column "text" of strings; categories,
    and numbers of ``adult``, may be missing. Labels are 0 and 1.
    """
    this = SETS[name]
    X, y = _messages() if this.kind == "text" else _table(this)
    drawn = drawn_rows(y)
    return X.iloc[drawn].reset_index(drop=True), y[drawn]


def _table(this: PublicSet) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """All rows of a set of numbers, with its categories."""
    return framed(this, *_arrays(this.source))


def framed(
    this: PublicSet,
    X: NDArray[np.float64],
    labels: NDArray[np.int64],
    names: tuple[str, ...] | None = None,
) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """A frame of the columns of an array, categories as words, and labels 0 and 1."""
    frame = pd.DataFrame(X, columns=list(names or (f"x{i}" for i in range(1, X.shape[1] + 1))), dtype=float)
    for column, words in this.words.items():
        frame[column] = _category(frame[column], words.split())
    for column, indicators in this.folded.items():
        which = frame[list(indicators)].to_numpy().argmax(axis=1)
        levels = [name.removeprefix(f"{column}_") for name in indicators]
        frame = frame.drop(columns=list(indicators))
        frame[column] = pd.Categorical.from_codes(which, categories=levels)
    return frame, np.isin(labels, this.positive).astype(np.int64)


def _category(ranks: pd.Series, words: list[str]) -> pd.Series:
    """Words for ranks from 0, or the numbers themselves as words; NaN stays missing."""
    if words:
        codes = ranks.fillna(-1).astype(int)
        return pd.Series(pd.Categorical.from_codes(codes, categories=words), index=ranks.index)
    values = np.unique(ranks.dropna())
    codes = np.searchsorted(values, ranks)
    return pd.Series(pd.Categorical.from_codes(codes, [f"{v:g}" for v in values]), index=ranks.index)


def _arrays(source: str) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[str, ...] | None]:
    """Samples, labels and names of columns, of the training part and the test part together."""
    if source in _OPENML:
        return *_openml(source), None
    found = datasets.load(source)
    parts = [(found.X, found.y)]
    if found.X_test is not None and found.y_test is not None:
        parts.append((found.X_test, found.y_test))
    X = np.vstack([part.toarray() if hasattr(part, "toarray") else part for part, _ in parts])
    return X.astype(float), np.concatenate([y for _, y in parts]), found.feature_names


def _openml(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A set that the polyopt loaders do not have: of the local folder, or of OpenML."""
    folder = os.environ.get("POLYOPT_DATA")
    if folder and (path := Path(folder) / f"{name}.npz").is_file():
        parts = read_npz(path)
        return np.asarray(parts.X, dtype=float), parts.y.astype(np.int64)
    from sklearn.datasets import fetch_openml

    try:
        X, y = fetch_openml(_OPENML[name], version=1, return_X_y=True, as_frame=False)
    except OSError as error:
        raise DatasetUnavailable(
            f"{name!r} is not on this machine and could not be downloaded from OpenML ({error}). Either "
            f"connect to the internet, or set POLYOPT_DATA to a folder that holds {name}.npz with X and y."
        ) from error
    # banana: 1, 2 (the rarer class is 2); magic: g (gamma) and h.
    return X.astype(float), np.isin(y, ("2", "g")).astype(np.int64)


def _messages() -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """5,574 messages, and 1 for spam: a line of the file is ``ham`` or ``spam``, a tab, and a message."""
    try:
        with ZipFile(retrieve(_SMS, cache_folder(), _SMS_DIGEST)) as archive:
            lines = archive.read("SMSSpamCollection").decode("utf-8").split("\n")
    except OSError as error:
        raise DatasetUnavailable(f"the messages could not be downloaded from {_SMS} ({error})") from error
    parts = [line.partition("\t") for line in lines if line]
    y = np.array([kind == "spam" for kind, _, _ in parts], dtype=np.int64)
    return pd.DataFrame({TEXT: [text for _, _, text in parts]}), y


def drawn_rows(y: NDArray[np.int64]) -> NDArray[np.intp]:
    """All rows in their order, or a stratified part of ROWS of them."""
    if len(y) <= ROWS:
        return np.arange(len(y))
    from sklearn.model_selection import train_test_split

    part, _ = train_test_split(np.arange(len(y)), train_size=ROWS, stratify=y, random_state=_SEED)
    return np.sort(part)
