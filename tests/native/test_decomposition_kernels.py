"""Slopes, sums of kernel rows and pair steps of the decomposition solver, against plain numpy."""

import numpy as np
import pytest
from helpers.draws import TYPES, anywhere, drawn_calls

from formulations.families import Pieces
from polyopt.margin.decomposition.driver import CachedRows, solve_pairs
from polyopt.margin.decomposition.state import combine_rows, derivatives, gather_square

LENGTHS = [0, 1, 2, 3, 8, 13, 40]
FLAT, LEAST = 1e-12, 1e-300


def a_phi(rng, n, k=2):
    """Kinks of small integers, some infinite, and descending slopes."""
    ends = np.sort(rng.integers(-2, 3, (k, n)).astype(float), axis=0)
    slopes = -np.sort(-rng.integers(-2, 3, (k + 1, n)).astype(float), axis=0)
    if k > 1:
        ends[-1, rng.random(n) < 0.2] = np.inf
    return Pieces(*anywhere(rng, ends, slopes))


def slopes_of(beta, phi):
    """Slopes of φ to the right and to the left of every β_i."""
    every = np.arange(len(beta))
    right, left = ((compare(beta, phi.ends)).sum(axis=0) for compare in (np.greater_equal, np.greater))
    return phi.slopes[right, every], phi.slopes[left, every]


@drawn_calls("gains", n=[*LENGTHS, 35], k=[0, 1, 2, 4])
def test_gains_are_slopes_less_outputs(rng, n, k):
    """At kinks and beside them; the extremes of no samples are infinite."""
    phi = a_phi(rng, n, k)
    g, beta = anywhere(rng, rng.normal(size=n), rng.integers(-3, 4, n) / rng.choice([1, 2], n))
    right, left = slopes_of(beta, phi)
    rise, fall, m, M = derivatives(g, beta, phi)
    assert np.array_equal(rise, right - g)
    assert np.array_equal(fall, left - g)
    assert (m, M) == (rise.max(initial=-np.inf), fall.min(initial=np.inf))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 12])
def test_extremes_of_nan_are_nan(value, place):
    """An output that is no number shows in the extremes."""
    rng = np.random.default_rng(0)
    phi, g = a_phi(rng, 13), rng.normal(size=13)
    g[place] = value
    _, _, m, M = derivatives(g, np.zeros(13), phi)
    assert not m - M <= 1e300
    assert np.isnan([m, M]).all()


# -- kernel rows ---------------------------------------------------------------------------------


@drawn_calls("combine_rows", r=[0, 1, 2, 4, 9], w=[*LENGTHS, 69], dtype=TYPES)
def test_rows_are_summed_by_weights(rng, r, w, dtype):
    """From a column on; the same to the last bit when the columns are cut anywhere."""
    table, weights, before = anywhere(
        rng, *(rng.normal(size=shape).astype(dtype) for shape in ((11, w + 5), r, w))
    )
    slots, start = rng.integers(0, 11, r), int(rng.integers(0, 6))
    total, pieces = before.copy(), before.copy()
    combine_rows(table, slots, weights, start, total)
    wanted = before + weights.astype(float) @ table[slots, start : start + w].astype(float)
    assert total == pytest.approx(wanted, abs=20 * (r + 10) * float(np.finfo(dtype).eps))
    cut = int(rng.integers(0, w + 1))
    for first, last in ((0, cut), (cut, w)):
        combine_rows(table, slots, weights, start + first, pieces[first:last])
    assert np.array_equal(total, pieces)


@drawn_calls("gather_square", q=[*LENGTHS, 49], dtype=TYPES)
def test_gathered_square_is_symmetric(rng, q, dtype):
    """Of rows that differ in their last digits."""
    table = anywhere(rng, rng.normal(size=(50, 60)).astype(dtype))
    slots, places = anywhere(rng, *(rng.permutation(count)[:q] for count in table.shape))
    part = table[slots[:, None], places]
    assert np.array_equal(gather_square(table, slots, places), np.triu(part) + np.triu(part, 1).T)


# -- pair steps ----------------------------------------------------------------------------------


def first_of_lanes(values):
    """Place of the largest, of equal ones the first in the first of eight lanes; NaN is never the best."""
    best = np.flatnonzero(values == np.nanmax(values))
    return int(best[np.lexsort((best, best % 8))[0]])


def pair_step(K, g, beta, phi, tol):
    """Change g and beta by one step, and return the samples whose rows were wanted; none if no pair gains."""
    (right, left), diagonal = slopes_of(beta, phi), K.diagonal()
    m, M = np.nanmax(right - g), np.nanmin(left - g)
    if not m - M > tol:
        return []
    i = first_of_lanes(right - g)
    ends = diagonal[i] + diagonal
    bend, drop = np.maximum(np.maximum(ends - 2.0 * K[i], FLAT * ends), LEAST), (m - left) + g
    gain = np.where(drop > 0.0, drop**2 * np.float32(diagonal.max() / bend), -1.0)
    j = first_of_lanes(gain)
    if gain[j] < 0.0:
        return [i]
    above = min((end for end in phi.ends[:, i] if end > beta[i]), default=np.inf)
    below = max((end for end in phi.ends[:, j] if end < beta[j]), default=-np.inf)
    length = min((m - (left[j] - g[j])) / bend[j], above - beta[i], beta[j] - below)
    beta[i] = above if length == above - beta[i] else beta[i] + length
    beta[j] = below if length == beta[j] - below else beta[j] - length
    g += length * (K[i] - K[j])
    return [i, j]


def assert_steps(source, K, phi, g, *, tol=1e-3, steps=12):
    """Each step from where the kernel stands is the reference's; all at once lead to the same bits."""
    q, diagonal = len(g), K.diagonal().copy()
    start, beta, wanted, count = g.copy(), np.zeros(q), set(), 0
    for _ in range(steps):
        g_wanted, beta_wanted = g.copy(), beta.copy()
        rows = pair_step(K, g_wanted, beta_wanted, phi, tol)
        moves = len(rows) == 2
        assert solve_pairs(source, diagonal, g, beta, phi, tol, q, 1) == (int(moves), len(rows))
        assert beta == pytest.approx(beta_wanted, rel=1e-8, abs=1e-10)
        assert g == pytest.approx(g_wanted, rel=1e-8, abs=1e-10, nan_ok=True)
        wanted.update(rows)
        count += moves
        if not moves:
            break
    beta_found = np.zeros(q)
    assert solve_pairs(source, diagonal, start, beta_found, phi, tol, q, steps) == (count, len(wanted))
    assert np.array_equal(beta_found, beta)
    assert np.array_equal(start, g, equal_nan=True)
    return beta


def a_hinge(rng, q):
    """φ of an SVM or an RMM with random costs and labels."""
    y, C, B = rng.choice([-1.0, 1.0], q), rng.integers(1, 4, q) / 2.0, rng.choice([1.5, np.inf])
    ends = np.sort(np.stack([np.zeros(q), y * C]), axis=0)
    return Pieces(ends, np.stack([np.full(q, B), y, np.full(q, -B)]))


@drawn_calls("solve_pairs_held", q=LENGTHS[1:], dtype=TYPES, steps=range(13))
def test_pair_steps_are_the_algorithm(rng, q, dtype, steps):
    """On rows of other samples' places in a table."""
    A = rng.normal(size=(q + 3, q))
    table, g = anywhere(rng, (A @ A.T / q).astype(dtype), rng.normal(size=q) / 4)
    slots = places = rng.permutation(q + 3)[:q]
    K = table[slots[:, None], places].astype(float)
    assert_steps(CachedRows(table, slots, places), K, a_hinge(rng, q), g, steps=steps)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("q", [2, 9, 24, 41])
def test_first_of_equal_pairs_moves(q, dtype):
    """Ties are broken by the order of samples."""
    K = np.where(np.arange(q)[:, None] % 4 == np.arange(q) % 4, 2.0, 1.0)
    every = np.arange(q)
    assert_steps(
        CachedRows(K.astype(dtype), every, every), K, a_hinge(np.random.default_rng(q), q), np.zeros(q)
    )


@pytest.mark.parametrize("place", [0, 5, 8])
def test_sample_without_output_never_moves(place):
    """A NaN is in no pair."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(9, 9))
    K, g, every = A @ A.T, np.zeros(9), np.arange(9)
    g[place] = np.nan
    beta = assert_steps(CachedRows(K, every, every), K, a_hinge(rng, 9), g)
    assert beta.any()
    assert beta[place] == 0.0


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7])
def test_steps_end_before_there_is_no_room(rows):
    """For a step there must be room for two rows more, unless there is room for all."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(8, 8))
    K, every, g, beta = A @ A.T, np.arange(8), np.zeros(8), np.zeros(8)
    taken, count = solve_pairs(
        CachedRows(K, every, every), K.diagonal().copy(), g, beta, a_hinge(rng, 8), 1e-9, rows, 99
    )
    assert count <= rows
    assert (taken > 0) == (rows >= 2)
    assert g == pytest.approx(K @ beta, abs=1e-12)


def test_no_samples_take_no_steps():
    """An empty working set is left at once."""
    none, phi = np.zeros(0), Pieces(np.zeros((2, 0)), np.zeros((3, 0)))
    places = np.zeros(0, dtype=np.int64)
    source = CachedRows(np.zeros((2, 3)), places, places)
    assert solve_pairs(source, none, none, none, phi, 1e-3, 5, 10) == (0, 0)
