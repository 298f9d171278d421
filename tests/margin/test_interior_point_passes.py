"""The passes of the interior-point method, each against the equations that it stands for.

Three families of rows: one with slack, one with slack that a sample takes no part in, and a bound.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from formulations.families import Families, Family, bound_families, margin_family
from polyopt.margin.interior_point.block import (
    Block,
    Direction,
    PrimalDual,
    back_substitute,
    reduced_diagonal,
    reduced_rhs,
)
from polyopt.margin.interior_point.problem import Regulariser, System, order_families
from polyopt.margin.interior_point.rows import Rows

N, EASE = 9, 1e-2


def parts(point):
    return point.sides, point.kinks, point.caps, point.f, point.Z, point.T


@pytest.fixture
def at(rng):
    """A point of a problem, what is aimed at, and the direction that goes with a change of the outputs."""
    sides = rng.choice([-1, 1], (3, N)).astype(np.int8)
    kinks = np.array([1.0, -0.5, -2.5])
    caps = np.stack([rng.uniform(0.5, 2.0, N), rng.uniform(0.5, 2.0, N) * (np.arange(N) != 3)])
    Z, T, f = rng.uniform(0.1, 2.0, (5, N)), rng.uniform(0.1, 2.0, (5, N)), rng.normal(size=N)
    Z[2:4, 3] = 0.0
    point = PrimalDual(sides, kinks, caps, f, Z, T)
    dZ, dT = np.full((2, 5, N), np.nan)
    direction = Direction(rng.normal(size=(5, N)), rng.normal(size=N), dZ, dT)
    h, found = np.empty((N, 1)), np.empty(3)
    reduced_rhs(point, EASE, direction, h, 0)
    back_substitute(point, EASE, direction, found)
    longest, linear, square = found.tolist()
    return SimpleNamespace(
        point=point,
        direction=direction,
        h=h[:, 0],
        dZ=dZ,
        dT=dT,
        longest=longest,
        linear=linear,
        square=square,
    )


def test_direction_solves_newton_equations(at):
    """Products change by their aim, mu + eta not at all, and a constraint is unmet by ease times dmu."""
    (sides, kinks, caps, f, Z, T), dZ, dT = parts(at.point), at.dZ, at.dT
    assert np.where(Z > 0, Z * dT + T * dZ, 0.0) == pytest.approx(np.where(Z > 0, at.direction.rhs, 0.0))
    assert not dZ[2:4, 3].any()
    assert not dT[2:4, 3].any()
    assert np.array_equal(dZ[[0, 2]], -dZ[[1, 3]])
    s, slack = (T + dT)[[0, 2, 4]], np.concatenate([(T + dT)[[1, 3]], np.zeros((1, N))])
    unmet = sides * (f + at.direction.df) + slack - s - kinks[:, None]
    takes_part = np.concatenate([caps > 0, np.ones((1, N), dtype=bool)])
    assert unmet[takes_part] == pytest.approx(-EASE * dZ[[0, 2, 4]][takes_part])


def test_reduced_system_gives_beta(at):
    """The change of beta is h − D df, with the D of the reduced system."""
    d, V = np.empty(N), np.empty((N, 2))
    reduced_diagonal(at.point, EASE, d, V, np.empty(6))
    change = (at.point.sides * at.dZ[[0, 2, 4]]).sum(axis=0)
    assert change == pytest.approx(at.h - d * at.direction.df)


def test_longest_step_ends_at_zero(at):
    """The longest step meets the first zero, and products change by the told polynomial."""
    Z, T, dZ, dT = at.point.Z, at.point.T, at.dZ, at.dT
    is_row = Z > 0
    ends = np.stack([Z + at.longest * dZ, T + at.longest * dT])[:, is_row]
    assert ends.min() == pytest.approx(0.0, abs=1e-12)
    products = (Z * T).sum()
    for length in (0.3, 1.0, 2.0):
        after = ((Z + length * dZ) * (T + length * dT)).sum()
        assert after == pytest.approx(products + length * at.linear + length**2 * at.square)


@pytest.mark.parametrize("shrinking", ["neither", "multiplier", "slack"])
def test_growing_direction_has_no_end(shrinking):
    """At Z = T = 1 the step of one bound ends where a multiplier or slack shrinks to zero, else never."""
    one, df = np.ones((1, 1)), {"neither": 0.5, "multiplier": 4.0, "slack": -4.0}[shrinking]
    point = PrimalDual(
        np.ones((1, 1), np.int8), np.array([-1.0]), np.zeros((0, 1)), np.zeros(1), one.copy(), one.copy()
    )
    direction, found = Direction(one, np.array([df]), np.zeros((1, 1)), np.zeros((1, 1))), np.empty(3)
    back_substitute(point, 0.0, direction, found)
    assert (direction.dZ[0, 0], direction.dT[0, 0]) == (1.0 - df, df)
    assert found[0] == {"neither": np.inf, "multiplier": 1.0 / 3.0, "slack": 0.25}[shrinking]


@pytest.mark.parametrize("short", [0.0, 1e-10, 1e-6])
def test_indefinite_matrix_is_lifted(short):
    """A matrix with the scaled eigenvalue −short is lifted by that size, with an error as small."""
    M = np.array([[0.0, 1.0 + short], [1.0 + short, 1.0]])
    H = M + np.diag([1.0, 0.0])
    r = H @ [0.3, 0.3]
    x = System(Regulariser(1), M).solve(r)
    assert np.abs(H @ x - r).max() <= 20.0 * max(short, 1e-14) * np.abs(r).max()


def test_infinite_matrix_has_no_factor():
    """No multiple of the diagonal lifts a matrix with infinite entries."""
    with np.errstate(invalid="ignore"), pytest.raises(LinAlgError):
        System(Regulariser(1), np.array([[0.0, np.inf], [np.inf, 1.0]]))


@pytest.mark.parametrize("mu", [1e-6, 0.1, 3.0])
def test_central_multipliers_have_product_mu(rng, mu):
    """Per unit of cost m (xi - r) = mu and (1 - m) xi = mu, with the residual r = kink - side f."""
    y, X = rng.choice([-1.0, 1.0], N), rng.normal(size=(N, 2))
    rows = Families(margin_family(y, rng.uniform(0.5, 2.0, N)), *bound_families(N, 1.5, 0.3))
    block, v = Block(Rows(X), rows, 3), np.array([0.7, -0.4, 0.2])
    block.begin_at(1.0, 1e-9, v, mu)
    f, Z, T = block.point.f, block.point.Z, block.point.T
    assert f == pytest.approx(X @ v[:2] + v[2])
    for q, family in enumerate(rows):
        r, xi = family.kink - family.side * f, T[2 * q + 1]
        assert (T[2 * q : 2 * q + 2] > 0.0).all()
        assert T[2 * q] == pytest.approx(xi - r, rel=1e-9, abs=1e-9)
        assert Z[2 * q] + Z[2 * q + 1] == pytest.approx(family.cap)
        assert Z[2 * q] * T[2 * q] == pytest.approx(family.cap * mu)
        assert Z[2 * q + 1] * T[2 * q + 1] == pytest.approx(family.cap * mu)
    gain, pulled = block.central_dual(v, mu)
    beta = sum(family.side * Z[2 * q] for q, family in enumerate(rows))
    assert gain == pytest.approx(sum(family.kink * Z[2 * q].sum() for q, family in enumerate(rows)))
    assert pulled == pytest.approx(np.append(X.T @ beta, beta.sum()))


def test_families_with_slack_come_first():
    """Families with slack come first, in their order; hard ones that zero does not satisfy are refused."""
    y = np.array([1.0, -1.0, 1.0])
    margin, (above, *_) = margin_family(y, np.ones(3)), bound_families(3, 2.0)
    soft, (_, other) = margin_family(y, 2.0 * np.ones(3)), bound_families(3, 3.0, 0.5)
    assert (margin.is_soft, above.is_soft, other.is_soft) == (True, False, True)
    rows, count = order_families(Families(margin, above, other))
    assert ([row.kink for row in rows], count) == ([1.0, -3.0, -2.0], 2)
    same = Families(margin, other, above)
    assert order_families(same) == (same, 2)
    assert [row.kink for row in order_families(Families(above, soft))[0]] == [1.0, -2.0]
    for kink in (0.5, 2.0):
        must = Family("must", "nu", y, kink, np.full(3, np.inf))
        with pytest.raises(ValueError, match="needs finite costs of slack"):
            order_families(Families(margin, must))
    with pytest.raises(ValueError, match="finite costs of slack"):
        order_families(Families(above))
    with pytest.raises(ValueError, match="B must be positive"):
        order_families(Families(margin, bound_families(3, 0.0)[0]))
