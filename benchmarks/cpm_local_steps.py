"""Local steps of the polytope machine on deformed digits in blocks, beside a stream of the same blocks.

MNIST's 2 against the rest, deformed anew (no two digits are alike), as bytes in a file, in 40 blocks; K = 20
faces, λ = 1e-4. "partial_fit" shows the blocks in their order, once in each pass. "local steps" are
``polyopt.large``'s rounds on eight shards from a pilot of 20,000 digits; their answer is the best that was
measured, and the row of no pass is the pilot's. J is over all digits, the error on the digits of the test
set, which are as they are. Seconds are of the processor, of one thread, with the pilot and all measurements.

The rate: a round of local steps on all digits, on Dask's workers of one thread each, one and two of them in
turn, from the file, which is in memory. Seconds are the least of ten, by the clock, of all processors, and of
the worker that has most. Other work on the machine disturbs the clock most, and the last least: what two
workers are worth where each has a core is the ratio of these.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.helpers.deformed_digits import DeformedDigits
from benchmarks.helpers.two_against_rest import Images, two_against_rest
from polyopt import ConvexPolytopeMachine
from polyopt.large import Arrays, NpyFiles, Samples, Source
from polyopt.large.held import Hands, Here, Walk
from polyopt.large.local_sgd import solve_cpm_rounds
from polyopt.large.parts import Recipe, sides_of
from polyopt.large.shards import row_order
from polyopt.rows import as_rows
from polyopt.solvers.cpm.kernels import losses
from polyopt.solvers.cpm.local_steps import Point, Run, begin, visit

RATE = 1e-4  # λ = 2/(n C)
_ROWS, _BLOCKS, _SHARDS, _FACES, _PASSES = 400_000, 40, 8, 20, (1, 2, 3, 5, 8)
Rows = Iterator[dict[str, Any]]


def run(smoke: bool = False) -> pd.DataFrame:
    data = two_against_rest(smoke)
    n = 4_000 if smoke else _ROWS
    with TemporaryDirectory() as folder:
        X, y = DeformedDigits(data.X, data.y).chunk(n)
        np.save(f"{folder}/X.npy", X)
        np.save(f"{folder}/y.npy", y.astype(np.int8))
        source = NpyFiles(f"{folder}/X.npy", f"{folder}/y.npy", rows=n // _BLOCKS)
        passes = _PASSES[:2] if smoke else _PASSES
        rows = [*_stream(data, source, passes), *_local(data, source, passes, Path(folder))]
        return pd.DataFrame([*rows, *rate(data, source, 1 if smoke else 10)])


def _row(what: str, data: Images, source: Source, passes: float, W: np.ndarray) -> dict[str, Any]:
    n, C, loss = _size(source), 2 / (_size(source) * RATE), 0.0
    for number in range(source.count):
        X, y, _ = source.read(number)
        loss += losses(W, as_rows(X), y > 0, np.full(len(y), C), data.scale)
    scores = (data.X_test @ (data.scale * W[:, :-1].T) + W[:, -1]).max(axis=1)
    return {
        "what": what, "rows": n, "passes": passes, "J": float((W**2).sum()) + loss,
        "test error, %": 100 * float(np.mean((scores > 0) != (data.y_test > 0))),
    }  # fmt: skip


def _size(source: Source) -> int:
    return sum(len(source.read(number).y) for number in range(source.count))


def _stream(data: Images, source: Source, passes: tuple[int, ...]) -> Rows:
    n = _size(source)
    machine = ConvexPolytopeMachine(
        _FACES, 2 / (n * RATE), solver="sgd", feature_scale=data.scale, random_state=0
    )
    spent = 0.0
    for number in range(1, passes[-1] + 1):
        for block in range(source.count):
            X, y, _ = source.read(block)
            begun = time.process_time()
            machine.partial_fit(X, y, classes=[-1, 1], n_total=n)
            spent += time.process_time() - begun
        if number in passes:
            row = _row("partial_fit", data, source, number, machine.solution_["W"])
            yield row | {"CPU seconds": spent}


def _solve(data: Images, source: Source, hands: Hands, **settings: Any) -> Any:
    recipe = _recipe(_size(source))
    return solve_cpm_rounds(
        hands, source.count, recipe, _FACES, n_shards=_SHARDS, scale=data.scale, tol=1e-9, **settings
    )


def _recipe(n: int) -> Recipe:
    return Recipe((-1, 1), (1.0, 1.0), 2 / (n * RATE))


def _local(data: Images, source: Source, passes: tuple[int, ...], folder: Path) -> Rows:
    """The same run after more and more passes: each goes on from the checkpoint of the one before."""
    few = Arrays(*source.read(0)[:2], rows=100)
    _solve(data, few, Here(few), n_pilot=100, max_iter=1)  # everything is compiled
    spent, before = 0.0, None
    for number in passes:
        begun = time.process_time()
        found = _solve(
            data, source, Here(source), max_iter=number, checkpoint=folder / "checkpoint", resume=before
        )
        spent, before = spent + time.process_time() - begun, folder / "checkpoint"
        if number == passes[0]:
            yield {
                "what": "local steps", "rows": _size(source), "passes": 0,
                "J": found.history[0]["objective"],
            }  # fmt: skip
        yield _row("local steps", data, source, number, found["W"]) | {"CPU seconds": spent}


def rate(data: Images, source: Source, repeats: int) -> Rows:
    """Seconds of a round on one and on two of Dask's workers, the least of so many; none without Dask."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        return
    from benchmarks.helpers.dask_parts import cluster
    from polyopt.dask.crew import Team

    n = _size(source)
    W = _solve(data, source, Here(source), n_pilot=2_000, max_iter=1)["W"]
    recipe, first = _recipe(n), begin(Point(W, W, n), np.float32)
    shards = [range(shard, source.count, _SHARDS) for shard in range(_SHARDS)]
    walks = [Walk(first, [(number, (recipe, n, data.scale)) for number in shard]) for shard in shards]
    spent: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    with cluster(1) as one, cluster(2) as two:
        for repeat in range(repeats + 1):
            for workers, client in ((1, one), (2, two)):
                begun, clock = client.run(time.process_time), time.perf_counter()
                Team(client, [source] * source.count).walk(_visited, walks)
                seconds = time.perf_counter() - clock
                cpu = [now - begun[name] for name, now in client.run(time.process_time).items()]
                if repeat:  # the first has compiled and read everything
                    spent[workers].append((seconds, sum(cpu), max(cpu)))
    for workers, found in spent.items():
        clock, cpu, most = (min(each) for each in zip(*found, strict=True))
        yield {
            "what": f"a round, Dask, workers: {workers}", "rows": n, "passes": 1, "CPU seconds": cpu,
            "CPU seconds of the busiest worker": most, "seconds by the clock": clock,
        }  # fmt: skip


def _visited(run: Run, samples: Samples, number: int, recipe: Recipe, n: int, scale: float) -> Run:
    X, outside, weights = sides_of(samples, recipe)
    order = row_order(0, 0, number, len(weights))
    return visit(run, as_rows(X), outside, 0.5 * n * recipe.C * weights, order, _FACES, scale)
