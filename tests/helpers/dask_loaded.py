"""What workers need, loaded: a process that has imported this forks workers that need not load it again."""

import os
from contextlib import suppress

import distributed.nanny
import numpy as np

from polyopt import large
from polyopt.dask import machines, on_worker

with suppress(ImportError):
    import dask.dataframe  # noqa: F401

__all__ = ["distributed", "machines", "on_worker"]

if os.environ.get("OMP_NUM_THREADS") == "1":  # else threads of this process would be missed in the others
    _X = np.random.default_rng(0).normal(size=(40, 2))
    _y = np.where(_X[:, 0] > 0.0, 1, 0)
    _source = large.Arrays(_X, _y, rows=20)
    large.RelativeMarginMachine(max_iter=2).fit(_source)
    large.ConvexPolytopeMachine(2, max_passes=1, max_rounds=1, max_iter=2, pilot=20).fit(_source)
