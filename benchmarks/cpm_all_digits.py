"""The polytope machine on 8.1 million deformed digits in a file: a stream, and a certified gap.

MNIST's 2 against the rest, deformed anew (no two digits are alike), 784 bytes a digit in a file of 6.4 GB, in
40 blocks; K = 20 faces, λ = 1e-4. One row for each step:

- "partial_fit" shows every block once to a machine on one thread;
- "certified" is the machine with ``solver="dual"`` on the blocks, in a process of one thread, from these
  faces, with one round: the assignment is the stream's. Its objective and its bound are those of
  the certificate, and the memory is the most that the process had, Linux's pages of the file with it.

The error is that on MNIST's test digits, which are as they are. Seconds are of the processor.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from benchmarks.helpers.dask_parts import memory
from benchmarks.helpers.deformed_digits import DeformedDigits
from benchmarks.helpers.two_against_rest import Images, two_against_rest
from polyopt import ConvexPolytopeMachine, SGDSettings
from polyopt.scale import NpyFiles

RATE = 1e-4  # λ = 2/(n C)
_ROWS, _BLOCKS, _FACES, _TOLERANCE = 8_100_000, 40, 20, 1e-3
Rows = Iterator[dict[str, Any]]


def run(smoke: bool = False) -> pd.DataFrame:
    data = two_against_rest(smoke)
    n = 1_000 if smoke else _ROWS
    with TemporaryDirectory() as folder:
        _write(data, n, folder)
        source = NpyFiles(f"{folder}/X.npy", f"{folder}/y.npy", rows=n // (4 if smoke else _BLOCKS))
        return pd.DataFrame(_certified(data, source, n))


def _write(data: Images, n: int, folder: str) -> None:
    X = np.lib.format.open_memmap(f"{folder}/X.npy", "w+", np.uint8, (n, data.X.shape[1]))
    y, at = np.empty(n, np.int8), 0
    for chunk, labels in DeformedDigits(data.X, data.y).chunks(n, 50_000):
        X[at : at + len(labels)], y[at : at + len(labels)] = chunk, labels
        at += len(labels)
    X.flush()
    np.save(f"{folder}/y.npy", y)


def _certified(data: Images, source: NpyFiles, n: int) -> Rows:
    machine = ConvexPolytopeMachine(
        _FACES, 2 / (n * RATE), solver="sgd", sgd=SGDSettings(feature_scale=data.scale), random_state=0
    )
    begun = time.process_time()
    for number in range(source.count):
        X, y, _ = source.read(number)
        machine.partial_fit(X, y, classes=[-1, 1], n_total=n)
    row = {"rows": n, "passes": 1}
    yield row | _answers(machine, data, begun) | {"what": "partial_fit"}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield row | pool.submit(_by_blocks, source, machine, data).result()


def _by_blocks(source: NpyFiles, streamed: ConvexPolytopeMachine, data: Images) -> dict[str, Any]:
    """In a process of its own: the row of the fit by blocks."""
    machine = clone(streamed).set_params(solver="dual", tol=10.0 * _TOLERANCE, max_iter=1)
    machine.begin_from(streamed)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that one round was asked for
        machine.fit(source)
    row = _answers(machine, data, begun)
    proof = machine.certificate()
    return {"what": "certified"} | row | {
        "J": proof.primal_value, "bound": proof.dual_value, "relative gap": proof.relative_gap, "GB": memory()
    }  # fmt: skip


def _answers(machine: Any, data: Images, begun: float) -> dict[str, Any]:
    spent = time.process_time() - begun
    wrong = np.mean(machine.predict(data.X_test) != data.y_test)
    return {"CPU seconds": spent, "test error, %": 100 * float(wrong)}
