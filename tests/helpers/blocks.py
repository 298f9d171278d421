"""Samples in blocks: sources that break at some readings, blocks of odd sizes, and the bits of a fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from formulations.language.toy_data import two_blobs
from polyopt import scale
from polyopt.base.progress import records_to


def blobs():
    """Two overlapping classes of 150 samples in four dimensions, and weights of which some are 0."""
    X, y = two_blobs(n=150, m=4, separation=1.0, seed=0)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, len(y)).round(1)
    return X, np.where(y > 0, "yes", "no"), weights


def odd_blocks(X, y):
    """The samples in the order of their classes, in seven blocks: empty ones, small ones, of one class."""
    order, n = np.argsort(y, kind="stable"), len(y)
    cuts = [0, 0, 3, n // 3, n // 3, n - 1, n, n]
    parts = [order[start:end] for start, end in pairwise(cuts)]
    return scale.Generated(lambda number: (X[parts[number]], y[parts[number]]), len(parts))


class Breaking:
    """A source of which some readings of block 1, numbered from 1, call an action.

    The readings are counted in a file, which the processes of a cluster share. A repeated reading has a new
    number.
    """

    def __init__(
        self, source: scale.Source, log: Path, readings: Collection[int] = (),
        action: Callable[[], object] = lambda: None,
    ):  # fmt: skip
        self.count, self._source, self._log = source.count, source, log
        self._readings, self._action = readings, action
        log.write_bytes(b"")

    @property
    def n_readings(self) -> int:
        """Number of readings of block 1."""
        return self._log.stat().st_size

    def read(self, number: int) -> scale.Samples:
        """Return a block."""
        if number == 1:
            with open(self._log, "ab") as stream:
                stream.write(b".")
            if self.n_readings in self._readings:
                self._action()
        return self._source.read(number)


@contextmanager
def at_records(actions):
    """Call actions by the numbers, from 1, of the records that solvers send in this thread; yield these."""
    told = []

    def listen(record):
        told.append(record)
        actions.get(len(told), lambda: None)()

    with records_to(listen):
        yield told


def raise_error(error):
    """Raise an error, as in an expression."""
    raise error


def quietly(machine, data, **settings):
    """Fit a machine whose limits are of no interest to a source, or to arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return machine.fit(*(data if isinstance(data, tuple) else (data,)), **settings)


def bits(machine):
    """The model, its proof and its iterations, bit by bit."""
    names = ("coef_", "intercept_") if hasattr(machine, "coef_") else ("W_", "b_")
    proof = machine.certificate()
    model = b"".join(getattr(machine, name).tobytes() for name in names)
    return model, proof.primal_value, proof.dual_value, machine.n_iter_
