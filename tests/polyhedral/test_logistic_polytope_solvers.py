"""Logistic polytopes: the smoothed objective, the polish against the explicit program, and certificates."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from formulations import class_faces as faces
from formulations import logistic_polytopes as programs
from formulations.class_faces import Owners
from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import datasets
from polyopt.certificates import Claim
from polyopt.polyhedral.logistic_certificate import certify_logistic_polytopes
from polyopt.polyhedral.logistic_descent import (
    count_numbers,
    descend,
    eliminate,
    saliency,
    sizes_down_to,
)
from polyopt.polyhedral.logistic_loss import FaceLoss, Units
from polyopt.polyhedral.logistic_newton import hessian, polish
from polyopt.polyhedral.logistic_polytopes import random_start, solve_logistic_polytopes

OWNERS = [Owners(2, 2), Owners(0, 3), Owners(3, 1)]


def drawn(owners, l1=0.0, n=30, m=3, seed=0, ridge=0.2):
    X, y = two_blobs(n, m, seed)
    rng = np.random.default_rng(seed)
    c = rng.uniform(0.5, 2.0, n)
    W = rng.normal(size=(owners.count, m + 1)) * owners.free[:, None]
    return FaceLoss(X, y, c, owners, ridge, 0.5 * ridge, FacePenalty.of(m, l1=l1)), W


def numeric(function, W, h=1e-6):
    found = np.zeros((*W.shape, *np.shape(function(W))))
    for place in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[place] = h
        found[place] = (function(W + step) - function(W - step)) / (2 * h)
    return found


def certified(problem, found, **more):
    return certify_logistic_polytopes(
        problem.X, problem.y, found["W"], n_faces=(problem.owners.minus, problem.owners.plus),
        ridge=problem.ridge, bias_ridge=problem.bias_ridge, l1=problem.penalty.l1,
        group=problem.penalty.group, groups=problem.penalty.groups, C=problem.c, **more,
    )  # fmt: skip


# -- the smoothed objective ------------------------------------------------------------------


@pytest.mark.parametrize("owners", OWNERS, ids=str)
@pytest.mark.parametrize("own", [0.0, 0.7])
def test_slope_and_curvature_are_those_of_the_objective(owners, own):
    problem, W = drawn(owners)
    free = problem.owners.free
    slope = problem.smooth(W, own, 0.4)[1]
    assert slope[free] == pytest.approx(numeric(lambda V: problem.smooth(V, own, 0.4)[0], W)[free], abs=1e-5)
    if own == 0.0:
        active = np.broadcast_to(free[:, None], W.shape)
        _, _, R, a = problem.smooth(W, 0.0, 0.4)
        H = hessian(problem, R, a, active, 0.4)
        expected = numeric(lambda V: problem.smooth(V, 0.0, 0.4)[1], W)[active][:, active]
        assert pytest.approx(expected, abs=1e-4) == H


@pytest.mark.parametrize("owners", OWNERS, ids=str)
def test_softness_goes_to_the_objective_itself(owners):
    problem, W = drawn(owners, l1=0.3)
    sharp = problem.value(W)
    expected = faces.value(
        problem.X, problem.y, W[:, :-1], W[:, -1], owners, problem.c,
        ridge=problem.ridge, bias_ridge=problem.bias_ridge, penalty=problem.penalty,
    )  # fmt: skip
    assert sharp == pytest.approx(expected, rel=1e-12)
    gaps = [problem.smooth(W, 0.0, t)[0] + problem.penalty.value(W) - sharp for t in (1.0, 0.1, 0.01)]
    assert gaps[0] >= gaps[1] >= gaps[2] >= -1e-12
    assert gaps[2] <= 0.01 * np.log(owners.count) * problem.c.sum()


def test_sparse_samples_count_as_dense_ones():
    problem, W = drawn(Owners(2, 2), l1=0.1)
    other = FaceLoss(sp.csr_array(problem.X), problem.y, problem.c, problem.owners, problem.ridge,
                     problem.bias_ridge, problem.penalty)  # fmt: skip
    for one, same in zip(problem.smooth(W, 0.2, 0.2), other.smooth(W, 0.2, 0.2), strict=True):
        assert one == pytest.approx(same)
    found = [polish(each, W, Clock(None), tol=1e-8).objective for each in (problem, other)]
    assert found[0] == pytest.approx(found[1], rel=1e-7)


# -- stationary points -----------------------------------------------------------------------


@pytest.mark.parametrize("owners", OWNERS, ids=str)
@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_the_polish_ends_at_the_optimum_of_its_assignment(owners, l1):
    problem, _ = drawn(owners, l1)
    found = solve_logistic_polytopes(problem, n_init=2, tol=1e-8)
    assert found.status is Status.CONVERGED
    program = programs.fixed_assignment(
        problem.X, problem.y, owners, found["assignment"], problem.c,
        ridge=problem.ridge, bias_ridge=problem.bias_ridge, penalty=problem.penalty,
    )  # fmt: skip
    assert found.objective == pytest.approx(program.solve().objective, rel=1e-7)
    certificate = certified(problem, found, alpha=found.duals["margin"], assignment=found["assignment"])
    assert certificate.claim is Claim.STATIONARY, certificate
    exact = solve_logistic_polytopes(problem, method="exact", n_init=2)
    again = certified(problem, exact, alpha=exact.duals["margin"], assignment=exact["assignment"])
    assert again.claim is Claim.STATIONARY, again


@settings(max_examples=16)
@given(
    st.integers(0, 10_000), st.sampled_from([*OWNERS, Owners(1, 1), Owners(0, 1)]),
    st.sampled_from([0.0, 0.3, 3.0]), st.sampled_from(["copies", "constant", "twins", "few", "far"]),
    st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4), st.sampled_from([0.0, 0.5, 20.0]),
    st.sampled_from([None, [0, 0, 1, 1], [0, 1, 0, 2]]),
)  # fmt: skip
def test_degenerate_data_end_stationary_too(seed, owners, l1, kind, signs, group, groups):
    rng = np.random.default_rng(seed)
    X, y = two_blobs(5 if kind == "few" else 24, 4, seed)
    if kind == "copies":
        X, y = np.repeat(X[:8], 3, axis=0), np.repeat(y[:8], 3)
        y[0], y[3] = -1.0, 1.0
    elif kind == "constant":
        X[:, 1] = 2.0
    elif kind == "twins":
        X[:, 2] = X[:, 1]
    elif kind == "far":
        X = X * np.array([1e-3, 1.0, 1e3, 1.0]) + np.array([0.0, 50.0, 0.0, 0.0])
    c, kept = rng.uniform(0.5, 2.0, len(y)), np.array(signs)
    own = None if groups is None else np.array(groups)
    penalty = FacePenalty.of(X.shape[1], l1=l1, signs=kept, group=group, groups=own)
    problem = FaceLoss(X, y, c, owners, 0.5, 0.05, penalty)
    found = solve_logistic_polytopes(problem, n_init=1, tol=1e-6, seed=seed)
    assert (owners.classes[:, None] * kept * found["W"][:, :-1] >= 0.0).all()
    certificate = certified(
        problem, found, alpha=found.duals["margin"], assignment=found["assignment"], signs=kept
    )
    assert certificate.relative_gap <= 2e-6, certificate


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_signs_are_kept_and_the_point_is_proven_for_them(l1):
    """Signs against what the data say: the free optimum would be better, and is refused."""
    owners = Owners(2, 1)
    free, _ = drawn(owners, l1)
    other = solve_logistic_polytopes(free, n_init=2, tol=1e-8)
    k, j = np.unravel_index(np.abs(other["W"][:, :-1]).argmax(), (3, 3))
    signs = np.where(np.arange(3) == j, -np.sign(owners.classes[k] * other["W"][k, j]), [1, 0, 0]).astype(int)
    problem = replace(free, penalty=replace(free.penalty, signs=signs))
    found = solve_logistic_polytopes(problem, n_init=2, tol=1e-8)
    settings = {"ridge": problem.ridge, "bias_ridge": problem.bias_ridge, "penalty": problem.penalty}
    z = found["assignment"]
    for solver in ("CLARABEL", "SCS"):
        program = programs.fixed_assignment(problem.X, problem.y, owners, z, problem.c, **settings)
        assert found.objective == pytest.approx(program.solve(solver=solver).objective, rel=1e-4)
    proven = certified(problem, found, alpha=found.duals["margin"], assignment=z, signs=signs)
    assert proven.claim is Claim.STATIONARY, proven
    exact = solve_logistic_polytopes(problem, method="exact", n_init=2)
    again = certified(
        problem, exact, alpha=exact.duals["margin"], assignment=exact["assignment"], signs=signs
    )
    assert again.claim is Claim.STATIONARY, again
    # Without the signs the same point has more to gain, and other points break them.
    assert certified(problem, found, assignment=z).claim is Claim.SUBOPTIMAL_BY
    assert other.objective < found.objective
    with pytest.raises(ValueError, match="keep the signs"):
        certified(problem, other, signs=signs)
    few = solve_logistic_polytopes(problem, n_init=2, tol=1e-9, max_numbers=6)
    assert count_numbers(few["W"]) <= 6
    held = certified(
        problem, few, alpha=few.duals["margin"], assignment=few["assignment"], support=few["support"],
        signs=signs,
    )  # fmt: skip
    assert held.claim is Claim.STATIONARY, held


def test_a_price_of_groups_takes_features_out_of_use_and_is_proven():
    """Against the program by two solvers, other points, brute force over the features that are left out."""
    free, _ = drawn(Owners(2, 1), n=40, m=4)
    groups = np.array([0, 1, 1, 2])
    penalty = FacePenalty.of(4, l1=free.penalty.l1, group=9.0, groups=groups, signs=[0, 0, 0, 1])
    problem = replace(free, penalty=penalty)
    found = solve_logistic_polytopes(problem, n_init=2, tol=1e-8)
    z, used = found["assignment"], (found["W"][:, :-1] != 0.0).any(axis=0)
    assert 0 < used.sum() < 4
    assert used[1] == used[2]
    settings = {"ridge": free.ridge, "bias_ridge": free.bias_ridge, "penalty": penalty}
    for solver in ("CLARABEL", "SCS"):
        program = programs.fixed_assignment(free.X, free.y, free.owners, z, free.c, **settings)
        assert found.objective == pytest.approx(program.solve(solver=solver).objective, rel=1e-4)
    margins = {"alpha": found.duals["margin"], "assignment": z, "signs": problem.penalty.signs}
    assert certified(problem, found, **margins).claim is Claim.STATIONARY
    exact = solve_logistic_polytopes(problem, method="exact", n_init=2)
    assert exact.objective <= found.objective * (1.0 + 1e-6)
    # The same weights cost less without the price, and are then not the best.
    assert certified(free, found, assignment=z).claim is Claim.SUBOPTIMAL_BY
    for at in np.flatnonzero(~used):
        W = found["W"].copy()
        W[:, at] += 1e-3 * np.array([0.0, 0.0, 1.0])
        assert problem.value(W) > found.objective
    few = solve_logistic_polytopes(problem, n_init=2, tol=1e-8, max_numbers=5)
    assert count_numbers(few["W"]) <= 5
    margins = {"alpha": few.duals["margin"], "assignment": few["assignment"], "support": few["support"]}
    assert certified(problem, few, **margins, signs=problem.penalty.signs).claim is Claim.STATIONARY


def test_zeros_keep_their_condition():
    X, y = datasets.load("wdbc").X, datasets.load("wdbc").y
    X, y = StandardScaler().fit_transform(X), np.where(y == y.max(), 1.0, -1.0)
    problem = FaceLoss(X, y, np.ones(len(y)), Owners(0, 2), 1.0, 0.01, FacePenalty.of(X.shape[1], l1=4.0))
    found = solve_logistic_polytopes(problem, n_init=1, tol=1e-9)
    alpha, W = found.duals["margin"], found["W"]
    q, _ = faces.loss_gradients(X, y, problem.owners, found["assignment"], alpha)
    zero = (W[:, :-1] == 0.0) & problem.owners.free[:, None]
    assert zero.sum() > 20
    assert np.abs(q[zero]).max() <= 4.0 + 1e-3
    used = W[:, :-1] != 0.0
    assert np.abs(q - W[:, :-1] - 4.0 * np.sign(W[:, :-1]))[used].max() <= 1e-3


def test_the_best_of_all_assignments_is_not_missed_on_tiny_data():
    problem, _ = drawn(Owners(2, 1), n=8, m=2, ridge=0.5)
    values = []
    own = np.where(problem.y < 0)[0]
    for choice in product([0, 1], repeat=len(own)):
        z = np.full(8, 2)
        z[own] = choice
        program = programs.fixed_assignment(problem.X, problem.y, problem.owners, z, problem.c,
                                            ridge=problem.ridge, bias_ridge=problem.bias_ridge)  # fmt: skip
        values.append(program.solve().objective)
    found = solve_logistic_polytopes(problem, n_init=8, tol=1e-8)
    assert min(values) * (1 - 1e-7) <= found.objective <= sorted(values)[2]


def test_a_descent_keeps_to_its_support_and_leaves_exact_zeros():
    problem, W = drawn(Owners(2, 2), l1=4.0)
    support = np.ones((problem.shape[0], problem.shape[1] - 1), dtype=bool)
    support[:, 1] = False
    W, _ = descend(replace(problem, support=support), W, Clock(None))
    assert not W[:, 1].any()
    assert (W[:, [0, 2]] == 0.0).any()


def test_elimination_drops_what_is_cheapest_to_lose_and_counts_knots():
    problem, W = drawn(Owners(0, 1), n=60, m=5, ridge=1e-3)
    W, _ = descend(problem, W, Clock(None))
    losses = []
    for j in range(5):
        support = np.arange(5)[None] != np.array([[j]]).repeat(2, axis=0)
        losses.append(problem.value(descend(replace(problem, support=support), W, Clock(None))[0]))
    V, support = eliminate(problem, W, 5, Clock(None))
    assert list(np.flatnonzero(~support[1])) == [int(np.argmin(losses))]
    assert problem.value(V) == pytest.approx(min(losses), rel=1e-6)
    knots = np.array([0, 0, 1, 1, 1])
    assert count_numbers(W, knots) == 9
    sizes = sizes_down_to(2, 9)
    assert sizes[0] == 9
    assert sizes[-1] == 2
    assert (np.diff(sizes) < 0).all()
    for size in sizes:
        V, support = eliminate(problem, W, size, Clock(None), knots)
        assert count_numbers(V, knots) <= size
        assert not V[:, :-1][~support].any()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_saliencies_are_of_the_spread_of_each_feature_in_the_weights_of_its_face(form):
    problem, W = drawn(Owners(1, 2), l1=0.3)
    problem = replace(problem, X=form(problem.X))
    X = problem.X.toarray() if form is sp.csr_array else problem.X
    _, _, R, a = problem.smooth(W, 0.3, 0.3)
    p, shares = problem.probabilities(a), R / np.where(a > 0, a, 1.0)[:, None]
    wanted = np.zeros((3, 3))
    for k, j in np.ndindex(3, 3):
        weights = a * (1.0 - p) * shares[:, k] ** 2
        if weights.any():
            spread = weights @ (X[:, j] - weights @ X[:, j] / weights.sum()) ** 2
            wanted[k, j] = 0.5 * (spread + problem.ridge) * W[k, j] ** 2 + 0.3 * abs(W[k, j])
    found = saliency(problem, W, 0.3)
    assert found[wanted > 0] == pytest.approx(wanted[wanted > 0])
    assert (wanted > 0).sum() >= 6


def test_units_are_there_and_back_and_a_slope_is_by_them():
    rng = np.random.default_rng(0)
    units = Units(np.array([2.0, 0.5, 1.0]), np.array([-3.0, 4.0]))
    V, G = rng.normal(size=(2, 2, 3))
    assert units.scaled(units.unscaled(V)) == pytest.approx(V)
    X = rng.normal(size=(5, 2))
    scaled = (X - units.middle) / units.scale[:2]
    W = units.unscaled(V)
    assert X @ W[:, :2].T + W[:, 2] == pytest.approx(scaled @ V[:, :2].T + V[:, 2])
    slope = numeric(lambda V: (G * units.unscaled(V)).sum(), V)
    assert units.scaled_gradient(G) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("owners", OWNERS, ids=str)
def test_few_numbers_are_kept_to_and_proven(owners):
    problem, _ = drawn(owners, n=60, m=6)
    found = solve_logistic_polytopes(problem, n_init=2, tol=1e-8, max_numbers=9)
    support = found["support"]
    assert np.count_nonzero(found["W"]) <= 9
    program = programs.fixed_assignment(
        problem.X, problem.y, owners, found["assignment"], problem.c, ridge=problem.ridge,
        bias_ridge=problem.bias_ridge, support=support,
    )  # fmt: skip
    assert found.objective == pytest.approx(program.solve().objective, rel=1e-7)

    def certified(W, support=None, alpha=None):
        return certify_logistic_polytopes(
            problem.X, problem.y, W, n_faces=(owners.minus, owners.plus), ridge=problem.ridge, C=problem.c,
            bias_ridge=problem.bias_ridge, assignment=found["assignment"], support=support, alpha=alpha,
        )  # fmt: skip

    proven = certified(found["W"], support, found.duals["margin"])
    assert proven.claim is Claim.STATIONARY
    assert "Other weights" in proven.sentence
    assert certified(found["W"]).claim is Claim.SUBOPTIMAL_BY  # the weights that are held pull
    moved = found["W"] * (1 + 1e-2)
    assert certified(moved, support).claim is Claim.SUBOPTIMAL_BY
    with pytest.raises(ValueError, match="held"):
        certified(found["W"] + 1.0 * owners.free[:, None], support)
    with pytest.raises(ValueError, match="support"):
        certified(found["W"], support[:, :2])


def test_a_clock_that_is_over_keeps_the_start():
    problem, _ = drawn(Owners(2, 2))
    found = solve_logistic_polytopes(problem, time_limit=0.0)
    assert found.status is Status.TIME_LIMIT
    assert np.isfinite(found.objective)


@pytest.mark.parametrize(("l1", "group"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3)])
def test_ctrl_c_keeps_the_point_that_a_descent_has_reached(l1, group):
    free, W = drawn(Owners(2, 2), l1)
    penalty = replace(free.penalty, group=group)
    problem, clock, seen = replace(free, penalty=penalty), Clock(), []

    def stop(softness, value):
        seen.append((softness, value))
        if len(seen) == 3:
            raise KeyboardInterrupt

    found, _ = descend(problem, W, clock, softness=(1.0, 0.3), progress=stop)
    assert clock.is_stopped
    assert len(seen) == 3
    assert problem.value(found) < problem.value(W)


# -- certificates ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def solved():
    problem, _ = drawn(Owners(2, 2), 0.5)
    return problem, solve_logistic_polytopes(problem, n_init=2, tol=1e-9)


def test_a_perturbed_point_is_not_stationary(solved):
    problem, found = solved
    given = {"alpha": found.duals["margin"], "assignment": found["assignment"]}
    assert certified(problem, found, **given).claim is Claim.STATIONARY
    for place in np.ndindex(found["W"].shape):
        W = found["W"].copy()
        W[place] += 1e-2
        worse = certified(problem, {"W": W}, **given)
        assert worse.claim is Claim.SUBOPTIMAL_BY
        assert worse.primal_value > worse.dual_value


def test_any_multipliers_bound_the_program_of_the_assignment(solved):
    problem, found = solved
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.3, 1.0, 50.0):
        alpha = rng.exponential(size, problem.other_class.shape)
        certificate = certified(problem, found, alpha=alpha, assignment=found["assignment"])
        assert certificate.dual_value <= found.objective * (1 + 1e-9)
    negative = certified(problem, found, alpha=-np.ones(problem.other_class.shape))
    assert "sign of alpha" in [r.label.partition("[")[0] for r in negative.residuals]
    assert negative.claim is not Claim.STATIONARY


def test_a_sample_that_another_face_suits_better_is_seen(solved):
    problem, found = solved
    z = found["assignment"].copy()
    at = int(np.argmax(problem.y > 0))
    z[at] = 2 if z[at] == 3 else 3
    certificate = certified(problem, found, assignment=z)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert next(r for r in certificate.residuals if r.row == "assignment").worst == at


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"ridge": 0.0}, "ridge must be positive"),
        ({"l1": -1.0}, "l1 must be"),
        ({"W": np.full((4, 4), np.nan)}, "W must be finite"),
        ({"n_faces": (0, 0)}, "at least one class"),
        ({"n_faces": (3, 2)}, "W must be finite, of shape 5 x 4"),
        ({"alpha": np.zeros((2, 2))}, "alpha"),
        ({"assignment": np.zeros(30, dtype=int)}, "of the other class"),
    ],
)
def test_what_is_given_wrongly_is_named(solved, changed, says):
    problem, found = solved
    given = {"W": found["W"], "n_faces": (2, 2), "ridge": 0.2, **changed}
    with pytest.raises(ValueError, match=says):
        certify_logistic_polytopes(problem.X, problem.y, given.pop("W"), **given)


def test_random_starts_do_not_depend_on_units():
    problem, _ = drawn(Owners(2, 2))
    scaled = FaceLoss(problem.X * 1e3, problem.y, problem.c, problem.owners, 0.2, 0.1, problem.penalty)
    one, other = (random_start(each, np.random.default_rng(3)) for each in (problem, scaled))
    assert problem.scores(one) == pytest.approx(scaled.scores(other))


def test_rows_of_the_dual_name_the_faces_of_the_other_class_and_those_of_the_own():
    X, y, owners = np.ones((2, 1)), np.array([1.0, -1.0]), Owners(1, 2)
    found = programs.fixed_assignment_dual(X, y, owners, owners.other_class(-y).argmax(axis=1))
    rows, others = {row.name: row for row in found.rows}, owners.other_class(y)
    for name, there in (("margin", others), ("off", ~others)):
        places = rows[name].at
        assert np.array_equal(places >= 0, there)
        assert sorted(places[there]) == list(range(there.sum()))
        assert rows[name].constraint.size == there.sum()
