"""Exact machines of samples that do not fit into memory, on one machine: linear ones, and polytopes.

The samples come from a source (:mod:`polyopt.large.sources`): arrays, ``.npy`` files, svmlight by
chunks, or a function that makes them. A block at a time is in memory, beside some twenty numbers for each
sample. The optimum is that of the classifier of the same name in :mod:`polyopt`, proven in the same way.
The machines fit Dask arrays and frames too, on Dask's workers; those of :mod:`polyopt.dask` also read sources
there.

In the order to read: ``sources``, ``blocks`` (a block as it was read), ``executor`` (work on blocks),
``base`` and ``linear`` (the linear machines), ``checkpoint``; and of polytopes ``sgd`` (the start),
``alternation`` (rounds of exact faces), ``face_ascent`` (the faces of many features) and ``polytopes``.
"""

from typing import Any

from polyopt.large.linear import SVM, RelativeMarginMachine, SigmaSVM
from polyopt.large.polytopes import ConvexPolytopeMachine
from polyopt.large.sources import Arrays, Generated, NpyFiles, Samples, Source, SvmlightFile

__all__ = [
    "SVM", "Arrays", "ConvexPolytopeMachine", "Generated", "NpyFiles", "RelativeMarginMachine", "Samples",
    "SigmaSVM", "Source", "SvmlightFile",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "ParquetFiles":
        raise AttributeError(
            "ParquetFiles has gone: fit the machines of polyopt.dask to dask.dataframe.read_parquet(paths)"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
