"""Nodes of the spread: the best shares by their theorem and an independent solver, and bounds that rise."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.language.clock import Clock
from polyopt.cpm.global_search.face import Best
from polyopt.cpm.global_search.search import merge, solve_cpm_global
from polyopt.cpm.global_search.spread import FixedMultipliers, SpreadNode, SpreadSearch, best_shares


def fixed_multipliers(seed, faces=3, p=5, d=3):
    """Multipliers of faces with Σ e e'/d at most I, and shares; everyone may be on some face."""
    rng = np.random.default_rng(seed)
    e = rng.normal(size=(faces, p, d)) * rng.choice([0.0, 1.0], (faces, p, 1), p=[0.2, 0.8])
    length = rng.uniform(0.5, 2.0, (faces, p))
    for k in range(faces):
        most = np.linalg.eigvalsh((e[k] / length[k, :, None]).T @ e[k])[-1]
        length[k] *= max(most, 1e-3) * (1.0 + 1e-9)
    allowed = rng.random((faces, p)) < 0.7
    allowed[rng.integers(0, faces, p), np.arange(p)] = True
    share = np.where(allowed, rng.random((faces, p)) + 0.1, 0.0)
    slope = rng.normal(size=(faces, p))
    return FixedMultipliers(slope, e, length, np.ones(faces), allowed), share / share.sum(axis=0)


def means(fixed, share):
    """γ at these shares, and β."""
    total, curved, slopes = 0.0, 0.0, np.zeros_like(share)
    for k, times in enumerate(fixed.multiplicity):
        bent = np.diag(fixed.length[k]) - fixed.e[k] @ fixed.e[k].T
        part = share[k] @ bent @ share[k] / times
        total += fixed.slope[k] @ share[k] + part / 4
        curved += part / 4
        slopes[k] = fixed.slope[k] + bent @ share[k] / (2 * times)
    return total, np.where(fixed.allowed, slopes, np.inf).min(axis=0).sum() - curved


@given(st.integers(0, 10**6))
def test_best_shares_close_the_gap(seed):
    """No shares prove more than other shares cost, and the best shares prove their own cost."""
    fixed, share = fixed_multipliers(seed)
    other = fixed_multipliers(seed + 1)[1]
    other = np.where(fixed.allowed, other + 0.01, 0.0)
    other /= other.sum(axis=0)
    size = 1.0 + np.abs(fixed.slope).sum() + fixed.length.sum()
    assert means(fixed, share)[1] <= means(fixed, other)[0] + 1e-12 * size
    before = means(fixed, share)[0]
    best_shares(fixed, share, 1, 0.0)
    once = means(fixed, share)[0]
    best_shares(fixed, share, 10_000, 0.0)
    cost, proven = means(fixed, share)
    assert cost <= once + 1e-12 * size
    assert once <= before + 1e-12 * size
    assert cost - proven <= 1e-6 * size
    assert share.sum(axis=0) == pytest.approx(np.ones(5))
    assert (share >= -1e-15).all()
    assert not share[~fixed.allowed].any()


def test_best_shares_are_of_convex_program():
    """The best shares have the optimum of the convex program."""
    fixed, share = fixed_multipliers(4, faces=2, p=6)
    z = cp.Variable(share.shape, nonneg=True)
    terms = [cp.quad_form(z[k], np.diag(fixed.length[k]) - fixed.e[k] @ fixed.e[k].T, assume_PSD=True)
             for k in range(2)]  # fmt: skip
    program = cp.Problem(
        cp.Minimize(cp.sum(cp.multiply(fixed.slope, z)) + sum(terms) / 4),
        [cp.sum(z, axis=0) == 1, cp.multiply(~fixed.allowed, z) == 0],
    )
    known = program.solve(solver="CLARABEL")
    best_shares(fixed, share, 10_000, 0.0)
    assert means(fixed, share)[0] == pytest.approx(known, rel=1e-6)


def test_double_face_shares_like_two():
    """A face of multiplicity two has the cost and bound of two equal faces."""
    fixed, _ = fixed_multipliers(8, faces=2)
    fixed.allowed[:] = True
    alike = FixedMultipliers(*(part[[0, 1, 1]] for part in fixed[:3]), np.ones(3), fixed.allowed[[0, 1, 1]])
    both, each = np.full((2, 5), 0.5), np.full((3, 5), 1 / 3)
    fixed = fixed._replace(multiplicity=np.array([1.0, 2.0]))
    best_shares(fixed, both, 10_000, 0.0)
    best_shares(alike, each, 10_000, 0.0)
    assert means(fixed, both)[0] == pytest.approx(means(alike, each)[0])
    assert means(fixed, both)[1] == pytest.approx(means(alike, each)[1], abs=1e-6)


def a_search(seed, n=40, d=8, K=2):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), np.where(np.arange(n) < n // 2, 1.0, -1.0)
    data, _ = merge(X, y, np.ones(n), rng)
    known = solve_cpm_global(X, y, 1.0, K, max_nodes=20)
    best = Best(np.ascontiguousarray(known["W"]), np.array([known.objective, np.inf, 0.0]))
    return SpreadSearch(data, best, 1e-6, Clock()), (data.A[data.inside :] @ known["W"].T).argmax(axis=1)


def dive(search, face, levels):
    """Bounds of the nodes from the root along an assignment, each by its own multipliers."""
    K, allowed, parent, names, bounds = (
        len(search.best.W),
        search.heap[0].state.allowed.copy(),
        search.first_state,
        {},
        [],
    )
    for level in range(levels):
        node = SpreadNode(search.data, allowed.copy(), parent, search.unit, is_root=level == 0)
        node.raise_all(np.inf, lambda: False)
        bounds.append(node.bound)
        at = node.undecided[node.share_loss.argmax()]
        allowed[at] = np.arange(K) == names.setdefault(face[at], len(names))
        parent = node.state
    return np.array(bounds)


@pytest.mark.parametrize("K", [2, 3])
def test_a_node_proves_more_than_its_parent(K):
    """The bounds along an assignment rise, and stay below the incumbent."""
    search, face = a_search(K, K=K)
    bounds = dive(search, face, 10)
    assert (np.diff(bounds) > -0.01 * bounds[:-1]).all()
    assert bounds[-1] > bounds[0] + 0.2 * (search.best.limits[0] - bounds[0])
    assert bounds[-1] <= search.best.limits[0]


def test_singular_steps_keep_the_bound():
    """Costs and features far apart, whose steps have singular matrices, leave a bound below the optimum."""
    rng = np.random.default_rng(5000009)
    X = 1e6 * rng.normal(size=(10, 6))
    y, C = rng.choice([-1.0, 1.0], 10), rng.choice([0.5, 1.0, 30.0, 1e6], 10)
    y[:2] = 1.0, -1.0
    data, _ = merge(X, y, C, rng)
    known = solve_cpm_global(X, y, C, 3)
    search = SpreadSearch(data, Best(np.zeros((3, 7)), np.array([3 * C.sum(), np.inf, 0.0])), 1e-6, Clock())
    for _ in range(3):
        if not search.is_done:
            search.step()
    assert search.bound <= known.objective
