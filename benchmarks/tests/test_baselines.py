"""The baselines: OC1, AMM online and kernel LDA do what their papers say."""

from itertools import pairwise, product

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier

from benchmarks.baselines import AdaptiveMultiHyperplaneMachine, ObliqueTree
from benchmarks.baselines.klda import fisher_direction
from benchmarks.baselines.oc1 import Tree, best_step, climb, grow, impurity, impurity_of_sides, pruned
from formulations.language.toy_data import two_blobs
from polyopt.linalg.kernels import Kernel


def cosine(u, v):
    return u @ v / np.sqrt((u @ u) * (v @ v))


# -- OC1: one split ------------------------------------------------------------------------


def test_impurities_by_hand():
    """The Gini impurity of a split is the weighted mean of its sides'."""
    sides = np.array([[3.0, 1.0], [0.0, 4.0]])
    assert impurity(sides) == pytest.approx(4 * (1 - (9 + 1) / 16) / 8, abs=1e-15)
    assert impurity(np.array([[3.0, 0.0], [0.0, 4.0]])) == 0.0
    alone = np.array([[0.0, 0.0], [3.0, 1.0]])
    assert impurity(alone) == pytest.approx(1 - (9 + 1) / 16, abs=1e-15)


def split_data(seed, n=40, m=3):
    """Samples in columns with ties and zeros, three classes, uneven weights."""
    rng = np.random.default_rng(seed)
    columns = np.vstack([rng.integers(-3, 4, (m, n)), np.ones(n)]).astype(float)
    return columns, rng.integers(0, 3, n), rng.integers(1, 4, n) / 2, rng.normal(size=m + 1)


@pytest.mark.parametrize("seed", range(8))
def test_step_is_best_of_all_breakpoints(seed):
    """A step on one coefficient reaches the least impurity between any two breakpoints."""
    columns, codes, weights, a = split_data(seed)
    V, rest = a @ columns, (codes, weights, 3)
    for m, x in enumerate(columns):
        least, alpha = best_step(V, x, *rest)
        moving = x != 0
        U = np.unique((a[m] * x[moving] - V[moving]) / x[moving])  # eq. (1) of the paper
        between = [U[0] - 1, *((low + high) / 2 for low, high in pairwise(U)), U[-1] + 1]
        brute = [impurity_of_sides(V + (value - a[m]) * x, *rest) for value in between]
        assert least == pytest.approx(min(brute), abs=1e-12)
        assert impurity_of_sides(V + alpha * x, *rest) == pytest.approx(least, abs=1e-12)
        grid = np.linspace(U[0] - 1, U[-1] + 1, 500)
        assert least <= min(impurity_of_sides(V + (value - a[m]) * x, *rest) for value in grid) + 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_climb_ends_at_coordinate_minimum(seed):
    """No single coefficient improves the split; random jumps never make it worse."""
    columns, codes, weights, a = split_data(seed, n=60)
    rest, start = (codes, weights, 3), a.copy()
    state = np.array([seed], dtype=np.uint64)
    reached = climb(columns, *rest, a, 0, state)
    assert reached < impurity_of_sides(start @ columns, *rest)
    assert impurity_of_sides(a @ columns, *rest) == pytest.approx(reached, abs=1e-12)
    assert all(best_step(a @ columns, x, *rest)[0] >= reached - 1e-12 for x in columns)
    jumped = climb(columns, *rest, a, 200, state)
    assert jumped <= reached + 1e-12
    assert all(best_step(a @ columns, x, *rest)[0] >= jumped - 1e-12 for x in columns)


# -- OC1: the tree -------------------------------------------------------------------------


def noisy_line(n=300, seed=0, share=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = (X.sum(axis=1) > 0) ^ (rng.random(n) < share)
    return X, y.astype(int)


def test_oblique_line_takes_one_split():
    """Features of any scale need one oblique split, and a univariate tree more than ten leaves."""
    X, y = noisy_line(share=0.0)
    tree = ObliqueTree(prune=0.0, random_state=0).fit(X * [1, 1000], y)
    assert (tree.n_nodes_, tree.n_leaves_) == (3, 2)
    assert tree.score(X * [1, 1000], y) == 1.0
    w = tree.tree_.W[0]
    assert 1000 * w[1] / w[0] == pytest.approx(1.0, abs=0.1)
    assert DecisionTreeClassifier(random_state=0).fit(X, y).get_n_leaves() > 10
    T, z = noisy_line(n=2000, seed=1, share=0.0)
    assert tree.score(T * [1, 1000], z) > 0.98


def subtrees(tree: Tree, node: int = 0):
    """All sets of leaves to which a tree can be pruned."""
    yield (node,)
    if not tree.is_leaf[node]:
        left, right = tree.children[node]
        yield from (a + b for a, b in product(list(subtrees(tree, left)), list(subtrees(tree, right))))


@pytest.mark.parametrize("seed", range(4))
def test_pruning_picks_from_cost_complexity_sequence(seed):
    """The pruned tree has the least validation error of all cost-complexity optimal subtrees."""
    X, y = noisy_line(n=150, seed=seed, share=0.15)
    tree = grow(X[:100], y[:100], np.ones(100), 2, 2, 0, np.random.default_rng(seed))
    levels = tree.path(X[100:])
    error = np.zeros(len(tree.W))
    for samples, nodes in levels:
        np.add.at(error, nodes, y[100:][samples] != tree.counts[nodes].argmax(axis=1))
    risk = tree.counts.min(axis=1)
    every = list(subtrees(tree))
    risks = np.array([risk[list(leaves)].sum() for leaves in every])
    sizes = np.array([len(leaves) for leaves in every])
    more = sizes[:, None] > sizes
    breaks = np.unique(((risks - risks[:, None])[more] / (sizes[:, None] - sizes)[more]).clip(min=0.0))
    optimal = set()  # for each price of a leaf the cheapest subtree, of those the smallest
    for price in [0.0, *breaks, *(breaks[1:] + breaks[:-1]) / 2]:
        costs = risks + price * sizes
        cheap = np.flatnonzero(costs <= costs.min() + 1e-9)
        optimal.add(every[cheap[sizes[cheap].argmin()]])
    errors = sorted((error[list(leaves)].sum(), len(leaves)) for leaves in optimal)
    answer = pruned(tree, X[100:], y[100:], np.ones(50))
    found = (answer.counts[answer.leaves(X[100:])].argmax(axis=1) != y[100:]).sum()
    assert (found, answer.is_leaf.sum()) == errors[0]
    assert len(optimal) > 2


# -- AMM -----------------------------------------------------------------------------------


def xor(n=400, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    X += 0.1 * np.sign(X)
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def test_hyperplanes_are_added_for_xor():
    """XOR takes several hyperplanes per class; limited to one, the machine fails."""
    X, y = xor()
    machine = AdaptiveMultiHyperplaneMachine(lam=1e-3, epochs=20, random_state=0).fit(X, y)
    assert machine.n_weights_.min() > 1
    assert machine.score(*xor(seed=1)) > 0.95
    linear = AdaptiveMultiHyperplaneMachine(lam=1e-3, epochs=20, limit=1, random_state=0).fit(X, y)
    assert linear.n_weights_.tolist() == [1, 1]
    assert linear.score(*xor(seed=1)) < 0.75


def literal_amm(X, codes, machine):
    """AMM online as written: every weight decays at every step, norms are measured."""
    random = np.random.RandomState(machine.random_state)
    X, lam, t, gone = np.column_stack([X, np.ones(len(X))]), machine.lam, 0, 0
    W = [[np.zeros(X.shape[1])] for _ in range(codes.max() + 1)]
    for _ in range(machine.epochs):
        for i in random.permutation(len(X)):
            t += 1
            x, true = X[i], codes[i]
            own = [w @ x for w in W[true]]
            other, rival, place = max(
                ((w @ x, -k, -j) for k in range(len(W)) if k != true for j, w in enumerate(W[k])),
            )
            W = [[(1 - 1 / (t + 1)) * w for w in mine] for mine in W]
            if 1 + other - max(own) > 0:
                W[-rival][-place] -= x / (lam * (t + 1))
                if max(own) > 0 or len(own) >= machine.limit:
                    W[true][int(np.argmax(own))] += x / (lam * (t + 1))
                else:
                    W[true].append(x / (lam * (t + 1)))
            if t % machine.prune_every == 0:
                norms = sorted((w @ w, k, j) for k in range(len(W)) for j, w in enumerate(W[k]))
                drop = np.cumsum([norm for norm, _, _ in norms]) <= (machine.c / (t * lam)) ** 2
                for (_, k, j), small in zip(norms, drop, strict=True):
                    if small and sum(w is not None for w in W[k]) > 1:
                        W[k][j] = None
                        gone += 1
                W = [[w for w in mine if w is not None] for mine in W]
    return [np.array(mine) for mine in W], gone


@pytest.mark.parametrize(
    ("limit", "c", "every"),
    [
        (50, 0.0, 40),
        (50, 3.0, 40),
        (3, 3.0, 40),
        (1, 9.0, 40),
        (50, 99.0, 40),
        (50, 2.5, 2),
        (50, 4.0, 1),
        (50, 5.0, 4),
    ],
)
def test_running_sums_follow_algorithm(limit, c, every):
    """The machine has the weights of Algorithm 1, run as it is written."""
    X = np.random.default_rng(0).normal(size=(150, 3))
    codes = (np.abs(X[:, 0]) > 0.7).astype(int) + (X[:, 1] > 1)
    machine = AdaptiveMultiHyperplaneMachine(
        lam=0.01, epochs=3, limit=limit, prune_every=every, c=c, random_state=5
    ).fit(X, codes)
    expected, gone = literal_amm(X, codes, machine)
    assert machine.n_pruned_ == gone
    assert machine.n_weights_.tolist() == [len(w) for w in expected]
    assert machine.n_weights_.max() <= limit
    for ours, theirs in zip(machine.weights_, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-9)


# -- kernel LDA ----------------------------------------------------------------------------

EPS = 0.3


def scatter(X, y):
    """S_w and the means of the two classes."""
    means = [X[y == label].mean(axis=0) for label in (-1, 1)]
    return sum((X[y == k] - m).T @ (X[y == k] - m) for k, m in zip((-1, 1), means, strict=True)), means


@pytest.mark.parametrize("copies", [1, 2])  # of two copies the Gram matrix is singular
def test_linear_kernel_is_ridge_discriminant(copies):
    """With the linear kernel α gives w = (S_w + εI)⁻¹ (m₊ − m₋)."""
    X, y = (np.concatenate([part] * copies) for part in two_blobs(seed=0))
    Sw, (low, high) = scatter(X, y)
    alpha, b = fisher_direction(X @ X.T, y > 0, EPS)
    w = np.linalg.solve(Sw + EPS * np.eye(X.shape[1]), high - low)
    assert alpha @ X == pytest.approx(w, rel=1e-9)
    assert b == pytest.approx(-w @ (low + high) / 2, rel=1e-9)
    if copies == 1:
        assert cosine(Ridge(alpha=EPS, solver="cholesky").fit(X, y).coef_, w) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("kernel", [Kernel("rbf", 0.4), Kernel("poly", 0.5, 2, 1.0)], ids=repr)
def test_kernel_direction_solves_its_equations(kernel):
    """(N + εK) α is the difference of the kernel means."""
    X, y = two_blobs(seed=2)
    K = kernel(X)
    N, means = np.zeros_like(K), []
    for label in (-1, 1):
        Kc = K[:, y == label]
        n = Kc.shape[1]
        N += Kc @ (np.eye(n) - np.ones((n, n)) / n) @ Kc.T
        means.append(Kc.mean(axis=1))
    alpha, b = fisher_direction(K, y > 0, EPS)
    size = float((np.abs(N + EPS * K) @ np.abs(alpha)).max())  # of the terms that are added up
    assert (N + EPS * K) @ alpha == pytest.approx(means[1] - means[0], abs=1e-12 * size)
    assert b == pytest.approx(-alpha @ (means[0] + means[1]) / 2, abs=1e-9)
