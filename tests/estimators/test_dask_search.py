"""Folds in place on a real cluster: probabilities and grids, with the bits of one machine."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from helpers.dask_cluster import CHUNK, bits, on_dask

from polyopt import large

pytest.importorskip("distributed", reason="Dask is not installed: pip install polyopt[dask]")

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]


def test_probabilities_on_dask_have_the_bits_of_one_machine(client, data):
    from polyopt.dask import SVM

    X, y, weights = data
    settings = {"calibration": "sigmoid", "max_iter": 2, "class_weight": "balanced"}
    here = large.SVM(**settings).fit(large.Arrays(X, y, weights, rows=CHUNK))
    dX, dy, dw = on_dask(X, y, weights)
    there = SVM(**settings).fit(dX, dy, dw)
    assert bits(there) == bits(here)
    (one,), (other,) = there.calibrations_, here.calibrations_
    assert (one.shift, one.slope, one.n_folds) == (other.shift, other.slope, 5)
    three = large.SVM(**settings).fit(large.Arrays(X, np.where(X[:, 0] > 1.5, "other", y)))
    there.__dict__.update(three.__dict__)  # answers are of what is known, wherever it was fitted
    p = there.predict_proba(dX)
    assert p.chunks == (dX.chunks[0], (3,))
    assert np.array_equal(p.compute(), three.predict_proba(X))
    assert np.array_equal(there.predict(dX).compute(), there.classes_[p.compute().argmax(axis=1)])


def test_a_grid_on_dask_has_the_bits_of_one_machine_though_workers_are_killed(client, data, monkeypatch):
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    from polyopt.dask import SVM, GridSearchCV
    from polyopt.dask.crew import Workers

    X, y, _ = data
    grid = {"C": [0.01, 1.0]}
    names = list("abcd")
    frame = dd.from_pandas(pd.DataFrame(X, columns=names).assign(label=y), npartitions=4)
    sizes = frame.map_partitions(len).compute().tolist()
    cuts = np.concatenate([[0], np.cumsum(sizes)])
    source = large.Generated(lambda k: (X[cuts[k] : cuts[k + 1]], y[cuts[k] : cuts[k + 1]]), 4)
    here = large.GridSearchCV(large.SVM(max_iter=2), grid, cv=2).fit(source)

    send, crews, killed = Workers._send, set(), []

    def sending(*given):
        future = send(*given)
        crews.add(given[0])
        if len(crews) == 3 and not killed:  # in the midst of the folds
            killed.append(sorted(client.run(os.getpid).values())[0])
            os.kill(killed[-1], signal.SIGKILL)
        return future

    monkeypatch.setattr(Workers, "_send", sending)
    there = GridSearchCV(SVM(max_iter=2), grid, cv=2).fit(frame[names], frame["label"])
    assert killed
    assert bits(there.best_estimator_) == bits(here.best_estimator_)
    for name in ("split0_test_score", "split1_test_score", "certified_gap"):
        assert np.array_equal(there.cv_results_[name], here.cv_results_[name])
    assert there.feature_names_in_.tolist() == names
    assert there.predict(frame[names]).compute().tolist() == here.predict(X).tolist()
    assert there.score(frame[names], frame["label"]) == pytest.approx(here.score(X, y))
    assert there.certificate().primal_value == here.certificate().primal_value
