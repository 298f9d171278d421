"""The loss, and compiled descents and sweeps, of logistic polytopes against plain loops and numpy."""

import numpy as np
import pytest
from helpers.c_parts import kernel
from helpers.draws import anywhere, drawn_calls, placed
from scipy.special import logsumexp, softmax

from formulations.class_faces import Owners
from formulations.face_penalty import FacePenalty
from polyopt.polyhedral.logistic_descent import OPTIONS, descend_faces, sample_arrays
from polyopt.polyhedral.logistic_loss import FaceLoss, Units, score_loss
from polyopt.polyhedral.logistic_newton import sweep_groups

MAX_EXPONENT, PAIRS = 700.0, OPTIONS.lbfgs_pairs
EXPONENTIALS = kernel("exponentials", "x: f8 (n); out: f8 (n)")
LOGARITHMS = kernel("logarithms", "x: f8 (n); out: f8 (n)")
LENGTHS = [0, 1, 2, 7, 255, 256, 257, 515]
OWNERS = [Owners(0, 1), Owners(2, 2), Owners(4, 1), Owners(3, 2)]


def test_elementary_functions_are_those_of_numpy():
    """e^x to 1e-15 and log x to 2e-15."""
    rng = np.random.default_rng(0)
    most = MAX_EXPONENT
    x = np.r_[rng.uniform(-most, most, 5000), rng.normal(size=5001), 0.0, most, -most]
    z = np.r_[np.exp(rng.uniform(0.0, most, 5000)), rng.uniform(1.0, 2.0, 5000), 1.0, 1.0 + 2.0**-52, 1e308]
    for given, function, expected in ((x, EXPONENTIALS, np.exp(x)), (z, LOGARITHMS, np.log(z))):
        found, single = np.empty_like(given), np.empty(1)
        function(given, found)
        assert found == pytest.approx(expected, rel=1e-15 if function is EXPONENTIALS else 2e-15, abs=0.0)
        for i in range(0, len(given), 97):  # alone or among others, the same bits
            function(given[i : i + 1], single)
            assert single[0] == found[i]


@drawn_calls("exponentials", "logarithms", n=range(36))
def test_elementary_functions_of_any_length(rng, n):
    """Arrays that begin anywhere."""
    x = rng.uniform(-MAX_EXPONENT, MAX_EXPONENT, n)
    for function, given, expected in (
        (EXPONENTIALS, x, np.exp(x)),
        (LOGARITHMS, np.exp(np.abs(x)), np.abs(x)),
    ):
        given, out = anywhere(rng, given, np.full(n, np.nan))
        function(given, out)
        np.testing.assert_allclose(out, expected, rtol=4e-15, atol=1e-15)


@pytest.mark.parametrize("owners", OWNERS, ids=str)
@pytest.mark.parametrize("t", [0.0, 0.3])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_score_loss(owners, t, n):
    """Σ c ln(1 + e^ξ), its slope in the scores, and c σ(ξ)."""
    rng, first, K = np.random.default_rng(n), owners.count_minus, owners.count
    S, c, plus = 3.0 * rng.normal(size=(n, K)), rng.uniform(size=n), rng.random(n) < 0.5
    loss, R, pulls = score_loss(S, c, plus, first, t, 2.0 * t)
    expected = 0.0
    for i in range(n):
        tops, shares = [], []
        for part, is_own in ((S[i, :first], not plus[i]), (S[i, first:], plus[i])):
            soft = t if is_own else 2.0 * t
            tops.append(soft * logsumexp(part / soft) if soft else part.max())
            shares.append(softmax(part / soft) if soft else np.eye(len(part))[part.argmax()])
        xi = (tops[0] - tops[1]) * (1.0 if plus[i] else -1.0)
        expected += c[i] * np.logaddexp(0.0, xi)
        pull = c[i] / (1.0 + np.exp(-xi))
        assert pulls[i] == pytest.approx(pull)
        ways = pull * (1.0 if plus[i] else -1.0)
        assert R[i] == pytest.approx(np.r_[ways * shares[0], -ways * shares[1]])
    assert loss == pytest.approx(expected)


def ring(rng, owners, n, m):
    """A problem of n samples, and faces to begin from."""
    X, y = rng.normal(size=(n, m)) + 2.0, np.where(rng.random(n) < 0.5, 1.0, -1.0)
    units = Units(np.append(rng.uniform(0.5, 2.0, m), 1.0), rng.normal(size=m))
    c, penalty = rng.uniform(0.0, 2.0, n), FacePenalty.of(m)
    problem = FaceLoss(X, y, c, owners, 0.3, 0.01, penalty, known_units=units)
    return problem, np.where(problem.entries, rng.normal(size=problem.shape), 0.0)


def objective(v, g, *samples_and_t):
    """The objective at v, and its slope, of a descent of no iterations."""
    value, counts = np.full(1, np.nan), np.zeros(3, dtype=np.int64)
    pairs, none, room = np.empty((0, v.size)), np.empty(0), np.empty((3, v.size))
    assert descend_faces(v, g, value, counts, pairs, pairs, none, none, room, none, *samples_and_t, 0.0) == 0
    return value[0]


@drawn_calls("descend_faces", owners=OWNERS, n=LENGTHS, m=[1, 4, 6, 9])
def test_objective_of_faces(rng, owners, n, m):
    """Value and slope are those of numpy's formula, whatever the tile."""
    problem, W = ring(rng, owners, n, m)
    v, g = anywhere(rng, problem.units.scaled(W).ravel(), np.full(W.size, np.nan))
    samples = (
        anywhere(rng, each) if isinstance(each, np.ndarray) else each for each in sample_arrays(problem)
    )
    value = objective(v, g, *samples, owners.count_minus, 0.4)
    expected, slope, _, _ = problem.smooth(W, 0.4, 0.4)
    assert value == pytest.approx(expected, rel=1e-12)
    slope = np.where(problem.entries, problem.units.scaled_gradient(slope), 0.0)
    assert g.reshape(W.shape) == pytest.approx(slope, rel=1e-9, abs=1e-9)


def test_bits_do_not_depend_on_alignment():
    """Samples that begin anywhere give the same bits."""
    problem, W = ring(np.random.default_rng(0), Owners(3, 2), 515, 6)
    v, results = problem.units.scaled(W).ravel(), set()
    for start in (0, 1):
        g, at, *samples = (placed(each, start) for each in (np.zeros(W.size), v, *sample_arrays(problem)))
        value = objective(at, g, *samples, problem.owners.count_minus, 0.4)
        results.add((value, g.tobytes()))
    assert len(results) == 1


def descent(problem, W, steps, kept=0, head=0, pairs=None):
    """The faces and objectives after so many steps."""
    v, size = problem.units.scaled(W).ravel(), W.size
    counts, values = np.array([kept, head, 0]), np.empty(steps)
    S, B = np.zeros((2, PAIRS, size)) if pairs is None else pairs
    made = descend_faces(
        v, np.full(size, np.nan), np.full(1, np.nan), counts, S, B, (S * B).sum(axis=1), np.empty(PAIRS),
        np.empty((3, size)), values, *sample_arrays(problem), problem.owners.count_minus, 0.4, 1e-12,
    )  # fmt: skip
    return v, values[:made], counts


@pytest.mark.parametrize(("kept", "head"), [(0, 0), (1, 1), (3, 3), (10, 0), (10, 4)])
def test_step_is_along_pairs_direction(kept, head):
    """H <- V'HV + ss'/s'y with V = 1 - ys'/s'y, from s'y/y'y, as a matrix; −H g, but for its length."""
    rng = np.random.default_rng(kept)
    problem, W = ring(rng, Owners(2, 2), 40, 3)
    size = W.size
    steps, bends = 0.01 * rng.normal(size=(2, PAIRS, size))
    bends += 3.0 * steps
    products = (steps * bends).sum(axis=1)
    start, g = problem.units.scaled(W).ravel(), np.empty(size)
    objective(start, g, *sample_arrays(problem), problem.owners.count_minus, 0.4)
    order, H = [(head - kept + turn) % PAIRS for turn in range(kept)], np.eye(size)
    if kept:
        H *= products[order[-1]] / (bends[order[-1]] @ bends[order[-1]])
    for p in order:
        V = np.eye(size) - np.outer(bends[p], steps[p]) / products[p]
        H = V.T @ H @ V + np.outer(steps[p], steps[p]) / products[p]
    moved = descent(problem, W, 1, kept, head, (steps, bends))[0] - start
    way = -H @ g
    assert moved / np.linalg.norm(moved) == pytest.approx(way / np.linalg.norm(way), abs=1e-7)


@drawn_calls("descend_faces", owners=OWNERS, n=[0, 1, 2, 35, 300], m=range(1, 10), steps=[1, 2, 9])
def test_descent_goes_down(rng, owners, n, m, steps):
    """No objective is above the one before, and the last is that of the faces."""
    problem, W = ring(rng, owners, n, m)
    v, values, counts = descent(problem, W, steps)
    start = problem.smooth(W, 0.4, 0.4)[0]
    assert (np.diff(np.r_[start, values]) <= 1e-12 * start).all()
    assert counts[2] == 1 or len(values) == steps
    end = problem.units.unscaled(v.reshape(W.shape))
    assert problem.smooth(end, 0.4, 0.4)[0] == pytest.approx(values[-1] if len(values) else start, rel=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_descent_ends(n):
    """A descent comes to an end of its own."""
    counts = descent(*ring(np.random.default_rng(0), Owners(2, 2), n, 3), 500)[2]
    assert counts[2] == 1


def test_nan_ends_a_descent():
    """No step is made from faces whose objective is NaN."""
    problem, W = ring(np.random.default_rng(0), Owners(1, 1), 5, 2)
    W[0, 0] = np.nan
    _, values, counts = descent(problem, W, 5)
    assert (len(values), counts[2]) == (0, 1)


@drawn_calls("sweep_groups", size=[0, 1, 2, 7, 19], sweeps=[0, 1, 3])
def test_sweeps_lower_groups_in_turn(rng, size, sweeps):
    """Entry by entry if the group has no price, else by a proximal step; the slope keeps up."""
    root = rng.normal(size=(size, 2 * size))
    H, v, r = anywhere(rng, root @ root.T + 0.1 * np.eye(size), *rng.normal(size=(2, size)))
    up, down = anywhere(rng, *rng.uniform(0.0, 1.0, (2, size)))
    up[::3] = np.inf
    bounds = np.array([0, size // 2, size // 2, size])  # the second group is empty
    begins, ends, members = bounds[:-1].copy(), bounds[1:].copy(), anywhere(rng, rng.permutation(size))
    prices, steep = np.array([0.0, 0.5, 0.4]), np.full(3, np.linalg.norm(H, 2) if size else 1.0)
    mine, slope = v.copy(), r.copy()
    for _ in range(sweeps):
        for begin, end, price, L in zip(begins, ends, prices, steep, strict=True):
            group = members[begin:end]
            for part in [group] if price else group[:, None]:
                own = L if price else H[part, part]
                pull = own * mine[part] - slope[part]
                new = np.maximum(pull - up[part], 0.0) - np.maximum(-pull - down[part], 0.0)
                length = np.linalg.norm(new)
                new *= max(length - price, 0.0) / length / own if length > 0.0 else 0.0
                slope += H[:, part] @ (new - mine[part])
                mine[part] = new
    sweep_groups(H, r, v, begins, ends, members, up, down, prices, steep, np.empty(size), sweeps)
    assert v == pytest.approx(mine, rel=1e-10, abs=1e-12)
    assert r == pytest.approx(slope, rel=1e-10, abs=1e-12)
