"""The one loop around faces: what it keeps, when it stops, and how stages follow one another."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.cpm import clusters

from formulations.language.clock import Clock, running
from formulations.language.solution import Solution, Status
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.dual import DualProblem
from polyopt.optim.rounds import DescentProblem, Stage, run_rounds, run_stages
from polyopt.optim.warm_lp import PersistentLP
from polyopt.polyhedral.pc_slp import SuccessiveLP
from polyopt.polyhedral.plume import PlumeProblem
from polyopt.polyhedral.polyceptron_exact import ExactPolyceptron
from polyopt.polyhedral.spla1 import LogisticCells


class Scripted(DescentProblem):
    """Faces that are one number, and steps to what a script says; the objective is `factor` times it."""

    def __init__(self, script, factor=1.0, ends=None):
        self.script, self.factor, self.ends, self.made = list(script), factor, ends or {}, 0

    def start(self, rng, time_limit=None):
        return np.array([[rng.uniform(5.0, 6.0)]])

    def value(self, W):
        return self.factor * float(W[0, 0])

    def step(self, W, time_limit):
        self.made += 1
        end = self.ends.get(self.made, Status.SOLVED)
        if end is Status.INTERRUPTED:
            raise KeyboardInterrupt
        W = np.array([[self.script[self.made - 1]]])
        return Solution(end, {"W": W}, {"by": np.ones(1)}, self.value(W), None, "script")

    def record(self, W):
        return {"at": float(W[0, 0])}


def begin(x):
    return np.array([[x]])


def test_the_best_point_is_kept_and_patience_counts_steps_in_a_row():
    found = run_stages([Stage(Scripted([4.0, 6.0, 3.0, 7.0, 8.0, 1.0]), patience=2)], begin(5.0))
    assert found["W"] == 3.0
    assert [r["at"] for r in found.history] == [5.0, 4.0, 6.0, 3.0, 7.0, 8.0]
    assert [r["step"] for r in found.history] == [0, 1, 2, 3, 4, 5]
    assert (found.status, found.iterations) == (Status.CONVERGED, 5)


def test_a_fall_below_the_tolerance_brings_nothing():
    script = [4.0, 3.99, 1.0]
    assert run_stages([Stage(Scripted(script), tol=0.1)], begin(5.0))["W"] == 3.99
    assert run_stages([Stage(Scripted(script), 3, 0.001)], begin(5.0))["W"] == 1.0


def test_of_equal_points_the_later_is_kept_for_its_multipliers():
    assert run_rounds(Scripted([5.0]), begin(5.0)).duals == {"by": np.ones(1)}


def test_an_objective_of_zero_ends_a_run_at_once():
    found = run_stages([Stage(Scripted([0.0, 0.0]), patience=5)], begin(5.0))
    assert (found.status, found.iterations) == (Status.CONVERGED, 1)


def test_a_step_that_failed_is_no_convergence():
    found = run_rounds(Scripted([5.0], ends={1: Status.STALLED}), begin(5.0))
    assert found.status is Status.STALLED


@pytest.mark.parametrize("limit", [Status.TIME_LIMIT, Status.ITERATION_LIMIT])
def test_a_limit_within_a_step_ends_the_run_and_keeps_its_point(limit):
    found = run_rounds(Scripted([4.0, 3.0], ends={1: limit}), begin(5.0))
    assert (found.status, found["W"]) == (limit, 4.0)


def test_the_first_round_is_made_whatever_the_time():
    found = run_rounds(Scripted([4.0, 3.0]), begin(5.0), time_limit=0.0)
    assert (found.status, found["W"], found.iterations) == (Status.TIME_LIMIT, 4.0, 1)


@pytest.mark.parametrize("how", ["stopped", "out of time"])
def test_a_fit_that_is_over_makes_no_round_from_a_point(how):
    """Nor the first one, as one in the middle of a whole fit that was stopped has no right to time."""
    with running(Clock(0.0 if how == "out of time" else None)) as clock:
        if how == "stopped":
            clock.stop()
        problem = Scripted([4.0, 3.0])
        found = run_rounds(problem, begin(5.0))
    assert problem.made == found.iterations == 0
    assert (found.status, found["W"]) == (Status.TIME_LIMIT, 5.0)


def test_stages_go_on_from_the_best_and_value_it_by_their_own_objective():
    soft, sharp = Scripted([3.0, 4.0]), Scripted([2.0, 2.5], factor=10.0)
    found = run_stages([Stage(soft), Stage(sharp)], begin(5.0))
    assert [(r["step"], r["at"]) for r in found.history] == list(enumerate([5.0, 3.0, 4.0, 2.0, 2.5]))
    assert found.objective == 20.0
    assert found.iterations == 4


@pytest.mark.parametrize("end", [Status.TIME_LIMIT, Status.INTERRUPTED])
def test_after_a_stop_later_stages_value_the_point_and_make_no_rounds(end):
    soft, sharp = Scripted([3.0, 1.0], ends={2: end}), Scripted([2.0], factor=10.0)
    found = run_stages([Stage(soft), Stage(sharp)], begin(5.0))
    assert sharp.made == 0
    assert found.status is end
    assert found.objective == 10.0 * found["W"][0, 0]


def test_a_stage_that_reached_its_rounds_hands_on():
    found = run_stages([Stage(Scripted([4.0, 3.0]), 1), Stage(Scripted([1.0, 1.0]))], begin(5.0))
    assert (found.status, found["W"]) == (Status.CONVERGED, 1.0)


@pytest.mark.parametrize(("max_iter", "made"), [(1, (1, 0)), (2, (2, 0)), (3, (2, 1)), (9, (2, 2))])
def test_one_budget_of_rounds_goes_through_all_stages(max_iter, made):
    """Stages share `max_iter` rounds; if the last stage has none left, the run ended by the limit."""
    soft, sharp = Scripted([3.0, 4.0]), Scripted([2.0, 2.5], factor=10.0)
    found = run_stages([Stage(soft), Stage(sharp)], begin(5.0), max_iter=max_iter)
    assert (soft.made, sharp.made) == made
    assert found.iterations == sum(made) == len(found.history) - 1
    assert (found.status is Status.ITERATION_LIMIT) == (max_iter < 4)
    assert found.objective == 10.0 * found["W"][0, 0]


@pytest.mark.parametrize("problem_class", [PolytopeProblem, DualProblem])
def test_the_starts_of_the_polytope_machine_draw_from_one_stream(problem_class):
    X, y, _ = clusters(40, 3, 0)
    problem, rng = problem_class(X, y, np.ones(40), 3), np.random.default_rng(7)
    for generator in problem.generators(7, 4):
        assert (problem.start(generator) == problem.start(rng)).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y, c: LogisticCells(X, y, c, 3, engine="exact"),
        lambda X, y, c: ExactPolyceptron(X, y, c, 3),
        lambda X, y, c: SuccessiveLP(X, y, c, 3, engine="exact"),
        lambda X, y, c: PlumeProblem(X, y, c, 3, method="exact"),
        lambda X, y, c: PolytopeProblem(X, y, c, 3),
        lambda X, y, c: DualProblem(X, y, c, 3),
    ],
)
def test_a_problem_travels_without_what_it_has_built_and_goes_on_alike(make):
    X, y, _ = clusters(30, 3, 0)
    used = make(X, y, np.ones(30))
    state = used.start(np.random.default_rng(0))
    expected = used.round(state, None).point
    arrived = pickle.loads(pickle.dumps(used))
    assert not set(used._not_pickled) & set(vars(arrived))
    found = arrived.round(arrived.start(np.random.default_rng(0)), None).point
    assert found["W"] == pytest.approx(expected["W"], abs=1e-6)


def test_a_face_without_negatives_is_moved_off_the_positives_as_far_as_the_box_has_room():
    """Faces (0.1, b) at 10 and 12 have margins of 1 from b = 0 on: one comes there, one is beyond the box."""
    X, y = np.array([[10.0], [12.0], [-10.0]]), np.array([1.0, 1.0, -1.0])
    problem = ExactPolyceptron(X, y, np.ones(3), 3, radius=0.5)
    W = np.array([[0.5, 0.0], [0.1, -0.3], [0.01, 0.2]])
    found = problem._repair(W, W.copy(), np.array([-1, -1, 0]))
    assert found == pytest.approx(np.array([[0.5, 0.0], [0.1, 0.0], [0.01, 0.2]]), abs=1e-9)
    assert (found[1, 0] * X[:2, 0] + found[1, 1] >= 1.0).all()


def test_the_dearest_sample_is_the_unit_of_a_program_that_is_kept(monkeypatch):
    """HiGHS's tolerances are absolute: no multiplier's range goes beyond 1, whatever the costs are."""
    X, y, _ = clusters(20, 2, 0)
    problem = ExactPolyceptron(X, y, np.geomspace(1e-3, 1e3, 20), 2)
    ranges, solve = [], PersistentLP.solve

    def watched(self, *, upper, **limits):
        ranges.append(upper[:20].max())
        return solve(self, upper=upper, **limits)

    monkeypatch.setattr(PersistentLP, "solve", watched)
    problem.step(problem.start(np.random.default_rng(0)), None)
    assert ranges
    assert max(ranges) == 1.0
