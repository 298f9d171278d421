"""Data sets: a few inside the package, public ones on demand, generators with known answers, files.

``load(name)`` is the front door to every named set, ``catalogue()`` the list of them;
``read_svmlight`` and ``read_csv`` read a user's own files and name every broken line.
"""

from polyopt.datasets._catalogue import catalogue, names
from polyopt.datasets._csvfile import read_csv
from polyopt.datasets._dataset import Dataset
from polyopt.datasets._errors import DataFileError, DatasetUnavailable
from polyopt.datasets._generators import (
    make_polyceptron1,
    make_polyceptron2,
    make_polytope,
    make_two_lines,
    polyceptron_faces,
)
from polyopt.datasets._load import load
from polyopt.datasets._svmlight import read_svmlight

__all__ = [
    "DataFileError",
    "Dataset",
    "DatasetUnavailable",
    "catalogue",
    "load",
    "make_polyceptron1",
    "make_polyceptron2",
    "make_polytope",
    "make_two_lines",
    "names",
    "polyceptron_faces",
    "read_csv",
    "read_svmlight",
]
