"""The campaign's checker catches what it is to catch, and a part of the campaign finds nothing."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.campaign import driver, trial
from benchmarks.campaign.draws import RANGES, data
from benchmarks.campaign.extended import EPS, LD, best_intercept, is_extended, kernel_matrix
from benchmarks.campaign.hinge import Hinge
from benchmarks.campaign.judge import Claimed, Truth, judge, judge_outputs, judge_status, sentence_of
from benchmarks.campaign.polytope import Boxed, Cpm, Plume, Spla1
from benchmarks.campaign.sparse import Sparse
from benchmarks.campaign.trial import attempt, overran, patience

pytestmark = pytest.mark.skipif(not is_extended(), reason="the checker needs 80-bit floats")

LINEAR = {"name": "linear"}
# Two points at -1 and 1: w = 1, b = 0 and the optimum 1/2 for C at least 1/2.
PAIR = (np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0]))


def kinds(claimed, truth):
    return [found.kind for found in judge(claimed, truth)]


def of_pair(w, b, **changes):
    """Facts of a hyperplane on the two points, C = 1."""
    truth = Hinge(*PAIR, np.ones(2), LINEAR, **changes)
    point = truth.at_hyperplane(np.array([w]), b)
    best = truth.best
    return Truth(point.value, point.error, best.value, best.error, point.beyond, 1.0)


# -- the checker knows the truth -----------------------------------------------------------------


def test_the_optimum_of_two_points_is_known():
    truth = Hinge(*PAIR, np.ones(2), LINEAR)
    assert abs(truth.best.value - 0.5) < 1e-12
    assert truth.at_hyperplane(np.array([1.0]), 0.0).value == 0.5


def test_bounded_outputs_raise_the_optimum_as_the_program_says():
    # |f| <= 1/2: w = 1/2, both hinges 1/2.
    truth = Hinge(*PAIR, np.ones(2), LINEAR, B=0.5)
    assert abs(truth.best.value - (0.125 + 1.0)) < 1e-12
    outside = truth.at_hyperplane(np.array([1.0]), 0.0)
    assert outside.value == 1.125
    assert outside.beyond == 0.5


@pytest.mark.parametrize("D", [0.0, 0.5, 1.0])
def test_sigma_svm_at_unit_variance_is_the_svm(D):
    # The points' variance is 1, so that every D has the same metric; linear and by the kernel alike.
    linear = Hinge(*PAIR, np.ones(2), LINEAR, D=D)
    kernel = Hinge(PAIR[0] @ PAIR[0].T, PAIR[1], np.ones(2), {"name": "precomputed"}, D=D)
    for truth in (linear, kernel):
        assert abs(truth.best.value - 0.5) < 1e-12


def test_rbf_kernel_far_from_the_origin_keeps_its_digits():
    X = np.array([[0.0], [0.5], [2.0]])
    near, _ = kernel_matrix(X, "rbf", 0.3)
    far, error = kernel_matrix(X + 2.0**30, "rbf", 0.3)
    assert (abs(far - near) <= error).all()
    assert (error < 1e-17).all()


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "sigmoid"])
def test_kernel_errors_hold_the_difference_to_exact_rationals(name):
    from fractions import Fraction

    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 3)) + 100.0
    K, error = kernel_matrix(X, name, 0.01, 3, -1.0)
    for i, j in [(0, 1), (2, 3), (1, 1)]:
        a, b = ([Fraction(v) for v in X[k]] for k in (i, j))
        inner = sum(p * q for p, q in zip(a, b, strict=True))
        argument = Fraction(0.01) * inner - 1
        if name == "linear":
            exact = inner
        elif name == "poly":
            exact = argument**3
        elif name == "rbf":
            exact = Fraction(math.exp(-Fraction(0.01) * sum((p - q) ** 2 for p, q in zip(a, b, strict=True))))
        else:
            exact = Fraction(math.tanh(argument))
        double = name in ("rbf", "sigmoid")  # whose references are rounded to double
        high, low = LD(float(exact)), LD(float(exact - Fraction(float(exact))))
        assert abs(K[i, j] - high - low) <= error[i, j] + (2e-16 * abs(high) if double else 0)


def test_best_intercept_is_best_among_all_breakpoints():
    rng = np.random.default_rng(1)
    for _ in range(20):
        g, y = rng.normal(size=7).astype(LD), np.where(rng.random(7) < 0.5, 1.0, -1.0)
        costs = rng.random(7).astype(LD)
        b = best_intercept(g, y, costs)

        def paid(b, g=g, y=y, costs=costs):
            return costs @ np.maximum(0, 1 - y * (g + b))

        assert paid(b) <= min(paid(c) for c in y - g) + 10 * EPS


@pytest.mark.parametrize("costs", [1.0, 1e6])
def test_the_checkers_solver_meets_its_own_dual_value(costs):
    """β of the best point proves a bound by the dual; both agree, so that the best is the optimum."""
    from benchmarks.campaign.dual import propose

    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(20, 2)).astype(LD), np.where(rng.random(20) < 0.5, 1.0, -1.0)
    X -= X.mean(axis=0)
    beta, _ = propose(X, y, np.full(20, costs))
    alpha = np.clip(y * beta, 0, costs)
    dual = alpha.sum() - (X.T @ (alpha * y)) @ (X.T @ (alpha * y)) / 2
    best = Hinge(X, y, np.full(20, costs), LINEAR).best.value
    assert abs(beta.sum()) < 1e-9 * abs(beta).sum()
    assert abs(best - dual) < 1e-8 * best


def test_all_patterns_beat_the_rounded_relaxation():
    rng = np.random.default_rng(600)
    X, y = rng.normal(size=(6, 2)), np.array([1.0, -1, 1, -1, 1, -1])
    settings = {"name": "rbf", "gamma": 0.5}
    brute = Sparse(X, y, np.ones(6), 3.0, settings, counted=True, brute=True).best.value
    quick = Sparse(X, y, np.ones(6), 3.0, settings, counted=True, brute=False).best.value
    assert brute <= quick
    # Every single centre, by hand: none is better.
    truth = Sparse(X, y, np.ones(6), 3.0, settings, counted=True, brute=True)
    for j in range(6):
        for a in np.linspace(0, 3, 31):
            alpha = np.zeros(6)
            alpha[j] = a
            assert truth.with_best_intercept(alpha).value >= brute - 1e-9


def test_the_best_with_some_centres_pays_for_all_of_them_and_no_others():
    # One centre fits all: with two, of which one would do, two are to be paid, and a tiny third is none.
    K, y = np.eye(4) + np.outer([1.0, 1, -1, -1], [1.0, 1, -1, -1]), np.array([1.0, 1, -1, -1])
    truth = Sparse(K, y, np.ones(4), 10.0, {"name": "precomputed"}, counted=True, brute=True)
    alpha = np.array([1.0, 0.5, 1e-11, 0.0])
    assert truth.best.value == 1.0
    assert truth.best_with(alpha).value == 2.0
    assert truth.best_with(alpha).value <= truth.at(truth.pattern(alpha), 0.0).value


def test_all_assignments_are_at_most_any_faces():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(9, 2)), np.array([1.0] * 4 + [-1.0] * 5)
    truth = Cpm(X, y, np.ones(9), "sum", "total")
    best = truth.best_of_all(np.zeros((2, 3)), 4).value
    assert all(best <= truth.at(rng.normal(size=(2, 3))).value for _ in range(200))
    # One face: the assignment is the only one, and twice the SVM of half the cost without intercept.
    assert truth.best_of_all(np.zeros((1, 3)), 4).value >= best - 1e-12


# -- planted falsehoods --------------------------------------------------------------------------


def test_true_claims_pass():
    facts = of_pair(1.0, 0.0)
    assert kinds(Claimed("OPTIMAL", 0.5, 0.5, rounding=0.0), facts) == []
    assert kinds(Claimed("SUBOPTIMAL_BY", 0.5, 0.1, rounding=0.0), facts) == []


@pytest.mark.parametrize(
    ("claimed", "kind"),
    [
        (Claimed("OPTIMAL", 0.5, 0.5 + 1e-9, rounding=0.0), "bound above a feasible point"),
        (Claimed("SUBOPTIMAL_BY", 0.5 - 1e-9, 0.1, rounding=0.0), "value below the model's"),
        (Claimed("NONE", 0.5, 0.6), "bound above a feasible point"),
        (Claimed("OPTIMAL", float("nan"), 0.5), "not a number"),
        (Claimed("SUBOPTIMAL_BY", 0.5, float("nan")), "not a number"),
        (Claimed("INFEASIBLE", 0.5, math.inf), "infeasible, but there is a point"),
    ],
)
def test_a_planted_claim_is_caught(claimed, kind):
    assert kind in kinds(claimed, of_pair(1.0, 0.0))


def test_an_optimal_that_is_not_is_caught_whatever_values_it_shows():
    facts = of_pair(1.01, 0.0)
    assert kinds(Claimed("OPTIMAL", float(facts.value), 0.5), facts) == ["not optimal"]
    assert kinds(Claimed("SUBOPTIMAL_BY", float(facts.value), 0.5), facts) == []


def test_stated_rounding_is_granted_and_no_more():
    facts = of_pair(1.0, 0.0)
    assert kinds(Claimed("OPTIMAL", 0.5, 0.5 + 1e-9, rounding=1e-8), facts) == []
    assert kinds(Claimed("OPTIMAL", 0.5, 0.5 + 1e-7, rounding=1e-8), facts) != []


def test_a_point_outside_its_bounds_is_not_optimal():
    facts = of_pair(1.0, 0.0, B=0.5)
    assert "outside its rows" in kinds(Claimed("OPTIMAL", 1.125, 1.125), facts)


def test_a_bound_of_an_indefinite_matrix_must_be_below_the_lifted_optimum():
    # The matrix is -1e-7 on the diagonal: its program is unbounded, any bound of it would be false.
    K, y = np.diag([1.0, -1e-7]), PAIR[1]
    truth = Hinge(K, y, np.full(2, 1e9), {"name": "precomputed"})
    best = truth.best
    facts = Truth(LD(0), LD(0), best.value, best.error, bounded=False)
    assert truth.lift > 0
    assert kinds(Claimed("SUBOPTIMAL_BY", float(best.value) * 2, float(best.value) * 1.01), facts) == [
        "bound above a feasible point"
    ]


def test_claims_that_vouch_for_nothing_are_not_held_to_anything():
    for name in ("CONTRADICTION", "SOLVERS_WORD", "CONDITIONS"):
        assert kinds(Claimed(name, 0.4, 0.6), of_pair(1.0, 0.0)) == []


@pytest.mark.parametrize("given", [[-1.0, -1.0], [-1.0, 1.5], [-1.0, math.nan], [-1.002, 1.0]])
def test_predictions_of_another_model_are_caught(given):
    true = np.array([-1.0, 1.0], dtype=LD)
    assert judge_outputs(np.array(given), true, 0.0, PAIR[1], np.ones(2, LD), 0.5, "predictions")
    assert not judge_outputs(true + 1e-9, true, 0.0, PAIR[1], np.ones(2, LD), 0.5, "predictions")


def test_a_status_better_than_its_point_is_caught():
    assert judge_status("SOLVED", 0.49, 1e-2)
    assert not judge_status("SOLVED", 1e-3, 1e-2)
    assert not judge_status("INACCURATE", 0.49, 1e-2)


@pytest.mark.parametrize("family", ["cpm", "polyceptron", "pc-slp", "spla1", "plume"])
def test_moved_faces_are_not_optimal_for_their_cells(family):
    rng = np.random.default_rng(5)
    X, y, one = rng.normal(size=(12, 2)), np.where(rng.random(12) < 0.5, 1.0, -1.0), np.ones(12)
    truths = {
        "cpm": Cpm(X, y, one, "sum", "total"), "polyceptron": Boxed(X, y, one, 10.0, means=False),
        "pc-slp": Boxed(X, y, one, 10.0, means=True), "spla1": Spla1(X, y, one, 0.1, "cell"),
        "plume": Plume(X, y, one, 0.1, 1.0),
    }  # fmt: skip
    truth, W = truths[family], rng.normal(size=(2, 3))
    if family == "plume":
        point, best = truth.at(W), truth.best_for(W)
    else:
        s = truth.scores(W)[0]
        z = s.argmax(axis=1) if family == "cpm" else s.argmin(axis=1)
        point, best = truth.at(W, z), truth.best_for(W, z)
    facts = Truth(point.value, point.error, best.value, best.error)
    value = float(point.value) * (1 + 1e-12)
    assert kinds(Claimed("STATIONARY", value, value), facts) == [
        "bound above a feasible point",
        "not optimal",
    ]
    assert kinds(Claimed("SUBOPTIMAL_BY", value, float(best.value) * (1 - 1e-9)), facts) == []
    assert kinds(replace(Claimed("SUBOPTIMAL_BY", value, 0.0), primal=value * (1 - 1e-6)), facts) == [
        "value below the model's"
    ]


# -- words and limits ----------------------------------------------------------------------------


def _error(act):
    with pytest.raises(Exception) as raised:  # noqa: PT011
        act()
    return raised.value


def test_a_refusal_is_a_sentence_of_ours():
    from polyopt import SVM, certify_svm

    assert sentence_of(_error(lambda: SVM(C=-1.0).fit(*PAIR)))
    assert sentence_of(_error(lambda: certify_svm(*PAIR)))


@pytest.mark.parametrize(
    "act",
    [
        lambda: 1 / 0,
        lambda: np.ones(2) + np.ones(3),
        lambda: np.linalg.cholesky(-np.eye(2)),
        lambda: float("much"),
        lambda: [][0],
    ],
)
def test_an_accident_is_no_refusal(act):
    assert sentence_of(_error(act)) is None
    assert attempt("any", act).outcome == "traceback"


def test_a_run_without_end_is_stopped():
    def endless():
        while True:
            pass

    with patience(-0.9):
        assert attempt("any", endless, limit=0.05).outcome == "overrun"


def test_waiting_for_the_processor_is_no_overrun():
    def idle():
        time.sleep(0.5)
        return "OPTIMAL", []

    with patience(-1.0):
        assert attempt("any", idle, limit=0.05).outcome == "optimal"


def test_a_slow_run_is_tried_again_and_at_last_with_little_patience(monkeypatch):
    tries = []

    def family(rng, extreme):
        tries.append(trial.PATIENCE)
        return [trial.Trial("any", outcome="overrun")]

    monkeypatch.setitem(driver.FAMILIES, "hinge", family)
    driver.replay("hinge", RANGES[0], 0)
    assert tries == [trial.COMPILING, trial.COMPILING, trial.PATIENCE]


def test_an_overrun_is_counted_beyond_a_second_and_five_per_cent():
    assert overran(11.4, 10.0) == []
    assert overran(11.6, 10.0)


# -- the campaign itself -------------------------------------------------------------------------


@pytest.mark.parametrize("form", range(9))
def test_a_draw_is_what_it_says_in_every_format(form):
    rng = np.random.default_rng(form)
    drawn = data(rng, extreme=bool(form % 2))
    X = drawn.X.toarray() if hasattr(drawn.X, "toarray") else np.asarray(drawn.X, dtype=float)
    assert np.array_equal(X.astype(float), drawn.values)
    assert set(drawn.y) == {-1.0, 1.0}
    assert (drawn.costs > 0).all()


def test_the_table_counts_every_trial_once():
    rows = [driver._rows(*driver._chunk("sparse", "ordinary", 0, 2))]
    table = driver.counted(rows).query("machine == 'all'")
    assert int(table["tried"].iloc[0]) == int(table[list(driver.OUTCOMES)].to_numpy().sum())


@pytest.mark.parametrize("span", RANGES)
@pytest.mark.parametrize("family", list(driver.FAMILIES))
def test_a_part_of_the_campaign_finds_nothing_false(family, span):
    faults = []
    for seed in range(4 if span == "extreme" else 2):  # few meet a polytope that stalls
        for each in driver.replay(family, span, seed):
            if each.outcome in ("false", "traceback", "overrun"):
                faults.append(f"seed {seed}, {each.machine}: {each.outcome} {each.kinds} {each.details}")
    assert not faults, "\n".join(faults)
