"""Data sets: a few inside the package, public ones on demand, generators with known answers, files.

``load(name)`` is the front door to every named set, ``catalogue()`` the list of them; ``read_svmlight`` and
``read_csv`` read a user's own files and name every broken line. Names are imported when they are first used,
so that the list of sets can be had without numpy.

In the order to read: ``catalogue.toml`` and ``named_sets``, ``loading``, ``source`` (bytes of a file),
``tables``, ``svmlight``, ``preparation`` (texts and gaps made numbers), ``generators``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyopt.datasets.dataset import Dataset
    from polyopt.datasets.generators import (
        make_polyceptron1,
        make_polyceptron2,
        make_polytope,
        make_two_lines,
        polyceptron_faces,
    )
    from polyopt.datasets.loading import DatasetUnavailable, load
    from polyopt.datasets.named_sets import built_in, catalogue, names
    from polyopt.datasets.preparation import fit_preparation
    from polyopt.datasets.source import DataFileError, Source, open_source
    from polyopt.datasets.svmlight import is_svmlight, read_svmlight
    from polyopt.datasets.tables import read_csv, read_table

__all__ = [
    "DataFileError", "Dataset", "DatasetUnavailable", "Source", "built_in", "catalogue",
    "fit_preparation", "is_svmlight", "load", "make_polyceptron1", "make_polyceptron2", "make_polytope",
    "make_two_lines", "names", "open_source", "polyceptron_faces", "read_csv", "read_svmlight", "read_table",
]  # fmt: skip

_HOMES = {
    "named_sets": ("built_in", "catalogue", "names"),
    "dataset": ("Dataset",),
    "loading": ("DatasetUnavailable", "load"),
    "preparation": ("fit_preparation",),
    "source": ("DataFileError", "Source", "open_source"),
    "svmlight": ("is_svmlight", "read_svmlight"),
    "tables": ("read_csv", "read_table"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "generators")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
