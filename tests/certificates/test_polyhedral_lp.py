"""Parts of the certificates of the polyhedral family's linear programs, each against what it is for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from formulations import pc_slp, polyceptron
from formulations.language.toy_data import two_blobs
from polyopt.certificates.points import within_shared_caps
from polyopt.linalg.rounding import UNIT, gamma
from polyopt.polyhedral.lp_certificate import (
    BoxedFaces,
    balanced,
    bound_of,
    certify_pc_slp,
    certify_polyceptron,
    class_weights,
    conditions,
)

N, M, K, R = 12, 3, 2, 2.0


def exact(array):
    return np.vectorize(lambda x: Fraction(float(x)), otypes=[object])(np.asarray(array, dtype=float))


def lifted(X):
    return np.column_stack([X, np.ones(len(X))])


@pytest.mark.parametrize("size", [1e-290, 1.0, 1e308])
def test_class_shares_enclose_rationals(size):
    """A sample's share of its class holds the rational one, and is little wider than rounding."""
    y, costs = np.where(np.arange(9) % 3 > 0, -1.0, 1.0), size * np.random.default_rng(0).uniform(0.1, 1.0, 9)
    costs[4] = 0.0
    found = class_weights(y, costs)
    for label in (1.0, -1.0):
        own = y == label
        truth = exact(costs)[own] / exact(costs)[own].sum()
        assert (exact(found.lower)[own] <= truth).all()
        assert (truth <= exact(found.upper)[own]).all()
    off = (gamma(9) + 4 * UNIT) * found.mid  # nine terms at most in a sum, and four roundings more
    assert (found.rad >= off).all()
    assert (found.rad <= 1.02 * off + 1e-290).all()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("seed", range(3))
def test_balanced_multipliers_are_the_nearest(form, seed):
    """Of free rows only, and only in the entries inside the box; the others' imbalance the box pays for."""
    rng = np.random.default_rng(seed)
    # A feature of tiny units is balanced as well as the others; one that is zero asks for nothing.
    X, y = rng.normal(size=(12, 4)) * [1.0, 1e-20, 1e3, 0.0], rng.choice([-1.0, 1.0], 12)
    M, free = rng.random((12, 3)), rng.random((12, 3)) < 0.7
    free[:, 2] = False  # a face without a free row stays as it is
    W = rng.uniform(-0.5, 0.5, (3, 5))
    W[0, 0], W[1, 2] = 1.0, -1.0
    box = BoxedFaces.around(W, 1.0, 1e-9)
    given = M.copy()
    found = balanced(form(X), y, M, free, box)
    assert (given == M).all()
    assert (found[~free] == M[~free]).all()
    for k in range(2):
        rows = (np.abs(W[k]) < 1.0) & (np.abs(lifted(X)).max(axis=0) > 0)
        terms = (lifted(X) * y[:, None]).T[rows]
        size = np.abs(terms).max(axis=1)
        assert np.abs(terms @ found[:, k] / size).max() < 1e-12 * 12
        assert np.abs(terms @ M[:, k] / size).max() > 1e-3
        # The nearest point: the change is a combination of the rows that it balances.
        change, own = (found - M)[free[:, k], k], (terms / size[:, None])[:, free[:, k]]
        assert own.T @ np.linalg.lstsq(own.T, change, rcond=None)[0] == pytest.approx(change, abs=1e-10)
    held = BoxedFaces.around(np.ones((3, 5)), 1.0, 1e-9)
    assert (balanced(form(X), y, M, free, held) == M).all()


@pytest.mark.parametrize("scale", [0.0, 0.2, 2.0, 10.0])
def test_bound_is_better_dual_value(scale):
    """Σ M − R Σ|r| in rational numbers, of the multipliers as they are and balanced; or 0."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(10, 2)), rng.choice([-1.0, 1.0], 10)
    caps = rng.random(10)
    M = scale * rng.random((10, 2)) * caps[:, None]
    free = rng.random((10, 2)) < 0.8
    for radius in (1e-2, 0.3, 1e3):
        box = BoxedFaces.around(np.zeros((2, 3)), radius, 1e-9)

        def clip(M):
            return within_shared_caps(np.maximum(M, 0.0), caps)

        found = bound_of(X, y, M, free, clip, box)
        values = [Fraction(0)]
        for one in (clip(M), clip(balanced(X, y, clip(M), free, box))):
            off = exact(lifted(X)).T @ (exact(y)[:, None] * exact(one))
            values.append(exact(one).sum() - Fraction(radius) * np.abs(off).sum())
        assert Fraction(float(found.lower if found.rad else found.mid)) <= max(values)
        assert float(found.mid) == pytest.approx(float(max(values)), rel=1e-9, abs=1e-12)


def test_pc_slp_needs_both_classes():
    """PC-SLP needs both classes at a cost, and both kinds of multipliers."""
    X, y = two_blobs(n=8, m=2)
    W = np.ones((1, 3))
    for free in (y > 0, y < 0):
        with pytest.raises(ValueError, match="y must hold both classes"):
            certify_pc_slp(X, y, W, C=np.where(free, 0.0, 1.0))
    some = np.where(np.arange(8) < 2, 0.0, 1.0)  # of each class
    assert certify_pc_slp(X, y, W, C=some).primal_value > 0.0
    for given in ({"u": np.zeros((8, 1))}, {"q": np.zeros(8)}):
        with pytest.raises(ValueError, match="u and q must be given together"):
            certify_pc_slp(X, y, W, **given)


@pytest.mark.parametrize("K", [1, 2, 5])
def test_rows_over_caps_are_shrunk(K):
    """Sums a unit over, at or under the cap: within it as real numbers, and lower by roundings alone."""
    rng = np.random.default_rng(K)
    M = rng.random((300, K))
    caps = M.sum(axis=1) * rng.choice([1.0, 1.0 - 2.0**-53, 1.0 + 2.0**-52], 300)
    found = within_shared_caps(M, caps)
    for row, cap in zip(exact(found), exact(caps), strict=True):
        assert row.sum() <= cap
    assert (found >= M * (1 - 40 * (K + 2) * UNIT)).all()
    # Rows well inside stay to the last digit beside rows that do not.
    caps[::2] *= 2.0
    assert (within_shared_caps(M, caps)[::2] == M[::2]).all()
    # The largest numbers there are; and caps so small that a product might lose its digits take nothing.
    huge = within_shared_caps(np.full((1, K), 1e308), np.array([1e307]))
    assert huge.sum() == pytest.approx(1e307, rel=1e-12)
    tiny = within_shared_caps(np.full((2, K), 1.0), np.array([2.0**-901, 2.0**-900]))
    assert tiny.sum(axis=1).tolist() == [0.0, pytest.approx(2.0**-900)]


def test_box_tells_entries_at_its_ends():
    """Entries at the ends of a box, up to rounding, are held, and those beyond are a residual."""
    W = np.array([[2.0, -2.0, 1.0], [0.5, 3.0, -2.0 * (1 - 1e-10)]])
    box = BoxedFaces.around(W, 2.0, 1e-6)
    assert box.is_violated
    assert (box.W == np.clip(W, -2.0, 2.0)).all()
    assert box.side.tolist() == [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]
    (found,) = box.residuals()
    assert (found.label, found.value, found.relative) == ("primal of box[1]", 1.0, 0.5)
    assert "break their box" in box.notes[0]
    # Up to tol times R is rounding.
    assert not BoxedFaces.around(np.array([[2.0 + 1e-6]]), 2.0, 1e-6).is_violated
    assert BoxedFaces.around(np.array([[2.0 + 3e-6]]), 2.0, 1e-6).is_violated
    assert "The box holds a face" in BoxedFaces.around(np.array([[2.0, 0.0]]), 2.0, 1e-6).notes[0]
    assert BoxedFaces.around(np.array([[1.0, 0.0]]), 2.0, 1e-6).notes == []
    # Without a radius it is ten times the largest entry, of either sign, and a number in any case.
    free = BoxedFaces.around(np.array([[0.5, -3.0], [0.0, 1.0]]), np.inf, 1e-6)
    assert (free.radius, free.is_violated, free.residuals()) == (30.0, False, [])
    assert not free.side.any()
    assert BoxedFaces.around(np.full((1, 2), 1e308), np.inf, 1e-6).radius == np.finfo(float).max
    assert BoxedFaces.around(np.zeros((1, 2)), np.inf, 1e-6).radius == 1.0


@pytest.mark.parametrize("certify", [certify_polyceptron, certify_pc_slp])
def test_free_multipliers_restore_the_balance(certify):
    """Times R = 1e4 an imbalance of 1e-3 would leave no bound; those at an end of their range stay there."""
    X, y = two_blobs(n=24, m=2)
    K, R, chosen = 2, 1e4, np.where(y < 0, np.arange(24) % 2, -1)
    if certify is certify_pc_slp:
        found = pc_slp.step_dual(X, y, K, chosen, 1.0, R).solve()
        caps = np.full(24, 2.0 / 24)
        u, q = np.zeros((24, K)), np.zeros(24)
        u[y > 0], q[y < 0] = np.maximum(found["u"], 0.0), np.maximum(found["q"], 0.0)
        best = found.objective
        room = (u > 1e-6) & (u.sum(axis=1) < 0.99 * caps)[:, None]
        given = {
            "u": u * np.where(room, 1.001, 1.0),
            "q": q * np.where((q > 1e-6) & (q < 0.99 * caps), 1.001, 1.0),
        }
    else:
        duals = [polyceptron.cell_dual(X, y, (y > 0) | (chosen == k), radius=R).solve() for k in range(K)]
        u = np.maximum(np.stack([d["u"] for d in duals], axis=1), 0.0)
        best = sum(d.objective for d in duals)
        given = {"u": u * np.where((u > 1e-6) & (u < 0.99), 1.001, 1.0)}
    assert (given["u"] != u).any()
    certificate = certify(X, y, np.ones((K, 3)), assignment=chosen, radius=R, **given)
    assert best * (1 - 1e-2) <= certificate.dual_value <= best * (1 + 1e-6)


def test_signs_without_multipliers_scale_by_caps():
    """Without multipliers the signs are relative to the room that the caps leave."""
    X, y = two_blobs(n=N, m=M)
    box = BoxedFaces.around(np.zeros((K, M + 1)), R, 1e-9)
    unused = np.full((N, 1), 4.0)
    unused[3] = -1.0
    residuals = conditions(X, y, np.zeros((N, K)), unused, np.zeros((N, 1)), box, 1.0)
    found = {(r.condition, r.row): r.relative for r in residuals}
    assert (found["sign", "slack"], found["stationarity", "balance"]) == (0.25, 0.0)
