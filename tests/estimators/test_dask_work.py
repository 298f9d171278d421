"""Independent work on a cluster by joblib: the same bits, and the samples sent once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from formulations.language.toy_data import two_blobs

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install polyopt[dask]")

pytestmark = pytest.mark.filterwarnings("ignore")


def test_independent_work_by_joblib_has_the_same_bits(client):
    """Pairs of classes, and starts."""
    from joblib import parallel_config

    from polyopt import SVM, ConvexPolytopeMachine

    X, y = two_blobs(n=60, m=3, separation=1.0, seed=1)
    three = np.where(X[:, 0] > 1, 2, y)

    def answers():
        pairs = SVM().fit(X, three).decision_function(X)
        starts = ConvexPolytopeMachine(n_faces=2, n_init=3, random_state=0, solver="exact").fit(X, y)
        return (
            pairs.tobytes(),
            starts.decision_function(X).tobytes(),
        )

    here = answers()
    with parallel_config(backend="dask"):
        assert answers() == here


class Sent(np.ndarray):
    """An array that counts how often it is packed."""

    times = 0

    def __reduce_ex__(self, protocol):
        Sent.times += 1
        return np.asarray(self).__reduce_ex__(protocol)


class Sum(NamedTuple):
    X: Any
    power: int


def _sum(task):
    return float((task.X**task.power).sum())


def test_joblib_sends_the_samples_once(client, monkeypatch):
    from joblib import parallel_config

    from polyopt.base.parallel import run_tasks

    X = np.arange(4000.0).view(Sent)
    wanted, Sent.times = [_sum(Sum(X, power)) for power in range(6)], 0
    scatter, sent = distributed.Client.scatter, []

    def scattering(self, data, **settings):
        sent.append(data is X)
        return scatter(self, data, **settings)

    monkeypatch.setattr(distributed.Client, "scatter", scattering)
    with parallel_config(backend="dask"):
        assert run_tasks(_sum, [Sum(X, power) for power in range(6)], None, "sum") == wanted
    assert sent.count(True) == 1
    assert Sent.times == 0  # with no task
