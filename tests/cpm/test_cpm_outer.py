"""Alternating minimisation: the loop, many starts, and the polytope as its problem."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cpm import LOSSES, clusters

from formulations import cpm
from formulations.language.solution import Solution, Status
from formulations.language.toy_data import two_blobs
from polyopt.base.progress import records_to
from polyopt.certificates import Claim
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.solve import Settings, best_dual_assignment, solve_cpm
from polyopt.optim.rounds import AlternatingProblem, Stage, run_from_many_starts, run_rounds
from polyopt.optim.starts import best_of


@pytest.fixture(params=[0, 1])
def data(request):
    X, y, _ = clusters(60, 3, request.param, widen=1.5)
    return X, y, np.random.default_rng(request.param).uniform(0.5, 1.5, 60)


def by_direction(X, y, K, rng):
    """An assignment that is coherent but far from a fixed point: the best of K random directions."""
    return np.where(y > 0, ((X - X.mean(axis=0)) @ rng.normal(size=(X.shape[1], K))).argmax(axis=1), -1)


@pytest.mark.parametrize("loss", LOSSES)
def test_alternation_ends_at_fixed_point_of_loss(loss, data):
    """The objective never rises, and ends at a fixed point that its multipliers prove stationary."""
    X, y, C = data
    problem, rng = PolytopeProblem(X, y, C, 3, loss), np.random.default_rng(0)
    longest = 0
    for _ in range(5):
        solution = run_rounds(problem, by_direction(X, y, 3, rng))
        values = [record["objective"] for record in solution.history]
        assert (np.diff(values) <= 1e-9 * values[0]).all()
        assert solution.status is Status.CONVERGED
        assert solution.history[-1]["reassigned"] == 0
        # A positive stays where it is for a gain that is none but rounding.
        least = cpm.objective(X, y, solution["W"], C, loss)
        assert least * (1 - 1e-9) <= solution.objective <= least * (1 + 1e-9) + 1e-7 * C.sum()
        again = cpm.fixed_assignment(X, y, 3, solution["assignment"], C, loss).solve()
        assert solution.objective == pytest.approx(again.objective, rel=1e-9)
        certificate = certify_cpm(
            X, y, C, W=solution["W"], alpha=solution.duals["margin"],
            assignment=solution["assignment"], loss=loss,
        )  # fmt: skip
        assert certificate.claim is Claim.STATIONARY
        longest = max(longest, len(values))
    assert longest >= 3


def test_positive_moves_for_strict_gain():
    """Between faces that cost a positive the same, it stays."""
    X, y = np.array([[3.0], [-3.0], [0.5], [0.0]]), np.array([1.0, 1.0, 1.0, -1.0])
    problem = PolytopeProblem(X, y, np.ones(4), 3)
    # Faces 0 and 2 are equal; sample 0 is beyond the margin of face 1 as well, sample 2 of none.
    W = np.array([[1.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
    point = Solution(Status.SOLVED, {"W": W}, {}, 0.0, None, "by hand")
    assert problem.reassign(point, np.array([1, 1, 1, -1])).tolist() == [1, 1, 0, -1]
    assert problem.reassign(point, np.array([1, 1, 2, -1])).tolist() == [1, 1, 2, -1]


def test_remembered_faces_change_nothing(data):
    """Faces that are remembered from other runs leave every run as it was."""
    X, y, C = data
    shared = PolytopeProblem(X, y, C, 3)
    generator = np.random.default_rng(0)
    starts = [by_direction(X, y, 3, generator) for _ in range(4)]
    for start in starts:
        fresh = run_rounds(PolytopeProblem(X, y, C, 3), start)
        warm = run_rounds(shared, start)
        assert warm.objective == pytest.approx(fresh.objective, rel=1e-10)
        assert warm["W"] == pytest.approx(fresh["W"], abs=1e-8)
        assert (warm["assignment"] == fresh["assignment"]).all()


def test_starts_ignore_order_and_repetition(data, rng):
    """A start is the same for permuted, repeated or sparse samples."""
    X, y, _ = data
    repeats, order = rng.integers(1, 4, len(y)), rng.permutation(len(y))
    rows = np.repeat(np.arange(len(y)), repeats)

    def start(X, y, C):
        return PolytopeProblem(X, y, C, 4).start(np.random.default_rng(3))

    plain = start(X, y, 1.0 * repeats)
    assert len(set(plain[y > 0])) >= 2
    assert (plain[y < 0] == -1).all()
    assert (start(X[rows], y[rows], np.ones(len(rows))) == plain[rows]).all()
    assert (start(X[order], y[order], 1.0 * repeats[order]) == plain[order]).all()
    assert (start(sp.csr_array(X), y, 1.0 * repeats) == plain).all()


def test_best_start_is_kept(data):
    """Of many starts the lowest is kept, and all are in the history."""
    X, y, C = data
    solution = run_from_many_starts([Stage(PolytopeProblem(X, y, C, 3))], n_init=8, seed=1)
    ends = {record["start"]: record["objective"] for record in solution.history}
    assert sorted(ends) == list(range(8))
    assert solution.objective == pytest.approx(min(ends.values()), rel=1e-9)
    assert max(ends.values()) > 1.001 * min(ends.values())
    assert solution.iterations == len(solution.history)


# -- limits --------------------------------------------------------------------------------


def test_stopped_faces_do_nothing():
    """Faces without time for a step are 0, with their objective and the bound 0."""
    X, y = two_blobs(n=30, separation=1.0)
    found = PolytopeProblem(X, y, np.ones(30), 3).solve(np.arange(30) % 3, 0.0)
    assert found.status is Status.TIME_LIMIT
    assert not found["W"].any()
    assert not found.duals["margin"].any()
    assert found.objective == pytest.approx(np.where(y > 0, 1.0, 3.0).sum())
    assert found.bound == 0.0


class Stairs(AlternatingProblem):
    """A problem whose objective falls by 1 a round for ever; it may be interrupted at a round."""

    def __init__(self, interrupt_at=None):
        self.interrupt_at, self.rounds = interrupt_at, 0

    def start(self, rng, time_limit=None):
        return np.array([0])

    def solve(self, assignment, time_limit):
        self.rounds += 1
        if self.rounds == self.interrupt_at:
            raise KeyboardInterrupt
        return Solution(Status.SOLVED, {"x": assignment}, {}, -float(assignment[0]), None, "stairs")

    def reassign(self, point, assignment):
        return assignment + 1


def test_interruption_ends_the_starts():
    """Ctrl-C within a run ends the runs that would follow."""
    stopped = run_from_many_starts([Stage(Stairs(interrupt_at=8), 5)], n_init=5)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.objective == -4.0  # the first start's end, better than the second's
    assert [r["start"] for r in stopped.history] == [0] * 5 + [1] * 2


@pytest.mark.parametrize(("call", "count"), [(0, 0), (2, 2)])
def test_interruption_between_runs_keeps_them(call, count):
    """Ctrl-C between runs keeps the runs so far, and passes if there is none."""

    def run(number, time_left):
        if number == call:
            raise KeyboardInterrupt
        return Solution(Status.CONVERGED, {"x": np.array(number)}, {}, float(number), None, "by hand")

    if count == 0:
        with pytest.raises(KeyboardInterrupt):
            best_of(run, 4)
    else:
        found = best_of(run, 4)
        assert (found.status, found["x"], len(found.runs)) == (Status.INTERRUPTED, 0, count)


def test_first_of_tied_runs_is_kept():
    """The first of tied runs is kept, and a time limit ends the runs after the first."""
    values = [3.0, 1.0 + 1e-12, 1.0, 2.0]

    def run(number, time_left):
        return Solution(Status.CONVERGED, {"x": np.array(number)}, {}, values[number], None, "by hand")

    assert best_of(run, 4)["x"] == 1
    assert best_of(run, 4).status is Status.CONVERGED
    limited = best_of(run, 4, time_limit=0.0)
    assert limited["x"] == 0
    assert limited.status is Status.TIME_LIMIT


# -- starts from dual ascent ---------------------------------------------------------------


def test_interrupted_dual_start_keeps_the_runs(data):
    """Ctrl-C in the dual ascents that begin the last run keeps the best of the runs before."""
    X, y, C = data
    whole = solve_cpm(X, y, C, Settings(3, "exact", n_init=2), 0)
    first, told = sum(len(run.history) for run in whole.runs[:2]), []

    def interrupt(record):
        told.append(record)
        if len(told) == first + 1:
            raise KeyboardInterrupt

    with records_to(interrupt):
        found = solve_cpm(X, y, C, Settings(3, "exact", n_init=2), 0)
    assert (found.status, len(found.runs)) == (Status.INTERRUPTED, 2)
    assert found.objective == pytest.approx(min(run.objective for run in whole.runs[:2]), rel=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_dual_start_ignores_order_and_repetition(sparse, rng):
    """The assignment of dual ascents is the same for permuted and repeated samples."""
    X, y, _ = clusters(60, 3, 1, widen=1.5)
    repeats, order = rng.integers(1, 4, 60), rng.permutation(60)
    rows = np.repeat(np.arange(60), repeats)

    def end(X, y, C):
        limits = {"n_init": 6, "max_iter": 100, "time_limit": None, "seed": 0}
        return best_dual_assignment(sp.csr_array(X) if sparse else X, y, C, 4, **limits)

    plain = end(X, y, 1.0 * repeats)
    assert ((plain >= 0) == (y > 0)).all()
    assert (end(X[rows], y[rows], np.ones(len(rows))) == plain[rows]).all()
    assert (end(X[order], y[order], 1.0 * repeats[order]) == plain[order]).all()


@pytest.mark.parametrize("margin", ["total", "worst"])
@pytest.mark.parametrize("loss", LOSSES)
def test_settings_name_the_objective(loss, margin):
    """The solution is stationary for the loss and margin of its settings, and for none of the other three."""
    X, y, _ = clusters(40, 3, 0, widen=2.5)
    C = np.full(40, 0.3)
    found = solve_cpm(X, y, C, Settings(3, "exact", loss=loss, margin=margin, n_init=2), 0)
    point = {"W": found["W"], "alpha": found.duals["margin"], "assignment": found["assignment"]}
    claims = {
        pair: certify_cpm(X, y, C, loss=pair[0], margin=pair[1], tol=1e-5, **point).claim
        for pair in product(LOSSES, ["total", "worst"])
    }
    assert claims.pop((loss, margin)) is Claim.STATIONARY
    assert set(claims.values()) == {Claim.SUBOPTIMAL_BY}
