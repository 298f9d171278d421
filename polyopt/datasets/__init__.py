"""Data sets: a few inside the package, public ones on demand, generators with known answers, files.

``load(name)`` is the front door to every named set, ``catalogue()`` the list of them;
``read_svmlight`` and ``read_csv`` read a user's own files and name every broken line.
"""

from polyopt.datasets._catalogue import built_in, catalogue, names
from polyopt.datasets._csvfile import Table, read_csv, read_table
from polyopt.datasets._dataset import Dataset, Features
from polyopt.datasets._errors import DataFileError, DatasetUnavailable
from polyopt.datasets._generators import (
    make_polyceptron1,
    make_polyceptron2,
    make_polytope,
    make_two_lines,
    polyceptron_faces,
)
from polyopt.datasets._labels import as_known, labels_of_text
from polyopt.datasets._layout import first_cells, is_number
from polyopt.datasets._load import load
from polyopt.datasets._preparation import (
    columns_of_features,
    features_of,
    fit_preparation,
    imputes,
    prepared_names,
    table_preparation,
    text_columns,
    unseen_texts,
)
from polyopt.datasets._shapes import make_bananas, make_checkerboard, make_ringnorm, make_two_spirals
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
    "columns_of_features",
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
    "polyceptron_faces",
    "prepared_names",
    "read_csv",
    "read_svmlight",
    "read_table",
    "svmlight_block",
    "svmlight_lines",
    "table_preparation",
    "text_columns",
    "unseen_texts",
]
