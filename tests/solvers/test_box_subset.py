"""Faces of few features within a box, one node at a time: against the linear program that it is, by scipy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from formulations.samples import two_blobs
from formulations.solution import Status
from polyopt.solvers.box_subset import BoxSubset, FeatureLP
from polyopt.solvers.clock import Clock

N, M, S, R = 16, 4, 2, 3.0
UNITS = np.array([0.5, 1.0, 2.0, 4.0, 1.0])


def data(seed=0):
    X, y = two_blobs(n=N, m=M, seed=seed)
    rng = np.random.default_rng(seed)
    return 0.3 * X / UNITS[:M], y, np.where(np.arange(N) % 5 == 0, 0.0, rng.uniform(0.5, 3.0, N))


def relaxed(X, y, costs, inside, out):
    """The least loss with |w_j| at most R z_j and z that add up to s; all count where there is no choice."""
    Z = y[:, None] * np.column_stack([X, np.ones(N)])
    is_choice = inside.sum() < S < (~out).sum()
    eye, none = np.eye(M + 1), np.zeros((M + 1, N))
    reach = np.vstack([-R * np.eye(M), np.zeros(M)])
    rows = [
        np.hstack([-Z, np.zeros((N, M)), -np.eye(N)]),
        np.hstack([eye, reach, none]),
        np.hstack([-eye, reach, none]),
        np.concatenate([np.zeros(M + 1), np.ones(M), np.zeros(N)])[None],
    ]
    right = np.concatenate([-np.ones(N), [0.0] * M, [R], [0.0] * M, [R], [S if is_choice else M]])
    low = np.where(out, 0, 1) if not is_choice else inside.astype(float)
    bounds = [(None, None)] * (M + 1) + list(zip(low, 1.0 - out, strict=True)) + [(0, None)] * N
    found = linprog(np.r_[np.zeros(2 * M + 1), costs], np.vstack(rows), right, bounds=bounds)
    assert found.status == 0
    return found.fun


def marks(*features):
    return np.isin(np.arange(M), features)


NODES = [
    ((), ()), ((0,), ()), ((), (1,)), ((2,), (0,)), ((0, 1), ()), ((), (0, 1)), ((0, 1, 2), (3,)),
    ((), (0, 1, 2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_node_is_the_linear_program_and_its_multipliers_prove_it(kind):
    for seed in (0, 1):
        X, y, costs = data(seed)
        program = FeatureLP(kind(X), y, S, R, UNITS)
        assert program.box.tolist() == (R / UNITS).tolist()
        face = BoxSubset(program, costs, Clock())
        for ins, outs in NODES:
            inside, out = marks(*ins), marks(*outs)
            expected = relaxed(X, y, costs, inside, out)
            found = program.solve(costs, inside, out, Clock())
            assert found.solved
            assert found.bound == pytest.approx(expected, rel=1e-6, abs=1e-7)
            assert ((found.u >= 0) & (found.u <= costs * (1 + 1e-12))).all()
            assert (np.abs(found.w) <= program.box).all()
            assert not found.w[:M][out].any()
            # Its face has that loss, where all that are not out may be used; no face of the node has less.
            margins = y * (np.column_stack([X, np.ones(N)]) @ (found.w * UNITS))
            assert costs @ np.maximum(0.0, 1.0 - margins) == pytest.approx(expected, rel=1e-6, abs=1e-6)
            node = face.relax(inside, out, found.w, np.inf)
            assert (node.value, node.proof.bound, node.proof.eps) == (found.bound, found.bound, 1.0)
            assert node.proof.w.tolist() == found.u.tolist()
            # What the multipliers pull, evaluated from the data, proves the bound as well.
            pulls = face.pull(found.u)
            assert pulls == pytest.approx(UNITS * (np.column_stack([X, np.ones(N)]).T @ (y * found.u)))
            sizes = np.abs(pulls[:M]) * program.box[:M]
            is_choice = inside.sum() < S < (~out).sum()
            free = np.sort(sizes[~inside & ~out])[::-1]
            held = (
                sizes[inside].sum() + free[: max(S - inside.sum(), 0)].sum()
                if is_choice
                else sizes[~out].sum()
            )
            proven = found.u.sum() - held - R * abs(pulls[M])
            assert proven == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_given_features_have_the_best_face_of_theirs():
    X, y, costs = data()
    face = BoxSubset(FeatureLP(X, y, S, R, UNITS), costs, Clock())
    for features in ([0, 3], [2, 1], [1], [], [0, 1, 2]):
        found = face.fit(features)
        inside = marks(*features)
        expected = relaxed(X, y, costs, inside, ~inside)
        assert found.features.tolist() == sorted(features)
        assert found.objective == pytest.approx(expected, rel=1e-7, abs=1e-7)
        assert found.bound == pytest.approx(expected, rel=1e-6, abs=1e-7)
        assert found.proof.bound == found.bound
        assert found.proof.eps == 1.0
        assert found.proof.w is found.alpha
        assert set(np.flatnonzero(found.w[:M])) <= set(features)


def test_margins_missed_by_rounding_are_had_by_a_longer_face_within_the_box():
    X, y, costs = np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), np.array([2.0, 3.0])
    face = BoxSubset(FeatureLP(X, y, 1, R, np.ones(2)), costs, Clock())
    for least, cost in ((1.0, 0.0), (1.0 - 1e-7, 0.0), (1.0 - 2e-6, 5.0 * 2e-6), (0.5, 2.5), (2.0, 0.0)):
        w, found = face._priced(np.array([least, 0.0]))
        assert found == pytest.approx(cost, rel=1e-9, abs=0.0)
        assert (w[0] >= 1.0) == (cost == 0.0)
        assert w[0] == pytest.approx(least, rel=1e-6)
    # At the end of the box nothing can be longer.
    narrow = BoxSubset(FeatureLP(X, y, 1, 1.0 - 1e-7, np.ones(2)), costs, Clock())
    w, found = narrow._priced(np.array([1.0 - 1e-7, 0.0]))
    assert (w[0], found) == (1.0 - 1e-7, pytest.approx(5e-7, rel=1e-6, abs=0.0))


def test_a_verdict_that_cannot_be_is_asked_for_anew_and_a_limit_proves_nothing():
    X, y, costs = data()
    program = FeatureLP(X, y, S, R, UNITS)
    expected, solve, statuses = program.solve(costs, marks(), marks(), Clock()), program.model.solve, []

    def ended(lower, upper, time_limit):
        found = solve(lower, upper, time_limit=time_limit)
        return replace(found, status=statuses.pop(0) if statuses else found.status)

    program.model.solve = ended
    statuses[:] = [Status.FAILED]
    again = program.solve(costs, marks(), marks(), Clock())
    assert again.bound == pytest.approx(expected.bound)
    assert again.solved
    statuses[:] = [Status.TIME_LIMIT, Status.SOLVED]
    late = program.solve(costs, marks(), marks(), Clock())
    assert (late.solved, late.bound) == (False, -np.inf)
    assert statuses == [Status.SOLVED]
    face = BoxSubset(program, costs, Clock())
    statuses[:] = [Status.TIME_LIMIT, Status.TIME_LIMIT]
    assert face.relax(marks(), marks(), np.zeros(M + 1), 1.0).value == np.inf
    assert face.fit([0]).bound == 0.0
    assert program.solve(0.0 * costs, marks(), marks(), Clock()).bound == 0.0
