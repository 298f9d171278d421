"""Logistic polytopes: the smoothed objective, the polish against the explicit program, and certificates."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
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
def test_slope_and_curvature_of_the_loss(owners, own):
    """Slope and curvature of the smoothed loss are those of differences."""
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
def test_softness_goes_to_the_objective(owners):
    """As the softness falls, the smoothed objective falls to the printed one."""
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


def test_weightless_sample_has_no_probability():
    """A sample of weight 0 has the probability 0, without a warning."""
    X, y = two_blobs(3, 2, 0)
    loss = FaceLoss(X, y, np.array([0.0, 2.0, 4.0]), Owners(1, 1), 0.2, 0.1, FacePenalty.of(2))
    with np.errstate(all="raise"):
        assert loss.probabilities(np.array([0.0, 1.0, 4.0])).tolist() == [0.0, 0.5, 1.0]


def test_sparse_samples_count_as_dense():
    """Sparse samples have the loss, slope and optimum of dense ones."""
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
def test_solution_is_optimum_of_its_assignment(owners, l1):
    """Both methods end at the optimum of their assignment's explicit program, with a proof."""
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


DEGENERATE = {
    "copies": lambda X: np.repeat(X[:8], 3, axis=0),
    "constant feature": lambda X: np.where(np.arange(4) == 1, 2.0, X),
    "equal features": lambda X: X[:, [0, 1, 1, 3]],
    "few samples": lambda X: X[:5],
    "far features": lambda X: X * [1e-3, 1.0, 1e3, 1.0] + [0.0, 50.0, 0.0, 0.0],
}
PENALTIES = {  # faces, l1, group, groups, signs
    "l1": (Owners(2, 2), 0.3, 0.0, None, [0, 1, 0, -1]),
    "groups": (Owners(2, 2), 0.0, 0.5, [0, 1, 0, 2], [0, 0, 0, 0]),
    "large": (Owners(3, 1), 0.3, 20.0, [0, 0, 1, 1], [1, 1, 0, 0]),
    "one class": (Owners(0, 3), 3.0, 0.5, None, [-1, 0, 1, 0]),
    "one face": (Owners(0, 1), 0.0, 0.0, None, [1, 0, 0, 1]),
}


@pytest.mark.parametrize("change", DEGENERATE.values(), ids=DEGENERATE)
@pytest.mark.parametrize("penalties", PENALTIES.values(), ids=PENALTIES)
def test_degenerate_data_end_stationary(change, penalties):
    """Degenerate samples end with the signs kept and a closed gap, at any penalty."""
    owners, l1, group, groups, signs = penalties
    X = change(two_blobs(24, 4, 0)[0])
    y, signs = np.where(np.arange(len(X)) % 2, 1.0, -1.0), np.array(signs)
    penalty = FacePenalty.of(4, l1=l1, signs=signs, group=group, groups=groups and np.array(groups))
    c = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    problem = FaceLoss(X, y, c, owners, 0.5, 0.05, penalty)
    found = solve_logistic_polytopes(problem, n_init=1, tol=1e-6)
    assert (owners.classes[:, None] * signs * found["W"][:, :-1] >= 0.0).all()
    certificate = certified(
        problem, found, alpha=found.duals["margin"], assignment=found["assignment"], signs=signs
    )
    assert certificate.relative_gap <= 2e-6, certificate


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_signs_are_kept_and_proven(l1):
    """Signs against the data are kept at a cost, and the point is proven optimal for them."""
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


def test_group_penalty_drops_features():
    """A group penalty takes features out of use, and two solvers and other points confirm the optimum."""
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


def test_zero_weights_satisfy_their_condition():
    """On wdbc, weights of 0 have slopes within the l1 penalty, and the others equal to it."""
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


def test_tiny_data_reach_best_assignments():
    """On eight samples the objective is among the three lowest of all assignments."""
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


def test_descent_leaves_exact_zeros():
    """A descent keeps to its support, and the l1 penalty leaves exact zeros."""
    problem, W = drawn(Owners(2, 2), l1=4.0)
    support = np.ones((problem.shape[0], problem.shape[1] - 1), dtype=bool)
    support[:, 1] = False
    W, _ = descend(replace(problem, support=support), W, Clock(None))
    assert not W[:, 1].any()
    assert (W[:, [0, 2]] == 0.0).any()


def test_elimination_drops_the_cheapest():
    """Elimination drops the feature that is cheapest to lose, and counts shared knots as numbers."""
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
def test_saliency_is_a_features_spread(form):
    """A weight's saliency is its feature's spread in the weights of the face, and its l1 penalty."""
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


def test_units_scale_weights_and_slopes():
    """Weights come back from their units, with the scores of scaled samples and the slopes of differences."""
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
def test_few_numbers_are_kept_and_proven(owners):
    """A limit of numbers is kept, and the point is the optimum of its support, which is proven."""
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


def test_no_time_keeps_the_start():
    """Without time a finite point is kept."""
    problem, _ = drawn(Owners(2, 2))
    found = solve_logistic_polytopes(problem, time_limit=0.0)
    assert found.status is Status.TIME_LIMIT
    assert np.isfinite(found.objective)


@pytest.mark.parametrize(("l1", "group"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3)])
def test_interrupted_descent_keeps_its_point(l1, group):
    """Ctrl-C in a descent keeps the point reached, which is lower than the start."""
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


def test_perturbed_weights_are_not_stationary(solved):
    """A change of any weight is found by the certificate."""
    problem, found = solved
    given = {"alpha": found.duals["margin"], "assignment": found["assignment"]}
    assert certified(problem, found, **given).claim is Claim.STATIONARY
    for place in np.ndindex(found["W"].shape):
        W = found["W"].copy()
        W[place] += 1e-2
        worse = certified(problem, {"W": W}, **given)
        assert worse.claim is Claim.SUBOPTIMAL_BY
        assert worse.primal_value > worse.dual_value


def test_any_multipliers_bound_their_program(solved):
    """Any multipliers bound the assignment's optimum, and negative ones are told."""
    problem, found = solved
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.3, 1.0, 50.0):
        alpha = rng.exponential(size, problem.other_class.shape)
        certificate = certified(problem, found, alpha=alpha, assignment=found["assignment"])
        assert certificate.dual_value <= found.objective * (1 + 1e-9)
    negative = certified(problem, found, alpha=-np.ones(problem.other_class.shape))
    assert "sign of alpha" in [r.label.partition("[")[0] for r in negative.residuals]
    assert negative.claim is not Claim.STATIONARY


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
def test_wrong_arguments_are_named(solved, changed, says):
    """Penalties, weights, faces, multipliers and assignments out of range are named."""
    problem, found = solved
    given = {"W": found["W"], "n_faces": (2, 2), "ridge": 0.2, **changed}
    with pytest.raises(ValueError, match=says):
        certify_logistic_polytopes(problem.X, problem.y, given.pop("W"), **given)


def test_random_starts_ignore_units():
    """Samples in other units have starts with the same scores."""
    problem, _ = drawn(Owners(2, 2))
    scaled = FaceLoss(problem.X * 1e3, problem.y, problem.c, problem.owners, 0.2, 0.1, problem.penalty)
    one, other = (random_start(each, np.random.default_rng(3)) for each in (problem, scaled))
    assert problem.scores(one) == pytest.approx(scaled.scores(other))


def test_dual_rows_name_the_faces():
    """The constraints of the dual belong to the faces of the other class, or of the own."""
    X, y, owners = np.ones((2, 1)), np.array([1.0, -1.0]), Owners(1, 2)
    found = programs.fixed_assignment_dual(X, y, owners, owners.other_class(-y).argmax(axis=1))
    rows, others = {row.name: row for row in found.rows}, owners.other_class(y)
    for name, there in (("margin", others), ("off", ~others)):
        places = rows[name].at
        assert np.array_equal(places >= 0, there)
        assert sorted(places[there]) == list(range(there.sum()))
        assert rows[name].constraint.size == there.sum()
