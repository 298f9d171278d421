"""Exact machines of samples that do not fit into memory, on one machine: linear ones, and polytopes.

The samples come from a source (:mod:`polyopt.large.sources`): arrays, ``.npy`` and Parquet files, svmlight
by chunks, or a function that makes them. A block at a time is in memory, beside some twenty numbers for each
sample. The optimum is that of the classifier of the same name in :mod:`polyopt`, proven in the same way.
:mod:`polyopt.dask` has the same on more than one machine.

In the order to read: ``sources``, ``blocks`` (a block as it was read), ``executor`` (work on blocks),
``base`` and ``linear`` (the linear machines), ``checkpoint``; and of polytopes ``sgd`` (the start),
``alternation`` (rounds of exact faces), ``face_ascent`` (the faces of many features) and ``polytopes``.
"""

from polyopt.large.linear import SVM, RelativeMarginMachine, SigmaSVM
from polyopt.large.polytopes import ConvexPolytopeMachine
from polyopt.large.sources import (
    Arrays,
    Generated,
    NpyFiles,
    ParquetFiles,
    Samples,
    Source,
    SvmlightFile,
)  # fmt: skip

__all__ = [
    "SVM", "Arrays", "ConvexPolytopeMachine", "Generated", "NpyFiles", "ParquetFiles",
    "RelativeMarginMachine", "Samples", "SigmaSVM", "Source", "SvmlightFile",
]  # fmt: skip
