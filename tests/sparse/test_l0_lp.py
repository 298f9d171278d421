"""The engine of the L0 machine: one program for all patterns, and the bounds it leaves behind."""

from __future__ import annotations

import highspy
import numpy as np
import pytest
from helpers.l0 import degenerate, late, patterns, problem, scipy_value

from formulations import l0
from formulations.l0_data import as_l0_data
from formulations.language.solution import Status
from polyopt.certificates import Claim
from polyopt.sparse.certificate import certify_l0
from polyopt.sparse.pattern_lp import CutPool, PatternLP

KERNELS = ["linear", "rbf", "indefinite", "rectangular"]


# -- the program of a pattern --------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_equals_scipy_on_many_patterns(kernel):
    arguments = problem(kernel)
    p = arguments[0].shape[1]
    lp, prepared = PatternLP(as_l0_data(*arguments)), PatternLP(as_l0_data(*arguments))
    for batch in (patterns(p, 15, seed=1), late(p, 15, seed=2)):
        prepared.prepare(batch)
        for sigma in batch:
            expected = scipy_value(*arguments, sigma)
            for found in (lp.solve(sigma), prepared.solve(sigma)):
                assert found.status is Status.SOLVED
                assert found.value == pytest.approx(expected, rel=1e-8, abs=1e-8)
                assert found.bound == pytest.approx(expected, rel=1e-8, abs=1e-8)
                assert (found.alpha >= 0).all()
                assert (found.alpha <= lp.data.C * sigma).all()
                assert lp.data.loss(found.alpha, found.b) == found.value


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_equals_the_modelling_language(kernel):
    """It equals the modelling language and passes the certificate."""
    K, y, C, w, t = arguments = problem(kernel)
    lp = PatternLP(as_l0_data(*arguments))
    program = l0.pattern(K, y, np.zeros(K.shape[1]), C, w, t)
    for sigma in patterns(K.shape[1], 15, seed=4):
        found = lp.solve(sigma)
        assert found.value == pytest.approx(program.set(sigma=sigma).solve().objective, rel=1e-8, abs=1e-8)
        proof = certify_l0(K, y, C, alpha=found.alpha, b=found.b, weights=w, centres=t, u=found.u)
        assert proof.claim is Claim.STATIONARY


@pytest.mark.parametrize("kind", ["ties", "duplicates", "lonely", "one class", "zero kernel", "weightless"])
def test_degenerate_data_are_no_trouble(kind):
    arguments = degenerate(kind)
    p = arguments[0].shape[1]
    lp, batch = PatternLP(as_l0_data(*arguments)), patterns(p, 20, seed=3)
    lp.prepare(batch[:15])
    for sigma in batch:
        found = lp.solve(sigma)
        assert found.status is Status.SOLVED
        assert found.value == pytest.approx(scipy_value(*arguments, sigma), rel=1e-8, abs=1e-8)
        assert found.value - found.bound == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_without_centres_the_lighter_class_is_lost_twice(kernel):
    K, y, C, w, t = problem(kernel)
    found = PatternLP(as_l0_data(K, y, C, w, t)).solve(np.zeros(K.shape[1]))
    assert found.value == pytest.approx(2 * min(w[y > 0].sum(), w[y < 0].sum()), rel=1e-12)
    assert not found.alpha.any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_pruning_keeps_the_loss_and_more_centres_never_raise_it(kernel):
    arguments = problem(kernel)
    p = arguments[0].shape[1]
    lp, rng, dropped = PatternLP(as_l0_data(*arguments)), np.random.default_rng(6), 0
    for sigma in patterns(p, 30, seed=6):
        whole = lp.solve(sigma)
        kept = lp.data.support(whole.alpha)
        pruned = lp.solve(kept)
        assert pruned.value == pytest.approx(whole.value, rel=1e-8, abs=1e-8)
        score = lp.data.score(whole.alpha, whole.b)
        assert score <= lp.data.pattern_score(sigma, whole.value) + 1e-6
        assert score == pytest.approx(lp.data.pattern_score(kept, whole.value), abs=1e-6)
        dropped += int(sigma.sum() - kept.sum())
        more = lp.solve(np.maximum(sigma, rng.random(p) < 0.1))
        assert more.value <= whole.value + 1e-8
    assert dropped > 0


def test_prepared_the_answers_depend_on_the_batch_alone():
    # Duplicated centres: which of two is used is up to the path.
    K, y, C, w, t = degenerate("duplicates")
    batch = late(len(y), 40, seed=1)
    here, there = PatternLP(as_l0_data(K, y, C, w, t)), PatternLP(as_l0_data(K, y, C, w, t))
    for sigma in patterns(len(y), 10):
        there.solve(sigma)  # another past
    here.prepare(batch)
    there.prepare(batch)
    first = [here.solve(sigma) for sigma in batch]
    order = np.random.default_rng(0).permutation(40)[:25]  # another order, and not all of them
    for i, again in zip(order, [there.solve(batch[i]) for i in order], strict=True):
        assert again.alpha.tolist() == first[i].alpha.tolist()
        assert again.u.tolist() == first[i].u.tolist()
        assert again.b == first[i].b


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_mean_of_a_batch_is_below_it_and_its_cut_holds(kernel):
    arguments = problem(kernel)
    p = arguments[0].shape[1]
    lp, batch = PatternLP(as_l0_data(*arguments)), late(p, 30)
    mean = lp.prepare(batch)
    assert mean.status is Status.SOLVED
    assert (mean.alpha <= lp.data.C * batch.mean(axis=0)).all()
    values = np.array([lp.solve(sigma).value for sigma in batch])
    assert mean.value <= values.mean() + 1e-9  # L is convex in the caps
    constant, slopes = mean.cut
    assert (constant - batch @ slopes <= values + 1e-9).all()
    assert (constant - batch @ slopes).mean() == pytest.approx(mean.value, abs=1e-8)


def test_a_pattern_that_was_not_prepared_is_solved():
    """A pattern outside what was prepared is solved all the same."""
    arguments = problem("rbf")
    lp, batch = PatternLP(as_l0_data(*arguments)), late(40, 10)
    lp.prepare(batch)
    everything = np.ones(40)
    assert not batch.any(axis=0).all()
    assert lp.solve(everything).value == pytest.approx(scipy_value(*arguments, everything), rel=1e-8)
    lp.prepare(np.empty((0, 40)))  # nothing is arranged for
    assert lp.solve(batch[0]).value == pytest.approx(scipy_value(*arguments, batch[0]), rel=1e-8)


# -- stopped by a cutoff -------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_cut_off_is_a_proof_and_any_other_answer_is_the_optimum(kernel):
    arguments = problem(kernel)
    p = arguments[0].shape[1]
    rng, pool = np.random.default_rng(11), CutPool(as_l0_data(*arguments))
    whole, lp, prepared = (PatternLP(as_l0_data(*arguments)) for _ in range(3))
    batches, cut_off, above = (patterns(p, 20, seed=12), late(p, 20, seed=13)), 0, 0
    values = {}
    for batch in batches:
        prepared.prepare(batch)
        for sigma in batch:
            expected = scipy_value(*arguments, sigma)
            values[sigma.tobytes()] = value = whole.solve(sigma).value
            assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)
            cutoff = expected * (1.0 + rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-6, 0))
            above += cutoff < expected
            for found in (lp.solve(sigma, cutoff=cutoff), prepared.solve(sigma, cutoff=cutoff)):
                if found.status is Status.CUT_OFF:
                    cut_off += 1
                    assert cutoff < found.bound <= value + 1e-9
                    constant, slopes = found.cut
                    assert found.bound == pytest.approx(max(constant - slopes @ sigma, 0.0), rel=1e-12)
                    assert found.value == np.inf
                    assert np.isnan(found.alpha).all()
                    assert np.isnan(found.b)
                    pool.add(*found.cut)
                else:
                    assert found.status is Status.SOLVED
                    assert found.value == pytest.approx(expected, rel=1e-8, abs=1e-8)
    # HiGHS looks every few pivots; programs as small as these are often solved by then.
    assert 5 < cut_off <= 2 * above
    for batch in batches:
        bounds = pool.bounds(batch)
        assert (bounds <= np.array([values[sigma.tobytes()] for sigma in batch]) + 1e-9).all()
        assert bounds.mean() > 0


# -- when things go wrong ------------------------------------------------------------------


def test_a_time_limit_leaves_a_point_and_a_bound():
    arguments = problem("rbf", n=150)
    lp, sigma = PatternLP(as_l0_data(*arguments)), np.ones(150)
    expected = lp.solve(sigma).value
    stopped = PatternLP(as_l0_data(*arguments))
    found = stopped.solve(sigma, time_limit=0.0)
    assert found.status is Status.TIME_LIMIT
    assert found.bound <= expected <= found.value < np.inf
    assert stopped.data.loss(found.alpha, found.b) == found.value
    assert stopped.solve(sigma).value == pytest.approx(expected, rel=1e-8)
    stopped.prepare(late(150, 5), time_limit=0.0)  # no basis to begin from is no reason to fail
    assert stopped.solve(late(150, 5)[0]).status is Status.SOLVED


def broken(lp, times):
    """Let the model fail the next times that it is run."""
    run, left = lp._lp._highs.run, [times]

    def fails():
        left[0] -= 1
        return highspy.HighsStatus.kError if left[0] >= 0 else run()

    lp._lp._highs.run = fails


def test_a_failure_is_counted_not_raised():
    lp, batch = PatternLP(as_l0_data(*problem("rbf"))), late(40, 4)
    expected = [lp.solve(sigma).value for sigma in batch]
    lp.prepare(batch)
    broken(lp, 1)
    once = lp.solve(batch[0])
    assert (once.status, once.warm) == (Status.SOLVED, False)
    assert once.value == pytest.approx(expected[0], rel=1e-8)
    broken(lp, 2)
    twice = lp.solve(batch[1])
    assert twice.status is Status.FAILED
    assert (twice.value, twice.bound) == (np.inf, 0.0)
    assert np.isnan(twice.alpha).all()
    pool = CutPool(lp.data)
    pool.add(*twice.cut)  # proves nothing, and does no harm
    assert pool.bounds(batch).tolist() == [0.0] * 4
    after = lp.solve(batch[2])
    assert after.status is Status.SOLVED
    assert after.value == pytest.approx(expected[2], rel=1e-8)


def test_an_unproven_optimum_is_solved_again():
    """An optimum that its multipliers do not prove is solved again."""
    lp, batch = PatternLP(as_l0_data(*problem("rbf"))), late(40, 3)
    expected = lp.solve(batch[0]).value
    solution, left = lp._lp._highs.getSolution, [1]

    def lies():
        found = solution()
        left[0] -= 1
        if left[0] >= 0:
            found.row_dual = [0.5 * u for u in found.row_dual]
        return found

    lp._lp._highs.getSolution = lies
    found = lp.solve(batch[0])
    assert (found.status, found.warm) == (Status.SOLVED, False)
    assert found.value == pytest.approx(expected, rel=1e-8)
    left[0] = 2
    stuck = lp.solve(batch[0])
    assert stuck.status is Status.INACCURATE
    assert stuck.bound < expected <= stuck.value + 1e-9


def test_an_unproven_cutoff_is_not_believed():
    """A cutoff that its multipliers do not prove is not believed."""
    lp, batch = PatternLP(as_l0_data(*problem("rbf"))), late(40, 3)
    expected = [lp.solve(sigma).value for sigma in batch]
    lp.prepare(batch)
    solution, left = lp._lp._highs.getSolution, [1]

    def lies():
        found = solution()
        left[0] -= 1
        if left[0] >= 0:
            found.row_dual = [0.1 * u for u in found.row_dual]
        return found

    lp._lp._highs.getSolution = lies
    found = lp.solve(batch[0], cutoff=0.9 * expected[0])
    assert (found.status, found.warm) == (Status.SOLVED, True)
    assert found.value == pytest.approx(expected[0], rel=1e-8)
    assert lp.solve(batch[0], cutoff=0.9 * expected[0]).status is Status.CUT_OFF
    broken(lp, 1)  # what is begun anew goes on to the optimum
    assert lp.solve(batch[1], cutoff=0.5 * expected[1]).value == pytest.approx(expected[1], rel=1e-8)
    broken(lp, 2)
    assert lp.solve(batch[2], cutoff=0.5 * expected[2]).status is Status.FAILED


def test_what_is_no_pattern_is_named():
    lp = PatternLP(as_l0_data(*problem("rbf")))
    with pytest.raises(ValueError, match="sigma must hold only 0 and 1"):
        lp.solve(np.full(40, 0.5))
    with pytest.raises(ValueError, match=r"sigma must be one pattern, of shape \(40,\)"):
        lp.solve(np.zeros((2, 40)))


# -- bounds --------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_cut_is_valid_everywhere_and_tight_at_home(kernel):
    arguments = problem(kernel)
    p = arguments[0].shape[1]
    lp, pool = PatternLP(as_l0_data(*arguments)), CutPool(as_l0_data(*arguments))
    seen, new = patterns(p, 40, seed=7), patterns(p, 25, seed=8)
    for sigma in seen:
        found = lp.solve(sigma)
        pool.add(*found.cut)
        constant, slopes = found.cut
        assert constant - slopes @ sigma == pytest.approx(found.value, abs=1e-8)
    # Evaluated at a point, so never under L(σ); scipy's are, by its tolerance.
    values = np.array([lp.solve(sigma).value for sigma in new])
    assert values == pytest.approx([scipy_value(*arguments, sigma) for sigma in new], rel=1e-8)
    bounds = pool.bounds(new)
    assert (bounds <= values + 1e-9).all()
    assert (bounds >= 0).all()
    assert bounds.mean() > 0.3 * values.mean()
    assert pool.bounds(seen) == pytest.approx([lp.solve(sigma).value for sigma in seen], abs=1e-8)


def test_a_full_pool_keeps_the_newest_cuts():
    pool, sigma = CutPool(as_l0_data(np.eye(3), [1, -1, 1])), np.zeros((1, 3))
    assert pool.bounds(sigma).tolist() == [0.0]
    for k in range(300):
        pool.add(300.0 - k, np.zeros(3))
        assert pool.bounds(sigma).tolist() == [300.0 - max(k - 255, 0)]
