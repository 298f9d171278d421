"""The exact Polyceptron with a price and signs: programs, bounds, certificates, and the descent."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from helpers.cases import few
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from formulations import polyceptron, polyceptron_sparse
from formulations.face_penalty import FacePenalty
from formulations.polyhedral import margin_error, scores
from formulations.solution import Status
from polyopt.certificates import Claim, certify_polyceptron
from polyopt.certificates.face_box import FaceBox
from polyopt.certificates.face_multipliers import balanced, bound_of, repaired
from polyopt.outer.polyceptron import ExactPolyceptron
from polyopt.outer.rounds import Stage, run_from_many_starts, run_rounds

K, M = 2, 3
PRICES = {
    "l1": FacePenalty.of(M, l1=1.5),
    "signs": FacePenalty.of(M, signs=[-1, 1, 0]),
    "both": FacePenalty.of(M, l1=0.8, signs={0: -1, 2: +1}),
}


def ring(n=40, seed=0):
    """Positives in the middle of two features, a third of noise, labels that overlap; costs."""
    rng = np.random.default_rng(seed)
    X = 1.2 * rng.normal(size=(n, M))
    y = np.where(np.abs(X[:, :2]).max(axis=1) < 1, 1.0, -1.0)
    return X + 0.25 * rng.normal(size=X.shape), y, rng.uniform(0.5, 2.0, n)


@pytest.fixture(scope="module", params=PRICES)
def solved(request):
    """A price, data with costs, an assignment, and what solvers find for it."""
    X, y, c = ring(seed=1)
    z, penalty = np.where(y < 0, (X[:, 0] > 0).astype(int), -1), PRICES[request.param]
    given = (X, y, K, z, c, 2.0)
    primal = polyceptron_sparse.fixed_assignment(*given, penalty=penalty)
    dual = polyceptron_sparse.fixed_assignment_dual(*given, penalty=penalty)
    return penalty, given, primal, primal.solve("HIGHS"), dual.solve("CLARABEL")


def certified(solved, W, **changed):
    penalty, (X, y, _, z, c, radius), *_ = solved
    return certify_polyceptron(X, y, W, C=c, assignment=z, radius=radius, penalty=penalty, **changed)


def broken(certificate):
    """Whether a condition other than the assignment's, or the gap, is off."""
    own = [r.relative for r in certificate.residuals if r.row != "assignment"]
    return max([certificate.relative_gap, *own]) > certificate.tol


# -- programs and certificates ---------------------------------------------------------------


def test_primal_and_dual_meet_by_different_solvers_and_the_certificate_proves_it(solved):
    penalty, (X, y, *_), program, primal, dual = solved
    assert primal.objective > 1.0
    assert primal.objective == pytest.approx(dual.objective, rel=1e-8)
    point = polyceptron_sparse.recover(X, y, dual.duals["balance"], penalty)
    assert program.value(point) == pytest.approx(primal.objective, rel=1e-6)
    assert max(program.violations(point).values()) < 1e-7
    proof = certified(solved, primal["W"], u=primal.duals["margin"])
    assert not broken(proof)
    assert proof.primal_value == pytest.approx(primal.objective, rel=1e-9)
    assert certified(solved, primal["W"]).relative_gap < 1e-9  # by multipliers that it asks for itself
    assert {"price", "balance", "margin"} <= {r.row for r in proof.residuals}
    assert (penalty.signs.any()) == any(r.condition == "primal" and r.row == "sign" for r in proof.residuals)


def test_a_certificate_refuses_perturbed_points(solved):
    penalty, _, _, primal, _ = solved
    W, u = primal["W"], primal.duals["margin"]
    biggest = np.unravel_index(np.abs(W[:, :-1]).argmax(), (K, M))
    for change in (0.99, 1.01, 0.0):
        other = W.copy()
        other[biggest] *= change
        assert broken(certified(solved, other, u=u))
    assert broken(certified(solved, W, u=0.99 * u))
    other = u.copy()
    other[u.max(axis=1).argmax()] += 0.1  # beyond its cap, and out of balance
    assert broken(certified(solved, W, u=other))
    assert not broken(certified(solved, W, u=u))
    if penalty.signs.any():
        j = int(np.flatnonzero(penalty.signs)[0])
        other = W.copy()
        other[0, j] = -0.1 * penalty.signs[j]
        wrong = certified(solved, other, u=u)
        assert next(r for r in wrong.residuals if (r.condition, r.row) == ("primal", "sign")).value == 0.1
        assert broken(wrong)


def test_a_price_that_is_not_that_of_the_faces_proves_nothing(solved):
    penalty, (X, y, _, z, c, radius), _, primal, _ = solved
    other = FacePenalty(penalty.l1 + 0.3, 0.0, penalty.signs, penalty.groups)
    given = {"C": c, "assignment": z, "radius": radius, "u": primal.duals["margin"], "penalty": other}
    wrong = certify_polyceptron(X, y, primal["W"], **given)
    assert broken(wrong)
    assert "price" in {r.row for r in wrong.residuals if r.relative > 1e-6}


@pytest.mark.parametrize("scale", [0.3, 1.0, 6.0])
def test_the_bound_is_that_of_the_best_multipliers_in_rational_numbers(scale):
    """Σ M less what the allowed weights can make of each imbalance, for those as given and those it tries."""
    rng = np.random.default_rng(2)
    X, y, caps = rng.normal(size=(10, 3)), rng.choice([-1.0, 1.0], 10), np.ones((10, K))
    M_ = np.minimum(scale * rng.random((10, K)), 1.0)
    free, box = (M_ > 0) & (M_ < 1), FaceBox.around(0.4 * rng.normal(size=(K, 4)), 5.0, 1e-9)
    penalty = FacePenalty.of(3, l1=0.7, signs=[0, 1, -1])

    def clip(u):
        return np.clip(u, 0.0, caps)

    def exact(u):
        whole = [[Fraction(v) for v in row] for row in np.column_stack([X, np.ones(10)]).tolist()]
        total = sum(Fraction(v) for v in u.ravel().tolist())
        for k, j in product(range(K), range(4)):
            off = sum(Fraction(y[i]) * Fraction(u[i, k]) * whole[i][j] for i in range(10))
            least, most = -5, 5
            price = Fraction(0.7) if j < 3 else Fraction(0)
            if j < 3 and penalty.signs[j]:
                least, most = (0, 5) if penalty.signs[j] > 0 else (-5, 0)
            total -= max(off * w - price * abs(w) for w in (least, 0, most))
        return total

    found = bound_of(X, y, M_, free, clip, box, penalty)
    tried_ = [clip(M_), clip(balanced(X, y, clip(M_), free, box, penalty))]
    tried_.append(repaired(X, y, clip(M_), free, clip, box, penalty))
    best = max([Fraction(0), *map(exact, tried_)])
    assert Fraction(float(found.lower)) <= best
    assert float(found.mid) == pytest.approx(float(best), rel=1e-9, abs=1e-12)


def test_a_solver_s_tolerance_beyond_the_price_costs_no_bound():
    """R = 1e4 times an imbalance of 1e-7 beyond λ would take 1e-3 off; smaller multipliers take 1e-7."""
    X, y, c = ring(seed=3)
    penalty = FacePenalty.of(M, l1=2.0)
    dual = polyceptron_sparse.fixed_assignment_dual(X, y, 1, np.zeros(40, dtype=int), c, penalty=penalty)
    found = dual.solve("HIGHS")
    u = np.clip(found["u"] * (1 + 1e-7), 0.0, c[:, None])
    W = found.duals["balance"]
    proof = certify_polyceptron(X, y, W, C=c, u=u, penalty=penalty)
    assert found.objective * (1 - 1e-6) <= proof.dual_value <= found.objective * (1 + 1e-9)


def test_a_weight_that_is_zero_but_for_a_solver_s_tolerance_costs_no_bound():
    """It asks for an equation more than the free multipliers can keep; R = 1e4 times the rest is no bound."""
    X, y, c = ring(seed=3)
    penalty = FacePenalty.of(M, l1=2.0)
    one = np.zeros(40, dtype=int)
    found = polyceptron_sparse.fixed_assignment_dual(X, y, 1, one, c, penalty=penalty).solve("HIGHS")
    W, caps, rng = found.duals["balance"].copy(), c[:, None], np.random.default_rng(0)
    none = np.abs(W) < 1e-12
    assert none.any()
    W[none] = 1e-11
    u = np.clip(found["u"], 0.0, caps)
    free = (u > 1e-9) & (u < caps - 1e-9)
    u = np.where(free, u + 1e-8 * rng.normal(size=u.shape), u)

    def clip(u):
        return np.clip(u, 0.0, caps)

    def price_of_imbalance(u):
        return 1e4 * np.abs(penalty.cut((y[:, None] * u).T @ np.column_stack([X, np.ones(40)]))).sum()

    box = FaceBox.around(W, 1e4, 1e-9)
    for lost in (u, clip(balanced(X, y, u, free, box, penalty))):
        assert price_of_imbalance(lost) > 1e-6 * found.objective
    assert price_of_imbalance(repaired(X, y, u, free, clip, box, penalty)) < 1e-10
    proof = certify_polyceptron(X, y, W, C=c, u=u, penalty=penalty)
    assert found.objective * (1 - 1e-7) <= proof.dual_value <= found.objective * (1 + 1e-9)


def test_what_the_price_does_not_hold_in_full_has_no_weight():
    """r strictly between its ends belongs to no weight: a free, a priced and two signed features."""
    X, y, c = ring()
    problem = ExactPolyceptron(X, y, c, 1, 1e4, penalty=FacePenalty.of(M, l1=1.0, signs=[0, 1, -1]))
    problem._models = problem._build()
    down, up = problem._held
    ends = np.where(np.isfinite(down), -down, 0.0), np.where(np.isfinite(up), up, 0.0)
    for r, within in (
        (ends[1], [False, False, True]),  # the last may hold more on this side
        (ends[0], [False, True, False]),
        (ends[0] + 0.5 * up[0], [True, True, True]),
    ):
        assert problem._within(np.append(np.ones(7), r)).tolist() == within


def test_without_a_price_it_is_the_plain_program(solved):
    _, (X, y, _, z, c, radius), *_ = solved
    none = FacePenalty.of(M)
    found = polyceptron_sparse.fixed_assignment(X, y, K, z, c, radius, penalty=none).solve()
    plain = polyceptron.fixed_assignment(X, y, K, z, c, radius=radius).solve()
    assert found.objective == pytest.approx(plain.objective, rel=1e-9)
    problem = ExactPolyceptron(X, y, c, K, radius, penalty=none)
    assert problem.value(plain["W"]) == margin_error(X, y, plain["W"], c)


def test_the_optimum_rises_with_the_price_at_the_rate_of_the_weights():
    X, y, c = ring(seed=1)
    z = np.where(y < 0, (X[:, 0] > 0).astype(int), -1)

    def at(lam):
        return polyceptron_sparse.fixed_assignment(X, y, K, z, c, penalty=FacePenalty.of(M, l1=lam)).solve()

    here = at(0.5)
    rise = (at(0.5 + 1e-5).objective - at(0.5 - 1e-5).objective) / 2e-5
    assert rise == pytest.approx(np.abs(here["W"][:, :-1]).sum(), rel=1e-6)
    assert rise > 0.1


def test_what_cannot_be_is_refused():
    X, y, c = ring()
    grouped, wider = FacePenalty.of(M, group=0.5), FacePenalty.of(M + 1, l1=1.0)
    with pytest.raises(ValueError, match="leaves no linear program: choose engine='program'"):
        ExactPolyceptron(X, y, c, 2, penalty=grouped)
    calls = [
        lambda p: polyceptron_sparse.fixed_assignment(X, y, 1, 0 * y.astype(int), penalty=p),
        lambda p: polyceptron_sparse.fixed_assignment_dual(X, y, 1, 0 * y.astype(int), penalty=p),
        lambda p: certify_polyceptron(X, y, np.ones((1, M + 1)), penalty=p),
        lambda p: ExactPolyceptron(X, y, c, 2, penalty=p),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="penalty must be for 3 features, not 4"):
            call(wider)


# -- groups --------------------------------------------------------------------------------------

GROUPED = FacePenalty.of(M, l1=0.2, group=1.5, signs={0: -1}, groups=[[1, 2]])


def test_groups_are_proven_by_two_solvers_and_perturbed_points_are_refused():
    X, y, c = ring(seed=1)
    z = np.where(y < 0, (X[:, 0] > 0).astype(int), -1)
    given = (X, y, K, z, c, 2.0)
    primal = polyceptron_sparse.fixed_assignment(*given, penalty=GROUPED).solve("CLARABEL")
    dual = polyceptron_sparse.fixed_assignment_dual(*given, penalty=GROUPED)
    assert dual.solve("SCS").objective == pytest.approx(primal.objective, rel=1e-5)
    solved = GROUPED, given
    W, u = primal["W"], primal.duals["margin"]
    proof = certified(solved, W, u=u)
    assert not broken(proof)
    assert {"price", "group", "sign", "balance"} <= {r.row for r in proof.residuals}
    assert certified(solved, W).relative_gap < 1e-6
    for change in (0.99, 1.01, 0.0):
        assert broken(certified(solved, change * W, u=u))
    assert broken(certified(solved, W, u=0.99 * u))
    dearer = FacePenalty.of(M, l1=0.2, group=1.6, signs={0: -1}, groups=[[1, 2]])
    assert broken(certified((dearer, given), W, u=u))


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0])
def test_no_point_is_below_the_bound_of_any_multipliers_with_groups(scale):
    rng = np.random.default_rng(3)
    X, y, caps = rng.normal(size=(12, M)), rng.choice([-1.0, 1.0], 12), np.ones((12, K))
    u, box = np.minimum(scale * rng.random((12, K)), 1.0), FaceBox.around(np.zeros((K, M + 1)), 0.5, 1e-9)
    found = bound_of(X, y, u, (u > 0) & (u < 1), lambda u: np.clip(u, 0.0, caps), box, GROUPED)
    points = rng.uniform(-0.5, 0.5, size=(4000, K, M))
    points *= rng.integers(0, 2, size=(4000, K, M))
    faces = [GROUPED.allowed(np.column_stack([W, rng.uniform(-0.5, 0.5, K)])) for W in points]
    least = min(np.maximum(1 - y[:, None] * scores(X, W), 0.0).sum() + GROUPED.value(W) for W in faces)
    assert found.lower <= least
    assert found.lower > 0.0


@tried(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6), n=st.integers(2, 16), values=st.integers(0, 2), n_faces=st.integers(1, 3),
    l1=st.sampled_from([0.0, 0.3]), group=st.sampled_from([0.01, 0.5, 5.0]), wide=st.booleans(),
    radius=st.sampled_from([1e4, np.inf, 1.0, 0.3]),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=M, max_size=M),
)  # fmt: skip
def test_degenerate_data_with_groups_end_proven(seed, n, values, n_faces, l1, group, wide, radius, signs):
    X, y, c = degenerate(seed, n, values)
    penalty = FacePenalty.of(M, l1=l1, group=group, signs=signs, groups=[[0, 1]] if wide else None)
    end, proof = settled(X, y, c, penalty, n_faces, seed, radius=radius, engine="program")
    assert proof.claim is (Claim.OPTIMAL if n_faces == 1 else Claim.STATIONARY), proof
    assert proof.primal_value == pytest.approx(end.objective, rel=1e-9, abs=1e-12)
    assert (penalty.signs * end["W"][:, :-1] >= 0).all()


# -- the descent ---------------------------------------------------------------------------------


def settled(X, y, c, penalty, n_faces=K, seed=0, **given):
    """Where the descent ends from one start, with its certificate by its own multipliers."""
    problem = ExactPolyceptron(X, y, c, n_faces, penalty=penalty, **given)
    end = run_rounds(problem, problem.start(np.random.default_rng(seed)))
    u, radius = end.duals["margin"], problem.radius
    return end, certify_polyceptron(X, y, end["W"], C=c, u=u, radius=radius, penalty=penalty)


def test_the_least_over_all_assignments_is_found_from_many_starts():
    """Every assignment of few negatives, each solved as it stands: none is below, and the best is reached."""
    rng = np.random.default_rng(7)
    X = np.vstack([0.5 * rng.normal(size=(5, 2)), 2.0 * rng.normal(size=(5, 2))])
    y, c = np.repeat([1.0, -1.0], 5), np.ones(10)
    for penalty in (FacePenalty.of(2, l1=0.3), FacePenalty.of(2, l1=0.2, signs=[1, 0])):
        z = np.full(10, -1)
        z[5:] = 0
        program = polyceptron_sparse.fixed_assignment(X, y, K, z, c, 50.0, penalty=penalty)
        values = []
        for rest in product(range(K), repeat=4):  # the first negative's face has the number 0
            z[6:] = rest
            values.append(program.set(Z=polyceptron.answers(y, K, z)).solve().objective)
        problem = ExactPolyceptron(X, y, c, K, 50.0, penalty=penalty)
        found = run_from_many_starts([Stage(problem, 50)], n_init=12, seed=0)
        assert min(run.objective for run in found.runs) >= min(values) * (1 - 1e-9)
        assert found.objective == pytest.approx(min(values), rel=1e-8)
        assert max(run.objective for run in found.runs) > min(values) * 1.01  # not every start reaches it


@pytest.mark.parametrize("name", PRICES)
def test_both_engines_find_the_same_value_and_exact_zeros(name):
    X, y, c = ring(seed=5)
    penalty = PRICES[name]
    steps = []
    for engine in ("highs", "program"):
        problem = ExactPolyceptron(X, y, c, 3, 50.0, engine, penalty)
        W = problem.start(np.random.default_rng(0))
        assert (penalty.signs * W[:, :-1] >= 0).all()
        steps.append(problem.step(W, None))
    one, other = steps
    assert one.status is other.status is Status.SOLVED
    assert one.objective == pytest.approx(other.objective, rel=1e-8)
    assert one["W"] == pytest.approx(other["W"], rel=1e-6, abs=1e-7)
    assert ((one["W"] == 0) == (other["W"] == 0)).all()
    assert (one["W"][:, :-1] == 0).any() == (name != "signs" or (one["W"][:, :2] == 0).any())


def degenerate(seed, n, values):
    """Few values, so that samples tie and repeat; a feature of zeros, or classes of one sample."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-values, values + 1, size=(n, M)).astype(float)
    y = np.where(np.arange(n) < 1 + seed % (n - 1), 1.0, -1.0)
    if seed % 3 == 0:
        X[:, seed % M] = 0.0
    return X, y, np.ones(n) if seed % 2 else rng.uniform(0.5, 2.0, n)


@tried(max_examples=few(8, 30), deadline=None)
@given(
    seed=st.integers(0, 10**6), n=st.integers(2, 16), values=st.integers(0, 2), n_faces=st.integers(1, 3),
    l1=st.sampled_from([0.0, 1e-6, 0.3, 2.0, 1e5]), radius=st.sampled_from([1e4, np.inf, 1.0, 0.3]),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=M, max_size=M),
)  # fmt: skip
def test_the_descent_falls_keeps_its_signs_and_ends_proven(seed, n, values, n_faces, l1, radius, signs):
    X, y, c = degenerate(seed, n, values)
    penalty = FacePenalty.of(M, l1=l1, signs=signs)
    problem = ExactPolyceptron(X, y, c, n_faces, radius, penalty=penalty)
    W = problem.start(np.random.default_rng(seed))
    for _ in range(3):
        before, found = problem.value(W), problem.step(W, None)
        assert found.objective == problem.value(found["W"]) <= before
        W = found["W"]
        assert (penalty.signs * W[:, :-1] >= 0).all()
        assert np.abs(W).max() <= radius
    end, proof = settled(X, y, c, penalty, n_faces, seed, radius=radius)
    one = n_faces == 1 or proof.primal_value == 0.0
    reached = proof.claim is (Claim.OPTIMAL if one else Claim.STATIONARY)
    # A box may hold margins at exactly 1: the value is 0 then, and the certificate says so up to rounding.
    assert reached or (end.objective == 0.0 and proof.primal_value <= 1e-13 * c.sum()), proof
    assert proof.primal_value == pytest.approx(end.objective, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("drawn", [(1, 2, 2, 1), (610324, 6, 2, 2), (429389, 9, 2, 3)], ids=str)
def test_a_value_of_zero_in_a_box_that_holds_it_is_told_up_to_rounding(drawn):
    seed, n, values, n_faces = drawn
    X, y, c = degenerate(seed, n, values)
    signs = [-1, 0, 1] if n == 6 else [0, 0, 1] if n == 9 else [-1, -1, -1]
    end, proof = settled(X, y, c, FacePenalty.of(M, signs=signs), n_faces, seed, radius=1.0)
    assert end.objective == 0.0
    assert proof.claim in (Claim.OPTIMAL, Claim.STATIONARY, Claim.SUBOPTIMAL_BY)
    assert 0.0 <= proof.dual_value <= proof.primal_value <= 1e-13 * c.sum()


def test_a_price_above_every_worth_leaves_biases_alone():
    X, y, c = ring(seed=2)
    most = 1.001 * (c @ np.abs(X)).max()  # no pull is as large
    end, proof = settled(X, y, c, FacePenalty.of(M, l1=most))
    assert not end["W"][:, :-1].any()
    assert end.objective == pytest.approx(2 * min(c[y > 0].sum(), c[y < 0].sum()), rel=1e-12)
    assert proof.claim is Claim.STATIONARY
    end, proof = settled(X, y, c, FacePenalty.of(M, l1=most), 1)
    assert proof.claim is Claim.OPTIMAL
    assert not end["W"][:, :-1].any()


def test_an_unused_face_is_flat_and_is_taken_up_where_that_pays():
    X, y = (
        np.array([[-2.0], [-1.9], [0.0], [0.1], [0.0], [2.0], [2.1]]),
        np.array([-1.0, -1, 1, 1, 1, -1, -1]),
    )
    flat = np.array([[1.0, 1.0], [0.0, 1.0]])  # of the second face no negative is in need yet
    problem = ExactPolyceptron(X, y, np.ones(7), 2, penalty=FacePenalty.of(1, l1=0.1))
    end = run_rounds(problem, flat)
    assert end.objective == pytest.approx(0.1 * np.abs(end["W"][:, 0]).sum(), rel=1e-12)
    assert np.sort(end["W"][:, 0]) == pytest.approx([-2 / 1.9, 2 / 1.9])
    dear = ExactPolyceptron(X, y, np.ones(7), 2, penalty=FacePenalty.of(1, l1=3.0, signs=[1]))
    end = run_rounds(dear, flat)
    used = end["W"][:, 0] != 0
    assert used.tolist() == [True, False]  # the sign leaves nothing to do for another
    assert end["W"][1].tolist() == [0.0, 1.0]


def test_separable_data_with_signs_alone_end_at_a_zero_that_is_proven():
    """Signs have no price, so that a value of 0 is 0, and bounds every assignment; with a price none is 0."""
    X, y = np.array([[-2.0], [-1.9], [0.0], [0.1], [2.0], [2.1]]), np.array([-1.0, -1, 1, 1, 1, 1])
    end, proof = settled(X, y, np.ones(6), FacePenalty.of(1, signs=[1]))
    assert end.objective == proof.primal_value == proof.dual_value == 0.0
    assert proof.claim is Claim.OPTIMAL
    end, proof = settled(X, y, np.ones(6), FacePenalty.of(1, l1=0.1, signs=[1]), 1)
    assert end.objective == pytest.approx(0.2 / 1.9, rel=1e-12)
    assert proof.claim is Claim.OPTIMAL
    _, wrong = settled(X, y, np.ones(6), FacePenalty.of(1, signs=[-1]), 1)
    assert wrong.primal_value == pytest.approx(4.0, rel=1e-12)  # the sign leaves the bias alone
    assert wrong.claim is Claim.OPTIMAL


def test_order_and_copies_make_no_difference():
    X, y, _ = ring(seed=1)
    penalty = FacePenalty.of(M, l1=0.2, signs={0: -1, 2: +1})
    times = 1 + np.arange(len(y)) % 3
    order = np.random.default_rng(0).permutation(len(y))
    one = settled(X, y, times.astype(float), penalty)[0]
    turned = settled(X[order], y[order], times[order].astype(float), penalty)[0]
    copies = settled(np.repeat(X, times, axis=0), np.repeat(y, times), np.ones(times.sum()), penalty)[0]
    for other in (turned, copies):
        assert other.objective == pytest.approx(one.objective, rel=1e-9)
        assert other["W"] == pytest.approx(one["W"], rel=1e-6, abs=1e-8)


def test_units_of_the_features_go_into_the_price_alone():
    """Weights in other units, priced in these: the same machine where the price goes with each feature."""
    X, y, c = ring(seed=8)
    penalty = FacePenalty.of(M, l1=1.0)
    one, proof = settled(X, y, c, penalty)
    other, again = settled(1e5 * X, y, c, FacePenalty.of(M, l1=1e5))
    assert other["W"][:, :-1] * 1e5 == pytest.approx(one["W"][:, :-1], rel=1e-6, abs=1e-8)
    assert proof.claim is again.claim is Claim.STATIONARY
    assert again.primal_value == pytest.approx(proof.primal_value, rel=1e-9)
    assert (scores(X, one["W"]).argmin(axis=1) == scores(1e5 * X, other["W"]).argmin(axis=1)).all()
