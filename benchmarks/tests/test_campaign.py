"""The campaign's checker catches what it is to catch, and a part of the campaign finds nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.campaign import driver
from benchmarks.campaign.draws import RANGES
from benchmarks.campaign.extended import EPS, LD, best_intercept, is_extended, kernel_matrix
from benchmarks.campaign.hinge import Hinge
from benchmarks.campaign.judge import Claimed, Truth, judge, judge_outputs, judge_status, sentence_of
from benchmarks.campaign.polytope import Boxed, Cpm, Plume, Spla1
from benchmarks.campaign.trial import attempt, patience

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


def test_optimum_of_two_points():
    """The reference optimum and the value of its point are those by hand."""
    truth = Hinge(*PAIR, np.ones(2), LINEAR)
    assert abs(truth.best.value - 0.5) < 1e-12
    assert truth.at_hyperplane(np.array([1.0]), 0.0).value == 0.5


def test_bounded_outputs_raise_the_optimum():
    """With |f| ≤ 1/2 the optimum is w = 1/2, with both hinges 1/2; a point outside is measured."""
    # |f| <= 1/2: w = 1/2, both hinges 1/2.
    truth = Hinge(*PAIR, np.ones(2), LINEAR, B=0.5)
    assert abs(truth.best.value - (0.125 + 1.0)) < 1e-12
    outside = truth.at_hyperplane(np.array([1.0]), 0.0)
    assert outside.value == 1.125
    assert outside.beyond == 0.5


@pytest.mark.parametrize("name", ["linear", "rbf", "poly", "sigmoid"])
def test_kernel_errors_bound_exact_differences(name):
    """Kernel values differ from exact rationals by at most their stated error."""
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


def test_best_intercept_of_all_breakpoints():
    """No breakpoint of the hinges has a smaller loss than the best intercept."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        g, y = rng.normal(size=7).astype(LD), np.where(rng.random(7) < 0.5, 1.0, -1.0)
        costs = rng.random(7).astype(LD)
        b = best_intercept(g, y, costs)

        def paid(b, g=g, y=y, costs=costs):
            return costs @ np.maximum(0, 1 - y * (g + b))

        assert paid(b) <= min(paid(c) for c in y - g) + 10 * EPS


@pytest.mark.parametrize("costs", [1.0, 1e6])
def test_reference_optimum_meets_its_dual(costs):
    """The multipliers of the reference optimum prove its value by the dual."""
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


# -- planted falsehoods --------------------------------------------------------------------------


def test_true_claims_pass():
    """An optimal and a suboptimal true claim raise no objection."""
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
def test_false_claim_is_caught(claimed, kind):
    """Each kind of false claim is named."""
    assert kind in kinds(claimed, of_pair(1.0, 0.0))


def test_false_optimum_is_caught():
    """A point above the optimum is not OPTIMAL, whatever bound it shows."""
    facts = of_pair(1.01, 0.0)
    assert kinds(Claimed("OPTIMAL", float(facts.value), 0.5), facts) == ["not optimal"]
    assert kinds(Claimed("SUBOPTIMAL_BY", float(facts.value), 0.5), facts) == []


def test_only_stated_rounding_is_granted():
    """A bound may exceed the optimum by the stated rounding error, and by no more."""
    facts = of_pair(1.0, 0.0)
    assert kinds(Claimed("OPTIMAL", 0.5, 0.5 + 1e-9, rounding=1e-8), facts) == []
    assert kinds(Claimed("OPTIMAL", 0.5, 0.5 + 1e-7, rounding=1e-8), facts) != []


def test_infeasible_point_is_not_optimal():
    """A claim about a point beyond its output bound is false."""
    facts = of_pair(1.0, 0.0, B=0.5)
    assert "outside its rows" in kinds(Claimed("OPTIMAL", 1.125, 1.125), facts)


def test_bound_of_indefinite_matrix_is_checked():
    """A bound must be below the optimum of the lifted matrix: the program itself is unbounded."""
    # The matrix is -1e-7 on the diagonal: its program is unbounded, any bound of it would be false.
    K, y = np.diag([1.0, -1e-7]), PAIR[1]
    truth = Hinge(K, y, np.full(2, 1e9), {"name": "precomputed"})
    best = truth.best
    facts = Truth(LD(0), LD(0), best.value, best.error, bounded=False)
    assert truth.lift > 0
    assert kinds(Claimed("SUBOPTIMAL_BY", float(best.value) * 2, float(best.value) * 1.01), facts) == [
        "bound above a feasible point"
    ]


@pytest.mark.parametrize("given", [[-1.0, -1.0], [-1.0, 1.5], [-1.0, math.nan], [-1.002, 1.0]])
def test_outputs_of_another_model_are_caught(given):
    """Outputs that differ from the model's by more than rounding are found."""
    true = np.array([-1.0, 1.0], dtype=LD)
    assert judge_outputs(np.array(given), true, 0.0, PAIR[1], np.ones(2, LD), 0.5, "predictions")
    assert not judge_outputs(true + 1e-9, true, 0.0, PAIR[1], np.ones(2, LD), 0.5, "predictions")


def test_too_good_status_is_caught():
    """SOLVED with a gap above the tolerance is found."""
    assert judge_status("SOLVED", 0.49, 1e-2)
    assert not judge_status("SOLVED", 1e-3, 1e-2)
    assert not judge_status("INACCURATE", 0.49, 1e-2)


@pytest.mark.parametrize("family", ["cpm", "polyceptron", "pc-slp", "spla1", "plume"])
def test_moved_faces_are_not_stationary(family):
    """Random faces are not stationary for their cells; false bounds and values of them are found."""
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


def test_refusals_are_own_sentences():
    """Bad parameters and impossible calls are refused in a sentence of this project."""
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
def test_accidents_are_not_refusals(act):
    """An exception that the project did not word is a traceback."""
    assert sentence_of(_error(act)) is None
    assert attempt("any", act).outcome == "traceback"


def test_endless_run_is_stopped():
    """A run past its limit is stopped and counted as an overrun."""

    def endless():
        while True:
            pass

    with patience(-0.9):
        assert attempt("any", endless, limit=0.05).outcome == "overrun"


# -- the campaign itself -------------------------------------------------------------------------


@pytest.mark.parametrize("span", RANGES)
@pytest.mark.parametrize("family", list(driver.FAMILIES))
def test_first_problems_have_no_false_claims(family, span):
    """No claim on the first problems of a family is false, late or a traceback."""
    faults = []
    for seed in range(4 if span == "extreme" else 2):  # few meet a polytope that stalls
        for each in driver.replay(family, span, seed):
            if each.outcome in ("false", "traceback", "overrun"):
                faults.append(f"seed {seed}, {each.machine}: {each.outcome} {each.kinds} {each.details}")
    assert not faults, "\n".join(faults)
