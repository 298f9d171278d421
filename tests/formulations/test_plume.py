"""PLUME: its probabilities and objectives, programs, solvers, expectation and maximisation, certificates."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import entr, expit

from formulations import mixture, plume
from formulations.language.solution import Status
from formulations.polyhedral import hard_loss, scores
from formulations.polytope import lift
from polyopt.base.progress import records_to
from polyopt.certificates import Claim
from polyopt.optim.rounds import run_rounds
from polyopt.polyhedral.logistic_certificate import certify_plume
from polyopt.polyhedral.plume import OPTIONS, Descent, PlumeProblem, minimise, solve_plume

GAMMAS = [0.5, 2.0, 5.0]
METHODS = ["newton", "bfgs", "gradient"]
ALL_METHODS = [*METHODS, "bfgs-newton"]
RIDGE = 1e-2


def square(n=60, seed=0):
    """Positives inside a square, with weights; faces that have nothing to do with it."""
    rng = np.random.default_rng(seed)
    X = 1.2 * rng.normal(size=(n, 2))
    y = np.where(np.abs(X).max(axis=1) < 1, 1.0, -1.0)
    return X, y, rng.uniform(0.5, 2.0, n), rng.normal(size=(3, 3))


def differences(f, W, step=1e-6):
    """Central differences of f by each entry of W, in the last axis."""
    found = []
    for place in np.ndindex(W.shape):
        up, down = W.copy(), W.copy()
        up[place] += step
        down[place] -= step
        found.append((np.asarray(f(up)) - np.asarray(f(down))) / (2 * step))
    return np.stack(found, axis=-1)


# -- the model -----------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.0, *GAMMAS])
def test_probabilities_are_those_of_the_definition(gamma):
    """Gate, posterior, log-odds, responsibilities and loss, from their formulas."""
    X, y, _, W = square()
    s = X @ W[:, :-1].T + W[:, -1]
    g = np.exp(-gamma * s) / np.exp(-gamma * s).sum(axis=1, keepdims=True)
    P = (g / (1 + np.exp(-s))).sum(axis=1)
    assert mixture.gate(X, W, gamma) == pytest.approx(g, abs=1e-12)
    assert mixture.posterior(X, W, gamma) == pytest.approx(P, abs=1e-12)
    assert mixture.log_odds(X, W, gamma) == pytest.approx(np.log(P / (1 - P)), abs=1e-9)
    joint = g / (1 + np.exp(-y[:, None] * s))
    R = mixture.responsibilities(X, y, W, gamma)
    assert pytest.approx(joint / joint.sum(axis=1, keepdims=True), abs=1e-12) == R
    assert mixture.loss(X, y, W, gamma) == pytest.approx(-np.log(joint.sum(axis=1)).sum())


@pytest.mark.parametrize("gamma", GAMMAS)
def test_gradient_and_hessian_are_finite_differences(gamma):
    """So they are of the M-step and of the likelihood; multipliers give the gradient."""
    X, y, c, W = square()
    R = mixture.responsibilities(X, y, W[::-1] + 0.3, gamma)
    for held in (R, None):
        rest = (held, gamma, c, RIDGE)
        value, gradient = mixture.value_and_gradient(X, y, W, *rest)
        numeric = differences(lambda V, rest=rest: mixture.value_and_gradient(X, y, V, *rest)[0], W)
        assert gradient.ravel() == pytest.approx(numeric, rel=1e-6, abs=1e-6)
        H = mixture.hessian(X, y, W, *rest)
        numeric = differences(lambda V, rest=rest: mixture.value_and_gradient(X, y, V, *rest)[1].ravel(), W)
        assert pytest.approx(numeric, rel=1e-6, abs=1e-5) == H
        alpha = mixture.multipliers(X, y, W, held, gamma, c)
        assert gradient == pytest.approx(RIDGE * W - alpha.T @ lift(X))
        terms = np.abs(alpha)[:, :, None] * np.abs(lift(X))[:, None]
        largest = max(terms.sum(axis=0).max(), RIDGE * np.abs(W).max())
        assert mixture.gradient_scale(X, y, W, *rest) == pytest.approx(largest)
    assert mixture.expected(X, y, W, R, gamma, c, RIDGE) == pytest.approx(
        mixture.value_and_gradient(X, y, W, R, gamma, c, RIDGE)[0], rel=1e-14
    )
    assert mixture.loss(X, y, W, gamma, c, RIDGE) == value


@pytest.mark.parametrize("gamma", GAMMAS)
def test_m_step_is_convex_likelihood_is_not(gamma, rng):
    """The Hessian of the M-step has no negative eigenvalue, that of the likelihood has."""
    X, y, c, _ = square()
    least = []
    for _ in range(10):
        W, other = rng.normal(size=(2, 3, 3)) * 2.0
        R = mixture.responsibilities(X, y, other, gamma)
        H = mixture.hessian(X, y, W, R, gamma, c)
        assert np.linalg.eigvalsh(H)[0] >= -1e-9 * np.abs(H).max()
        least.append(np.linalg.eigvalsh(mixture.hessian(X, y, W, None, gamma, c))[0])
    assert min(least) < -1e-2


@pytest.mark.parametrize("gamma", GAMMAS)
def test_m_step_touches_likelihood_from_above(gamma, rng):
    """Value and slope agree at the responsibilities' own faces; elsewhere the M-step is above."""
    X, y, c, W = square()
    R = mixture.responsibilities(X, y, W, gamma)
    entropy = c @ entr(R).sum(axis=1)
    value, slope = mixture.value_and_gradient(X, y, W, R, gamma, c, RIDGE)
    own, likewise = mixture.value_and_gradient(X, y, W, None, gamma, c, RIDGE)
    assert value - entropy == pytest.approx(own, rel=1e-12)
    assert slope == pytest.approx(likewise, abs=1e-10)  # Fisher's identity
    for size in (1e-3, 0.1, 3.0):
        V = W + size * rng.normal(size=W.shape)
        above = mixture.expected(X, y, V, R, gamma, c, RIDGE) - entropy
        assert above >= mixture.loss(X, y, V, gamma, c, RIDGE) - 1e-10


def test_gate_leads_from_mean_to_spla1(rng):
    """γ → ∞ is the least score of SPLA1, γ = 0 the mean of the experts."""
    X, y, c, _ = square(200)
    W = rng.normal(size=(4, 3))
    s = scores(X, W)
    h, distance = s.min(axis=1), np.diff(np.sort(s, axis=1)[:, :2])[:, 0]
    assert mixture.loss(X, y, W, 1e7, c, RIDGE) == pytest.approx(hard_loss(X, y, W, c, RIDGE), rel=1e-6)
    for gamma in (0.0, 1.0, 5.0, 50.0):
        off = np.abs(mixture.posterior(X, W, gamma) - expit(h))
        assert (off <= 3 * np.exp(-gamma * distance) + 1e-12).all()
    assert off.max() > 1e-6
    assert mixture.posterior(X, W, 0.0) == pytest.approx(expit(s).mean(axis=1), abs=1e-12)
    assert mixture.log_odds(X, W[:1], 7.0) == pytest.approx(s[:, 0], abs=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 1.0, 1e6])
def test_huge_scores_do_not_overflow(gamma):
    """Scores of 1e8 have finite odds, loss, gradient and Hessian: those of the sharp gate."""
    X, y, c, W = square()
    W = 1e8 * W
    with np.errstate(all="raise", under="ignore"):
        odds = mixture.log_odds(X, W, gamma)
        value, gradient = mixture.value_and_gradient(X, y, W, None, gamma, c, RIDGE)
        R = mixture.responsibilities(X, y, W, gamma)
        H = mixture.hessian(X, y, W, R, gamma, c, RIDGE)
    assert all(np.isfinite(found).all() for found in (odds, value, gradient, R, H))
    if gamma > 0:
        h = scores(X, W).min(axis=1)
        assert np.sign(odds).tolist() == np.sign(h).tolist()
        assert odds == pytest.approx(h, abs=np.log(3) + 1e-6)  # at γ = 1 a face far away still counts
        assert value == pytest.approx(hard_loss(X, y, W, c, RIDGE), rel=1e-7)


def test_single_precision_is_not_copied():
    """A step on float32 samples takes less memory than the samples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 100)).astype(np.float32)
    y, c, W = np.where(X[:, 0] > 0, 1.0, -1.0), np.ones(20_000), 0.1 * rng.normal(size=(2, 101))
    problem = PlumeProblem(X, y, c, 2, method="bfgs")
    problem.step(W)
    tracemalloc.start()
    found = problem.step(W)
    problem.record(found["W"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * X.nbytes


# -- the programs --------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", GAMMAS)
def test_all_methods_solve_the_m_step(gamma):
    """Programs and methods end at one optimum, each with a valid bound."""
    X, y, c, W = square()
    R = mixture.responsibilities(X, y, W, gamma)
    exact = plume.m_step(X, y, R, gamma, c, RIDGE).solve()
    dual = plume.m_step_dual(X, y, R, gamma, c, RIDGE).solve()
    assert dual.objective == pytest.approx(exact.objective, rel=1e-9)
    for method in ALL_METHODS:
        # The gradient is at the limits of double precision before the others are.
        found = minimise(X, y, c, R, W, gamma=gamma, ridge=RIDGE, method=method, max_iter=5000, tol=1e-9)
        loose = 1e3 if method == "gradient" else 1.0
        assert found.objective == pytest.approx(exact.objective, rel=1e-8)
        assert found["W"] == pytest.approx(exact["W"], abs=1e-5 * loose)
        assert found.bound <= exact.objective * (1 + 1e-9)
        assert found.bound == pytest.approx(found.objective, rel=1e-9)
        assert found.objective == mixture.expected(X, y, found["W"], R, gamma, c, RIDGE)
    # The gradient alone needs thousands.
    newton = minimise(X, y, c, R, W, gamma=gamma, ridge=RIDGE, method="newton", max_iter=30)
    assert newton.status is Status.SOLVED
    recovered = plume.recover(X, y, R, dual["p"], dual["u"], gamma, c, RIDGE)["W"]
    assert recovered == pytest.approx(newton["W"], abs=1e-3)


# -- solvers -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL_METHODS)
def test_likelihood_falls_until_flat(method):
    """Each method lowers the likelihood's loss and ends at a stationary point."""
    for gamma in (0.5, 5.0):
        X, y, c, W = square()
        found = minimise(X, y, c, None, W, gamma=gamma, ridge=RIDGE, method=method, max_iter=3000, tol=1e-8)
        assert found.objective < mixture.loss(X, y, W, gamma, c, RIDGE)
        assert found.objective == mixture.loss(X, y, found["W"], gamma, c, RIDGE)
        assert found.bound is None
        certificate = certify_plume(X, y, found["W"], gamma=gamma, ridge=RIDGE, C=c)
        assert certificate.claim is Claim.STATIONARY
        again = minimise(
            X, y, c, None, found["W"], gamma=gamma, ridge=RIDGE, method=method, max_iter=100, tol=1e-15
        )
        assert again.objective <= found.objective


def test_units_do_not_change_the_polish():
    """Features in other units lead to the same faces."""
    X, y, c, W = square(200)
    y[::5] *= -1.0  # so that there is an optimum without a ridge, which has units of its own
    units = np.array([2.0**12, 2.0**-9])
    ends = [
        minimise(
            X * by, y, c, None, W / np.append(by, 1.0), gamma=1.0, ridge=0.0, method="bfgs-newton", tol=1e-8
        )
        for by in (np.ones(2), units)
    ]
    assert [end.status for end in ends] == [Status.SOLVED, Status.SOLVED]
    assert ends[1].objective == pytest.approx(ends[0].objective, rel=1e-9)
    assert ends[1]["W"] * np.append(units, 1.0) == pytest.approx(ends[0]["W"], rel=1e-3)


def test_newton_refuses_many_entries():
    """Beyond 5000 entries the error names another method."""
    X, y, c = np.zeros((2, OPTIONS.max_newton_entries)), np.array([1.0, -1.0]), np.ones(2)
    R, W = np.ones((2, 1)), np.zeros((1, OPTIONS.max_newton_entries + 1))
    with pytest.raises(ValueError, match=r"at most 5000 entries, not 5001.*method='bfgs'"):
        minimise(X, y, c, R, W, gamma=1.0, ridge=1.0)
    with pytest.raises(ValueError, match="'newton', 'bfgs', 'gradient' or 'bfgs-newton', not 'adam'"):
        minimise(X, y, c, R, W, gamma=1.0, ridge=1.0, method="adam")
    assert minimise(X, y, c, R, W, gamma=1.0, ridge=1.0, method="bfgs").status is Status.SOLVED


def test_separable_data_without_ridge():
    """Without a ridge the loss falls for ever: a run ends CONVERGED with hardly any left."""
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    R, c = np.full((4, 2), 0.5), np.ones(4)
    # Along a common shift the objective falls for ever towards n ln K.
    values = [mixture.expected(X, y, np.tile([t, 0.0], (2, 1)), R, 1.0) for t in (1.0, 10.0, 100.0)]
    assert values[0] > values[1] > values[2] == pytest.approx(4 * np.log(2), abs=1e-12)
    found = minimise(X, y, c, R, np.array([[1.0, 0.0], [0.9, 0.1]]), gamma=1.0, ridge=0.0, max_iter=50)
    assert found.bound is None
    assert found.objective == pytest.approx(4 * np.log(2), abs=1e-3)
    # The likelihood falls towards 0, and is let alone once hardly any is left.
    found = solve_plume(PlumeProblem(X, y, c, 2, ridge=0.0), n_init=1)
    assert found.status is Status.CONVERGED
    assert 0.0 <= found.objective <= 1e-6


# -- expectation and maximisation ----------------------------------------------------------


def steps_of(problem, W, count):
    values = [problem.value(W)]
    for _ in range(count):
        found = problem.step(W)
        W = found["W"]
        assert found.objective == problem.value(W)
        assert found.objective == pytest.approx(
            mixture.loss(problem.X, problem.y, W, problem.gamma, problem.c, problem.ridge), rel=1e-14
        )
        values.append(found.objective)
    return np.array(values)


@pytest.mark.parametrize(
    ("method", "inner", "gamma"),
    [("exact", None, 2.0), ("newton", 1, 5.0), ("newton", 50, 0.5), ("bfgs", 5, 2.0), ("gradient", 1, 5.0)],
)
def test_no_step_raises_the_loss(method, inner, gamma):
    """Expectation and maximisation lower the loss by every method."""
    X, y, c, W = square()
    problem = PlumeProblem(X, y, c, 3, gamma=gamma, ridge=RIDGE, method=method, inner=inner)
    values = steps_of(problem, W, 6 if method == "exact" else 25)
    assert (np.diff(values) <= 0).all()
    assert values[-1] < 0.9 * values[0]


@pytest.mark.parametrize("method", ["newton", "bfgs", "gradient"])
def test_equal_faces_stay_equal(method):
    """So starts are of different faces, and end lower."""
    X, y, c, W = square()
    problem = PlumeProblem(X, y, c, 3, gamma=2.0, ridge=RIDGE, method=method)
    alike = run_rounds(problem, np.tile(W[0], (3, 1)), max_iter=20)["W"]
    assert np.ptp(alike, axis=0).max() < 1e-6
    start = problem.start(np.random.default_rng(0))
    assert min(np.linalg.norm(start[i] - start[j]) for i, j in ((0, 1), (0, 2), (1, 2))) > 1e-2
    assert solve_plume(problem, n_init=3).objective < 0.8 * problem.value(alike)


def test_solution_has_history_and_multipliers():
    """The best run's last record is the answer; each run sharpens its gate."""
    X, y, c, _ = square(100)
    problem = PlumeProblem(X, y, c, 4, gamma=4.0, ridge=RIDGE)
    found = solve_plume(problem, n_init=3, seed=1)
    assert found.status is Status.CONVERGED
    assert found.objective == problem.value(found["W"])
    assert certify_plume(X, y, found["W"], gamma=4.0, ridge=RIDGE, C=c).claim is Claim.STATIONARY
    assert found["W"] == pytest.approx(found.duals["score"].T @ lift(X) / RIDGE, rel=1e-4, abs=1e-4)
    best = next(i for i, run in enumerate(found.runs) if run.objective == found.objective)
    last = [r for r in found.history if r["start"] == best][-1]
    assert last["objective"] == found.objective
    assert last["log_likelihood"] == pytest.approx(0.5 * RIDGE * np.sum(found["W"] ** 2) - found.objective)
    assert last["occupied"] == len(set(scores(X, found["W"]).argmin(axis=1)))
    assert 1 <= last["perplexity"] <= last["occupied"] + 1e-12
    for number in range(3):
        run = [r for r in found.history if r["start"] == number]
        gammas = [r["gamma"] for r in run]
        assert gammas == sorted(gammas)
        assert set(gammas) == {0.25, 0.5, 1.0, 2.0, 4.0}
        for gamma in set(gammas):
            assert (np.diff([r["objective"] for r in run if r["gamma"] == gamma]) <= 0).all()
        assert found.runs[number].status is Status.CONVERGED
        assert run[-1]["objective"] == found.runs[number].objective
    assert found.objective <= min(run.objective for run in found.runs) * (1 + 1e-9)
    soft = solve_plume(problem, n_init=1, anneal=False)
    assert {r["gamma"] for r in soft.history} == {4.0}


@pytest.mark.parametrize("record", [2, 9])
def test_interrupted_run_keeps_its_best_point(record):
    """Ctrl-C while the gate is soft, or later, leaves a point judged at the sharpness asked for."""
    X, y, c, _ = square()
    problem, told = PlumeProblem(X, y, c, 3, gamma=4.0, ridge=RIDGE), []

    def interrupt(state):
        told.append(state)
        if len(told) == record:
            raise KeyboardInterrupt

    with records_to(interrupt):
        stopped = solve_plume(problem, n_init=4)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.objective == problem.value(stopped["W"])


@pytest.mark.parametrize(("method", "inner"), [("gradient", 1), ("newton", 1), ("bfgs", 5)])
def test_em_of_the_paper(method, inner):
    """Step by step, up to the same end."""
    X, y, c, _ = square()
    tol = 1e-4
    model = {"gamma": 2.0, "ridge": RIDGE}
    problem = PlumeProblem(X, y, c, 3, method=method, **model)
    found = solve_plume(problem, n_init=1, seed=3, tol=tol, anneal=False, polish=False)
    W = problem.start(problem.generators(3, 1)[0])
    values = [mixture.loss(X, y, W, 2.0, c, RIDGE)]
    while len(values) < 2 or values[-1] < values[-2] * (1 - tol):
        R = mixture.responsibilities(X, y, W, 2.0)
        W = minimise(X, y, c, R, W, method=method, max_iter=inner, **model)["W"]
        values.append(mixture.loss(X, y, W, 2.0, c, RIDGE))
    assert found.status is Status.CONVERGED
    assert found.solver == f"em ({method})"
    assert found["W"] == pytest.approx(W, rel=1e-12)
    assert [record["objective"] for record in found.history] == pytest.approx(values, rel=1e-12)
    assert (np.diff([record["seconds"] for record in found.history]) >= 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "sgd"}, r"method must be 'auto', 'exact'.*, not 'sgd'"),
        ({"inner": 0}, "inner must be an integer of at least 1, or None, not 0"),
        ({"gamma": np.nan}, "gamma must be at least 0 and finite"),
        ({"method": "exact", "ridge": 0.0}, "ridge must be positive with method='exact'"),
    ],
)
def test_wrong_settings_are_named(change, message):
    """A method, number of steps, gate or ridge that is none is refused."""
    X, y, c, _ = square()
    with pytest.raises(ValueError, match=message):
        PlumeProblem(X, y, c, 3, **change)


# -- certificates --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stationary():
    X, y, c, _ = square()
    W = solve_plume(PlumeProblem(X, y, c, 3, gamma=2.0, ridge=RIDGE), n_init=2)["W"]
    return (X, y, W), {"gamma": 2.0, "ridge": RIDGE, "C": c}


def test_stationary_point_is_certified(stationary):
    """A moved point is suboptimal by a gap that is seen."""
    (X, y, W), model = stationary
    certificate = certify_plume(X, y, W, **model)
    assert certificate.claim is Claim.STATIONARY
    assert certificate.relative_gap < 1e-6
    assert certificate.primal_value == pytest.approx(mixture.loss(X, y, W, 2.0, model["C"], RIDGE))
    assert "Other responsibilities may have a lower optimum" in certificate.sentence
    assert {r.row for r in certificate.residuals} == {f"w(face {k})" for k in range(3)}
    moved = W.copy()
    moved[1, 0] += 0.02 * np.abs(W).max()
    failed = certify_plume(X, y, moved, **model)
    assert failed.claim is Claim.SUBOPTIMAL_BY
    assert failed.worst.relative > 1e-4
    assert failed.gap > 1e-4


def test_bound_is_that_of_the_m_step(rng):
    """The certificate's bound is the dual program's value, below the optimum for the responsibilities."""
    X, y, c, _ = square()
    for gamma in GAMMAS:
        W = 0.5 * rng.normal(size=(3, 3))
        R = mixture.responsibilities(X, y, W, gamma)
        start = minimise(X, y, c, R, W, gamma=gamma, ridge=1.0, max_iter=1)["W"]
        optimum = minimise(X, y, c, R, W, gamma=gamma, ridge=1.0).objective - c @ entr(R).sum(axis=1)
        certificate = certify_plume(X, y, start, gamma=gamma, ridge=1.0, C=c, responsibilities=R)
        assert certificate.dual_value <= optimum <= certificate.primal_value
        assert certificate.dual_value > 0.5 * optimum
        gradient = mixture.value_and_gradient(X, y, start, R, gamma, c, 1.0)[1]
        assert certificate.gap == pytest.approx(np.sum(gradient**2) / 2)
        # The dual program agrees: its value at the gate and the doubts of W is this bound.
        point = {"p": mixture.gate(X, start, gamma), "u": expit(-y[:, None] * scores(X, start))}
        dual = plume.m_step_dual(X, y, R, gamma, c, 1.0)
        assert max(dual.violations(point).values()) < 1e-12
        assert dual.value(point) - c @ entr(R).sum(axis=1) == pytest.approx(certificate.dual_value)
        assert certify_plume(X, y, 50 * W, gamma=gamma, ridge=1e-3, C=c).dual_value == 0.0


def test_foreign_responsibilities_are_not_stationary(stationary):
    """The worst residual is the largest difference of responsibilities."""
    (X, y, W), model = stationary
    own = mixture.responsibilities(X, y, W, 2.0)
    assert certify_plume(X, y, W, **model, responsibilities=own).claim is Claim.STATIONARY
    R = mixture.responsibilities(X, y, 0.5 * W, 2.0)
    V = minimise(X, y, model["C"], R, W, gamma=2.0, ridge=RIDGE, tol=1e-10)["W"]
    certificate = certify_plume(X, y, V, **model, responsibilities=R)
    assert certificate.relative_gap < 1e-6
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.worst.row == "responsibilities"
    off = np.abs(R - mixture.responsibilities(X, y, V, 2.0)).max(axis=1)
    assert (certificate.worst.worst, certificate.worst.value) == (off.argmax(), pytest.approx(off.max()))


def test_nothing_is_claimed_without_ridge(stationary):
    """The sentence says that a bound needs a ridge."""
    (X, y, W), model = stationary
    certificate = certify_plume(X, y, W, **{**model, "ridge": 0.0})
    assert certificate.claim is Claim.NONE
    assert "needs a ridge" in certificate.sentence
    assert certificate.dual_value == 0.0


def test_certificate_refuses_wrong_input(stationary):
    """Shapes and ridge are named; sparse samples are taken."""
    (X, y, W), model = stationary
    with pytest.raises(ValueError, match=r"W must be finite, of shape K x 3"):
        certify_plume(X, y, W[:, :2], **model)
    with pytest.raises(
        ValueError, match=r"responsibilities must be finite, of shape 60 x 3; its shape is \(60, 2\)"
    ):
        certify_plume(X, y, W, **model, responsibilities=np.full((60, 2), 0.5))
    with pytest.raises(ValueError, match="ridge must be at least 0"):
        certify_plume(X, y, W, gamma=1.0, ridge=-1.0)
    sparse = certify_plume(sp.csr_matrix(X), y, W, **model)
    assert sparse.claim is Claim.STATIONARY


# -- steps of the solvers ------------------------------------------------------------------


class Bowl:
    """The objective ½ ‖W‖², that is never flat."""

    ridge = 0.0

    def __call__(self, W):
        return float((W**2).sum() / 2), W

    def is_flat(self, *_):
        return False


@pytest.mark.parametrize("times", [0.5, 1.0, 1.9, 2.1, 7.0, 1e4])
def test_step_is_halved_until_enough(times):
    """Along −gradient of ½w² a step of λ brings λ − λ²/2 of w²: under 2 − 2e-4 it is enough, and not over."""
    run = Descent(Bowl(), np.array([[3.0]]), 10, 1e-9, None)
    assert run.descend(-run.gradient, times)
    step = times
    while step - step**2 / 2 < 1e-4 * step:
        step /= 2
    assert run.W[0, 0] == pytest.approx(3.0 * (1.0 - step))
    assert (run.value, run.gradient[0, 0]) == (run.W[0, 0] ** 2 / 2, run.W[0, 0])
    assert run.iterations == 1


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_convex_relaxation_ignores_negatives(K, gamma):
    """At any scores its loss is above 0, but the mean of the losses at two far points is 0: its envelope."""
    rng = np.random.default_rng(0)
    S, far = 3.0 * rng.normal(size=(20, K)), np.zeros(K)
    far[:2] = 200.0, -200.0

    def losses(scores):  # −ln P(outside), P(inside) = σ(log odds); faces that give the samples themselves
        return np.logaddexp(0.0, mixture.log_odds(scores, np.eye(K, K + 1), gamma))

    assert (losses(S) > 1e-6).all()
    assert (0.5 * (losses(S + far) + losses(S - far)) < 1e-40).all()
    # With what is left, the positives and the ridge, faces without weights are near the least.
    X, y = np.ones((30, 2)), np.repeat([1.0, -1.0], 15)
    W, b = np.zeros((K, 3)), 4.0
    W[:, -1] = b
    left = mixture.loss(X[:15], y[:15], W, gamma, 1.0, RIDGE)
    assert left == pytest.approx(15 * np.log1p(np.exp(-b)) + RIDGE / 2 * K * b**2, rel=1e-9)
    assert left < 0.1 * mixture.loss(X, y, 0.0 * W, gamma, 1.0, RIDGE)
