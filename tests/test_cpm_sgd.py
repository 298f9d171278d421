"""The stochastic solver of the Convex Polytope Machine: Algorithms 1 and 2, taken literally."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from test_cpm import clusters

from formulations import cpm
from formulations.solution import Status
from polyopt.certificates.cpm import certify_cpm
from polyopt.outer.alternating import alternate, alternate_from_many_starts
from polyopt.outer.cpm import PolytopeProblem
from polyopt.solvers import cpm_sgd
from polyopt.solvers.cpm_kernels import assign, run_csr, run_dense
from polyopt.solvers.cpm_sgd import solve_cpm_sgd

# -- Algorithm 2 ---------------------------------------------------------------------------


def entropy_of(unadjusted):
    counts = np.unique(list(unadjusted.values()), return_counts=True)[1]
    shares = counts / counts.sum()
    return -float(shares @ np.log(shares)) if len(counts) else 0.0


def literal_assign(unadjusted, i, scores, floor):
    """Algorithm 2 as printed, on a dictionary; the natural face where no face raises the entropy."""
    natural = int(np.argmax(scores))
    with_natural = {**unadjusted, i: natural}
    answer = natural
    if entropy_of(with_natural) < floor - 1e-12:
        before = entropy_of(unadjusted)
        raising = [k for k in range(len(scores)) if entropy_of({**unadjusted, i: k}) > before + 1e-12]
        answer = max(raising, key=lambda k: scores[k]) if raising else natural
    unadjusted[i] = natural
    return answer


class Memory:
    """The arrays that the kernel keeps in place of the dictionary."""

    def __init__(self, n, K):
        counts = np.arange(n + 2)
        self.unadjusted, self.counts = np.full(n, -1), np.zeros(K, dtype=np.int64)
        self.phi = counts * np.log(np.maximum(counts, 1))

    def arrays(self):
        return self.unadjusted, self.counts, self.phi


@pytest.mark.parametrize("K", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_the_kernel_is_algorithm_2(K, share, rng):
    n, floor = 60, share * math.log(K)
    memory, unadjusted = Memory(n, K), {}
    taste = 2 * rng.normal(size=K)  # some faces win more often, so that the floor is felt
    adjusted = 0
    for _ in range(400):
        i, scores = int(rng.integers(n)), rng.normal(size=K) + taste
        answer = assign(scores, i, floor, *memory.arrays())
        assert answer == literal_assign(unadjusted, i, scores, floor)
        adjusted += answer != np.argmax(scores)
        assert memory.unadjusted[i] == np.argmax(scores)
    assert memory.counts.tolist() == [list(unadjusted.values()).count(k) for k in range(K)]
    if share == 0.0 or K == 1:
        assert adjusted == 0
    elif share >= 0.9:
        assert adjusted > 20


def test_the_first_call_finds_no_face_that_raises_the_entropy():
    assert assign(np.array([0.0, 2.0, 1.0]), 4, math.log(3), *Memory(9, 3).arrays()) == 1


# -- Algorithm 1 ---------------------------------------------------------------------------


def literal_epoch(X, y, C, W, order, t, floor, unadjusted):
    """Steps of Algorithm 1 with the step 1/(λ(t+1)); the iterates after each of them."""
    lifted, lam, n = cpm.lift(X), 2 / C.sum(), len(y)
    iterates = []
    for i in order:
        t += 1
        eta = 1 / (lam * (t + 1))
        scores, weight = W @ lifted[i], n * C[i] / C.sum()
        if y[i] < 0:
            W = W - eta * weight * np.outer(scores > -1, lifted[i])
        elif scores.max() < 1:
            face = literal_assign(unadjusted, i, scores, floor) if floor > 0 else scores.argmax()
            W = W + eta * weight * np.outer(np.arange(len(W)) == face, lifted[i])
        W = (1 - eta * lam) * W
        iterates.append((t + 1, W))
    return W, t, iterates


@pytest.mark.parametrize("floor", [0.0, 0.8])
def test_the_solver_is_algorithm_1(floor, monkeypatch):
    X, y, _ = clusters(50, 3, 0)
    C, K, epochs = np.random.default_rng(1).uniform(0.5, 2.0, 50), 4, 3
    orders = [np.random.default_rng(9 + e).permutation(50) for e in range(epochs)]
    run = cpm_sgd._Run(X, y, C, K, floor, seed=0)
    W, t, unadjusted, total, weights = run.U.T.copy(), 0, {}, 0.0, 0.0
    waiting = iter(orders)
    run.rng = type("Fixed", (), {"permutation": lambda self, n: next(waiting)})()
    for epoch, order in enumerate(orders, 1):
        clock = cpm_sgd.Clock()
        run.epoch(clock)
        run.measure(clock)
        W, t, iterates = literal_epoch(X, y, C, W, order, t, floor, unadjusted)
        assert run.U.T / (t + 1) == pytest.approx(W, abs=1e-9 * np.abs(W).max())
        total = total + epoch**4 * sum(weight * iterate for weight, iterate in iterates)
        weights += epoch**4 * sum(weight for weight, _ in iterates)
        objective = cpm.objective(X, y, total / weights, C)
        assert run.history[-1]["objective"] == pytest.approx(objective, rel=1e-9)
    assert len(run.history) == epochs


def test_dense_csr_float32_and_padded_data_take_the_same_steps(rng):
    X = np.where(rng.random((80, 6)) < 0.5, 0.0, rng.normal(size=(80, 6))).astype(np.float32)
    y, gains, K = np.where(rng.random(80) < 0.5, 1.0, -1.0), rng.uniform(1, 5, 80), 3
    ends = []
    for kind in (np.float64, np.float32, "csr64", "csr32"):
        U, V, steps = np.full((7, K), 1e-3) * np.arange(K), np.zeros((7, K)), np.zeros(1, dtype=np.int64)
        memory = Memory(80, K)
        tail = (y, gains, np.arange(80), 0, steps, U, V, 0.9, *memory.arrays())
        if isinstance(kind, str):
            A = sp.csr_array(X.astype(np.float64 if kind == "csr64" else np.float32))
            run_csr(A.data, A.indices, A.indptr, *tail)
        else:
            run_dense(X.astype(kind), *tail)
        assert steps[0] == 80
        ends.append((U, V, memory.counts))
    for end in ends[1:]:
        for ours, theirs in zip(end, ends[0], strict=True):
            assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-12)
    assert np.abs(ends[0][0]).max() > 1


def test_the_same_seed_gives_the_same_model():
    X, y, _ = clusters(100, 3, 0)
    one, two, other = (solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=20, seed=s)["W"] for s in (5, 5, 6))
    assert (one == two).all()
    assert np.abs(one - other).max() > 1e-6


# -- against the exact optimum -------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_one_face_is_learnt_to_the_exact_optimum(seed, C):
    """λ = 2/(nC) and nothing else: another factor would show at once."""
    X, y, _ = clusters(60, 1, seed)
    X = X[:, :1] + 0.3
    exact = cpm.face(X, y, C).solve()
    fast = solve_cpm_sgd(X, y, np.full(60, C), 1, max_iter=3000, tol=1e-5)
    assert exact.objective * (1 - 1e-9) <= fast.objective <= exact.objective * (1 + 1e-3)
    assert fast["W"][0] == pytest.approx(exact["w"], abs=0.05 * np.abs(exact["w"]).max())
    for factor in (0.5, 2.0):
        assert cpm.face(X, y, factor * C).solve()["w"] != pytest.approx(exact["w"], abs=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_several_faces_are_learnt_to_the_exact_optimum_of_their_assignment(seed):
    X, y, _ = clusters(90, 3, seed, widen=1.5)
    C = np.random.default_rng(seed).uniform(0.5, 1.5, 90)
    fast = solve_cpm_sgd(X, y, C, 3, max_iter=600, tol=1e-4, seed=seed)
    assert fast.objective == pytest.approx(cpm.objective(X, y, fast["W"], C), rel=1e-12)
    z = cpm.natural_assignment(X, y, fast["W"])
    proven = cpm.fixed_assignment_dual(X, y, 3, z, C).solve().objective
    assert proven * (1 - 1e-9) <= fast.objective <= proven * (1 + 5e-3)
    certificate = certify_cpm(X, y, C, W=fast["W"])
    assert certificate.dual_value <= proven * (1 + 1e-9)
    assert certificate.relative_gap < 1e-2
    # The exact solver from the same assignment, and from many others.
    problem = PolytopeProblem(X, y, C, 3)
    assert proven * (1 - 5e-3) <= alternate(problem, z).objective <= fast.objective
    best = alternate_from_many_starts(problem, n_init=10, seed=seed)
    assert fast.objective <= best.objective * (1 + 5e-3)


def test_a_cost_twice_as_high_is_a_sample_twice_as_often():
    X, y, _ = clusters(60, 2, 0, widen=1.5)
    repeats = np.random.default_rng(0).integers(1, 4, 60)
    rows = np.repeat(np.arange(60), repeats)
    weighted = solve_cpm_sgd(X, y, 0.5 * repeats, 2, max_iter=1000, tol=1e-5)
    repeated = solve_cpm_sgd(X[rows], y[rows], np.full(len(rows), 0.5), 2, max_iter=1000, tol=1e-5)
    assert weighted.objective == pytest.approx(repeated.objective, rel=2e-3)


# -- a run ---------------------------------------------------------------------------------


def test_the_floor_keeps_more_faces_in_use():
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(0, 2 * np.pi, 300), np.repeat([1.0, 2.0], 150) + 0.2 * rng.normal(size=300)
    X, y = (radius * [np.cos(angle), np.sin(angle)]).T, np.repeat([-1.0, 1.0], 150)
    ends = [
        solve_cpm_sgd(X, y, np.ones(300), 10, entropy=share * math.log(10), max_iter=60).history[-1]
        for share in (0.0, 0.8, 0.95)
    ]
    assert ends[0]["occupied"] < ends[1]["occupied"] < ends[2]["occupied"]
    assert ends[0]["entropy"] + 0.2 < ends[1]["entropy"] < ends[2]["entropy"] - 0.2
    assert ends[2]["entropy"] > math.log(8)


def test_the_history_and_the_best_epoch():
    X, y, _ = clusters(100, 3, 0)
    solution = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=12, tol=1e-9)
    assert solution.status is Status.ITERATION_LIMIT
    assert [record["epoch"] for record in solution.history] == list(range(1, 13))
    assert set(solution.history[0]) == {"epoch", "seconds", "objective", "entropy", "reassigned", "occupied"}
    assert solution.objective == min(record["objective"] for record in solution.history)
    assert solution.history[0]["reassigned"] == 50
    assert solution.history[-1]["reassigned"] < 10
    z = cpm.natural_assignment(X, y, solution["W"])[y > 0]
    shares = np.bincount(z) / 50
    assert solution.history[-1]["entropy"] == pytest.approx(-shares @ np.log(shares), abs=0.1)
    loose = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=500, tol=1e-2)
    assert loose.status is Status.CONVERGED
    assert 10 <= loose.iterations < 500


def test_a_time_limit_and_an_interruption_keep_a_point(monkeypatch):
    X, y, _ = clusters(100, 3, 0)
    limited = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=10**6, tol=1e-12, time_limit=0.2)
    assert limited.status is Status.TIME_LIMIT
    assert 0.2 <= limited.solve_time < 2.0
    assert limited.objective == pytest.approx(cpm.objective(X, y, limited["W"]))
    calls = []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return run_dense(*arguments)

    monkeypatch.setattr(cpm_sgd, "run_dense", interrupted)
    stopped = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=50)
    assert stopped.status is Status.INTERRUPTED
    monkeypatch.undo()
    three = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=3)
    assert (stopped["W"] == three["W"]).all()


def test_an_interruption_before_the_first_step_keeps_the_start(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cpm_sgd, "run_dense", interrupted)
    X, y, _ = clusters(20, 2, 0)
    stopped = solve_cpm_sgd(X, y, np.ones(20), 2)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.objective == pytest.approx(cpm.objective(X, y, stopped["W"]))
