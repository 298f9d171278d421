"""The passes of the interior-point method against numpy, for families with slack and without."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls, placed

from polyopt.margin.interior_point.block import (
    Direction,
    PrimalDual,
    back_substitute,
    common_step,
    reduced_diagonal,
    reduced_rhs,
    separate_steps,
    set_complementarity_rhs,
    slack_cost,
)

EASE, MEAN = 1e-2, 3.0
LENGTHS = [0, 1, 2, 7, 256, 257, 600]
FAMILIES = {"one with slack": (1, 0), "three with slack": (3, 0), "both": (2, 2), "no slack": (0, 1)}
CASES = {"family": FAMILIES, "n": LENGTHS}


def drawn(rng, family, n, place=None):
    """A point, some samples of which lack rows, and a direction; place puts the arrays in memory."""
    (soft, hard), place = FAMILIES[family], place or (lambda each: anywhere(rng, each))
    q, r = soft + hard, 2 * soft + hard
    sides, kinks = rng.choice([-1, 1], (q, n)).astype(np.int8), np.array([1.0, -0.5, 0.0, -2.5])[:q]
    caps = rng.uniform(0.5, 2.0, (soft, n)) * (rng.random((soft, n)) < 0.8)
    Z, T, f = rng.uniform(0.1, 2.0, (r, n)), rng.uniform(0.1, 2.0, (r, n)), rng.normal(size=n)
    has_row = np.concatenate([np.repeat(caps > 0, 2, axis=0), rng.random((hard, n)) < 0.8])
    Z[~has_row] = 0.0
    arrays = (sides, kinks, caps, f, Z, T)
    aim, dZ, dT = rng.normal(size=(3, r, n))
    point = PrimalDual(*(place(each) for each in arrays))
    direction = Direction(*(place(each) for each in (aim, rng.normal(size=n), dZ, dT)))
    first = np.r_[0 : 2 * soft : 2, 2 * soft : r]  # rows of mu and s
    units = np.concatenate([np.repeat(caps, 2, axis=0), np.full((hard, n), MEAN)])
    return SimpleNamespace(
        point=point, direction=direction, soft=soft, n=n, has_row=has_row, first=first, units=units,
        is_row=has_row[first],
    )  # fmt: skip


def changes(at):
    """Change of each mu less that by df, and its weight, both (q, n): Newton's equations, solved by hand."""
    p, aim = at.point, at.direction.rhs
    change, weight = np.zeros(p.sides.shape), np.zeros(p.sides.shape)
    for q, r in enumerate(at.first):
        ok = at.is_row[q]
        mu, s, push = p.Z[r, ok], p.T[r, ok], p.kinks[q] - p.sides[q, ok] * p.f[ok] + p.T[r, ok]
        slope = s / mu + EASE
        push = push + aim[r, ok] / mu
        if q < at.soft:
            eta, xi = p.Z[r + 1, ok], p.T[r + 1, ok]
            slope, push = slope + xi / eta, push - xi - aim[r + 1, ok] / eta
        change[q, ok], weight[q, ok] = push / slope, 1.0 / slope
    return change, weight


@drawn_calls("weigh", **CASES)
def test_sums_of_a_point(rng, family, n):
    """Sums over families, sums over samples, and largest values, as defined."""
    at = drawn(rng, family, n)
    p, first, soft = at.point, at.first, at.soft
    d, V, found = np.full(n, np.nan), np.full((n, 3), 9.0), np.full(6, np.nan)
    reduced_diagonal(p, EASE, d, V, found)
    mu, s, other = p.Z[first], p.T[first], np.zeros((len(first), n))
    room, slack = mu.copy(), other.copy()
    room[:soft], slack[:soft] = np.minimum(mu[:soft], p.Z[1 : 2 * soft : 2]), p.T[1 : 2 * soft : 2]
    other[:soft] = p.Z[1 : 2 * soft : 2] * slack[:soft]
    kinks = p.kinks[:, None]
    units = np.maximum(np.abs(kinks), 1.0)
    unmet = np.where(at.is_row, np.abs(kinks - p.sides * p.f - slack + s), 0.0)
    expected = [
        (kinks * mu).sum(), (p.sides * kinks * room).sum(), (mu * s + other).sum(),
        (np.maximum(mu * s, other) / units).max(initial=0.0), mu.max(initial=0.0), unmet.max(initial=0.0),
    ]  # fmt: skip
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert d == pytest.approx(changes(at)[1].sum(axis=0), rel=1e-12)
    assert V[:, 0] == pytest.approx((p.sides * mu).sum(axis=0), abs=1e-12)
    assert V[:, 1] == pytest.approx(room.sum(axis=0))
    assert (V[:, 2] == 9.0).all()


@drawn_calls("condense", **CASES)
def test_condensed_right_hand_side(rng, family, n):
    """One column is h, the others stay."""
    at = drawn(rng, family, n)
    V = np.full((at.n, 3), 9.0)
    reduced_rhs(at.point, EASE, at.direction, V, 1)
    assert V[:, 1] == pytest.approx((at.point.sides * changes(at)[0]).sum(axis=0), abs=1e-10)
    assert (V[:, ::2] == 9.0).all()


@drawn_calls("direct", **CASES)
def test_directions_and_longest_step(rng, family, n):
    """Directions, the longest step, and how the products change."""
    at = drawn(rng, family, n)
    soft, found = at.soft, np.empty(3)
    p, direction = at.point, at.direction
    change, weight = changes(at)
    back_substitute(p, EASE, direction, found)
    dmu, dZ, dT = change - weight * p.sides * direction.df, np.zeros(p.Z.shape), np.zeros(p.Z.shape)
    dZ[at.first] = dmu
    dZ[1 : 2 * soft : 2] = -dmu[:soft]
    ok = at.has_row
    dT[ok] = (direction.rhs[ok] - p.T[ok] * dZ[ok]) / p.Z[ok]
    assert direction.dZ == pytest.approx(dZ, abs=1e-9)
    assert direction.dT == pytest.approx(dT, abs=1e-9)
    steepest = max((-dZ[ok] / p.Z[ok]).max(initial=0.0), (-dT / p.T).max(initial=0.0))
    assert found[0] == pytest.approx(1.0 / steepest if steepest > 0.0 else np.inf)
    sums = [(dZ * p.T + p.Z * dT).sum(), (dZ * dT).sum()]
    assert found[1:] == pytest.approx(sums, rel=1e-9, abs=1e-9)


@drawn_calls("target", **CASES)
def test_complementarity_aims(rng, family, n):
    """Aims are in proportion to the cost, less a share of what the direction adds."""
    at = drawn(rng, family, n)
    p, direction, mu = at.point, at.direction, 0.2
    direction.rhs[:] = np.nan
    set_complementarity_rhs(p, direction, MEAN, mu, 0.5)
    expected = mu * at.units - p.Z * p.T - 0.5 * direction.dZ * direction.dT
    assert direction.rhs == pytest.approx(expected, rel=1e-12, abs=1e-12)


@drawn_calls("step", "step_apart", share=[0.1, 0.9], **CASES)
def test_steps_alike_and_apart(rng, share, family, n):
    """All move alike, or each sample's pairs by their own share of the direction."""
    seed = int(rng.integers(1 << 32))
    at, apart = (drawn(np.random.default_rng(seed), family, n) for _ in range(2))
    p, direction, soft = at.point, at.direction, at.soft
    Z, T, f = p.Z.copy(), p.T.copy(), p.f.copy()
    common_step(p, direction, 0.3)
    separate_steps(apart.point, direction, share)
    for before, change, now in ((Z, direction.dZ, p.Z), (T, direction.dT, p.T), (f, direction.df, p.f)):
        assert now == pytest.approx(before + 0.3 * change, rel=1e-12, abs=1e-12)
    assert apart.point.f == pytest.approx(f + direction.df)
    for before, change, now in ((Z, direction.dZ, apart.point.Z), (T, direction.dT, apart.point.T)):
        lengths = np.where(-change > share * before, share * before / np.where(change < 0, -change, 1.0), 1.0)
        lengths[: 2 * soft] = np.repeat(
            np.minimum(lengths[: 2 * soft : 2], lengths[1 : 2 * soft : 2]), 2, axis=0
        )
        assert now == pytest.approx(before + lengths * change, rel=1e-12, abs=1e-12)


@drawn_calls("cost", **CASES)
def test_cost_of_slacks(rng, family, n):
    """Caps times what the outputs are short of the kinks."""
    at = drawn(rng, family, n)
    p, soft = at.point, at.soft
    short = np.maximum(p.kinks[:soft, None] - 0.5 * p.sides[:soft] * p.f, 0.0)
    assert slack_cost(p, 0.5) == pytest.approx((p.caps * short).sum())


def test_infinite_and_nan_outputs_are_not_hidden():
    """The right-hand side is not finite at outputs that are not."""
    for value in (np.nan, np.inf):
        at, V = drawn(np.random.default_rng(0), "one with slack", 7), np.empty((7, 3))
        at.point.caps[:], at.point.f[:] = 1.0, value
        at.point.Z[at.point.Z == 0.0] = 0.5
        reduced_rhs(at.point, EASE, at.direction, V, 2)
        assert not np.isfinite(V[:, 2]).any()


@pytest.mark.parametrize("n", [7, 257])
def test_bits_do_not_depend_on_alignment(n):
    """Arrays that begin anywhere give the same bits."""
    results = set()
    for place in (np.copy, lambda each: placed(each, 1)):
        at = drawn(np.random.default_rng(n), "both", n, place)
        d, V, found, longest = (place(np.zeros(shape)) for shape in (n, (n, 3), 6, 3))
        reduced_diagonal(at.point, EASE, d, V, found)
        reduced_rhs(at.point, EASE, at.direction, V, 2)
        back_substitute(at.point, EASE, at.direction, longest)
        parts = (d, V, found, longest, at.direction.dZ, at.direction.dT, np.array(slack_cost(at.point, 0.7)))
        results.add(tuple(part.tobytes() for part in parts))
    assert len(results) == 1
