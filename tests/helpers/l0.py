"""Data for the proofs of the L0 machine, and the value of a pattern by another solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import linprog

from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.optim.warm_lp import PersistentLP, margin_rows
from polyopt.sparse.tree import DEFAULT, L0Tree


def problem(kernel, seed=0, n=40, p=15):
    """The arguments of every program, but for the pattern: K, y, C, weights, centres (p, if rectangular)."""
    X, y = two_blobs(n=n, m=2, seed=seed)
    rng = np.random.default_rng(100 + seed)
    weights = rng.uniform(0.5, 2.0, n)
    if kernel == "linear":
        return X @ X.T, y, 0.5, weights, None
    if kernel == "rbf":
        return np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2)), y, 3.0, weights, None
    if kernel == "indefinite":
        K = np.tanh(0.5 * X @ X.T - 0.3) + 0.1 * rng.normal(size=(n, n))
        assert np.linalg.eigvalsh(K + K.T).min() < -0.1
        assert np.abs(K - K.T).max() > 0.1
        return K, y, 2.0, weights, None
    landmarks = rng.normal(size=(p, 2))
    return np.tanh(X @ landmarks.T), y, 2.0, weights, rng.choice([-1.0, 1.0], p)


def degenerate(kind):
    """Data on which programs have many optima, or none worth having: K, y, C, weights, centres."""
    rng = np.random.default_rng(3)
    X, y = rng.integers(-1, 2, size=(24, 2)).astype(float), np.resize([1.0, -1.0, -1.0], 24)
    K = X @ X.T
    if kind == "duplicates":  # each sample twice, some with both labels
        K, y = np.tile(K, (2, 2)), np.concatenate([y, np.where(np.arange(24) % 4 == 0, -y, y)])
    if kind == "lonely":
        y = np.where(np.arange(24) == 5, 1.0, -1.0)
    if kind == "one class":
        y = np.ones(24)
    if kind == "zero kernel":
        K = np.zeros((24, 24))
    weights = np.where(np.arange(len(y)) % 5 == 0, 0.0, 1.0) if kind == "weightless" else np.ones(len(y))
    return K, y, 1.5, weights, None


def patterns(p, count, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((count, p)) < rng.random((count, 1))).astype(float)


def late(p, count, seed=0):
    """Patterns as a cross-entropy run draws them when it knows most of what it wants."""
    rng = np.random.default_rng(seed)
    chances = np.where(rng.random(p) < 0.3, 0.9, 0.03)
    return (rng.random((count, p)) < chances).astype(float)


def scipy_value(K, y, C, weights, centres, sigma):
    t = y if centres is None else centres
    on = np.flatnonzero(sigma)
    rows = np.c_[-(y[:, None] * K[:, on] * t[on]), -y, -np.eye(len(y))]
    bounds = [(0, C)] * len(on) + [(None, None)] + [(0, None)] * len(y)
    found = linprog(np.r_[np.zeros(len(on) + 1), weights], rows, -np.ones(len(y)), bounds=bounds)
    assert found.status == 0
    return found.fun


def node_optimum(of, fixed):
    """Return a node's point a (p,) and multipliers u (n,) by HiGHS."""
    n, p = of.signed.shape
    # A small error in u is multiplied by K: costs are scaled so that HiGHS's tolerance suffices.
    scale = max(1.0, float(of.sizes.max(initial=0.0)))
    lp = PersistentLP(
        scale * np.concatenate([fixed < 1, [0.0], of.caps]), margin_rows(of.signed, of.y), 1.0, np.inf,
        np.concatenate([np.zeros(p), [-np.inf], np.zeros(n)]),
        np.concatenate([fixed >= 0, np.full(n + 1, np.inf)]),
    )  # fmt: skip
    solution = lp.solve()
    return np.clip(solution.x[:p], 0.0, 1.0), -solution.duals / scale


def solve_l0_tree(data, *, start=None, time_limit=None, tol=1e-6, max_nodes=None, options=DEFAULT):
    """Solve by branch and bound, from a first incumbent (alpha, b)."""
    search = L0Tree(data, tol, Clock(time_limit), options)
    if start is not None:
        search.offer(*start)
    return search.solution(search.run(search.clock, max_nodes))


def failed(solution, status=Status.FAILED):
    """A solution as HiGHS leaves it if it fails, or at a limit far from the optimum."""
    value = np.nan if status is Status.FAILED else 0.0
    return replace(solution, status=status, x=value * solution.x, duals=value * solution.duals, warm=False)
