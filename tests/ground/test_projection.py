"""The nearest point of a polytope: another method, the program, proofs, and points that fail."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from formulations.language.program import Program, Row
from formulations.language.solution import Status
from polyopt.certificates import Claim
from polyopt.certificates.kkt import certify_program
from polyopt.certificates.projection import certify_projection
from polyopt.polytope import projection
from polyopt.polytope.region import Rows


def project(x, W, b, **given):
    return projection.project(projection.Question.of(x, **given), W, b)


def certify(x, W, b, *, z, face, **given):
    return certify_projection(projection.Question.of(x, **given), Rows.of(W, b), z, face)


def case(rng):
    """A polytope and a point: faces twice or opposite, rows of zeros, points on faces, all units."""
    m, K = int(rng.integers(1, 9)), int(rng.integers(1, 12))
    spread = 10.0 ** rng.uniform(-6, 6, m) if rng.random() < 0.5 else np.exp(rng.normal(size=m))
    W = rng.normal(size=(K, m)) / spread
    b = rng.normal(size=K) - rng.choice([0.0, 1.0, 3.0])
    x = rng.normal(size=m) * spread * rng.choice([1.0, 5.0])
    kind = rng.integers(6)
    if kind == 0 and K > 1:
        W[-1], b[-1] = 3.0 * W[0], 3.0 * b[0]
    elif kind == 1 and K > 1:
        W[-1], b[-1] = -W[0], -b[0] + rng.choice([-1.0, 0.0, 1.0])
    elif kind == 2:
        W[0] = 0.0
    elif kind == 3:
        x = x - (W[0] @ x + b[0]) / (W[0] @ (spread**2 * W[0])) * spread**2 * W[0]
    elif kind == 4:
        lengths = 10.0 ** rng.uniform(-6, 6, K)
        W, b = W * lengths[:, None], b * lengths
    given = {"spread": spread, "held": rng.random(m) < 0.15}
    if rng.random() < 0.5:
        given["low"] = np.minimum(x, 0.0) - rng.uniform(0, 2, m) * spread
        given["high"] = np.maximum(x, 0.0) + rng.uniform(0, 2, m) * spread
    return x, W, b, given


def by_least_squares(x, W, b, spread, held, low=None, high=None):
    """Lawson and Hanson's way: min ‖u‖, G u ≥ h, from the residual r of min ‖[G'; h'] y − e‖ over y ≥ 0."""
    free = ~held
    A, c = (W * spread)[:, free], -(W @ x + b)
    size = np.linalg.norm(A, axis=1)
    size[size == 0] = np.linalg.norm(W * spread, axis=1)[size == 0]
    size[size == 0] = 1.0
    G, h = [-A / size[:, None]], [-c / size]
    if low is not None:
        eye = np.eye(free.sum())
        G += [eye, -eye]
        h += [((low - x) / spread)[free], (-(high - x) / spread)[free]]
    G, h = np.vstack(G), np.concatenate(h)
    E, f = np.vstack([G.T, h]), np.append(np.zeros(G.shape[1]), 1.0)
    r = E @ nnls(E, f, maxiter=100 * len(h))[0] - f
    if np.linalg.norm(r) < 1e-9:
        return None
    u = np.zeros(len(x))
    u[free] = -r[:-1] / r[-1]
    return u


def test_agrees_with_least_squares():
    """scipy's non-negative least squares gives the same point, which is certified."""
    rng = np.random.default_rng(20)
    ends = dict.fromkeys((Status.SOLVED, Status.INFEASIBLE), 0)
    for _ in range(200):
        x, W, b, given = case(rng)
        found, u = project(x, W, b, **given), by_least_squares(x, W, b, **given)
        ends[found.status] += 1
        certificate = certify(x, W, b, z=found.primal.get("z"), face=found.duals["face"], **given)
        if u is None:
            assert found.status is Status.INFEASIBLE
            assert certificate.claim is Claim.INFEASIBLE or certificate.dual_value > 1e16
            continue
        moved = (found["z"] - x) / given["spread"]
        assert moved == pytest.approx(u, abs=1e-8 * max(1.0, np.linalg.norm(u)))
        assert certificate.claim is Claim.OPTIMAL or certificate.eps < 1e-18
        assert (found["z"][given["held"]] == x[given["held"]]).all()
        if "low" in given:
            assert (found["z"] >= given["low"]).all()
            assert (found["z"] <= given["high"]).all()
    assert min(ends.values()) > 40


def program_of(x, W, b, spread, held, low, high):
    """The program of the nearest point, in cvxpy."""
    z = cp.Variable(len(x), name="z")
    return Program(
        name="projection",
        title="Nearest point of a polytope",
        source="Goldfarb & Idnani (1983)",
        objective=cp.Minimize(0.5 * cp.sum_squares(cp.multiply(1.0 / spread, z - x))),
        objective_text="½ Σⱼ vⱼ (zⱼ − xⱼ)²",
        variables={"z": z},
        rows=(
            Row("face", W @ z + b <= 0, "Wₖ·z + bₖ ≤ 0", "lam", ""),
            Row("above", z <= high, "zⱼ ≤ cⱼ", "rho_plus", ""),
            Row("below", z >= low, "zⱼ ≥ aⱼ", "rho_minus", ""),
            Row("held", z[held] == x[held], "zⱼ = xⱼ", "nu", ""),
        ),
    )


def test_agrees_with_program_and_multipliers():
    """What is returned meets the program's own optimality conditions, in the units of its rows."""
    rng = np.random.default_rng(3)
    for _ in range(6):
        W, x, spread = rng.normal(size=(5, 3)), 3.0 * rng.normal(size=3), np.exp(rng.normal(size=3))
        given = {
            "spread": spread, "held": np.array([True, False, False]),
            "low": np.minimum(x, 0) - 0.3, "high": np.maximum(x, 0) + 0.3,
        }  # fmt: skip
        x[0] = 0.1
        b = -1.0 - rng.random(5)
        found, program = project(x, W, b, **given), program_of(x, W, b, **given)
        duals = {
            "face": found["face"], "above": found["above"], "below": found["below"], "held": found["held"][:1]
        }  # fmt: skip
        certificate = certify_program(program, found.primal, duals, tol=1e-11)
        assert certificate.claim is Claim.CONDITIONS
        assert found.objective == pytest.approx(program.solve().objective, rel=1e-7, abs=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), m=st.integers(2, 8), K=st.integers(1, 30))
def test_degenerate_cones_have_nearest_points(seed, m, K):
    """Every corner has many faces too many, and 0 is in all of them."""
    rng = np.random.default_rng(seed)
    W, b = rng.integers(-1, 2, (K, m)) * 1.0, -1.0 * rng.integers(0, 2, K)
    x, spread = 3.0 * rng.normal(size=m), np.exp(rng.normal(size=m))
    given = {"low": np.minimum(x, 0.0) - 0.1, "high": np.maximum(x, 0.0) + 0.1} if seed % 2 else {}
    found = project(x, W, b, spread=spread, **given)
    assert found.status is Status.SOLVED
    certificate = certify(x, W, b, z=found["z"], face=found["face"], spread=spread, **given)
    assert certificate.claim is Claim.OPTIMAL or certificate.eps < 1e-18


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_it_moves_with_the_units(seed):
    """Rescaled features, rescaled and reordered faces, another origin: the same point."""
    rng = np.random.default_rng(seed)
    W, b, x = rng.normal(size=(7, 4)), -1.0 - rng.random(7), 2.0 * rng.normal(size=4)
    unit, shift = 10.0 ** rng.uniform(-6, 6, 4), rng.normal(size=4)
    lengths, order = 10.0 ** rng.uniform(-6, 6, 7), rng.permutation(7)
    plain = project(x, W, b)
    far = unit * shift
    moved = project(
        unit * x + far, (W / unit * lengths[:, None])[order], ((b - W @ shift) * lengths)[order], spread=unit
    )
    assert (moved["z"] - far) / unit == pytest.approx(plain["z"], abs=1e-9)
    assert moved.objective == pytest.approx(plain.objective, abs=1e-9)


def test_point_inside_stays():
    """To the last digit."""
    x = np.array([0.1, 0.2, 0.30000000000000004])
    found = project(x, np.vstack([np.eye(3), -np.eye(3)]), -np.ones(6), spread=[3.0, 0.1, 7.0])
    assert (found["z"] == x).all()
    assert found.objective == 0.0
    assert not found["face"].any()
    nothing = project(x, np.zeros((0, 3)), [])
    assert (nothing["z"] == x).all()
    none = certify(x, np.zeros((0, 3)), [], z=nothing["z"], face=[])
    assert (none.claim, none.primal_value) == (Claim.OPTIMAL, 0.0)


def test_ray_proves_empty_section():
    """Features that are held may empty the set, which a Farkas ray proves."""
    W, b = np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([-1.0, -1.0])
    given = {"held": np.array([True, False])}
    found = project([2.0, 0.0], W, b, **given)
    assert found.status is Status.INFEASIBLE
    assert found.primal == {}
    assert found["face"] == pytest.approx([1.0, 1.0])
    ray = certify([2.0, 0.0], W, b, z=None, face=found["face"], **given)
    assert ray.claim is Claim.INFEASIBLE or ray.dual_value > 1e24
    other = certify([2.0, 0.0], W, b, z=None, face=[1.0, 0.0], **given)
    assert other.claim is Claim.NONE
    assert other.dual_value < 1.0
    bounded = {"low": [1.5, -9.0], "high": [9.0, 9.0]}
    found = project([2.0, 0.0], W, b, **bounded)
    assert certify([2.0, 0.0], W, b, z=None, face=found["face"], **bounded).claim is Claim.INFEASIBLE


def test_false_multipliers_prove_nothing():
    """A certificate of a moved point or other multipliers is not optimal."""
    rng = np.random.default_rng(4)
    W, b, x = rng.normal(size=(6, 3)), -1.0 - rng.random(6), np.array([4.0, -3.0, 2.0])
    found = project(x, W, b)
    z, lam = found["z"], found["face"]
    assert certify(x, W, b, z=z, face=lam).claim is Claim.OPTIMAL
    farther = certify(x, W, b, z=0.9 * z, face=lam)
    assert farther.claim is Claim.SUBOPTIMAL_BY
    assert farther.primal_value > farther.dual_value
    assert certify(x, W, b, z=z + 1e-3 * (x - z), face=lam).claim is Claim.NONE
    assert certify(x, W, b, z=z, face=0.5 * lam).claim is Claim.SUBOPTIMAL_BY
    assert certify(x, W, b, z=z, face=-lam).dual_value == 0.0
    assert certify(x, W, b, z=z, face=lam, held=[True, False, False]).claim is Claim.NONE


def test_sample_beyond_bounds_returns():
    """Its nearest point is within the bounds, and only these are proven."""
    given = {"low": np.array([1.0, -1.0]), "high": np.array([2.0, 1.0])}
    W, b = np.array([[1.0, 1.0]]), np.array([-1.5])
    found = project([0.0, 3.0], W, b, **given)
    assert found["z"] == pytest.approx([1.0, 0.5])
    ends = {"face": found["face"], **given}
    assert certify([0.0, 3.0], W, b, z=found["z"], **ends).claim is Claim.OPTIMAL
    assert certify([0.0, 3.0], W, b, z=None, **ends).claim is Claim.NONE
    held = np.array([True, False])
    assert project([0.0, 3.0], W, b, held=held, **given).status is Status.INFEASIBLE
    assert certify([0.0, 3.0], W, b, z=None, held=held, **ends).claim is Claim.INFEASIBLE


def test_every_multiplier_bounds_the_distance():
    """Weak duality with bounds: whatever λ ≥ 0, the bound is below the value of every feasible point."""
    rng = np.random.default_rng(6)
    W, b, x = rng.normal(size=(5, 4)), -1.0 - rng.random(5), 3.0 * rng.normal(size=4)
    given = {
        "low": np.minimum(x, 0) - 0.5,
        "high": np.maximum(x, 0) + 0.5,
        "spread": np.exp(rng.normal(size=4)),
    }
    best = project(x, W, b, **given).objective
    for _ in range(30):
        lam = rng.exponential(size=5) * rng.integers(0, 2, 5)
        bound = certify(x, W, b, z=np.zeros(4), face=lam, **given).dual_value
        assert bound <= best
