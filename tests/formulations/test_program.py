"""Program and Solution: signs of multipliers, attempts of solvers, limits, printing."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from formulations import svm
from formulations.language import solving
from formulations.language.program import Program, Row
from formulations.language.solution import Solution, Status
from formulations.language.solving import attempt
from formulations.language.toy_data import two_blobs


def toy(sense: str, constraint_of, objective_of) -> Program:
    x = cp.Variable(2, name="x")
    objective = cp.Minimize(objective_of(x)) if sense == "min" else cp.Maximize(-objective_of(x))
    row = Row("row", constraint_of(x), "x ≤ 1", "mu", "price")
    return Program("toy", "Toy", "a test (2026), eq. (0)", objective, "f", {"x": x}, (row,))


# min (x0-2)^2 + (x1-2)^2 subject to one row through the point (1, 1): every multiplier is 2 up to sign.
SIGN_TABLE = {
    "g <= r": (lambda x: cp.sum(x) <= 2, 2.0),
    "g >= r": (lambda x: -cp.sum(x) >= -2, 2.0),
    "h == r": (lambda x: cp.sum(x) == 2, 2.0),
    "-h == -r": (lambda x: -cp.sum(x) == -2, -2.0),
}


@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", "HIGHS", "SCS"])
@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("name", SIGN_TABLE)
def test_solvers_follow_the_sign_table(solver, sense, name):
    """Every solver's multipliers have the signs of the convention, of minima and of maxima."""
    constraint, expected = SIGN_TABLE[name]
    solution = toy(sense, constraint, lambda x: cp.sum_squares(x - 2)).solve(solver)
    assert solution["x"] == pytest.approx([1, 1], abs=1e-6)
    assert float(solution.duals["row"]) == pytest.approx(expected, abs=1e-5)


def test_sign_of_a_matrix_constraint():
    """min x0 + x1 s.t. [[x0, 1], [1, x1]] >= 0 has x = (1, 1) and Z = [[1, -1], [-1, 1]]."""
    program = toy("min", lambda x: cp.bmat([[x[0], 1], [1, x[1]]]) >> 0, cp.sum)
    solution = program.solve()
    assert solution["x"] == pytest.approx([1, 1], abs=1e-6)
    assert solution.duals["row"] == pytest.approx(np.array([[1, -1], [-1, 1]]), abs=1e-5)
    assert solution.iterations > 0


@pytest.mark.parametrize(
    ("row", "multipliers"),
    [
        (lambda x: x >= 0, [0.5, 0.0]),
        (lambda x: cp.bmat([[x[0], 1], [1, x[1]]]) >> 0, [[1.0, -1.0], [-1.0, 1.0]]),
        (lambda x: cp.SOC(x, np.ones((3, 2)) @ cp.diag(x)), [[4.0, 8.0], [1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]),
    ],
)
def test_kept_multipliers_are_read_back(row, multipliers):
    """Multipliers of vectors, matrices and cones come back in their places."""
    (row,) = toy("min", row, cp.sum).rows
    row.keep(np.array(multipliers))
    assert row.multipliers.tolist() == multipliers


def test_multiplier_is_price_of_right_side(rng):
    """d p*/d r = -mu for g <= r, by finite differences."""
    step = 1e-4
    for r in (1.0, 2.0):

        def value(rhs):
            return toy("min", lambda x: cp.sum(x) <= rhs, lambda x: cp.sum_squares(x - 2)).solve()

        slope = (value(r + step).objective - value(r - step).objective) / (2 * step)
        assert slope == pytest.approx(-float(value(r).duals["row"]), abs=1e-5)


def test_limits_keep_a_point(blobs):
    """A limit of iterations or seconds leaves a finite point with its status."""
    X, y = blobs
    solution = svm.primal(X, y).solve("CLARABEL", max_iter=2)
    assert (solution.status, solution.iterations) == (Status.ITERATION_LIMIT, 2)
    assert np.isfinite(solution["w"]).all()
    timed = svm.primal(X, y).solve("OSQP", time_limit=1e-9)
    assert timed.status is Status.TIME_LIMIT
    assert np.isfinite(timed["w"]).all()


@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", "HIGHS", "SCS"])
def test_limits_are_of_one_solve(solver):
    """A solve without limits is not bound by those of the solve before."""
    X, y = two_blobs(n=300)
    program = svm.primal(X, y)
    program.solve(solver, time_limit=1e-9)
    program.solve(solver, max_iter=1)
    again, fresh = program.solve(solver), svm.primal(X, y).solve(solver)
    assert again.status is fresh.status is Status.SOLVED
    assert again.objective == fresh.objective


@pytest.fixture
def scripted(monkeypatch):
    """Let every attempt of a solver go through a function of its number and the true answer."""

    def follow(script):
        asked = []

        def one(program, solver, settings, **limits):
            asked.append((solver, settings, limits))
            return script(len(asked), attempt(program, solver, settings, **limits))

        monkeypatch.setattr(solving, "attempt", one)
        return asked

    return follow


def nothing(solution):
    return replace(solution, status=Status.FAILED, primal={}, duals={}, objective=np.nan)


def inaccurate(solution, by):
    """The point moved away from the optimum, as of a solver that says that it fell short."""
    moved = {name: value + by for name, value in solution.primal.items()}
    return replace(solution, status=Status.INACCURATE, primal=moved)


def test_failing_solver_is_replaced(blobs, scripted):
    """The next solver is tried and both are named, unless one solver was asked for."""
    program = svm.primal(*blobs)
    scripted(lambda n, found: nothing(found) if found.solver == "clarabel" else found)
    solution = program.solve()
    assert solution.status is Status.SOLVED
    assert solution.solver == "osqp (after clarabel failed)"
    only = program.solve("clarabel")
    assert only.status is Status.FAILED
    assert not only.primal
    assert np.isnan(only.objective)


def test_all_solvers_fail(blobs, scripted):
    """The last solver is named with those before it, and there is no point."""
    asked = scripted(lambda _, found: nothing(found))
    alone = svm.primal(*blobs).solve("CLARABEL")
    assert (alone.status, alone.solver) == (Status.FAILED, "clarabel")
    asked.clear()
    found = svm.primal(*blobs).solve()
    names = list(dict.fromkeys(name.lower() for name, *_ in asked))
    assert len(names) > 1
    assert found.solver == f"{names[-1]} (after {', '.join(names[:-1])} failed)"
    assert found.primal == {}


def test_highs_is_measured_on_quadratic_programs(blobs, scripted):
    """HiGHS calls points optimal whose gradient is off by 1e-5: it is measured and asked again."""

    def poor(found):
        return replace(inaccurate(found, 1e-3), status=Status.SOLVED)

    X, y = blobs
    asked = scripted(lambda n, found: poor(found) if n == 1 else found)
    solution = svm.kernel_dual(X @ X.T, y, 1.0).solve("HIGHS")
    assert [solver for solver, *_ in asked] == ["HIGHS", "HIGHS"]
    assert (solution.status, solution.solver) == (Status.SOLVED, "highs, asked 2 times")
    asked.clear()
    assert svm.kernel_dual(X @ X.T, y, 1.0).solve("CLARABEL").solver == "clarabel"


def test_inaccurate_answer_is_asked_again(blobs, scripted):
    """A solver that says it fell short is asked again with other settings."""
    program = svm.primal(*blobs)
    true = program.solve()
    asked = scripted(lambda n, found: inaccurate(found, 1e-3) if n == 1 else found)
    solution = program.solve()
    assert [solver for solver, *_ in asked] == ["CLARABEL", "CLARABEL"]
    assert asked[0][1] != asked[1][1]
    assert (solution.status, solution.solver) == (Status.SOLVED, "clarabel, asked 2 times")
    assert solution.objective == pytest.approx(true.objective, rel=1e-9)


def test_nearest_to_optimal_is_kept(blobs, scripted):
    """Of points 1e-2, 1e-4, 1e-3, ... away the second is the best, though a later one is called optimal."""
    program = svm.primal(*blobs)
    exact = program.solve()
    away = [1e-2, 1e-4, 1e-3]

    def script(n, found):
        moved = inaccurate(found, away[n - 1] if n <= len(away) else 1e-3)
        return replace(moved, status=Status.SOLVED) if n > 3 else moved

    asked = scripted(script)
    solution = program.solve()
    assert {solver for solver, *_ in asked} == {"CLARABEL", "OSQP", "HIGHS"}
    assert (solution.status, solution.solver) == (Status.INACCURATE, "clarabel, asked 2 times")
    assert solution["w"] - exact["w"] == pytest.approx(1e-4, rel=1e-3)
    # The program holds the point that was kept: a recovery map may read it there.
    assert program.variables["w"].value == pytest.approx(solution["w"], abs=0)
    for row in program.rows:
        assert row.multipliers == pytest.approx(solution.duals[row.name], abs=0)


def test_inaccurate_status_of_optimum_is_corrected(blobs, scripted):
    """An optimal point is SOLVED, whatever its solver says."""
    asked = scripted(lambda n, found: inaccurate(found, 0.0))
    assert svm.primal(*blobs).solve().status is Status.SOLVED
    assert len(asked) == 1


def test_attempts_share_the_time(blobs, scripted, ticking):
    """Each further attempt has what the ones before it have left of the time limit."""
    asked = scripted(lambda n, found: inaccurate(found, 1e-3))
    solution = svm.primal(*blobs).solve(time_limit=0.12)
    granted = [limits["seconds"] for *_, limits in asked]
    assert granted == sorted(granted, reverse=True)
    assert 0.12 > granted[0] > granted[-1] > 0.0
    assert 2 <= len(asked) < 8  # of eight in all
    assert solution.status is Status.INACCURATE
    assert len(solution.primal) == 3


def test_only_a_limit_of_the_caller_ends(blobs, scripted):
    """A solver that meets an iteration limit of its own is asked again."""
    program = svm.primal(*blobs)
    limited = scripted(lambda n, found: found)
    assert program.solve(max_iter=2).status is Status.ITERATION_LIMIT
    assert len(limited) == 1
    asked = scripted(
        lambda n, found: replace(inaccurate(found, 0.1), status=Status.ITERATION_LIMIT) if n == 1 else found,
    )
    assert program.solve().status is Status.SOLVED
    assert len(asked) == 2


def test_options_of_the_caller_are_tried_once(blobs, scripted):
    """With options of a solver its answer is returned as it is."""
    asked = scripted(lambda n, found: inaccurate(found, 1e-3))
    solution = svm.primal(*blobs).solve(max_threads=2)
    assert (solution.status, len(asked), asked[0][1]["max_threads"]) == (Status.INACCURATE, 1, 2)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"time_limit": -1}, "time_limit must be seconds, at least 0, or None, not -1"),
        ({"time_limit": np.nan}, "time_limit must be .* not nan"),
        ({"time_limit": True}, "time_limit must be .* not True"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1, or None, not 0"),
        ({"max_iter": 2.5}, "max_iter must be .* not 2.5"),
        ({"solver": 3}, "solver must be one of .* not 3"),
    ],
)
def test_wrong_limits_are_refused(blobs, limits, message):
    """A limit that is no number of seconds or iterations is named."""
    with pytest.raises(ValueError, match=message):
        svm.primal(*blobs).solve(**limits)


def test_infeasible_verdict_may_be_refuted():
    """With C = 1e12 Clarabel calls the SVM infeasible, which it never is."""
    X, y = two_blobs(n=50)
    program = svm.primal(X, y, 1e12)
    assert program.solve("CLARABEL").status is Status.INFEASIBLE
    solution = program.solve()
    assert solution.solver.startswith("highs (after clarabel failed")
    # HiGHS calls its point optimal. That of 1.15 has slacks of 1e-14, which cost half a percent there.
    optimum = svm.primal(X, y, 1e3).solve().objective  # no slack is left at any higher price
    assert solution.objective == pytest.approx(optimum, rel=0.02)
    is_optimum = solution.objective <= optimum * (1 + 1e-6)
    assert solution.status is (Status.SOLVED if is_optimum else Status.INACCURATE)


@pytest.mark.parametrize(("sense", "side"), [(cp.Minimize, -1.0), (cp.Maximize, 1.0)])
def test_integer_bound_is_beyond_the_optimum(sense, side):
    """A knapsack left at a gap has a bound below what is minimised, above what is maximised."""
    weights, extra = np.random.default_rng(0).uniform(size=(2, 30))
    z = cp.Variable(30, boolean=True, name="z")
    row = Row("r", (1.0 + weights) @ z <= 20.3, "", "–", "")
    objective = sense(side * (1.0 + weights + 0.3 * extra) @ z)
    program = Program("toy", "Toy", "", objective, "v·z", {"z": z}, (row,))
    rough, exact = (program.solve(mip_rel_gap=gap) for gap in (0.5, 1e-9))
    assert side * rough.objective < side * exact.objective < side * rough.bound
    assert exact.bound == pytest.approx(exact.objective, rel=1e-9)
    assert exact.duals == {}


def test_infeasible_or_unbounded():
    """The two have a status each."""

    def nothing(x):
        return cp.sum(x) + 0 * x[0]

    assert toy("min", lambda x: cp.sum_squares(x) <= -1, nothing).solve().status is Status.INFEASIBLE
    assert toy("min", lambda x: x <= 1, nothing).solve().status is Status.UNBOUNDED


def test_missing_names_are_named():
    """A name that is no variable, parameter or solver is refused with those that are."""
    solution = Solution(Status.SOLVED, {"w": np.ones(2)}, {"margin": np.zeros(3)}, 1.0, None, "none")
    with pytest.raises(KeyError, match=r"'v' is not in this solution, which holds w, margin"):
        solution["v"]
    program = svm.primal(np.array([[0.0], [1.0]]), [-1, 1])
    with pytest.raises(KeyError, match="has no parameter 'D'; it has C"):
        program.set(D=1)
    with pytest.raises(ValueError, match="solver must be one of"):
        program.solve("GUROBI_OR_SO")
    assert str(Status.TIME_LIMIT).endswith("kept.")
