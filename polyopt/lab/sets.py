"""Points of the lab from data sets and files: two features of a set, or its principal plane."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import make_circles, make_gaussian_quantiles, make_moons

from formulations.language.toy_data import two_blobs
from formulations.language.types import Array
from polyopt import datasets
from polyopt.base.text import visible
from polyopt.datasets.tables import first_cells
from polyopt.lab.state import machines
from polyopt.methods.registry import DEFAULT_METHOD

MAX_TEXT = 1_000_000
"""Characters of a file that the page may send."""


def source_of(table: object) -> datasets.Source:
    """Return a file that the page has read, from its ``name`` and ``text``."""
    if not isinstance(table, Mapping) or not all(isinstance(table.get(key), str) for key in ("name", "text")):
        raise ValueError("table must be an object with the name and the text of a file")
    if len(table["text"]) > MAX_TEXT:
        larger = "polyopt lab --points FILE takes larger ones"
        raise ValueError(f"the file has more than {MAX_TEXT} characters; {larger}")
    name = visible(table["name"][:100]).replace("/", " ") or "file"
    return datasets.Source(Path(name), table["text"].encode("utf-8", "replace"))


def columns_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """List the columns of a table that may hold the classes."""
    source = source_of(message.get("table"))
    try:
        cells = [] if datasets.is_svmlight(source) else first_cells(source)
    except datasets.DataFileError:
        cells = []  # the reader of the whole table says what is wrong
    return {"kind": "columns", "names": [visible(cell)[:60] for cell in cells[:200]]}


def read_file(source: datasets.Source, target: object = None) -> tuple[datasets.Dataset, str]:
    """Read a file with its classes in the column `target`; return a clause on gaps and texts, too."""
    if datasets.is_svmlight(source):
        data = datasets.read_svmlight(source)
        return (replace(data, y=data.y.astype(str)) if data.y.dtype.kind == "f" else data), ""
    if target is not None and type(target) not in (int, str):
        raise ValueError("target must be the place or the name of a column")
    column: Any = -1 if target is None else target
    if isinstance(column, str) and column not in first_cells(source):
        column = int(column) if re.fullmatch(r"-?\d{1,9}", column, re.ASCII) else column
    data = datasets.read_csv(source, column, categorical="all", impute="median")
    gaps = 0 if sparse.issparse(data.X) else int(pd.isna(data.X).sum())
    notes = []
    if gaps:
        notes = [f"{gaps} gap{'s' if gaps > 1 else ''} filled by the column's median or most frequent text"]
    if data.X.dtype == object:
        notes.append("each text of a column a feature of its own")
    return data, ", ".join(notes)


_DRAWN: dict[str, tuple[str, Callable[[int, int], Any]]] = {
    "blobs": ("Two Gaussian classes", lambda n, seed: two_blobs(n, 2, seed, 1.6)),
    "two-lines": ("Two lines: what a relative margin is for",
                  lambda n, seed: datasets.make_two_lines(n, scale=3.0, random_state=seed)),
    "moons": ("Two moons", lambda n, seed: make_moons(n, noise=0.2, random_state=seed)),
    "circles": ("A circle within a circle",
                lambda n, seed: make_circles(n, noise=0.1, factor=0.5, random_state=seed)),
    "polytope": ("Inside and outside of a polytope",
                 lambda n, seed: datasets.make_polytope(n, 2, 4, random_state=seed)[:2]),
    "quantiles": ("Inner and outer half of a Gaussian",
                  lambda n, seed: make_gaussian_quantiles(n_samples=n, n_classes=2, random_state=seed)),
}  # fmt: skip
"""Random sets by name: a title, and a maker of n samples from a seed."""


def menu() -> list[dict[str, Any]]:
    """Return the sets of the page's menu: the random ones, and the built-in ones of two classes."""
    drawn = [
        {"name": name, "title": title, "samples": None, "features": None}
        for name, (title, _) in _DRAWN.items()
    ]
    frame = datasets.catalogue()
    built_in = frame[(frame["kept"] == "built in") & (frame["classes"] == 2)]
    kept = [
        {"name": name, "title": str(name), "samples": int(row["n"]), "features": int(row["m"])}
        for name, row in built_in.iterrows()
    ]
    return [*drawn, *kept]


N_POINTS = 150
"""Points of a set."""


def named_set(name: str, n: int = N_POINTS, seed: int = 0) -> datasets.Dataset:
    """Load a named data set; a random one has `n` samples drawn from `seed`."""
    if name not in _DRAWN:
        return datasets.load(name)
    X, y = _DRAWN[name][1](n, seed)
    return datasets.Dataset(name, X, y, ("-1", "+1"))


def dataset(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return points of a set of the menu, or of a file that the page has read."""
    name, table, note = message.get("name"), message.get("table"), ""
    if table is not None:
        data, note = read_file(source_of(table), table.get("target"))
    else:
        known = [entry["name"] for entry in menu()]
        if name not in known:
            raise ValueError(f"data set {str(name)[:40]!r} is not known. Known: {', '.join(known)}")
        data = named_set(str(name))
    return points_of(data, message.get("features"), note)


def points_of(data: datasets.Dataset, features: object = None, note: str = "") -> dict[str, Any]:
    """Return points of a data set of two classes in two `features`, by place, or in its principal plane.

    If there are more than :data:`N_POINTS`, so many are drawn at random. `note` is a clause on the set's
    reading.
    """
    data, _ = datasets.fit_preparation(data)
    labels, codes = np.unique(np.asarray(data.y), return_inverse=True)
    if len(labels) != 2:
        noun = "class" if len(labels) == 1 else "classes"
        raise ValueError(f"{data.name} has {len(labels)} {noun} in that column; the lab shows sets of two")
    m = data.X.shape[1]
    if m < 2:
        noun = "feature" if m == 1 else "features"
        raise ValueError(f"{data.name} has {m} {noun} beside the classes; the lab shows two")
    names = list(data.feature_names or (f"x{j + 1}" for j in range(m)))
    plane, axes, sentence = _plane(data.X, names, features)
    chosen = np.arange(len(codes))
    if len(codes) > N_POINTS:
        chosen = _sample_of_both(codes)
        sentence = f"{N_POINTS} of {len(codes)} samples, drawn at random; {sentence}"
    sentence = f"{sentence}; {note}" if note else sentence
    points = [[u, v, 2 * int(c) - 1] for (u, v), c in zip(plane[chosen].tolist(), codes[chosen], strict=True)]
    return {
        "kind": "dataset", "name": data.name, "points": points, "axes": axes,
        "classes": [str(name) for name in data.target_names], "columns": names[:200],
        "sentence": f"{sentence[0].upper()}{sentence[1:]}.",
    }  # fmt: skip


def _sample_of_both(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return :data:`N_POINTS` samples at random, both classes among them."""
    order = np.random.default_rng(0).permutation(len(codes))
    first = [int(order[np.flatnonzero(codes[order] == code)[0]]) for code in (0, 1)]
    others = order[~np.isin(order, first)][: N_POINTS - 2]
    return np.sort(np.concatenate([first, others]))


def _plane(X: Any, names: list[str], features: object) -> tuple[Array, list[str], str]:
    """Return two coordinates (n, 2) of each sample, scaled, the names of the axes, and a clause on them."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=not sparse.issparse(X)).set_output(transform="default")
    if not sparse.issparse(X):
        table = np.asarray(X, dtype=float)
        low, high = table.min(axis=0) / 2, table.max(axis=0) / 2  # halves, as a difference may overflow
        X = (table / 2 - low) / np.where(high > low, high - low, 1.0)
    if features is None and X.shape[1] > 2:
        svd = TruncatedSVD(2, random_state=0).set_output(transform="default")
        plane = svd.fit_transform(scaler.fit_transform(X))
        percent = 100 * float(svd.explained_variance_ratio_.sum())
        sentence = f"the first two principal directions hold {percent:.0f} % of the variance"
        return _scaled(plane), ["1st principal direction", "2nd principal direction"], sentence
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
    deviation = plane.std(axis=0)
    return np.round((plane - plane.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), 5)


def state_of(points: list[list[float]]) -> dict[str, Any]:
    """Return a state with these points, and the default machine."""
    machine = machines()[DEFAULT_METHOD]
    settings = {name: setting.default for name, setting in machine.settings.items()}
    return {
        "v": 1, "points": points, "machine": machine.name, "method": machine.solvers[0], "settings": settings,
        "seed": 0,
    }  # fmt: skip


def beginning() -> dict[str, Any]:
    """Return the state that the lab begins with by default."""
    return state_of(points_of(named_set("blobs", 60, 1))["points"])
