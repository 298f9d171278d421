"""The machines of :mod:`polyopt.large`, whose sources and arrays go to Dask's workers too."""

from typing import ClassVar

from polyopt.large import linear, polytopes


class SVM(linear.SVM):
    """Support vector machine with linear features on Dask; see :class:`polyopt.large.SVM`."""

    _is_on_dask: ClassVar[bool] = True


class SigmaSVM(linear.SigmaSVM):
    """Sigma-SVM with linear features on Dask; see :class:`polyopt.large.SigmaSVM`."""

    _is_on_dask: ClassVar[bool] = True


class RelativeMarginMachine(linear.RelativeMarginMachine):
    """Relative Margin Machine on Dask; see :class:`polyopt.large.RelativeMarginMachine`."""

    _is_on_dask: ClassVar[bool] = True


class ConvexPolytopeMachine(polytopes.ConvexPolytopeMachine):
    """Convex Polytope Machine on Dask; see :class:`polyopt.large.ConvexPolytopeMachine`."""

    _is_on_dask: ClassVar[bool] = True
