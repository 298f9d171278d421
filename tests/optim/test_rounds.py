"""The one loop around faces: what it keeps, when it stops, and how stages follow one another."""

import pickle

import numpy as np
import pytest
from helpers.cpm import clusters
from joblib import parallel_config

from formulations.language.clock import Clock, running
from formulations.language.solution import Solution, Status
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.dual import DualProblem
from polyopt.optim.rounds import DescentProblem, Stage, run_from_many_starts, run_rounds, run_stages
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


def test_patience_counts_steps_in_a_row():
    """The best point is kept, and patience counts steps in a row without a lower one."""
    found = run_stages([Stage(Scripted([4.0, 6.0, 3.0, 7.0, 8.0, 1.0]), patience=2)], begin(5.0))
    assert found["W"] == 3.0
    assert [r["at"] for r in found.history] == [5.0, 4.0, 6.0, 3.0, 7.0, 8.0]
    assert [r["step"] for r in found.history] == [0, 1, 2, 3, 4, 5]
    assert (found.status, found.iterations) == (Status.CONVERGED, 5)


def test_fall_below_tolerance_counts_nothing():
    """A decrease below the tolerance counts as none for the patience, though its point is kept."""
    script = [4.0, 3.99, 1.0]
    assert run_stages([Stage(Scripted(script), tol=0.1)], begin(5.0))["W"] == 3.99
    assert run_stages([Stage(Scripted(script), 3, 0.001)], begin(5.0))["W"] == 1.0


def test_later_of_equal_points_is_kept():
    """Of equal points the later one is kept, with its multipliers."""
    assert run_rounds(Scripted([5.0]), begin(5.0)).duals == {"by": np.ones(1)}


def test_zero_objective_ends_the_run():
    """An objective of 0 ends a run whatever the patience."""
    found = run_stages([Stage(Scripted([0.0, 0.0]), patience=5)], begin(5.0))
    assert (found.status, found.iterations) == (Status.CONVERGED, 1)


def test_failed_step_does_not_converge():
    """A run that a stalled step ends has not converged."""
    found = run_rounds(Scripted([5.0], ends={1: Status.STALLED}), begin(5.0))
    assert found.status is Status.STALLED


@pytest.mark.parametrize("limit", [Status.TIME_LIMIT, Status.ITERATION_LIMIT])
def test_limit_in_a_step_ends_the_run(limit):
    """A limit within a step ends the run with the point of the step."""
    found = run_rounds(Scripted([4.0, 3.0], ends={1: limit}), begin(5.0))
    assert (found.status, found["W"]) == (limit, 4.0)


def test_first_round_is_always_made():
    """The first round is made even without time."""
    found = run_rounds(Scripted([4.0, 3.0]), begin(5.0), time_limit=0.0)
    assert (found.status, found["W"], found.iterations) == (Status.TIME_LIMIT, 4.0, 1)


@pytest.mark.parametrize("how", ["stopped", "out of time"])
def test_stopped_fit_makes_no_round(how):
    """In a fit that is stopped or out of time, a run from a point makes no round."""
    with running(Clock(0.0 if how == "out of time" else None)) as clock:
        if how == "stopped":
            clock.stop()
        problem = Scripted([4.0, 3.0])
        found = run_rounds(problem, begin(5.0))
    assert problem.made == found.iterations == 0
    assert (found.status, found["W"]) == (Status.TIME_LIMIT, 5.0)


def test_stage_begins_at_the_best():
    """A stage begins at the best point of the last one, valued by its own objective."""
    soft, sharp = Scripted([3.0, 4.0]), Scripted([2.0, 2.5], factor=10.0)
    found = run_stages([Stage(soft), Stage(sharp)], begin(5.0))
    assert [(r["step"], r["at"]) for r in found.history] == list(enumerate([5.0, 3.0, 4.0, 2.0, 2.5]))
    assert found.objective == 20.0
    assert found.iterations == 4


@pytest.mark.parametrize("end", [Status.TIME_LIMIT, Status.INTERRUPTED])
def test_stop_skips_later_stages(end):
    """After a stop, later stages value the point and make no rounds."""
    soft, sharp = Scripted([3.0, 1.0], ends={2: end}), Scripted([2.0], factor=10.0)
    found = run_stages([Stage(soft), Stage(sharp)], begin(5.0))
    assert sharp.made == 0
    assert found.status is end
    assert found.objective == 10.0 * found["W"][0, 0]


def test_stage_at_its_limit_hands_on():
    """A stage that has made its rounds hands its point to the next."""
    found = run_stages([Stage(Scripted([4.0, 3.0]), 1), Stage(Scripted([1.0, 1.0]))], begin(5.0))
    assert (found.status, found["W"]) == (Status.CONVERGED, 1.0)


@pytest.mark.parametrize(("max_iter", "made"), [(1, (1, 0)), (2, (2, 0)), (3, (2, 1)), (9, (2, 2))])
def test_stages_share_their_rounds(max_iter, made):
    """Stages share `max_iter` rounds; if none is left for the last stage, the run ended by the limit."""
    soft, sharp = Scripted([3.0, 4.0]), Scripted([2.0, 2.5], factor=10.0)
    found = run_stages([Stage(soft), Stage(sharp)], begin(5.0), max_iter=max_iter)
    assert (soft.made, sharp.made) == made
    assert found.iterations == sum(made) == len(found.history) - 1
    assert (found.status is Status.ITERATION_LIMIT) == (max_iter < 4)
    assert found.objective == 10.0 * found["W"][0, 0]


@pytest.mark.parametrize("problem_class", [PolytopeProblem, DualProblem])
def test_polytope_starts_draw_from_one_stream(problem_class):
    """The starts of the polytope machine draw from one stream of random numbers."""
    X, y, _ = clusters(40, 3, 0)
    problem, rng = problem_class(X, y, np.ones(40), 3), np.random.default_rng(7)
    for generator in problem.generators(7, 4):
        assert (problem.start(generator) == problem.start(rng)).all()


PROBLEMS = {
    "logistic cells": lambda X, y, c: LogisticCells(X, y, c, 3, engine="exact"),
    "exact polyceptron": lambda X, y, c: ExactPolyceptron(X, y, c, 3),
    "successive programs": lambda X, y, c: SuccessiveLP(X, y, c, 3, engine="exact"),
    "plume": lambda X, y, c: PlumeProblem(X, y, c, 3, method="exact"),
    "polytope": lambda X, y, c: PolytopeProblem(X, y, c, 3),
    "dual ascent": lambda X, y, c: DualProblem(X, y, c, 3),
}


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_pickled_problem_goes_on_alike(make):
    """A problem is pickled after a round, which its copy repeats."""
    X, y, _ = clusters(30, 3, 0)
    used = make(X, y, np.ones(30))
    state = used.start(np.random.default_rng(0))
    expected = used.round(state, None).point
    arrived = pickle.loads(pickle.dumps(used))
    found = arrived.round(arrived.start(np.random.default_rng(0)), None).point
    assert found["W"] == pytest.approx(expected["W"], abs=1e-6)


@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_threads_do_not_share_problems(make):
    """Starts in joblib's threads, each with a copy of the problem, are the starts in one thread."""
    X, y, _ = clusters(30, 3, 0, widen=1.5)
    one = run_from_many_starts([Stage(make(X, y, np.ones(30)), 5)], n_init=3, n_jobs=1)
    with parallel_config("threading"):
        two = run_from_many_starts([Stage(make(X, y, np.ones(30)), 5)], n_init=3, n_jobs=2)
    for first, second in zip(one.runs, two.runs, strict=True):
        assert second.objective == pytest.approx(first.objective, rel=1e-6)
        assert second["W"] == pytest.approx(first["W"], abs=1e-4)


def test_unused_face_clears_the_positives():
    """A face without negatives, (0.1, -0.3), is shifted until its margin at the positives is 1."""
    X, y = np.array([[10.0], [12.0], [-10.0]]), np.array([1.0, 1.0, -1.0])
    problem = ExactPolyceptron(X, y, np.ones(3), 2, radius=0.5)
    found = problem.step(np.array([[0.5, 0.0], [0.1, -0.3]]), None)
    assert found.objective == 0.0
    assert found["W"][1] == pytest.approx([0.1, 0.0], abs=1e-9)
    assert (found["W"][1, 0] * X[:2, 0] + found["W"][1, 1] >= 1.0).all()


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_costs_in_any_unit_have_one_optimum(unit):
    """Costs over six orders of magnitude, in any unit, lead the exact Polyceptron to the same faces."""
    X, y, _ = clusters(20, 2, 0)
    costs = np.geomspace(1e-3, 1e3, 20)
    plain, scaled = (ExactPolyceptron(X, y, c, 2) for c in (costs, unit * costs))
    start = plain.start(np.random.default_rng(0))
    one, other = (problem.step(start, None) for problem in (plain, scaled))
    assert other.objective == pytest.approx(unit * one.objective, rel=1e-6)
