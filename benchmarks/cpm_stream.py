"""Polytope machine on a stream of 8.1 million deformed MNIST digits, 2 against the rest: rate, memory, error.

The digits are made as they are needed, and each is seen once. The cost is chosen beforehand on digits held
out of the 60,000 and left as they are, by shorter streams made of the others. A process of its own does it
all, so that its peak of memory (Linux) is that of the stream; seconds are of the processor.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from benchmarks.helpers.deformed_digits import DeformedDigits
from benchmarks.helpers.two_against_rest import Images, two_against_rest
from polyopt import ConvexPolytopeMachine
from polyopt.rows import as_rows

ROWS = 50_000  # in a chunk: 39 MB of pixels
RATES = (3e-5, 1e-4, 3e-4)  # candidates for λ = 2/(n C)


def run(smoke: bool = False) -> pd.DataFrame:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_work, (smoke,))


def _work(smoke: bool) -> pd.DataFrame:
    data = two_against_rest(smoke)
    total, report, trial = (6_000, 2_000, 2_000) if smoke else (8_100_000, 1_000_000, 1_000_000)
    rate = _choose(data, trial)
    rows = []
    for line in _stream(data, DeformedDigits(data.X, data.y), rate, total, report):
        machine = line.pop("machine")
        line["test error, %"] = 100 * (1 - machine.score(data.X_test, data.y_test))
        line["peak MB"] = _peak()
        rows.append({"λ": rate, **line})
    return pd.DataFrame(rows)


def _choose(data: Images, steps: int) -> float:
    """The λ with the least error on a sixth of the digits, after `steps` steps on the others."""
    X, held_X, y, held_y = train_test_split(data.X, data.y, test_size=1 / 6, random_state=0, stratify=data.y)
    errors = {}
    for rate in RATES:
        *_, last = _stream(data, DeformedDigits(X, y), rate, steps, steps)
        errors[rate] = 1 - last["machine"].score(held_X, held_y)
    return min(errors, key=errors.__getitem__)


def _stream(
    data: Images, source: DeformedDigits, rate: float, total: int, report: int
) -> Iterator[dict[str, Any]]:
    """Learn from a stream; the machine, its rates and what it estimates its objective to be, now and then."""

    def show(machine: Any, X: np.ndarray, y: np.ndarray) -> Any:
        return machine.partial_fit(X, y, classes=[-1, 1], n_total=total)

    settings: dict[str, Any] = {"n_faces": 50, "C": 2 / (total * rate), "feature_scale": data.scale}
    machine = ConvexPolytopeMachine(**settings, solver="sgd", random_state=0)
    show(clone(machine), *source.chunk(100))  # compiles what is needed
    for first in range(0, total, report):
        learning, packing, deforming, estimates = 0.0, 0.0, 0.0, []
        size = min(report, total - first)
        for done in range(0, size, ROWS):
            started = time.process_time()
            X, y = source.chunk(min(ROWS, size - done))
            made = time.process_time()
            show(machine, X, y)
            learnt = time.process_time()
            as_rows(X)  # once more, to know what of the learning was this
            packing += time.process_time() - learnt
            learning, deforming = learning + learnt - made, deforming + made - started
            estimates.append(machine.solution_.objective * rate / 2)
        yield {
            "machine": machine,
            "rows seen": first + size,
            "steps/s, learning": size / learning,
            "without packing": size / (learning - packing),
            "rows/s, deforming": size / deforming,
            "rows/s, together": size / (learning + deforming),
            "λ/2 |W|² + mean loss": float(np.mean(estimates)),
        }


def _peak() -> float:
    """Peak memory of this process, in MB; not that of ``getrusage``, which starts from the parent's."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else np.nan
