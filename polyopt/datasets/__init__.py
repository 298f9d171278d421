"""Data sets: a few inside the package, public ones on demand, generators with known answers, files.

``load(name)`` is the front door to every named set, ``catalogue()`` the list of them;
``read_svmlight`` and ``read_csv`` read a user's own files and name every broken line.

Names are imported when they are first used, so that the list of sets can be had without numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyopt.datasets._catalogue import built_in, catalogue, names
    from polyopt.datasets._csvfile import Table, read_csv, read_table
    from polyopt.datasets._dataset import Dataset, Features
    from polyopt.datasets._errors import DataFileError, DatasetUnavailable
    from polyopt.datasets._generators import (
        make_bananas,
        make_checkerboard,
        make_polyceptron1,
        make_polyceptron2,
        make_polytope,
        make_ringnorm,
        make_two_lines,
        make_two_spirals,
        polyceptron_faces,
    )
    from polyopt.datasets._labels import as_known, labels_of_text
    from polyopt.datasets._layout import first_cells, is_number
    from polyopt.datasets._load import load
    from polyopt.datasets._preparation import (
        column_texts,
        feature_names,
        features_of,
        fit_preparation,
        imputes,
        parts_of,
        prepared_names,
        table_preparation,
        unseen_texts,
    )
    from polyopt.datasets._source import Source, open_source
    from polyopt.datasets._svmlight import is_svmlight, read_svmlight, svmlight_block, svmlight_lines

__all__ = [
    "DataFileError",
    "Dataset",
    "DatasetUnavailable",
    "Features",
    "Source",
    "Table",
    "as_known",
    "built_in",
    "catalogue",
    "column_texts",
    "feature_names",
    "features_of",
    "first_cells",
    "fit_preparation",
    "imputes",
    "is_number",
    "is_svmlight",
    "labels_of_text",
    "load",
    "make_bananas",
    "make_checkerboard",
    "make_polyceptron1",
    "make_polyceptron2",
    "make_polytope",
    "make_ringnorm",
    "make_two_lines",
    "make_two_spirals",
    "names",
    "open_source",
    "parts_of",
    "polyceptron_faces",
    "prepared_names",
    "read_csv",
    "read_svmlight",
    "read_table",
    "svmlight_block",
    "svmlight_lines",
    "table_preparation",
    "unseen_texts",
]

_HOMES = {
    "DataFileError": "_errors",
    "Dataset": "_dataset",
    "DatasetUnavailable": "_errors",
    "Features": "_dataset",
    "Source": "_source",
    "Table": "_csvfile",
    "as_known": "_labels",
    "built_in": "_catalogue",
    "catalogue": "_catalogue",
    "column_texts": "_preparation",
    "feature_names": "_preparation",
    "features_of": "_preparation",
    "first_cells": "_layout",
    "fit_preparation": "_preparation",
    "imputes": "_preparation",
    "is_number": "_layout",
    "is_svmlight": "_svmlight",
    "labels_of_text": "_labels",
    "load": "_load",
    "make_bananas": "_generators",
    "make_checkerboard": "_generators",
    "make_polyceptron1": "_generators",
    "make_polyceptron2": "_generators",
    "make_polytope": "_generators",
    "make_ringnorm": "_generators",
    "make_two_lines": "_generators",
    "make_two_spirals": "_generators",
    "names": "_catalogue",
    "open_source": "_source",
    "polyceptron_faces": "_generators",
    "parts_of": "_preparation",
    "prepared_names": "_preparation",
    "read_csv": "_csvfile",
    "read_svmlight": "_svmlight",
    "read_table": "_csvfile",
    "svmlight_block": "_svmlight",
    "svmlight_lines": "_svmlight",
    "table_preparation": "_preparation",
    "unseen_texts": "_preparation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
