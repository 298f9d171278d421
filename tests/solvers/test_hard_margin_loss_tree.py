"""The SVM with the hard-margin loss: brute force, the climb, the cuts, and what is proven."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.cases import few, in_turn
from scipy.optimize import nnls

from formulations import hard_margin_loss
from formulations.hard_margin_loss_data import as_hard_margin_loss_data
from formulations.samples import two_blobs
from formulations.solution import Status
from polyopt import Claim, certify_hard_margin_loss
from polyopt.certificates.hard_margin_loss import certain_margins, least_square, proven_point, relaxed_bound
from polyopt.outer import hard_margin_loss as outer
from polyopt.solvers.clock import Clock
from polyopt.solvers.hard_margin_loss.climb import ABOVE, RAY
from polyopt.solvers.hard_margin_loss.meeting import Samples
from polyopt.solvers.hard_margin_loss.tree import Search, solve_tree


def shortest(P, N):
    """½‖w‖² of the hard-margin SVM by Lawson and Hanson's least distance program; inf where there is none."""
    G = (P[:, None, :] - N[None, :, :]).reshape(-1, P.shape[1])
    E = np.vstack([G.T, np.full(len(G), 2.0)])
    target = np.append(np.zeros(P.shape[1]), 1.0)
    left = E @ nnls(E, target, maxiter=1000)[0] - target
    if np.linalg.norm(left) < 1e-7:
        return np.inf
    return 0.5 * float((left[:-1] / left[-1]) @ (left[:-1] / left[-1]))


def by_brute_force(X, y, costs):
    n = len(y)
    choices = (np.arange(2**n)[:, None] >> np.arange(n)) % 2 == 1
    paid = choices @ costs
    best = np.inf
    for k in np.argsort(paid, kind="stable"):
        if paid[k] >= best:
            break
        P, N = X[~choices[k] & (y > 0)], X[~choices[k] & (y < 0)]
        best = min(best, paid[k] + (shortest(P, N) if len(P) and len(N) else 0.0))
    return best


def drawn(seed):
    """Few samples: of whole numbers, with copies, of other scales, of several costs."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    X, kind = rng.normal(size=(n, m)) * rng.choice([0.3, 1.0, 3.0]), rng.integers(4)
    if kind == 0:
        X = np.round(X)
    if kind == 1:
        X[rng.integers(n)] = X[0]
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[0], y[-1] = 1.0, -1.0
    return X, y, np.full(n, rng.choice([0.1, 1.0, 10.0])) if seed % 2 else rng.uniform(0.05, 3.0, n)


def overlapping(n=26, C=1.0, seed=3):
    X, y = two_blobs(n=n, m=2, seed=seed)
    return as_hard_margin_loss_data(0.6 * X, y, C)


@pytest.fixture(scope="module")
def solved():
    data = overlapping()
    return data, solve_tree(data)


def test_brute_force_agrees_and_the_bound_is_never_above_it():
    for seed in range(few(40, 150)):
        X, y, costs = drawn(seed)
        data, least = as_hard_margin_loss_data(X, y, costs), by_brute_force(X, y, costs)
        found = solve_tree(data)
        assert found.status is Status.SOLVED
        assert found.objective == pytest.approx(least, rel=1e-6)
        assert found.bound <= least * (1 + 1e-9)
        assert relaxed_bound(data, found["margin"]).lower <= least * (1 + 1e-9)
        again, bound = outer.solve_hard_margin_loss(data, "global", seed=seed) if seed < 10 else (found, 0.0)
        assert again.objective == pytest.approx(least, rel=1e-6)
        assert bound <= least * (1 + 1e-9)


def test_what_the_root_gives_up_is_kept_whatever_the_tree_looks_into_later():
    """It is where the searches of :mod:`polyopt.outer.hard_margin_loss` begin."""
    data, roots = overlapping(14), []
    for most in (0, None):
        search = Search(data, 1e-6, Clock(None), most, None)
        search.run()
        roots.append(search.root)
    assert search.nodes > 0
    assert np.array_equal(*roots)
    assert (roots[0] != 0.5).any()
    assert data.costs @ roots[0] <= search.best


def test_the_climb_stops_at_its_limit_and_at_samples_that_cannot_be_met():
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    data = as_hard_margin_loss_data(X, y)
    samples, every = Samples(data), np.ones(4, dtype=bool)
    found = samples.meet(every)
    assert found.is_met
    assert (found.value, found.active.tolist()) == (pytest.approx(0.5), [1, 2])
    assert samples.hyperplane(found)[0] == pytest.approx([1.0])
    stopped = samples.meet(every, 0.1)
    assert stopped.status == ABOVE
    assert 0.1 <= stopped.value <= 0.5 + 1e-12
    among = as_hard_margin_loss_data(X, y * [1, -1, -1, 1])
    mixed = Samples(among).meet(every)
    assert mixed.status == RAY
    assert least_square(among, mixed.active, mixed.alpha) > 1e12


def test_a_cut_is_proven_by_its_multipliers_alone(solved):
    """Whatever they are: no value is above the hard-margin SVM's, and the climb's are near it."""
    data, _ = solved
    samples, rng = Samples(data), np.random.default_rng(0)
    met = 0
    for _ in range(60):
        kept = rng.random(len(data.y)) < 0.2
        found = samples.meet(kept)
        if not (found.is_met and found.active.size):
            continue
        met += 1
        least = shortest(data.X[kept & (data.y > 0)], data.X[kept & (data.y < 0)])
        assert least_square(data, found.active, found.alpha) == pytest.approx(least, rel=1e-6)
        assert least_square(data, found.active, found.alpha) <= least * (1 + 1e-9)
        assert least_square(data, found.active, rng.uniform(-1, 2, found.alpha.shape)) <= least * (1 + 1e-9)
    assert met > 5
    assert least_square(data, np.array([0]), np.array([1.0])) == 0.0  # of one class alone


def test_an_integer_solver_agrees_on_the_explicit_program(solved):
    data, found = solved
    exact, bound = outer.solve_hard_margin_loss(data, "exact")
    assert exact.objective == pytest.approx(found.objective, rel=1e-6)
    assert bound == pytest.approx(found.objective, rel=1e-6)


def test_limits_keep_the_best_point_and_a_true_bound(solved):
    data, found = solved
    idle = solve_tree(data, time_limit=0.0)
    assert (idle.status, idle.objective, idle.bound) == (Status.TIME_LIMIT, data.at_most(), 0.0)
    root = solve_tree(data, max_nodes=0)
    assert root.status is Status.ITERATION_LIMIT
    assert root.bound < found.objective <= root.objective
    start = solve_tree(data, start=(found["w"], float(found["b"])), max_nodes=0)
    assert start.objective == pytest.approx(found.objective, rel=1e-9)
    assert [record["bound"] for record in found.history] == sorted(r["bound"] for r in found.history)


def test_ctrl_c_keeps_the_best_point(solved):
    data, found = solved

    def stop(_):
        raise KeyboardInterrupt

    kept = solve_tree(data, start=(found["w"], float(found["b"])), progress=stop)
    assert kept.status is Status.INTERRUPTED
    assert kept.objective == pytest.approx(found.objective, rel=1e-9)


# -- the certificate --------------------------------------------------------------------------------


def test_the_margins_of_the_point_are_met_for_certain(solved):
    data, found = solved
    kept = found["z"] == 0.0
    w, b = found["w"], float(found["b"])
    assert (certain_margins(data, w, b)[kept] >= 1.0).all()
    assert data.value(w, b) == found.objective
    shrunk = proven_point(data, w * (1 - 1e-9), b * (1 - 1e-9))
    assert (certain_margins(data, *shrunk)[kept] >= 1.0).all()
    assert proven_point(data, w * 1e-3, b * 1e-3)[0].any()  # meets nothing, and lengthens nothing


def test_what_is_claimed_follows_from_what_is_given(solved):
    data, found = solved
    point = {"w": found["w"], "b": float(found["b"])}
    arguments = (data.X, data.y, data.costs)
    assert certify_hard_margin_loss(*arguments, **point, alpha=found["margin"]).claim is Claim.STATIONARY
    stated = certify_hard_margin_loss(*arguments, **point, alpha=found["margin"], bound=found.bound)
    assert stated.claim is Claim.SOLVERS_WORD
    dual = hard_margin_loss.relaxation_dual(*arguments).solve()
    relaxed = certify_hard_margin_loss(*arguments, **point, v=dual["alpha"])
    assert relaxed.claim is Claim.SUBOPTIMAL_BY
    assert relaxed.dual_value == pytest.approx(dual.objective, rel=1e-6)
    assert relaxed.dual_value <= dual.objective * (1 + 1e-9)


def test_a_point_or_multipliers_that_are_off_are_not_certified(solved):
    data, found = solved
    arguments = (data.X, data.y, data.costs)
    good = {"w": found["w"], "b": float(found["b"]), "alpha": found["margin"]}
    for bad in (
        {"w": 0.999 * found["w"]},
        {"w": 1.001 * found["w"], "b": 1.001 * good["b"]},
        {"alpha": 0.0 * found["margin"]},
        {"alpha": -found["margin"]},
        {"alpha": found["margin"] + found["z"]},
    ):
        assert certify_hard_margin_loss(*arguments, **{**good, **bad}).claim is not Claim.STATIONARY


@in_turn(
    ("change", "words"),
    [
        ({"y": np.ones(4)}, "both classes"),
        ({"C": 0.0}, "C must be positive"),
        ({"C": [1.0, 1.0, 1.0]}, "C must"),
        ({"X": np.full((4, 1), np.nan)}, "X must"),
        ({"w": [1.0, 2.0]}, "w must"),
        ({"tol": 2.0}, "tol must"),
    ],
)
def test_bad_input_is_named(change, words):
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    good = {"X": X, "y": [-1, -1, 1, 1], "C": 1.0, "w": [1.0], "b": 0.0}
    with pytest.raises(ValueError, match=words):
        certify_hard_margin_loss(**{**good, **change})


@pytest.mark.parametrize("scale", [1e-120, 1e120, 1e200])
def test_samples_beyond_double_precision_are_named(scale):
    data = as_hard_margin_loss_data([[-scale], [scale]], [-1, 1])
    with pytest.raises(ValueError, match=r"scale the\s+features"):
        Samples(data)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_costs_of_another_scale_are_as_good(factor):
    """Samples √factor times nearer to each other and costs divided by it: the same program in other units."""
    data = overlapping(n=14)
    least = solve_tree(data).objective
    other = as_hard_margin_loss_data(data.X * factor**0.5, data.y, data.costs / factor)
    found = solve_tree(other)
    assert found.status is Status.SOLVED
    assert found.objective * factor == pytest.approx(least, rel=1e-6)
    assert found.bound * factor == pytest.approx(least, rel=1e-6)


def test_an_M_cuts_no_optimum_off(solved):
    data, found = solved
    short = 1.0 - data.margins(found["w"], float(found["b"]))
    assert (short <= data.big_m() * found["z"] + 1e-9).all()
    assert (data.big_m(found.objective) <= data.big_m()).all()
    assert (short <= data.big_m(found.objective) * found["z"] + 1e-6).all()
