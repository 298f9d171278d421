"""The point of a decomposition, its accounts and its repairs, each against what it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.families import hinge_families
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.linalg.kernels import Kernel, MatrixGram, SampleGram
from polyopt.margin.decomposition.driver import _Run
from polyopt.margin.decomposition.newton import NewtonPhase
from polyopt.margin.decomposition.state import DEFAULTS, Dual, History, RowCache, State

RBF = Kernel("rbf", 0.4)


def a_point(B, dtype=np.float64, kernel=RBF):
    """A point of a machine of 40 samples, its matrix, and a beta that its caps allow."""
    X, y = two_blobs(n=40, separation=0.5)
    point = State(SampleGram(X, kernel), 1e6)
    point.cache = RowCache(point.gram, 1e6, dtype)
    point.dual = Dual(hinge_families(y, 1.0, B))
    beta = point.dual.join({"margin": np.random.default_rng(0).uniform(0, 1, 40)})
    return point, kernel(X), beta


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_point_given_up_has_outputs_of_its_own(dtype):
    """The second time as well, when the run ends there; with B under 1 no beta of its start is 0."""
    point, K, beta = a_point(0.5, dtype)
    run, start = _Run(point, History(point, Clock(), np.inf), 1e-3), point.dual.initial_beta()
    assert start.all()
    for is_first in (True, False):
        point.cache = RowCache(point.gram, 1e6, dtype)
        point.set_point(np.full(40, 1e308), np.full(40, np.nan))
        assert run.restart() == is_first
        assert np.array_equal(point.beta, start)
        assert point.g == pytest.approx(K @ start, abs=1e-5)
        assert point.is_up_to_date
    # What is finite is no reason to give up more than rounding.
    point.set_point(beta, K @ beta)
    assert not run.restart()
    assert np.array_equal(point.beta, beta)


@pytest.mark.parametrize("size", [1e2, 3e3, 1e5])
@pytest.mark.parametrize("seed", range(2))
def test_trusted_outputs_are_right_for_every_sample(seed, size):
    """Also where but a few samples, none of them near, keep the rounding of great changes before."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2100, 20))
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=2100))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T + 1) / 2
    point = State(MatrixGram(K), 1e9)
    assert not point.is_double
    point.dual = Dual(hinge_families(y, 1.0))
    some = rng.choice(2100, 300, replace=False)
    beta = y[some] * rng.random(300)
    beta *= 4 / np.linalg.norm(beta @ X[some])  # outputs of size 2
    point.change(some, size * rng.normal(size=300))
    point.change(some, beta)
    point.recompute_at(point.near_margin(DEFAULTS.double_band))

    def is_right():
        rise, fall, *_ = point.derivatives()
        middle = (rise.max() + fall.min()) / 2
        error = np.abs(K @ point.beta - point.g)
        return (error <= np.maximum(1e-3, np.minimum(middle - rise, fall - middle))).all()

    assert is_right() or not point.is_accurate(1e-3)
    for _ in range(3):  # what was computed anew may move the place from which others are near
        point.refresh(1e-3)
    assert point.is_accurate(1e-3)
    assert is_right()


def test_outputs_of_samples_set_aside_are_brought_up_to_date():
    """By what has changed since they were, and of these samples alone."""
    point, K, beta = a_point(np.inf)
    point.set_point(beta.copy(), K @ beta)
    active = np.arange(0, 40, 2)
    point.cache.set_active(active)
    for _ in range(2):
        beta[active[:2]] += [0.25, -0.25]
        point.change(active[:2], beta[active[:2]])
        assert not point.is_up_to_date
        assert point.g[active] == pytest.approx((K @ beta)[active])
    assert point.g[1::2] != pytest.approx((K @ beta)[1::2], abs=1e-3)
    for _ in range(2):
        point.update_aside()
        assert point.is_up_to_date
        assert point.g == pytest.approx(K @ beta)


def test_values_are_of_the_point_and_the_program_at_hand():
    """They are kept, and computed anew where beta, g or the program is another."""
    point, K, beta = a_point(1.2)
    y, seen = np.sign(beta), []
    for scale, shift, C in ((1.0, 0.0, 1.0), (0.5, 0.0, 1.0), (0.5, 0.1, 1.0), (0.5, 0.1, 2.0)):
        if C == 2.0:
            point.dual = Dual(hinge_families(y, C, 1.2))
        point.set_point(scale * beta, scale * K @ beta + shift * y)
        wanted = point.dual.values(point.beta, point.g)
        assert point.values() == point.values() == wanted
        assert point.intercept() == point.dual.families.best_intercept(point.g)
        seen.append(wanted["objective"])
    assert len(set(seen)) == 4


@pytest.mark.parametrize(("error", "expected"), [(0.9, True), (-0.9, True), (1.1, False), (-1.1, False)])
def test_an_error_of_a_tenth_of_the_tolerance_matters_where_an_output_counts(error, expected):
    """In tenths of the tolerance, at the sample nearest to where it would count, which is always probed."""
    point, K, beta = a_point(np.inf, np.float32)
    point.set_point(beta, K @ beta)
    rise, fall, *_ = point.derivatives()
    middle = (rise.max() + fall.min()) / 2
    point.g[np.minimum(middle - rise, fall - middle).argmin()] += error * 1e-3
    assert point.is_accurate(1e-2) == expected
    point.use_double()
    point.g += 1.0
    assert point.is_accurate(1e-2)  # in double precision rounding is none


@pytest.mark.parametrize("share", [0.999, 1.0])
def test_all_free_variables_at_once_are_solved_where_their_matrix_fits(share):
    """Itself, its factor, and two copies on the way to that; then the violation is half of what is asked."""
    point, K, beta = a_point(1.2)
    point.set_point(beta, K @ beta)
    chosen = point.near_margin(DEFAULTS.newton_band_ratio * point.violation())
    point.budget = share * DEFAULTS.bytes_per_entry * len(chosen) ** 2
    history = History(point, Clock(), np.inf)
    phase = NewtonPhase(point, history)
    phase.add_set(10**5, 10**6)
    before = point.values()["bound"]
    phase.run(1e-6, force=True)
    if share < 1.0:
        assert history.iteration == 0
        assert np.array_equal(point.beta, beta)
    else:
        assert point.violation() <= 0.5e-6
        assert point.g == pytest.approx(K @ point.beta, abs=1e-9)
        assert point.values()["bound"] > before
        assert phase._phase_work > 0


def test_the_matrix_of_all_free_variables_is_of_double_precision_wherever_its_rows_come_from():
    """From those at hand only where they are of double precision, of all samples, and all there."""
    for case in ("at hand", "single", "set aside", "not all"):
        point, K, beta = a_point(1.2, np.float32 if case == "single" else np.float64)
        point.set_point(beta, K @ beta)
        phase = NewtonPhase(point, History(point, Clock(), np.inf))
        chosen = np.array([4, 9, 22, 35])
        if case == "set aside":
            point.cache.set_active(np.arange(3, 40))
        point.cache.fetch(chosen[:3] if case == "not all" else chosen)
        computed = point.cache.computed
        assert phase._matrix(chosen) == pytest.approx(K[np.ix_(chosen, chosen)], abs=1e-14)
        assert point.cache.computed == computed


@pytest.mark.parametrize(("status", "gap", "bound", "said"), [
    (Status.SOLVED, 1.0, 3.0, (Status.SOLVED, 3.0)),
    (Status.SOLVED, 1.0, 5.0, (Status.SOLVED, 5.0)),  # of the objective itself
    (Status.SOLVED, 1.0, 5.5, (Status.SOLVED, 0.0)),  # rounding has put it above the objective
    (Status.SOLVED, 0.0, 5.5, (Status.SOLVED, 5.5)),  # by no more than is as good as nothing
    (Status.INACCURATE, 1.0, 3.0, (Status.STALLED, 3.0)),
    (Status.INACCURATE, 0.0, 3.0, (Status.INACCURATE, 3.0)),
    (Status.TIME_LIMIT, 1.0, 3.0, (Status.TIME_LIMIT, 3.0)),
])  # fmt: skip
def test_an_answer_has_no_bound_above_its_objective_and_says_whether_it_is_near(
    monkeypatch, status, gap, bound, said
):
    point, K, beta = a_point(2.0)
    point.set_point(beta, K @ beta)
    values = {**point.values(), "objective": 5.0, "bound": bound}
    history = History(point, Clock(), np.inf)
    history.record(point.violation())
    monkeypatch.setattr(point, "values", lambda: values)
    monkeypatch.setattr(point, "gap", lambda: gap)
    found = history.solution(status)
    assert (found.status, found.bound) == said
    assert len(found.history) == 2
