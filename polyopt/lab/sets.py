"""Data for the lab: named sets and a person's own files, in two features or the principal plane."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from formulations.language.toy_data import two_blobs
from formulations.language.types import Array
from polyopt.base.text import visible
from polyopt.datasets import (
    DataFileError,
    Dataset,
    Source,
    catalogue,
    fit_preparation,
    is_svmlight,
    load,
    make_polytope,
    make_two_lines,
    read_csv,
    read_svmlight,
)
from polyopt.datasets.tables import first_cells
from polyopt.lab.state import MAX_POINTS, machines, plain
from polyopt.methods.registry import DEFAULT_METHOD

MAX_TEXT = 1_000_000
"""Characters of a file that the page may send."""


def source_of(told: object) -> Source:
    """Return a file that the page has read, from its ``name`` and ``text``."""
    if not isinstance(told, Mapping) or not all(isinstance(told.get(key), str) for key in ("name", "text")):
        raise ValueError("table must be an object with the name and the text of a file")
    if len(told["text"]) > MAX_TEXT:
        larger = "polyopt lab --points FILE takes larger ones"
        raise ValueError(f"the file has more than {MAX_TEXT} characters; {larger}")
    name = visible(told["name"][:100]).replace("/", " ") or "file"
    return Source(Path(name), told["text"].encode("utf-8", "replace"))


def columns_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """List the columns of a table that may hold the classes."""
    source = source_of(told.get("table"))
    try:
        cells = [] if is_svmlight(source) else first_cells(source)
    except DataFileError:
        cells = []  # the reader of the whole table says what is wrong
    return {"kind": "columns", "names": [visible(cell)[:60] for cell in cells[:200]]}


def read_own(source: Source, target: object = None) -> tuple[Dataset, str]:
    """Read a table with its classes in the column `target`, and tell in a clause of its gaps and texts."""
    if is_svmlight(source):
        found = read_svmlight(source)
        return (replace(found, y=found.y.astype(str)) if found.y.dtype.kind == "f" else found), ""
    if target is not None and type(target) not in (int, str):
        raise ValueError("target must be the place or the name of a column")
    column: Any = -1 if target is None else target
    if isinstance(column, str) and column not in first_cells(source):
        column = int(column) if re.fullmatch(r"-?\d{1,9}", column, re.ASCII) else column
    found = read_csv(source, column, categorical="all", impute="median")
    gaps = 0 if sparse.issparse(found.X) else int(pd.isna(found.X).sum())
    notes = []
    if gaps:
        notes = [f"{gaps} gap{'s' if gaps > 1 else ''} filled by the column's median or most frequent text"]
    if found.X.dtype == object:
        notes.append("each text of a column a feature of its own")
    return found, ", ".join(notes)


def _of_sklearn(name: str, **settings: Any) -> Callable[[int, int], Any]:
    """Return a maker of n samples from a seed, by a function of sklearn.datasets, imported at its call."""

    def make(n: int, seed: int) -> Any:
        return getattr(import_module("sklearn.datasets"), name)(n_samples=n, random_state=seed, **settings)

    return make


_N_POINTS = 150  # points of a set, unless a client asks for another number
_MADE: dict[str, tuple[str, Callable[[int, int], Any]]] = {
    "blobs": ("Two Gaussian classes", lambda n, seed: two_blobs(n, 2, seed, 1.6)),
    "two-lines": ("Two lines: what a relative margin is for",
                  lambda n, seed: make_two_lines(n, scale=3.0, random_state=seed)),
    "moons": ("Two moons", _of_sklearn("make_moons", noise=0.2)),
    "circles": ("A circle within a circle", _of_sklearn("make_circles", noise=0.1, factor=0.5)),
    "polytope": ("Inside and outside of a polytope",
                 lambda n, seed: make_polytope(n, 2, 4, random_state=seed)[:2]),
    "quantiles": ("Inner and outer half of a Gaussian", _of_sklearn("make_gaussian_quantiles", n_classes=2)),
}  # fmt: skip
"""Sets that are drawn at random: a title, and what makes n samples from a seed."""


def datasets() -> list[dict[str, Any]]:
    """Return the sets that can be loaded: those that are drawn, and the built-in ones of two classes."""
    found: list[dict[str, Any]] = [
        {"name": name, "title": title, "samples": None, "features": None}
        for name, (title, _) in _MADE.items()
    ]
    frame = catalogue()
    built_in = frame[(frame["kept"] == "built in") & (frame["classes"] == 2)]
    for name, row in built_in.iterrows():
        found.append({"name": name, "title": str(name), "samples": int(row["n"]), "features": int(row["m"])})
    return plain(found)


def dataset(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return points of a named set, or of a file that the page has read."""
    name, features = told.get("name"), told.get("features")
    most, seed = told.get("most", _N_POINTS), told.get("seed", 0)
    if type(most) is not int or not 4 <= most <= MAX_POINTS:
        raise ValueError(f"most must be a whole number from 4 to {MAX_POINTS}")
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise ValueError("seed must be a whole number from 0 to 2147483647")
    if told.get("table") is not None:
        whole, note = read_own(source_of(told["table"]), told["table"].get("target"))
        return points_of(whole, most, seed, features, note)
    known = [one["name"] for one in datasets()]
    if name not in known:
        raise ValueError(f"data set {str(name)[:40]!r} is not known. Known: {', '.join(known)}")
    if name in _MADE:
        X, y = _MADE[name][1](most, seed)
        return _told(str(name), X, y, None, ("-1", "+1"), features, most, seed)
    found = load(str(name))
    return _told(str(name), found.X, found.y, found.feature_names, found.target_names, features, most, seed)


def points_of(
    found: Dataset, most: int = _N_POINTS, seed: int = 0, features: object = None, note: str = ""
) -> dict[str, Any]:
    """Return points of a data set of two classes in two features, by place, or its principal plane.

    Of more than `most`, some are drawn at random; `note` is a clause on what was done to the set before.
    """
    whole, _ = fit_preparation(found)
    told = _told(found.name, whole.X, whole.y, whole.feature_names, whole.target_names, features, most, seed)
    return {**told, "sentence": f"{told['sentence'][:-1]}; {note}."} if note else told


def _told(
    name: str, X: Any, y: ArrayLike, columns: tuple[str, ...] | None, classes: tuple[str, ...],
    features: object, most: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    labels, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(labels) != 2:
        many = "class" if len(labels) == 1 else "classes"
        raise ValueError(f"{name} has {len(labels)} {many} in that column; the lab shows sets of two")
    if X.shape[1] < 2:
        many = "feature" if X.shape[1] == 1 else "features"
        raise ValueError(f"{name} has {X.shape[1]} {many} beside the classes; the lab shows two")
    names = [f"x{j + 1}" for j in range(X.shape[1])] if columns is None else list(columns)
    plane, axes, words = _plane(X, names, features, seed)
    kept = np.arange(len(codes))
    if len(kept) > most:
        kept = _some_of_each(codes, most, seed)
        words = f"{most} of {len(codes)} samples, drawn at random; {words}"
    points = [[u, v, 2 * int(c) - 1] for (u, v), c in zip(plane[kept].tolist(), codes[kept], strict=True)]
    return {
        "kind": "dataset", "name": name, "points": points, "axes": axes, "classes": [str(c) for c in classes],
        "columns": names[:200], "sentence": f"{words[0].upper()}{words[1:]}.",
    }  # fmt: skip


def _some_of_each(codes: NDArray[np.intp], most: int, seed: int) -> NDArray[np.intp]:
    """Some samples at random, both classes among them."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(codes))
    first = [int(order[np.flatnonzero(codes[order] == code)[0]]) for code in (0, 1)]
    rest = order[~np.isin(order, first)][: most - 2]
    return np.sort(np.concatenate([first, rest]))


def _plane(X: Any, names: list[str], features: object, seed: int) -> tuple[Array, list[str], str]:
    """Return two coordinates of each sample, scaled, their names, and what they are."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=not sparse.issparse(X)).set_output(transform="default")
    if not sparse.issparse(X):
        table = np.asarray(X, dtype=float)  # of any size: a column is moved and multiplied
        low, high = table.min(axis=0) / 2, table.max(axis=0) / 2
        X = (table / 2 - low) / np.where(high > low, high - low, 1.0)
    if features is None and X.shape[1] > 2:
        svd = TruncatedSVD(2, random_state=seed).set_output(transform="default")
        plane = svd.fit_transform(scaler.fit_transform(X))
        share = 100 * float(svd.explained_variance_ratio_.sum())
        words = f"the first two principal directions hold {share:.0f} % of the variance"
        return _scaled(plane), ["1st principal direction", "2nd principal direction"], words
    pair = [0, 1] if features is None else features
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or any(type(j) is not int for j in pair):
        raise ValueError("features must be two whole numbers")
    if not all(0 <= j < X.shape[1] for j in pair) or pair[0] == pair[1]:
        raise ValueError(f"features must be two different numbers from 0 to {X.shape[1] - 1}")
    chosen = X[:, list(pair)]
    dense = chosen.toarray() if sparse.issparse(chosen) else np.asarray(chosen, dtype=float)
    axes = [names[j] for j in pair]
    return _scaled(dense), axes, f"the features {axes[0]} and {axes[1]}, scaled"


def _scaled(plane: Array) -> Array:
    """Centre to unit variance and round to five digits, so that a link stays short."""
    spread = plane.std(axis=0)
    return np.round((plane - plane.mean(axis=0)) / np.where(spread > 0, spread, 1.0), 5)


def state_of(points: list[list[float]]) -> dict[str, Any]:
    """Return a state with these points, and the default machine."""
    machine = machines()[DEFAULT_METHOD]
    settings = {name: one.default for name, one in machine.settings.items()}
    return {
        "v": 1, "points": points, "machine": machine.name, "method": machine.solvers[0], "settings": settings,
        "seed": 0,
    }  # fmt: skip


def beginning() -> dict[str, Any]:
    """Return the state that the lab begins with where none is given."""
    return state_of(dataset({"name": "blobs", "most": 60, "seed": 1})["points"])
