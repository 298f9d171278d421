"""The engine of the L0 machine: one program for all patterns, and the bounds it leaves behind."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.l0 import degenerate, failed, late, patterns, problem, scipy_value

from formulations import l0
from formulations.l0_data import as_l0_data
from formulations.language.solution import Status
from polyopt.certificates import Claim
from polyopt.sparse.certificate import certify_l0
from polyopt.sparse.pattern_lp import CutPool, PatternLP

KERNELS = ["rbf", "indefinite", "rectangular"]


# -- the program of a pattern --------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_pattern_value_equals_scipy(kernel):
    """Value and bound of many patterns, prepared or not, are those of scipy, with feasible coefficients."""
    arguments = problem(kernel)
    p = arguments[0].shape[1]
    lp, prepared = PatternLP(as_l0_data(*arguments)), PatternLP(as_l0_data(*arguments))
    for batch in (patterns(p, 8, seed=1), late(p, 8, seed=2)):
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
def test_pattern_equals_the_modelling_language(kernel):
    """The value of a pattern is that of the modelling language, and its certificate is stationary."""
    K, y, C, w, t = arguments = problem(kernel)
    lp = PatternLP(as_l0_data(*arguments))
    program = l0.pattern(K, y, np.zeros(K.shape[1]), C, w, t)
    for sigma in patterns(K.shape[1], 6, seed=4):
        found = lp.solve(sigma)
        assert found.value == pytest.approx(program.set(sigma=sigma).solve().objective, rel=1e-8, abs=1e-8)
        proof = certify_l0(K, y, C, alpha=found.alpha, b=found.b, weights=w, centres=t, u=found.u)
        assert proof.claim is Claim.STATIONARY


@pytest.mark.parametrize("kind", ["ties", "duplicates", "lonely", "one class", "zero kernel", "weightless"])
def test_degenerate_patterns_are_solved(kind):
    """Ties, duplicates, one class, a zero kernel and samples without weight are solved to scipy's values."""
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
def test_empty_pattern_loses_lighter_class(kernel):
    """Without centres the loss is twice the weight of the lighter class."""
    K, y, C, w, t = problem(kernel)
    found = PatternLP(as_l0_data(K, y, C, w, t)).solve(np.zeros(K.shape[1]))
    assert found.value == pytest.approx(2 * min(w[y > 0].sum(), w[y < 0].sum()), rel=1e-12)
    assert not found.alpha.any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_pruning_keeps_the_loss(kernel):
    """Without its unused centres a pattern has the same loss, and more centres never raise it."""
    arguments = problem(kernel)
    p = arguments[0].shape[1]
    lp, rng, dropped = PatternLP(as_l0_data(*arguments)), np.random.default_rng(6), 0
    for sigma in patterns(p, 15, seed=6):
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


def test_prepared_solutions_depend_on_batch():
    # Duplicated centres: which of two is used is up to the path.
    """After a preparation the solutions depend on the batch alone, to the last bit."""
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
def test_mean_of_a_batch_bounds_it(kernel):
    """The loss of the mean pattern is at most the mean loss, and its cut is below every pattern."""
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


def test_unprepared_pattern_is_solved():
    """A pattern with centres that the preparation left out is solved all the same."""
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
def test_cut_off_is_a_proof(kernel):
    """Cut off, the bound exceeds the cutoff and the cut holds; any other result is the optimum."""
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


def test_time_limit_leaves_point_and_bound():
    """A time limit leaves a point and a bound around the optimum, which the next solve finds."""
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


def lying(count, share):
    """Change the multipliers of the next solutions by a factor."""
    left = [count]

    def change(solution, how):
        left[0] -= 1
        return replace(solution, duals=share * solution.duals) if left[0] >= 0 else solution

    return change


def test_failure_is_told(troubled):
    """A failure of HiGHS is a status without a point, and its cut proves nothing; the next solve is right."""
    lp, batch = PatternLP(as_l0_data(*problem("rbf"))), late(40, 4)
    expected, left = [lp.solve(sigma).value for sigma in batch], [1]

    def fail_once(solution, how):
        left[0] -= 1
        return failed(solution) if left[0] >= 0 else solution

    troubled(fail_once)
    found = lp.solve(batch[1])
    assert (found.status, found.value, found.bound) == (Status.FAILED, np.inf, 0.0)
    assert np.isnan(found.alpha).all()
    pool = CutPool(lp.data)
    pool.add(*found.cut)
    assert pool.bounds(batch).tolist() == [0.0] * 4
    assert lp.solve(batch[2]).value == pytest.approx(expected[2], rel=1e-8)


def test_unproven_optimum_is_solved_again(troubled):
    """An optimum that its multipliers do not prove is solved again without a basis, else it is inaccurate."""
    lp, batch = PatternLP(as_l0_data(*problem("rbf"))), late(40, 3)
    expected = lp.solve(batch[0]).value
    troubled(lying(1, 0.5))
    found = lp.solve(batch[0])
    assert (found.status, found.warm) == (Status.SOLVED, False)
    assert found.value == pytest.approx(expected, rel=1e-8)
    troubled(lying(2, 0.5))
    stuck = lp.solve(batch[0])
    assert stuck.status is Status.INACCURATE
    assert stuck.bound < expected <= stuck.value + 1e-9


def test_unproven_cutoff_is_solved_on(troubled):
    """A cutoff that its multipliers do not prove is ignored: the optimum is computed."""
    lp, batch = PatternLP(as_l0_data(*problem("rbf"))), late(40, 3)
    expected = lp.solve(batch[0]).value
    lp.prepare(batch)
    troubled(lying(1, 0.1))
    found = lp.solve(batch[0], cutoff=0.9 * expected)
    assert (found.status, found.warm) == (Status.SOLVED, True)
    assert found.value == pytest.approx(expected, rel=1e-8)
    assert lp.solve(batch[0], cutoff=0.9 * expected).status is Status.CUT_OFF


def test_unusable_pattern_is_named():
    """Numbers other than 0 and 1, and a wrong shape, are refused."""
    lp = PatternLP(as_l0_data(*problem("rbf")))
    with pytest.raises(ValueError, match="sigma must hold only 0 and 1"):
        lp.solve(np.full(40, 0.5))
    with pytest.raises(ValueError, match=r"sigma must be one pattern, of shape \(40,\)"):
        lp.solve(np.zeros((2, 40)))


# -- bounds --------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_cuts_are_valid_and_tight(kernel):
    """A cut is below the loss of every pattern, and equal to that of its own."""
    arguments = problem(kernel)
    p = arguments[0].shape[1]
    lp, pool = PatternLP(as_l0_data(*arguments)), CutPool(as_l0_data(*arguments))
    seen, new = patterns(p, 30, seed=7), patterns(p, 10, seed=8)
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


def test_full_pool_keeps_newest_cuts():
    """A full pool replaces its oldest cut."""
    pool, sigma = CutPool(as_l0_data(np.eye(3), [1, -1, 1])), np.zeros((1, 3))
    assert pool.bounds(sigma).tolist() == [0.0]
    for k in range(300):
        pool.add(300.0 - k, np.zeros(3))
        assert pool.bounds(sigma).tolist() == [300.0 - max(k - 255, 0)]
