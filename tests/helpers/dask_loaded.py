"""What workers need, loaded: a process that has imported this forks workers that need not load it again."""

import os
from contextlib import suppress

import distributed.nanny
import numpy as np

from polyopt import ConvexPolytopeMachine, RelativeMarginMachine
from polyopt.scale import Arrays, dask, on_worker

with suppress(ImportError):
    import dask.dataframe

__all__ = ["dask", "distributed", "on_worker"]

if os.environ.get("OMP_NUM_THREADS") == "1":  # else threads of this process would be missed in the others
    _X = np.random.default_rng(0).normal(size=(40, 2))
    _y = np.where(_X[:, 0] > 0.0, 1, 0)
    _source = Arrays(_X, _y, rows=20)
    RelativeMarginMachine(kernel="linear", max_iter=2).fit(_source)
    ConvexPolytopeMachine(2, max_iter=1).fit(_source)
