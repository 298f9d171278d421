"""Exact linear machines and polytopes on Dask: ``pip install polyopt[dask]``.

    from polyopt.dask import SVM
    machine = SVM(C=1.0).fit(dX, dy)     # Dask arrays or frames, on the current client
    machine.certificate()

The blocks are the partitions of the collections. The machines of :mod:`polyopt.large` take collections too;
those of this module also have the workers read a source of :mod:`polyopt.large.sources`. Sums over blocks are
taken in their order: a model depends on the partitions, but not on the number of workers, nor on workers that
are lost on the way, as long as their processors are of one kind. What goes over the network in an iteration
is some matrices of the size of the features.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyopt.dask.machines import SVM, ConvexPolytopeMachine, RelativeMarginMachine, SigmaSVM

__all__ = ["SVM", "ConvexPolytopeMachine", "RelativeMarginMachine", "SigmaSVM"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'polyopt.dask' has no attribute {name!r}")
    if find_spec("distributed") is None:
        raise ImportError("polyopt.dask needs Dask: pip install 'polyopt[dask]'")
    return getattr(import_module("polyopt.dask.machines"), name)
