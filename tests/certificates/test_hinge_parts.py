"""The parts of a hinge program's certificate, each by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from formulations import rmm
from formulations.families import Families, Family, hinge_families
from formulations.language.toy_data import two_blobs
from polyopt.linalg.kernels import MatrixGram
from polyopt.linalg.rounding import Ball
from polyopt.margin.certificate import HingeProgram, certify_hinge, find_ray, project, to_feasible
from polyopt.margin.certify import certify_rmm
from polyopt.margin.geometry import KernelGeometry, LinearGeometry

Y = np.array([1.0, -1.0])


def program(X, rows, **options):
    return HingeProgram("a machine", LinearGeometry(np.array(X, dtype=float)), rows, **options)


def bound(machine, Z):
    return machine.bound(machine.feasible(Z))


def residual(certificate, condition, row):
    (found,) = [r for r in certificate.residuals if (r.condition, r.row) == (condition, row)]
    return found


# -- multipliers -------------------------------------------------------------------------------


def test_repaired_multipliers_only_shrink(rng):
    """Repaired multipliers are within their caps, in balance, and no larger than given."""
    y = np.where(np.arange(9) < 3, 1.0, -1.0)
    rows = hinge_families(y, rng.uniform(0.5, 2.0, 9), 1.5)
    Z = rng.normal(size=(3, 9))
    for given in (Z, -Z, np.abs(Z)):
        repaired = program(np.eye(9), rows).feasible(given).mid
        assert ((repaired >= 0.0) & (repaired <= np.clip(given, 0.0, rows.caps))).all()
        assert rows.beta(repaired).sum() == pytest.approx(0.0, abs=1e-14)
        assert repaired[rows.sides > 0].sum() > 0.0
        heavy = np.clip(given, 0.0, rows.caps)
        assert np.array_equal(program(np.eye(9), rows, intercept=False).feasible(given).mid, heavy)


def test_balance_costs_what_it_takes():
    """Multipliers 2 and 1 at a kink of 4 are worth as much as 1 and 1: eight, not twelve."""
    rows = Families(Family("margin", "alpha", Y, 4.0, np.full(2, 9.0), ("slack", "beta")))
    machine = program([[0.0], [0.0]], rows)
    assert bound(machine, np.array([[2.0, 1.0]])).lower == pytest.approx(8.0, rel=1e-6)
    assert bound(machine, np.array([[2.0, 1.0]])).lower <= 8.0
    costly = Families(
        Family("bound", "lam", Y, -4.0, np.full(2, 9.0), ("slack", "beta")), *hinge_families(Y, 9.0)
    )
    both = np.array([[0.0, 0.0], [2.0, 1.0]])
    assert bound(program([[0.0], [0.0]], costly), both).lower == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("off", [1e-6, 1e-3, 0.05])
def test_balance_may_lengthen_weights(off):
    """Samples at 0.01 and 0.03 pull against each other; without its surplus the nearer pulls back less."""
    machine = program([[0.01], [0.03]], hinge_families(Y, np.inf, hard=True))
    balanced = 2000.0 - 0.5 * (1000.0 * 0.01 - 1000.0 * 0.03) ** 2
    found = bound(machine, np.array([[1000.0 * (1.0 + off), 1000.0]]))
    assert found.lower <= balanced <= found.upper
    assert found.lower >= balanced * (1.0 - 2.0 * off)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_ray_has_any_length(size):
    """Two like samples of both classes; what a solver leaves of the third is no part of it."""
    machine = program([[1.0], [1.0], [5.0]], hinge_families(np.array([1.0, -1.0, 1.0]), np.inf, hard=True))
    assert find_ray(machine, size * np.array([[1.0, 1.0, 1e-12]])) is not None
    assert find_ray(machine, size * np.array([[1.0, 1.0, 1e-3]])) is None
    capped = program([[1.0], [1.0], [5.0]], hinge_families(np.array([1.0, -1.0, 1.0]), 2.0 * size))
    assert find_ray(capped, size * np.array([[1.0, 1.0, 0.0]])) is None


def test_ray_is_balanced_for_intercept():
    """Multipliers of one class at the origin cancel in w; alone they only say where the intercept is."""
    rows = hinge_families(np.array([1.0, 1.0, -1.0]), np.inf, hard=True)
    X = [[0.0], [0.0], [3.0]]
    assert find_ray(program(X, rows), np.array([[1.0, 2.0, 0.0]])) is None
    assert find_ray(program(X, rows, intercept=False), np.array([[1.0, 2.0, 0.0]])) is not None


# -- residuals ---------------------------------------------------------------------------------


def test_residuals_are_relative_to_their_terms():
    """The balance to the sum of its terms; stationarity to the largest entry of w, where nothing pulls."""
    machine = program([[1.0, 0.0], [-1.0, 0.0]], hinge_families(Y, 9.0))
    off = certify_hinge(machine, v=np.array([1.0, 0.0]), b=0.0, multipliers={"margin": np.array([4.0, 2.0])})
    found = residual(off, "stationarity", "b")
    assert (found.value, found.relative) == pytest.approx((2.0, 2.0 / 6.0))
    still = certify_hinge(machine, v=np.array([3.0, 0.0]), b=0.0, multipliers={"margin": np.zeros(2)})
    found = residual(still, "stationarity", "w")
    assert (found.value, found.relative) == pytest.approx((3.0, 1.0))
    short = certify_hinge(machine, v=np.array([0.01, 0.0]), b=0.0, multipliers={"margin": np.zeros(2)})
    assert residual(short, "stationarity", "w").relative == pytest.approx(1.0)


def test_slacks_of_near_matrix_have_radius():
    """Outputs off by 0.1 |v| in all: what rows with slack cost, times that, and rows without it nothing."""
    near = SimpleNamespace(psd_defect=0.1, energy=lambda v: Ball(0.0))
    machine = HingeProgram("a machine", near, hinge_families(np.ones(3), np.array([7.0, 3.0, 4.0])))
    value = machine.value(np.array([2.0]), Ball(np.array([2.0, 0.0, 0.5])))
    assert (value.mid, value.rad) == pytest.approx((5.0, 0.1 * 2.0 * 5.0), rel=1e-6)


def test_value_between_factors_is_dearer_end():
    """An output of 3.9 to 4.1 to be brought within 2: by its length the point is dearer at the longer end."""
    machine = program([[1.0]], hinge_families(np.ones(1), 1.0, 2.0))
    v, f, (scale, least) = np.array([4.0]), Ball(np.array([4.0]), np.array([0.1])), (2 / 4.1, 2 / 3.9)
    assert machine.value(v, f, (scale, least)).upper == pytest.approx(8.0 * (2 / 3.9) ** 2, rel=1e-9)
    assert machine.value(v, f, (scale, scale)).upper == pytest.approx(8.0 * (2 / 4.1) ** 2, rel=1e-9)
    assert machine.value(v, f, (np.inf, np.inf)).upper == np.inf


def test_near_matrix_shrinks_point_further():
    """An output of 4 that may be off by 0.1 |v|, to be brought within 2."""
    v = np.array([2.0])
    near = SimpleNamespace(
        n=1, note="", psd_defect=0.1, prepare=lambda *_: None, outputs=lambda v: Ball(2.0 * v),
        energy=lambda v: Ball(2.0 * v @ v), scores=lambda v: 2.0 * v, primal_from_dual=lambda beta: beta,
        gradient=lambda v: 2.0 * v, adjoint=lambda beta: 2.0 * beta, adjoint_scale=lambda beta: 1.0,
        gradient_scale=1.0,
        dual_norm_sq=lambda beta: Ball(2.0 * beta @ beta), norm_bounds=lambda: np.array([2.0]),
    )  # fmt: skip
    machine = HingeProgram("a machine", near, hinge_families(np.ones(1), 1.0, 2.0), intercept=False)
    found = certify_hinge(machine, v=v, multipliers={"margin": np.zeros(1)})
    ends = 2.0 / (4.0 + 0.1 * 2.0), 2.0 / (4.0 - 0.1 * 2.0)
    expected = machine.value(v, Ball(np.array([4.0])), ends)
    assert found.primal_value == pytest.approx(expected.upper, rel=1e-6)


# -- the ascent --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["both", "up", "down"])
def test_projection_is_one_shift(kind, rng):
    """Entries within are moved by one shift; those at 0 or at their cap would be moved beyond."""
    for turn in range(30):
        n = int(rng.integers(1, 9))
        upper = np.where(rng.random(n) < 0.3, np.inf, rng.uniform(0.1, 3.0, n))
        signs = {"both": rng.choice([-1.0, 1.0], n), "up": np.ones(n), "down": -np.ones(n)}[kind]
        machine = program(np.zeros((n, 1)), hinge_families(signs, upper, hard=True))
        z = rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3)
        z = z if turn % 3 else z.round()
        found, size = project(machine, z[None, :])[0], 1.0 + np.abs(z).max()
        assert (found >= 0.0).all()
        assert (found <= upper).all()
        assert abs(signs @ found) <= 1e-13 * size
        moved = signs * (z - found)
        least = np.where((found == 0.0) == (signs > 0), moved, -np.inf)
        most = np.where((found == upper) == (signs > 0), moved, np.inf)
        within = (found > 0.0) & (found < upper)
        least, most = np.where(within, moved, least), np.where(within, moved, most)
        assert least.max() <= most.min() + 1e-13 * size


# -- any machine -------------------------------------------------------------------------------


def test_bounds_below_margin_are_certified():
    """With B = 1/2 and slack for the bounds, the bound of the zero point is near the optimum."""
    X, y = two_blobs(n=20, seed=0)
    value = rmm.qp(X, y, 1.0, 0.5, 0.1).solve().objective
    zero = certify_rmm(X, y, 1.0, 0.5, D=0.1, w=np.zeros(X.shape[1]), b=0.0)
    assert zero.dual_value == pytest.approx(value, rel=1e-3)
    assert zero.dual_value <= value * (1 + 1e-7)
    with pytest.raises(ValueError, match="B must be at least 0"):
        certify_rmm(X, y, 1.0, -0.5, D=0.1, w=np.zeros(X.shape[1]), b=0.0)


@pytest.mark.parametrize("short", [0.0, 1e-3, 0.1])
def test_near_matrix_stretches_hard_margin(short):
    """Outputs ±1 of w with ‖v‖ = √2 may be 1 − short·√2: the point is made longer by so much."""
    geometry = KernelGeometry(MatrixGram(np.eye(2)), short)
    machine = HingeProgram("a machine", geometry, hinge_families(Y, np.inf, hard=True))
    found = certify_hinge(machine, v=np.array([1.0, -1.0]), b=0.0)
    longer = 1.0 / (1.0 - short * np.sqrt(2.0))
    assert found.primal_value == pytest.approx(longer**2 * (1.0 + short), rel=1e-8)  # ‖v‖² may be more too
    assert to_feasible(machine, Ball(np.array([1.0, -1.0]), short * np.sqrt(2.0)))[0] == pytest.approx(longer)
