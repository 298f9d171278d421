"""Exact machines of samples that do not fit into memory, on one machine: linear ones, and polytopes.

The samples come from a source (:mod:`polyopt.large.sources`): arrays, ``.npy`` and Parquet files, svmlight
by chunks, or a function that makes them. A block at a time is in memory, beside some twenty numbers for each
sample. The optimum is that of the classifier of the same name in :mod:`polyopt`, proven in the same way.
:mod:`polyopt.dask` has the same on more than one machine.
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
)

__all__ = [
    "SVM", "Arrays", "ConvexPolytopeMachine", "Generated", "NpyFiles", "ParquetFiles",
    "RelativeMarginMachine", "Samples", "SigmaSVM", "Source", "SvmlightFile",
]  # fmt: skip
