"""Families of rows: whatever they are, multipliers, intercepts and values follow from them alone."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.families import Families, Family, bound_families, hinge_families, margin_family
from formulations.language.solution import Status
from polyopt.certificates.certificate import Claim
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.decomposition import solve_decomposition
from polyopt.margin.geometry import KernelGeometry, LinearGeometry
from polyopt.margin.interior_point import solve_interior_point

SEEDS = st.integers(0, 10**6)


def invented(seed, n=12, *, hard=True):
    """One to five families on any sides, at kinks on both sides of 0, with some caps of 0."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    rows = [margin_family(y, rng.uniform(0.1, 2.0, n) * rng.integers(0, 4, n).clip(0, 1))]
    for place in range(rng.integers(0, 4)):
        side = [y, -y, np.ones(n), -np.ones(n)][rng.integers(0, 4)]
        caps = rng.uniform(0.0, 1.0, n) * rng.integers(0, 3, n).clip(0, 1)
        rows.append(
            Family(f"soft {place}", f"mu{place}", side, float(rng.uniform(-3.0, 3.0)), caps, ("s", "t"))
        )
    if hard and rng.random() < 0.5:
        rows += bound_families(n, float(rng.uniform(0.3, 4.0)))
    return Families(*rows), rng


def explicit(rows, X):
    """The machine as its definition reads, by cvxpy: its value."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    f, cost, held = X @ w + b, 0.0, []
    for family in rows:
        short = family.kink - cp.multiply(family.side, f)
        if np.isinf(family.cap).all():
            held.append(short <= 0.0)
        else:
            cost = cost + family.cap @ cp.pos(short)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + cost), held)
    return problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)


# -- multipliers and phi ----------------------------------------------------------------------


@settings(deadline=None)
@given(SEEDS)
def test_split_earns_the_most(seed):
    """No shift of beta from one family of a sample to another, as far as caps allow, earns more."""
    rows, rng = invented(seed)
    low = -np.where(rows.sides < 0, rows.caps, 0.0).sum(axis=0)
    high = np.where(rows.sides > 0, rows.caps, 0.0).sum(axis=0)
    beta = np.clip(rng.normal(size=rows.n), low, high)
    Z = rows.split(beta)
    assert (Z >= 0.0).all()
    assert (Z <= rows.caps).all()
    assert rows.beta(Z) == pytest.approx(beta, abs=1e-12)
    earned = rows.sides * rows.kinks[:, None]
    up = np.where(rows.sides > 0, rows.caps - Z, Z) > 1e-12  # families in which beta may rise
    down = np.where(rows.sides > 0, Z, rows.caps - Z) > 1e-12
    best_rise = np.where(up, earned, -np.inf).max(axis=0)
    least_fall = np.where(down, earned, np.inf).min(axis=0)
    assert (best_rise <= least_fall + 1e-12).all()


@settings(deadline=None)
@given(SEEDS)
def test_phi_is_gain_of_split(seed):
    """Its slopes, its kinks and where it ends, against differences of the gain of the split."""
    rows, rng = invented(seed)
    phi = rows.pieces
    low = np.where(np.isfinite(phi.ends[0]), phi.ends[0], -3.0)
    high = np.where(np.isfinite(phi.ends[-1]), phi.ends[-1], 3.0)
    beta = low + rng.random(rows.n) * (high - low)
    step = 1e-7
    for i in range(rows.n):
        own = rows.part(np.array([i]))
        at = float(beta[i])
        if (np.abs(phi.ends[:, i] - at) < 2 * step).any():
            continue
        inner = own.gain(own.split(np.array([at + step]))) - own.gain(own.split(np.array([at])))
        piece = int((at > phi.ends[:, i]).sum())
        assert phi.slopes[piece, i] == pytest.approx(inner / step, abs=1e-5)
    assert (phi.ends[:-1] <= phi.ends[1:]).all()
    assert (phi.slopes[:-1] >= phi.slopes[1:]).all()


# -- intercepts --------------------------------------------------------------------------------


@settings(deadline=None)
@given(SEEDS)
def test_best_intercept_is_best(seed):
    """Brute force: the cost is piecewise linear in b, so a breakpoint or an end is best."""
    rows, rng = invented(seed)
    g = rng.normal(size=rows.n)
    b = rows.best_intercept(g)
    hard = [family for family in rows if np.isinf(family.cap).any()]
    places = np.concatenate([family.side * family.kink - g for family in rows])
    allowed = [p for p in places if all((family.surplus(g + p) >= -1e-9).all() for family in hard)]
    if not allowed:
        return
    assert all((family.surplus(g + b) >= -1e-9).all() for family in hard)
    assert rows.cost(g + b) <= min(rows.cost(g + p) for p in allowed) + 1e-9


def test_bounds_alone_place_the_intercept():
    """A bound that only one side has is one of that side; where nothing else asks, the middle is taken."""
    y, g = np.array([1.0, -1.0, 1.0]), np.array([2.0, -1.0, 0.5])
    above, below = bound_families(3, 1.5)
    assert Families(above, below).best_intercept(g / 2) == -0.25  # of [-1, 0.5]
    # Margins alone ask for b = 0.5 at least, the upper bound for -0.5 at most, the lower one for -0.5.
    costs = np.array([0.0, 0.0, 1.0])
    assert Families(margin_family(y, costs)).best_intercept(g) >= 0.5
    assert Families(margin_family(y, costs), above).best_intercept(g) == -0.5
    assert Families(margin_family(y, costs), below).best_intercept(g) >= 0.5
    costs = np.array([0.0, 1.0, 0.0])  # these for 0 at most
    assert Families(margin_family(y, costs)).best_intercept(g - 3.0) <= 3.0
    assert Families(margin_family(y, costs), below).best_intercept(g - 3.0) == 2.75  # of [2.5, 3]
    assert Families(margin_family(y, costs), above).best_intercept(g - 3.0) <= 2.5


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e9])
def test_rounding_is_relative_to_costs(factor):
    """Costs of 0.1 and 0.2 hold up what 0.3 holds down, but for rounding: the best b is amid an interval."""
    y, g = np.array([1.0, 1.0, -1.0]), np.array([0.5, 1.0, -2.5])
    rows = Families(margin_family(y, np.array([0.1, 0.2, 0.3]))).repriced(factor)
    assert rows.best_intercept(g) == 1.0  # of [0.5, 1.5]


def test_largest_cost_of_sample():
    """The price of a sample is that of its dearest slack; bounds without slack have none."""
    rows = Families(margin_family(np.ones(3), np.array([1.0, 2.0, 0.0])), *bound_families(3, 1.5, 0.5))
    assert rows.largest_cost.tolist() == [1.0, 2.0, 0.5]
    assert Families(*bound_families(3, 1.5)).largest_cost.tolist() == [0.0, 0.0, 0.0]


def test_outputs_at_their_bound_are_within():
    """Also at B = 0, where only outputs of 0 are."""
    rows = hinge_families(np.array([1.0, -1.0]), 1.0, 0.0)
    assert rows.shrink(np.zeros(2)) == 1.0
    assert rows.shrink(np.array([1e-3, 0.0])) == 0.0
    assert hinge_families(np.array([1.0, -1.0]), 1.0, 1.5).shrink(np.array([1.5, -3.0])) == 0.5


@pytest.mark.parametrize("size", [1e-9, 0.5, 4.0])
def test_opposite_margins(size):
    """Constraints pull both ways if each side has a cost and a kink that 0 does not meet."""
    y, ones = np.array([1.0, -1.0]), np.ones(2)

    def pulls(kink, costs, *others):
        return Families(Family("a", "mu", y, kink, np.array(costs), ("s", "t")), *others).has_opposite_margins

    assert pulls(size, [1.0, 1.0])
    assert pulls(1.0, [size, size])
    assert not pulls(1.0, [size, 0.0])
    assert not pulls(1.0, [0.0, size])
    assert not pulls(-size, [1.0, 1.0])
    assert not pulls(0.0, [1.0, 1.0])
    down = Family("b", "nu", -ones, size, ones, ("u", "v"))
    assert pulls(1.0, [size, 0.0], down)
    assert not pulls(1.0, [0.0, size], down)


@settings(deadline=None, max_examples=10)
@given(SEEDS)
def test_interval_holds_the_best_intercept(seed):
    """The interval of optimal multipliers has the intercept of the least cost."""
    rows, rng = invented(seed)
    if not rows.has_opposite_margins:
        return
    X = rng.normal(size=(rows.n, 3))
    found = solve_decomposition(X @ X.T, rows, tol=1e-9)
    g = X @ (X.T @ rows.beta(rows.stacked(found.duals)))
    lo, hi = rows.intercept_interval(g, found.duals)
    assert lo <= hi + 1e-6
    assert lo - 1e-6 <= rows.best_intercept(g) <= hi + 1e-6


# -- solvers and certificates ------------------------------------------------------------------


@given(SEEDS)
def test_solvers_find_optimum_of_any_families(seed):
    """The definition by an independent solver, decomposition, interior point; each answer proven optimal."""
    rows, rng = invented(seed, n=20)
    if not rows.has_opposite_margins:
        return
    X = rng.normal(size=(rows.n, 4))
    value = explicit(rows, X)
    pairs = solve_decomposition(X @ X.T, rows, tol=1e-9)
    inner = solve_interior_point(X, rows, tol=1e-9)
    for found, geometry, v in (
        (pairs, KernelGeometry(X @ X.T), pairs["coef"]),
        (inner, LinearGeometry(X), inner["w"]),
    ):
        assert found.status is Status.SOLVED
        assert found.objective == pytest.approx(value, rel=1e-6, abs=1e-8)
        assert set(found.duals) == {family.name for family in rows}
        program = HingeProgram("a machine", geometry, rows)
        certificate = certify_hinge(program, v=v, b=float(found["b"]), multipliers=found.duals)
        assert certificate.claim is Claim.OPTIMAL
        assert certificate.dual_value <= value * (1 + 1e-6) + 1e-8
        alone = certify_hinge(program, v=v, b=float(found["b"]))
        assert alone.dual_value <= value * (1 + 1e-6) + 1e-8


@pytest.mark.parametrize("name", ["margin", "bound_above", "bound_below", "extra"])
def test_perturbed_multiplier_is_not_optimal(name, blobs):
    """A shift by 0.01 in any family is seen."""
    X, y = blobs
    n = len(y)
    extra = Family("extra", "mu", -y, -1.1, np.full(n, 0.3), ("slack_extra", "nu"))
    rows = Families(*hinge_families(y, 1.0), *bound_families(n, 1.3, 0.2), extra)
    found = solve_decomposition(X @ X.T, rows, tol=1e-9)
    program = HingeProgram("a machine", KernelGeometry(X @ X.T), rows)

    def certified(duals):
        return certify_hinge(program, v=found["coef"], b=float(found["b"]), multipliers=duals)

    assert certified(found.duals).claim is Claim.OPTIMAL
    for change in (-0.01, 0.01):
        certificate = certified(found.duals | {name: found.duals[name] + change})
        assert certificate.claim is not Claim.OPTIMAL
        assert certificate.worst.relative > certificate.tol


# -- what is refused ---------------------------------------------------------------------------


def test_unfit_families_are_refused():
    """Names, sizes, bounds and infinite costs are named."""
    y = np.array([1.0, -1.0])
    with pytest.raises(ValueError, match="at least one family"):
        Families()
    with pytest.raises(ValueError, match="a name of its own"):
        Families(margin_family(y, np.ones(2)), margin_family(y, np.ones(2)))
    with pytest.raises(ValueError, match="same samples"):
        Families(margin_family(y, np.ones(2)), *bound_families(3, 2.0))
    with pytest.raises(ValueError, match="B must be at least 0"):
        bound_families(3, -1.0)
    hard = hinge_families(y, np.inf, hard=True)
    for solve in (
        lambda: solve_decomposition(np.eye(2), hard),
        lambda: solve_interior_point(np.eye(2), hard),
    ):
        with pytest.raises(ValueError, match="finite costs"):
            solve()
    some = Families(margin_family(y, np.ones(2)), *bound_families(2, 1.5, np.array([1.0, np.inf])))
    for unfit in (some, Families(*bound_families(2, 1.5)), Families(*bound_families(2, 0.0))):
        with pytest.raises(ValueError, match="finite costs"):
            solve_interior_point(np.eye(2), unfit)
