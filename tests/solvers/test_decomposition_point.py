"""The point of a decomposition, its accounts and its repairs, each against what it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.families import hinge_families
from formulations.samples import two_blobs
from formulations.solution import Status
from polyopt.kernels import Kernel, MatrixGram, SampleGram
from polyopt.solvers.clock import Clock
from polyopt.solvers.decomposition import loop as finish_module
from polyopt.solvers.decomposition import point as point_module
from polyopt.solvers.decomposition.dual import Dual, slopes
from polyopt.solvers.decomposition.ledger import History, Ledger, block_work, factor_work, pivot_work
from polyopt.solvers.decomposition.loop import _BYTES, _REACH, Finish, Repairs
from polyopt.solvers.decomposition.point import NEAR, Point, Shrinking
from polyopt.solvers.decomposition.rows import SINGLE_TOL, Rows
from polyopt.solvers.decomposition.subproblem import Held, solve_pairs

RBF = Kernel("rbf", 0.4)


def a_point(B, dtype=np.float64, kernel=RBF):
    """A point of a machine of 40 samples, its matrix, and a beta that its caps allow."""
    X, y = two_blobs(n=40, separation=0.5)
    point = Point(SampleGram(X, kernel), 1e6)
    point.rows = Rows(point.gram, 1e6, dtype)
    point.dual = Dual(hinge_families(y, 1.0, B))
    beta = point.dual.join({"margin": np.random.default_rng(0).uniform(0, 1, 40)})
    return point, kernel(X), beta


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_point_given_up_has_outputs_of_its_own(dtype):
    """The second time as well, when the run ends there; with B under 1 no beta of its start is 0."""
    point, K, beta = a_point(0.5, dtype)
    repairs, start = Repairs(point, Shrinking(point), Clock()), point.dual.start()
    assert start.all()
    for is_first in (True, False):
        point.rows = Rows(point.gram, 1e6, dtype)
        point.take(np.full(40, 1e308), np.full(40, np.nan))
        assert repairs.begin_anew() == is_first
        assert np.array_equal(point.beta, start)
        assert point.g == pytest.approx(K @ start, abs=1e-5)
        assert point.is_up_to_date
    # What is finite is no reason to give up more than rounding.
    point.take(beta, K @ beta)
    assert not repairs.begin_anew()
    assert np.array_equal(point.beta, beta)


def test_a_probe_works_through_the_multipliers_that_are_not_0():
    point, K, beta = a_point(np.inf)
    beta[::4] = 0.0
    point.take(beta, K @ beta)
    width = point.gram.width
    assert Ledger(point).probe_work() == block_work(point.probes, np.count_nonzero(beta), width)
    assert 0 < np.count_nonzero(beta) < len(beta)


@pytest.mark.parametrize("size", np.geomspace(1e2, 1e5, 7))
@pytest.mark.parametrize("seed", range(4))
def test_trusted_outputs_are_right_for_every_sample(seed, size):
    """Also where but a few samples, none of them near, keep the rounding of great changes before."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2100, 20))
    y = np.sign(X[:, 0] + 0.3 * rng.normal(size=2100))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T + 1) / 2
    point = Point(MatrixGram(K), 1e9)
    assert not point.is_double
    point.dual = Dual(hinge_families(y, 1.0))
    some = rng.choice(2100, 300, replace=False)
    beta = y[some] * rng.random(300)
    beta *= 4 / np.linalg.norm(beta @ X[some])  # outputs of size 2
    point.change(some, size * rng.normal(size=300))
    point.change(some, beta)
    point.compute(point.watched(NEAR))

    def is_right():
        rise, fall = point.gains()
        middle = (rise.max() + fall.min()) / 2
        error = np.abs(K @ point.beta - point.g)
        return (error <= np.maximum(1e-3, np.minimum(middle - rise, fall - middle))).all()

    assert is_right() or not point.is_trusted(1e-3)
    for _ in range(3):  # what was computed anew may move the place from which others are near
        point.refresh(1e-3)
    assert point.is_trusted(1e-3)
    assert is_right()


def test_rounding_that_comes_back_takes_the_rows_with_it():
    """Three times outputs are computed anew, then the rows are in double precision."""
    point, K, beta = a_point(np.inf, np.float32)
    repairs = Repairs(point, Shrinking(point), Clock())
    for time in range(4):
        point.take(beta.copy(), K @ beta + 1e-3)
        repairs.mend(1e-2)
        assert point.is_double == (time == 3)
        near = point.watched(0.05) if time < 3 else np.arange(40)
        assert point.g[near] == pytest.approx((K @ beta)[near], abs=1e-12)


def test_outputs_of_samples_set_aside_are_brought_up_to_date():
    """By what has changed since they were, and of these samples alone."""
    point, K, beta = a_point(np.inf)
    point.take(beta.copy(), K @ beta)
    active = np.arange(0, 40, 2)
    point.rows.set_active(active)
    for _ in range(2):
        beta[active[:2]] += [0.25, -0.25]
        point.change(active[:2], beta[active[:2]])
        assert not point.is_up_to_date
        assert point.g[active] == pytest.approx((K @ beta)[active])
    assert point.g[1::2] != pytest.approx((K @ beta)[1::2], abs=1e-3)
    for _ in range(2):
        point.bring_up_to_date()
        assert point.is_up_to_date
        assert point.g == pytest.approx(K @ beta)


def test_what_rounding_hides_is_in_proportion_to_the_terms_added_up():
    point, K, beta = a_point(np.inf, kernel=Kernel("poly", 0.4, 2, 1.0))
    point.take(beta, K @ beta)
    size, eps = np.abs(beta).sum() * K.diagonal().max(), np.finfo(float).eps
    assert point.rounding() == pytest.approx(4.0 * eps * size)
    assert point.doubt() == pytest.approx(np.abs(beta).sum() * eps * size / point.values()["objective"])


def test_values_are_of_the_point_and_the_program_at_hand():
    """They are kept, and computed anew where beta, g or the program is another."""
    point, K, beta = a_point(1.2)
    y, seen = np.sign(beta), []
    for scale, shift, C in ((1.0, 0.0, 1.0), (0.5, 0.0, 1.0), (0.5, 0.1, 1.0), (0.5, 0.1, 2.0)):
        if C == 2.0:
            point.dual = Dual(hinge_families(y, C, 1.2))
        point.take(scale * beta, scale * K @ beta + shift * y)
        wanted = point.dual.values(point.beta, point.g)
        assert point.values() == point.values() == wanted
        assert point.intercept() == point.dual.intercept(point.g)
        seen.append(wanted["objective"])
    assert len(set(seen)) == 4


@pytest.mark.parametrize(("error", "is_trusted"), [(0.9, True), (-0.9, True), (1.1, False), (-1.1, False)])
def test_an_error_of_a_tenth_of_the_tolerance_matters_where_an_output_counts(error, is_trusted):
    """In tenths of the tolerance, at the sample nearest to where it would count, which is always probed."""
    point, K, beta = a_point(np.inf, np.float32)
    point.take(beta, K @ beta)
    rise, fall = point.gains()
    middle = (rise.max() + fall.min()) / 2
    point.g[np.minimum(middle - rise, fall - middle).argmin()] += error * 1e-3
    assert point.is_trusted(1e-2) == is_trusted
    point.go_double()
    point.g += 1.0
    assert point.is_trusted(1e-2)  # in double precision rounding is none


@pytest.mark.parametrize(("error", "is_trusted"), [(0.9, True), (-0.9, True), (1.1, False)])
def test_an_output_far_off_may_err_by_a_fifth_of_its_way(error, is_trusted, monkeypatch):
    """At β = 0 the first, of label +1 and output 6, would rise if it were under 1, and has 5 to go."""
    point, _, _ = a_point(np.inf, np.float32)
    point.dual = Dual(hinge_families(np.where(np.arange(40) % 2, -1.0, 1.0), 1.0))
    point.g[0] = 6.0
    monkeypatch.setattr(
        point_module, "outputs_at", lambda _, probe, __: point.g[probe] + np.where(probe == 0, error, 0.0)
    )
    assert point.is_trusted(1e-2) == is_trusted


def test_likely_rounding_is_measured_where_most_is_to_be_feared_and_reckoned_from_there(monkeypatch):
    """The nearest of a probe, those of the largest change beside what they bear, and some of all."""
    point, _, _ = a_point(np.inf, np.float32)
    rng = np.random.default_rng(4)
    y = np.where(np.arange(40) % 2, -1.0, 1.0)
    point.dual = Dual(hinge_families(y, 1.0))
    point.g, point._changes = y * rng.uniform(0.5, 30.0, 40), 3.0
    point._changes_at = rng.uniform(0.0, 3.0, 40)
    point._changes_at[5] = 3.0  # computed just now
    errors = rng.uniform(1e-3, 1.0, 40)
    monkeypatch.setattr(Point, "probes", 6)
    monkeypatch.setattr(point_module, "outputs_at", lambda _, probe, __: point.g[probe] - errors[probe])
    for tol in (1e-2, 40.0):
        rise, fall = point.gains()
        middle = (max(rise) + min(fall)) / 2
        far = [min(middle - a, b - middle) for a, b in zip(rise, fall, strict=True)]
        bears = [max(tol / 10, way / 5) for way in far]
        grown = [s * (3.0 - c) for s, c in zip(point._sizes, point._changes_at, strict=True)]
        nearest = sorted(range(40), key=far.__getitem__)[:3]
        dearest = sorted(range(40), key=lambda i: -grown[i] / bears[i])[:2]
        likely, probe, matters = point._likely_rounding(tol)
        assert probe.tolist() == sorted({*nearest, *dearest, 0, 39})
        each = max(errors[i] / grown[i] for i in probe if grown[i] > 0)
        wanted = [errors[i] if i in probe else grown[i] * each for i in range(40)]
        assert likely == pytest.approx(wanted)
        assert matters.tolist() == [w > b for w, b in zip(wanted, bears, strict=True)]
        assert matters.any()
        assert not matters.all()


@pytest.mark.parametrize(("share", "is_trusted"), [(0.9, True), (1.1, False)])
def test_where_a_gap_is_asked_errors_may_cost_a_tenth_of_it(share, is_trusted, monkeypatch):
    """The mean error of what has a multiplier, at the costs of all that have one."""
    point, K, beta = a_point(np.inf, np.float32)
    point.take(beta, K @ beta)
    gap = 1e-3
    error = share * gap / 10 * point.values()["objective"] / np.count_nonzero(beta)
    monkeypatch.setattr(point_module, "outputs_at", lambda _, probe, __: point.g[probe] + error)
    assert point.is_trusted(1.0)
    assert point.is_trusted(1.0, gap) == is_trusted


def test_the_accounts_of_a_run_foresee_what_its_pace_says():
    """Each factor of ten took so many operations; and rows in double precision are ahead, or are not."""
    point, K, beta = a_point(np.inf, np.float32)
    point.take(beta, K @ beta)
    ledger = Ledger(point)
    assert ledger.foreseen(1.0, 1e-6) == 0.0  # no pace is known yet
    before = ledger.spent()
    ledger.add_set(2e6)
    point.rows.fetch(np.arange(7))
    spent = ledger.spent() - before
    ledger.mark()
    assert spent > 2e6
    assert ledger.foreseen(1e-2, 1e-6) == pytest.approx(spent * 4 / 2)
    assert ledger.since_mark() == 0.0
    ledger.add_set(3e6)
    assert ledger.foreseen(2e-2, 1e-6) == 0.0  # it has come no nearer
    ledger.add_set(3e6)
    assert ledger.foreseen(2e-3, 1e-6) == pytest.approx(ledger.since_mark() / 2 * np.log(2e3) / np.log(10))
    # A row in double precision costs twice one in single precision, for each sample that has a multiplier.
    one = Ledger(point)
    point.rows.fetch(np.arange(7, 12))
    rows = one.spent() / 5 * (beta != 0).sum() * 2
    assert ledger.rows_ahead(0.1 * SINGLE_TOL) == pytest.approx(rows)
    assert ledger.rows_ahead(SINGLE_TOL) == 0.0
    point.go_double()
    assert ledger.rows_ahead(0.1 * SINGLE_TOL) == 0.0


@pytest.mark.parametrize("share", [0.999, 1.0])
def test_all_free_variables_at_once_are_solved_where_their_matrix_fits(share):
    """Itself, its factor, and two copies on the way to that; then the violation is half of what is asked."""
    point, K, beta = a_point(1.2)
    point.take(beta, K @ beta)
    chosen = point.watched(_REACH * point.violation())
    point.budget = share * _BYTES * len(chosen) ** 2
    history = History(point, Clock(), np.inf, None)
    ledger, shrinking = Ledger(point), Shrinking(point)
    ledger.add_set(1e12)
    before = point.values()["bound"]
    Finish(point, history, ledger, shrinking).run(1e-6, hurry=True)
    if share < 1.0:
        assert history.iteration == 0
        assert np.array_equal(point.beta, beta)
    else:
        assert point.violation() <= 0.5e-6
        assert point.g == pytest.approx(K @ point.beta, abs=1e-9)
        assert point.values()["bound"] > before
        assert ledger.finishing > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_all_free_variables_would_cost_is_foreseen_from_those_free_and_those_at_a_kink(dtype):
    """Half of their matrix, their factor, 3 pivots and one for every other kink; in single, outputs anew."""
    point, K, beta = a_point(1.2, dtype)
    beta[:10] = 0.0
    point.take(beta, K @ beta)
    finish = Finish(point, History(point, Clock(), np.inf, None), Ledger(point), Shrinking(point))
    found, free = finish._estimate(-0.05), np.count_nonzero(beta)
    size = len(found.samples)
    assert np.array_equal(found.samples, point.watched(0.1))
    kinks = int((beta[found.samples] == 0).sum())
    assert free < 40
    assert kinks > 2
    anew = block_work(free, size, point.gram.width) if dtype == np.float32 else 0.0
    assert found.least == block_work(size, size / 2, point.gram.width) + factor_work(free) + anew
    assert (found.each, found.pivots) == (pivot_work(free, size), 3 + kinks / 2)
    assert found.total == found.least + found.each * found.pivots


@pytest.mark.parametrize("limit", [np.inf, 2])
def test_all_free_variables_get_as_many_pivots_as_half_of_what_was_spent_pays(limit, monkeypatch):
    """Besides what they cost without any; no more than steps are left."""
    point, K, beta = a_point(1.2)
    point.take(beta, K @ beta)
    history, ledger, asked = History(point, Clock(), limit, None), Ledger(point), []
    finish = Finish(point, history, ledger, Shrinking(point))
    monkeypatch.setattr(finish_module, "solve_pivots", lambda *given: asked.append(given[-2]) or 1)
    cost = finish._estimate(point.violation())
    ledger.finishing = 1e6
    ledger.add_set(2.0 * (cost.total + 20.5 * cost.each))
    spent = ledger.spent()
    finish.run(1e-6, hurry=True)
    pivots = int((0.5 * spent - 1e6 - cost.least) / cost.each)
    assert pivots > cost.pivots
    assert asked == [min(pivots, limit)]
    assert history.iteration == 1
    assert ledger.finishing == 1e6 + cost.least + cost.each


def test_the_matrix_of_all_free_variables_is_of_double_precision_wherever_its_rows_come_from():
    """From those at hand only where they are of double precision, of all samples, and all there."""
    for case in ("at hand", "single", "set aside", "not all"):
        point, K, beta = a_point(1.2, np.float32 if case == "single" else np.float64)
        point.take(beta, K @ beta)
        finish = Finish(point, History(point, Clock(), np.inf, None), Ledger(point), Shrinking(point))
        chosen = np.array([4, 9, 22, 35])
        if case == "set aside":
            point.rows.set_active(np.arange(3, 40))
        point.rows.fetch(chosen[:3] if case == "not all" else chosen)
        computed = point.rows.computed
        assert finish._matrix(chosen) == pytest.approx(K[np.ix_(chosen, chosen)], abs=1e-14)
        assert point.rows.computed == computed


def test_samples_are_looked_at_that_would_move_if_the_intercept_did():
    """At a point half way: those whose slopes come within the distance of the middle of m and M."""
    point, K, beta = a_point(1.2)
    g = K @ beta
    solve_pairs(Held(K, np.arange(40), np.arange(40)), np.ones(40), g, beta, point.dual.phi, 0.3, 40, 1000)
    point.take(beta, g)
    rise, fall = (slope - point.g for slope in slopes(beta, point.dual.phi))
    m, M = rise.max(), fall.min()
    assert point.violation() == m - M
    b = (m + M) / 2
    for near in (0.0, 0.3, 1.0):
        moves = [i for i in range(40) if rise[i] > b - near or fall[i] < b + near]
        assert point.watched(near).tolist() == moves
    assert np.array_equal(point.needed(), (rise >= M) | (fall <= m))
    assert not point.needed().all()


def test_an_interrupted_point_is_made_to_agree_with_itself(monkeypatch):
    """Outputs are computed anew, or where that takes longer than a moment the last values' point is taken."""
    for moment in (np.inf, 0.0):
        monkeypatch.setattr(point_module, "_MOMENT", moment)
        point, K, beta = a_point(1.2)
        point.take(beta.copy(), K @ beta)
        point.values()
        point.beta[:2] += [0.1, -0.1]  # and g not yet
        point.recover()
        assert point.beta == pytest.approx(beta + (moment > 0) * np.r_[0.1, -0.1, np.zeros(38)])
        assert point.g == pytest.approx(K @ point.beta)
        assert point.is_up_to_date


@pytest.mark.parametrize(("gap", "status"), [(0.9e-3, Status.INACCURATE), (1.1e-3, Status.STALLED)])
def test_what_rounding_ended_has_stalled_where_the_gap_is_above_a_thousandth(gap, status):
    point, K, beta = a_point(1.2)
    point.take(beta, K @ beta)
    point.gap = lambda: gap
    history = History(point, Clock(), np.inf, None)
    assert history.answer(Status.INACCURATE).status is status
    assert history.answer(Status.SOLVED).status is Status.SOLVED


def test_a_new_point_fears_no_rounding():
    point = a_point(2.0)[0]
    assert not (point._sizes * (point._changes - point._changes_at)).any()


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
    point.take(beta, K @ beta)
    values = {**point.values(), "objective": 5.0, "bound": bound}
    history = History(point, Clock(), np.inf, None)
    history.record(point.violation())
    monkeypatch.setattr(point, "values", lambda: values)
    monkeypatch.setattr(point, "gap", lambda: gap)
    found = history.answer(status)
    assert (found.status, found.bound) == said
    assert len(found.history) == (1 if status is Status.SOLVED else 2)
