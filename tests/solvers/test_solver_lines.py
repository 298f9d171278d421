"""Why single lines of solvers are as they are."""

import numpy as np
import pytest

from formulations.face_penalty import FacePenalty
from formulations.samples import two_blobs
from polyopt.kernels import MatrixGram
from polyopt.solvers.cpm.priced_sgd import solve_priced_sgd
from polyopt.solvers.cpm.subset import SubsetFace
from polyopt.solvers.decomposition import rows as rows_module


def test_what_dual_averaging_measures_is_the_objective_with_the_price():
    X, y = two_blobs(n=40, m=3, seed=2)
    C, penalty = np.where(y > 0, 0.5, 0.2), FacePenalty.of(3, l1=0.3)
    found = solve_priced_sgd(X, y, C, 2, penalty, max_iter=3)
    W = found["W"]
    scores = X @ W[:, :-1].T + W[:, -1]
    outside = np.maximum(0.0, 1.0 - scores.max(axis=1))
    inside = np.maximum(0.0, 1.0 + scores).sum(axis=1)
    paid = C @ np.where(y > 0, outside, inside)
    assert found.objective == pytest.approx((W**2).sum() + 0.3 * np.abs(W[:, :-1]).sum() + paid)
    assert [record["epoch"] for record in found.history] == [1.0, 2.0, 3.0]
    assert found.history[-1]["objective"] >= found.objective
    assert np.isnan(found.history[0]["objective"])  # measuring costs as much as an epoch


@pytest.mark.parametrize(("inside", "out", "joining"), [
    ([], [], [1, 2]), ([1], [], [2]), ([], [1], [2, 3]), ([1, 2], [], []), ([], [1, 2, 3], []),
])  # fmt: skip
def test_features_of_the_largest_pulls_join_the_columns(inside, out, joining):
    X, y = two_blobs(n=20, m=5, seed=0)
    face, every = SubsetFace(X, y, np.ones(20), 2), np.arange(5)
    v = np.array([0.5, -7.0, 3.0, 1.0, 0.0, 99.0])
    held = np.append(np.union1d([0], inside), 5).astype(int)
    assert face._joining(v, held, np.isin(every, inside), np.isin(every, out)).tolist() == joining


def test_rows_that_are_asked_for_now_do_not_make_room_for_others(monkeypatch):
    monkeypatch.setattr(rows_module, "_ENOUGH", 3)
    K = np.arange(100.0).reshape(10, 10)
    rows = rows_module.Rows(MatrixGram(K), 1e4, np.float64)
    rows.fetch(np.array([0, 1, 2]))
    wanted = np.array([0, 1, 3, 4])
    assert np.array_equal(rows.table[rows.fetch(wanted)], K[wanted])
    assert rows.is_held(np.arange(5)).all()
