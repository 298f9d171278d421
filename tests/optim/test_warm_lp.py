"""The linear program that stays in HiGHS: the right answers, warm or cold, and no surprise where it fails."""

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import highspy
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from formulations.language.solution import Status
from polyopt.optim.warm_lp import PersistentLP


def program(seed, q=12, p=60):
    """A feasible bounded program with equations and inequalities: its arguments but for the column bounds."""
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((q, p)) < 0.6, rng.normal(size=(q, p)), 0.0)
    row_lower = np.where(np.arange(q) % 3 == 0, 0.0, -np.inf)
    row_upper = np.where(np.arange(q) % 3 == 1, np.inf, 0.0)
    return rng.normal(size=p), A, np.where(np.arange(q) % 3 == 1, -1.0, row_lower), row_upper


def lower_bounds(rng, p):
    """Lower bounds of the columns, so that x = 0 is feasible: some are 0."""
    return -rng.random(p) * (rng.random(p) < 0.5)


def upper_bounds(rng, p):
    """Upper bounds of the columns, so that x = 0 is feasible: some are 0."""
    return 3.0 * rng.random(p) * (rng.random(p) < 0.7)


def scipy_value(cost, A, row_lower, row_upper, lower, upper):
    finite_up, finite_low = np.isfinite(row_upper), np.isfinite(row_lower)
    found = linprog(
        cost,
        np.vstack([A[finite_up], -A[finite_low]]),
        np.concatenate([row_upper[finite_up], -row_lower[finite_low]]),
        bounds=np.c_[lower, upper],
    )
    assert found.status == 0
    return found.fun


def lagrangian_bound(cost, A, row_lower, row_upper, lower, upper, duals):
    """The bound that the row multipliers prove, by the house's convention and nothing else."""
    held = np.where(duals > 0, row_upper, row_lower)
    reduced = cost + A.T @ duals
    of_rows = -np.sum(np.where(duals == 0, 0.0, duals * np.where(duals == 0, 0.0, held)))
    return of_rows + np.sum(np.minimum(reduced * lower, reduced * upper))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_warm_equals_cold_equals_scipy(seed):
    """Warm and cold solves have scipy's optimum for many bounds, and multipliers that prove it."""
    arguments = program(seed)
    rng = np.random.default_rng(100 + seed)
    p = len(arguments[0])
    lower = lower_bounds(rng, p)
    warm = PersistentLP(*arguments, lower, 1.0)
    cold = PersistentLP(arguments[0], sp.csr_array(arguments[1]), *arguments[2:], lower, 1.0)
    for number in range(40):
        box = lower, upper_bounds(rng, p)
        cold.forget()
        a, b = warm.solve(upper=box[1]), cold.solve(upper=box[1])
        assert (a.warm, b.warm) == (number > 0, False)
        expected = scipy_value(*arguments, *box)
        for found in (a, b):
            assert found.status is Status.SOLVED
            assert found.objective == pytest.approx(expected, rel=1e-8, abs=1e-8)
            assert found.objective == pytest.approx(arguments[0] @ found.x, rel=1e-12)
            assert np.all((found.x >= box[0] - 1e-8) & (found.x <= box[1] + 1e-8))
            bound = lagrangian_bound(*arguments, *box, found.duals)
            assert bound == pytest.approx(expected, rel=1e-7, abs=1e-7)


def test_signs_of_multipliers():
    """Multipliers are positive at upper bounds, negative at lower ones; d(minimum)/dr = −ν of an equation."""
    at_least = PersistentLP([3.0], [[1.0]], 2.0, np.inf, -10.0, 10.0).solve()
    assert (at_least.objective, at_least.duals.tolist()) == (6.0, [-3.0])
    at_most = PersistentLP([-3.0], [[1.0]], -np.inf, 2.0, -10.0, 10.0).solve()
    assert (at_most.objective, at_most.duals.tolist()) == (-6.0, [3.0])
    # d(minimum)/dr = -nu of an equation.
    equal = PersistentLP([3.0], [[2.0]], 4.0, 4.0, -10.0, 10.0).solve()
    assert (equal.objective, equal.duals.tolist()) == (6.0, [-1.5])


def test_missing_bounds_stay():
    """Bounds that are not given stay those of the last solve."""
    lp = PersistentLP([-1.0, -1.0], [[1.0, 1.0]], -np.inf, 10.0, 0.0, 1.0)
    assert lp.solve(upper=[2.0, 3.0]).objective == -5.0
    assert lp.solve().x.tolist() == [2.0, 3.0]


def test_time_limit_is_of_one_solve():
    """A time limit is told, and does not count for the next solve."""
    rng = np.random.default_rng(0)
    lp = PersistentLP(rng.normal(size=600), rng.normal(size=(100, 600)), 0.0, 0.0, 0.0, 1.0)
    stopped = lp.solve(time_limit=1e-9)
    assert stopped.status is Status.TIME_LIMIT
    assert np.isfinite(stopped.x).all()
    free = lp.solve()
    assert free.status is Status.SOLVED
    # HiGHS's clock does not stop between solves; the limit is of the one it is given for.
    assert lp.solve(upper=0.9, time_limit=60.0).status is Status.SOLVED


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cut_off_is_true_and_proven(seed):
    """Cut off, the multipliers prove that the optimum exceeds the cutoff; the solve can be continued."""
    arguments = program(seed)
    rng = np.random.default_rng(200 + seed)
    lower = lower_bounds(rng, len(arguments[0]))
    lp, ends = PersistentLP(*arguments, lower, 1.0), []
    for number in range(60):
        box = lower, upper_bounds(rng, len(arguments[0]))
        expected = scipy_value(*arguments, *box)
        cutoff = expected + rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-7, 1)
        if number % 10 == 0:
            lp.forget()
        found = lp.solve(upper=box[1], cutoff=cutoff)
        ends.append((found.status, cutoff < expected))
        if found.status is Status.CUT_OFF:
            assert cutoff < expected
            bound = lagrangian_bound(*arguments, *box, found.duals)
            assert cutoff - 1e-7 * abs(cutoff) <= bound <= expected + 1e-7
            assert np.isnan(found.x).all()
            assert np.isnan(found.objective)
            assert found.warm == (number % 10 > 0)
            on = lp.solve()  # from the basis where it stopped, and to the end
            assert (on.status, on.warm) == (Status.SOLVED, True)
        else:
            on = found
        assert on.status is Status.SOLVED
        assert on.objective == pytest.approx(expected, rel=1e-8, abs=1e-8)
    # HiGHS looks every few pivots; programs as small as these are often solved by then.
    assert ends.count((Status.CUT_OFF, True)) > 5


def test_cutoff_saves_pivots():
    """A cutoff saves pivots, counts for one solve, and changes no bit if it is not reached."""
    arguments = program(0, q=40, p=300)
    whole, cut = (PersistentLP(*arguments, 0.0, 1.0) for _ in range(2))
    full = whole.solve()
    found = cut.solve(cutoff=2.0 * full.objective)
    assert found.status is Status.CUT_OFF
    assert 0 <= found.iterations < 0.8 * full.iterations
    assert cut.solve().objective == pytest.approx(full.objective, rel=1e-10)
    # Not reached, it changes nothing, to the last bit.
    for cutoff in (full.objective + 1e-9, 0.5 * full.objective, np.inf):
        whole.forget()
        assert whole.solve(cutoff=cutoff).x.tolist() == full.x.tolist()


def test_infeasible_is_above_every_cutoff():
    """A program without a point is infeasible or above the cutoff, an unbounded one is neither."""
    lp = PersistentLP([-1.0, 0.0], [[1.0, -1.0]], 1.0, 1.0, 0.0, 5.0)
    ends = {lp.solve(upper=[0.5, 5.0], cutoff=cutoff).status for cutoff in (-100.0, -0.1, 100.0)}
    assert ends <= {Status.INFEASIBLE, Status.CUT_OFF}
    assert lp.solve(upper=np.inf, cutoff=-1e6).status is Status.UNBOUNDED
    again = lp.solve(upper=5.0, cutoff=0.0)
    assert (again.status, again.objective) == (Status.SOLVED, -5.0)


def test_program_without_optimum_is_told():
    """Infeasible and unbounded programs are told, and the next solve is right."""
    lp = PersistentLP([-1.0, 0.0], [[1.0, -1.0]], 1.0, 1.0, 0.0, 5.0)
    assert lp.solve(upper=[0.5, 5.0]).status is Status.INFEASIBLE
    assert lp.solve(upper=[-1.0, 5.0]).status is Status.INFEASIBLE  # no bounds at all
    unbounded = lp.solve(upper=np.inf)
    assert unbounded.status is Status.UNBOUNDED
    assert np.isnan(unbounded.x).all()
    assert np.isnan(unbounded.objective)
    again = lp.solve(upper=5.0)
    assert (again.status, again.objective) == (Status.SOLVED, -5.0)


@pytest.mark.parametrize("times", [1, 2])
def test_failure_is_solved_again_once(monkeypatch, times):
    """A failed run of HiGHS is repeated once without a basis; a second failure is told."""
    lp = PersistentLP(*program(2), 0.0, 1.0)
    expected = lp.solve().objective
    run, left = highspy.Highs.run, [times]

    def fails(highs):
        left[0] -= 1
        return highspy.HighsStatus.kError if left[0] >= 0 else run(highs)

    monkeypatch.setattr(highspy.Highs, "run", fails)
    found = lp.solve()
    assert not found.warm
    if times == 1:
        assert found.status is Status.SOLVED
        assert found.objective == pytest.approx(expected, rel=1e-12)
    else:
        assert found.status is Status.FAILED
        assert np.isnan(found.duals).all()
    assert lp.solve().status is Status.SOLVED


def test_other_highs_may_have_threads():
    """A HiGHS with more threads in the same thread is no obstacle."""
    ends = []

    def both():  # HiGHS keeps the number of threads that it began with in each thread of ours
        other = highspy.Highs()
        other.setOptionValue("output_flag", False)
        other.setOptionValue("threads", 2)
        other.run()
        lp = PersistentLP(*program(0), 0.0, 1.0)
        ends.append(lp.solve().status)

    thread = Thread(target=both)
    thread.start()
    thread.join()
    assert ends == [Status.SOLVED]


def test_two_threads_share_a_program():
    """Two threads that share a program get its optima."""
    arguments = program(0)
    lp, rng = PersistentLP(*arguments, 0.0, 1.0), np.random.default_rng(0)
    uppers = [upper_bounds(rng, len(arguments[0])) for _ in range(40)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda upper: lp.solve(upper=upper).objective, uppers))
    expected = [PersistentLP(*arguments, 0.0, upper).solve().objective for upper in uppers]
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_unusable_numbers_are_named():
    """Infinite and huge coefficients are refused."""
    cost, A, low, high = program(0)
    with pytest.raises(ValueError, match="cost and A must be finite"):
        PersistentLP(np.full(60, np.inf), A, low, high, 0.0, 1.0)
    with pytest.raises(ValueError, match="HiGHS refuses"):
        PersistentLP(cost, 1e20 * A, low, high, 0.0, 1.0)
