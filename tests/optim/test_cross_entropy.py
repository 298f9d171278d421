"""The cross-entropy method for 0-1 problems: what it finds, what it counts, and how it ends."""

import doctest
from itertools import product
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from formulations.language import clock
from formulations.language.solution import Status
from polyopt import cross_entropy_minimize
from polyopt.base.progress import records_to
from polyopt.optim import cross_entropy
from polyopt.optim.cross_entropy import Rules, search, with_ties

COURSE = ("iteration", "best", "elite_threshold", "mean_p", "entropy", "evaluations")


def separable(n, seed):
    """A sum of costs, positive and negative, and the pattern that takes the negative ones."""
    c = np.random.default_rng(seed).normal(size=n)
    return (lambda pattern: float(c[pattern].sum())), c < 0


def rugged(n, seed, digits=None):
    """A quadratic score with interactions, which n bits have to be searched for."""
    rng = np.random.default_rng(seed)
    Q, c = rng.normal(size=(n, n)), rng.normal(size=n)
    if digits is not None:
        Q, c = Q.round(digits), c.round(digits)
    return lambda pattern: float(pattern @ Q @ pattern + c @ pattern)


def least(score, n):
    return min(score(np.array(bits, dtype=bool)) for bits in product((0, 1), repeat=n))


def course(found, *columns):
    return [tuple(record[column] for column in columns or COURSE) for record in found.history]


class Recorder:
    """A score that remembers what it was asked, and may fail in between."""

    def __init__(self, score, trouble=None):
        self.score, self.trouble, self.asked = score, trouble, []

    def __call__(self, pattern):
        self.asked.append(tuple(pattern.tolist()))
        if self.trouble is not None:
            self.trouble(len(self.asked))
        return self.score(pattern)


def searched(scorer, n, p0=0.5, incumbents=None, time_limit=None, random_state=0, **rules):
    """The search of a scorer of batches."""
    return search(
        scorer, np.broadcast_to(p0, n).astype(float), Rules(**rules),
        incumbents=np.empty((0, n), bool) if incumbents is None else np.asarray(incumbents, bool),
        lower_bound=-inf, clock=clock.Clock(time_limit), rng=np.random.default_rng(random_state),
    )  # fmt: skip


def screening(score, mask=True):
    """A scorer of batches that leaves out and counts patterns over the threshold, and masks the elite."""

    def scored(patterns, threshold, n_elite):
        values = np.array([score(pattern) for pattern in patterns])
        if len(values) >= n_elite:
            threshold = min(threshold, with_ties(np.sort(values)[n_elite - 1]))
        for row in np.flatnonzero(values <= threshold):
            better = patterns[row] & mask
            yield row, values[row], better, score(better)
        scored.screened += int((values > threshold).sum())

    scored.screened = 0
    return scored


def scripted(values):
    """A scorer that has its own scores for each iteration: values (iterations, samples)."""
    rows = iter(values)
    return lambda patterns, threshold, n_elite: [
        (row, value, patterns[row], value) for row, value in enumerate(next(rows))
    ]


# -- what it finds ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_negative_costs_are_chosen(seed):
    """Of a sum of costs the negative ones are chosen, and the probabilities say so."""
    score, optimum = separable(40, seed)
    found = cross_entropy_minimize(score, 40, n_samples=200, patience=10, random_state=seed)
    assert (found.pattern == optimum).all()
    assert found.value == score(optimum)
    assert ((found.p > 0.5) == optimum).all()
    assert found.status is Status.CONVERGED


def knapsack(seed):
    rng = np.random.default_rng(seed)
    worth, weight = rng.integers(5, 60, 12), rng.integers(5, 60, 12)
    room = weight.sum() // 2
    return lambda pattern: float(max(weight[pattern].sum() - room, 0) * 100 - worth[pattern].sum())


def subset_sum(seed):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(1, 100, 12)
    return lambda pattern: float(abs(numbers[pattern].sum() - numbers.sum() // 3))


def max_cut(seed):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.integers(1, 30, (12, 12)) * (rng.random((12, 12)) < 0.5), 1)
    return lambda side: -float(weights[side[:, None] != side[None, :]].sum())


@pytest.mark.parametrize("problem", [knapsack, subset_sum, max_cut])
def test_small_problems_are_solved_as_by_enumeration(problem):
    """Knapsacks, subset sums and cuts are solved as by enumeration."""
    for seed in range(3):
        score = problem(seed)
        runs = [cross_entropy_minimize(score, 12, random_state=[seed, run]) for run in range(4)]
        assert min(found.value for found in runs) == least(score, 12)
        assert all(found.value == score(found.pattern) for found in runs)


def test_the_printed_quantile_does_not_concentrate():
    """With the printed quantile 1 - ρ the probabilities do not concentrate, with ρ they do."""
    score = rugged(60, 0)
    settings = {"n_samples": 100, "max_iter": 22, "patience": 22}
    ours = cross_entropy_minimize(score, 60, rho=0.1, **settings)
    printed = cross_entropy_minimize(score, 60, rho=0.9, **settings)
    assert printed.history[-1]["entropy"] > 0.6
    assert ours.history[-1]["entropy"] < 0.1
    assert ours.value < printed.value


def test_features_of_a_regression_are_selected():
    """The features of a regression are selected by their extended BIC."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 15))
    support = np.isin(np.arange(15), [2, 3, 7, 12])
    X[:, 4] = X[:, 3] + 0.3 * rng.normal(size=80)  # and one that looks like another
    y = X[:, support] @ [1.0, -0.8, 0.6, 0.9] + 0.3 * rng.normal(size=80)

    def extended_bic(features):
        residual = y - y.mean()
        if features.any():
            residual = y - LinearRegression().fit(X[:, features], y).predict(X[:, features])
        return len(y) * np.log(np.mean(residual**2)) + (np.log(len(y)) + 2 * np.log(15)) * features.sum()

    found = cross_entropy_minimize(extended_bic, 15, n_samples=60)
    assert (found.pattern == support).all()


# -- what it does in an iteration ------------------------------------------------------------


@pytest.mark.parametrize(("n_samples", "rho"), [(50, 0.1), (100, 0.07), (30, 0.01), (7, 1.0), (40, 0.33)])
def test_p_moves_to_elite_share(n_samples, rho):
    """p moves to the share of the elite, ties included, smoothed by beta."""
    settings = {"n_samples": n_samples, "rho": rho, "beta": 0.3, "max_iter": 1}
    p0 = np.linspace(0.2, 0.8, 6)
    found = cross_entropy_minimize(lambda b: int(b.sum()), 6, p0=p0, random_state=5, **settings)
    drawn = np.random.default_rng(5).random((n_samples, 6)) < p0
    sizes = drawn.sum(axis=1)
    threshold = np.quantile(sizes, rho, method="inverted_cdf")
    elite = drawn[sizes <= threshold]
    assert found.history[0]["elite_threshold"] == threshold
    assert found.p == pytest.approx(0.3 * p0 + 0.7 * elite.mean(axis=0), abs=1e-15)
    if rho == 0.1:
        assert len(elite) > 5  # ties there are


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_scores_within_rounding_tie(sign):
    """Scores that differ by a solver's rounding tie, with and without screening."""
    noise = np.random.default_rng(0)

    def sizes(pattern):
        return sign * (7.0 + pattern.sum())

    def noisy(pattern):  # as a solver's values are, that depend on where it started from
        return sizes(pattern) * (1 + 1e-13 * noise.normal())

    exact, rough = (cross_entropy_minimize(score, 30, random_state=1) for score in (sizes, noisy))
    scorer = screening(noisy)
    screened = searched(scorer, 30, random_state=1)
    for found in (rough, screened):
        assert (found.p == exact.p).all()
        assert found.iterations == exact.iterations
    assert scorer.screened > 100


@pytest.mark.parametrize(
    ("n_samples", "rho", "elite"), [(100, 0.07, 7), (100, 0.071, 8), (20, 0.01, 1), (9, 1, 9)]
)
def test_elite_share_is_rounded_up(n_samples, rho, elite):
    """The elite are the lowest share of the scores, rounded up."""
    values = np.random.default_rng(0).permutation(n_samples)[None]
    found = searched(scripted(values), 60, n_samples=n_samples, rho=rho, max_iter=1)
    assert found.history[0]["elite_threshold"] == elite - 1


# -- the cache -------------------------------------------------------------------------------


def test_no_pattern_is_scored_twice():
    """No pattern is scored twice, and the evaluations are counted."""
    seen = Recorder(rugged(12, 1))
    found = cross_entropy_minimize(seen, 12, incumbents=np.eye(12, dtype=int)[[0, 1, 0]])
    assert len(seen.asked) == len(set(seen.asked)) == found.evaluations
    assert found.evaluations < 100 * found.iterations - 100
    assert found.history[-1]["evaluations"] == found.evaluations


# -- failures --------------------------------------------------------------------------------


def test_failures_never_win():
    """Patterns with an infinite score or nan are never the solution."""
    good, _ = separable(16, 3)

    def score(pattern):
        if pattern[0]:
            return -inf
        return (
            nan
            if pattern[3] and pattern[4] and pattern[5]
            else inf
            if not pattern[6:].any()
            else good(pattern)
        )

    seen = Recorder(score)
    found = cross_entropy_minimize(seen, 16, patience=10)
    assert len(seen.asked) == found.evaluations
    allowed = [p for p in map(np.array, product((False, True), repeat=16)) if not p[0] and p[6:].any()]
    best = min(good(p) for p in allowed if not (p[3] and p[4] and p[5]))
    assert found.value == best


def test_exceptions_pass():
    """An exception of the score, and a score that is no number, end the search."""
    with pytest.raises(ZeroDivisionError):
        cross_entropy_minimize(lambda pattern: 1 / 0, 5)
    with pytest.raises(TypeError, match="score must return a number, not None"):
        cross_entropy_minimize(lambda pattern: None, 5)


def test_no_finite_score_is_told():
    """If no pattern has a finite score, the search says so."""
    found = cross_entropy_minimize(lambda pattern: nan, 30, patience=2, p0=0.4)
    assert found.status is Status.FAILED
    assert found.pattern is None
    assert np.isnan(found.value)
    assert found.reason == "no pattern has a finite score"
    assert (found.p == 0.4).all()


def test_fewer_scores_than_elite_places():
    """With fewer scores than elite places those that have one are the elite."""
    values = np.full((1, 40), nan)
    values[0, [3, 30]] = 5.0, 7.0
    found = searched(scripted(values), 20, n_samples=40, max_iter=1, beta=0.0)
    drawn = np.random.default_rng(0).random((40, 20)) < 0.5
    assert found.history[0]["elite_threshold"] == 7.0
    assert (found.p == drawn[[3, 30]].mean(axis=0)).all()


# -- incumbents ------------------------------------------------------------------------------


def test_incumbents_are_scored_first():
    """Incumbents are scored first and never lost."""
    score, optimum = separable(100, 0)
    seen = Recorder(score)
    found = cross_entropy_minimize(seen, 100, n_samples=20, max_iter=3, incumbents=[~optimum, optimum])
    assert seen.asked[:2] == [tuple((~optimum).tolist()), tuple(optimum.tolist())]
    assert (found.pattern == optimum).all()
    assert found.value == score(optimum)


def test_incumbents_below_the_threshold_are_elite():
    """An incumbent below the threshold is elite and one above is not."""
    score, optimum = separable(50, 1)
    settings = {"n_samples": 20, "max_iter": 1, "beta": 0.0}
    alone = cross_entropy_minimize(score, 50, **settings)
    beside = cross_entropy_minimize(score, 50, incumbents=[optimum, ~optimum], **settings)
    assert beside.p == pytest.approx((2 * alone.p + optimum) / 3, abs=1e-15)
    assert beside.history[0]["elite_threshold"] == alone.history[0]["elite_threshold"]


def test_fixed_coordinates_stay():
    """Coordinates of probability 0 or 1 stay unless an incumbent has them otherwise."""
    score = rugged(20, 0)
    p0 = np.where(np.arange(20) < 5, 0.0, np.where(np.arange(20) < 8, 1.0, 0.5))
    seen = Recorder(score)
    cross_entropy_minimize(seen, 20, p0=p0)
    asked = np.array(seen.asked)
    assert not asked[:, :5].any()
    assert asked[:, 5:8].all()
    best = cross_entropy_minimize(score, 20).pattern
    assert best[:5].any()
    freed = cross_entropy_minimize(score, 20, p0=p0, incumbents=[best])
    assert (freed.p[:5] > 0).tolist() == best[:5].tolist()


# -- replacements ----------------------------------------------------------------------------


def test_elite_patterns_are_replaced():
    """A scorer may replace patterns by better ones, which p and the solution then have."""
    n, keep = 12, np.arange(12) < 6

    def score(pattern):
        return float(pattern[~keep].sum()) - 0.01 * pattern[keep] @ np.arange(6)

    drawn = Recorder(score)
    found = searched(screening(drawn, keep), n, max_iter=1, beta=0.0)
    # p is the mean of what the elite became, and the best of that is the result.
    assert found.p[~keep].max() == 0
    assert found.value == pytest.approx(min(score(np.array(pattern)) for pattern in drawn.asked))
    assert not found.pattern[~keep].any()


# -- batches and screening -------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.1, 0.3]))
@settings(max_examples=4)
def test_screening_changes_nothing(seed, rho):
    """A scorer that leaves out patterns above the threshold changes nothing."""
    n = 14 + seed % 10
    raw, mask = rugged(n, seed, digits=0 if seed % 2 else None), np.arange(n) < 10

    def score(pattern):
        return raw(pattern & mask) + pattern[~mask].sum()

    options = {"rho": rho, "incumbents": np.eye(n)[:2], "random_state": seed}
    scorer = screening(score)
    plain, spared = cross_entropy_minimize(score, n, **options), searched(scorer, n, **options)
    assert course(plain) == course(spared)
    assert (plain.p == spared.p).all()
    assert (plain.pattern == spared.pattern).all()
    assert plain.reason == spared.reason
    assert scorer.screened > 0


# -- how it ends -----------------------------------------------------------------------------


def test_patience_waits_for_best_and_threshold():
    """Patience counts iterations that lower neither the best score nor the threshold, up to rounding."""
    flat = np.full(4, 9.0)
    falling = [np.r_[1.0, np.full(3, 20.0 - t)] for t in range(6)]  # the best stays, the threshold falls
    rising = [np.r_[0.5, np.full(3, 30.0)]]  # the other way round
    rows = [*falling, *rising, *[np.r_[0.5, np.full(3, 15.0)]] * 9]
    found = searched(scripted(rows), 60, n_samples=4, rho=0.5, patience=3)
    assert found.iterations == 7 + 3
    assert found.status is Status.CONVERGED
    assert "3 iterations in a row lowered neither" in found.reason
    found = searched(scripted([flat] * 9), 60, n_samples=4, patience=5)
    assert found.iterations == 1 + 5
    rounding = [flat * (1 - 1e-14 * t) for t in range(9)]
    found = searched(scripted(rounding), 60, n_samples=4, patience=5)
    assert found.iterations == 1 + 5
    assert found.value == rounding[5][0]


def test_nothing_new_ends_the_search():
    """An iteration that draws no new pattern is the last."""
    found = cross_entropy_minimize(lambda pattern: 0.0, 3, n_samples=200, patience=50)
    assert found.reason == "an iteration drew no new pattern"
    assert found.evaluations == 8
    assert found.iterations == 2


def test_extreme_probabilities_end_the_search():
    """Probabilities within the tolerance of 0 or 1 end the search."""
    score, optimum = separable(10, 0)
    found = cross_entropy_minimize(score, 10, p0=np.where(optimum, 0.9, 0.1), rho=0.01, beta=0.0)
    assert "every probability" in found.reason
    assert (np.minimum(found.p, 1 - found.p) <= 1e-3).all()
    assert found.status is Status.CONVERGED
    fixed = cross_entropy_minimize(score, 10, p0=optimum)
    assert (fixed.iterations, fixed.evaluations) == (1, 1)


def test_iteration_limit_is_told():
    """The iteration limit is told."""
    found = cross_entropy_minimize(rugged(40, 0), 40, max_iter=3)
    assert (found.status, found.iterations) == (Status.ITERATION_LIMIT, 3)


@pytest.mark.filterwarnings("error")
def test_time_limit_keeps_the_lowest(ticking):
    """By a clock that goes 10 ms with every check, the limit keeps the best of all scores so far."""
    score = rugged(40, 0)
    seen = Recorder(score)
    found = cross_entropy_minimize(seen, 40, n_samples=50, time_limit=1.25)
    assert found.status is Status.TIME_LIMIT
    assert 1.25 <= found.seconds <= 1.28
    assert found.value == score(found.pattern) == min(score(np.array(pattern)) for pattern in seen.asked)
    assert len(seen.asked) == found.evaluations
    least_time = cross_entropy_minimize(Recorder(score), 40, time_limit=1e-9)
    assert (least_time.evaluations, least_time.iterations) == (1, 0)
    assert least_time.value == score(least_time.pattern)


@pytest.mark.parametrize("when", [1, 2, 30, 160])
def test_interruption_keeps_the_lowest(when):
    """Ctrl-C in a score keeps the best one so far, and passes if there is none."""

    def interrupt(number):
        if number == when:
            raise KeyboardInterrupt

    score = rugged(40, 1)
    seen = Recorder(score, interrupt)
    if when == 1:
        with pytest.raises(KeyboardInterrupt):
            cross_entropy_minimize(seen, 40)
        return
    found = cross_entropy_minimize(seen, 40)
    assert found.status is Status.INTERRUPTED
    assert found.value == min(score(np.array(pattern)) for pattern in seen.asked[:-1])
    assert found.value == score(found.pattern)
    assert found.iterations == (when - 1) // 100


def test_history_is_told():
    """The records that a listener receives are the history, with the entropy of p."""
    told = []
    with records_to(told.append):
        found = cross_entropy_minimize(rugged(20, 0), 20)
    assert tuple(told) == found.history
    assert set(told[0]) == {*COURSE, "seconds"}
    p = found.p[(found.p > 0) & (found.p < 1)]
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p)).sum() / 20
    assert told[-1]["entropy"] == pytest.approx(entropy)
    assert told[0]["entropy"] <= np.log(2)
    assert (np.diff([record["seconds"] for record in told]) >= 0).all()


# -- nonsense --------------------------------------------------------------------------------


REFUSED = [
    ({"n": 0}, "n must be an integer of at least 1, not 0"),
    ({"n": 2.5}, "n must be an integer"),
    ({"score": 3}, "score must be callable, not 3"),
    ({"p0": 1.5}, "p0 must be between 0 and 1"),
    ({"p0": [0.5, nan, 0.5, 0.5]}, "p0 must be between 0 and 1"),
    ({"p0": np.zeros(3)}, r"p0 must be a number or of shape \(4,\); its shape is \(3,\)"),
    ({"n_samples": 0}, "n_samples must be an integer of at least 1"),
    ({"rho": 0.0}, "rho must be over 0 and at most 1, not 0.0"),
    ({"rho": 1.1}, "rho must be"),
    ({"rho": "a"}, "rho must be a number, not 'a'"),
    ({"beta": 1.0}, "beta must be at least 0 and under 1"),
    ({"beta": nan}, "beta must be"),
    ({"patience": 0}, "patience must be an integer of at least 1"),
    ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
    ({"tol": 0.5}, "tol must be at least 0 and under 0.5"),
    ({"time_limit": -1.0}, "time_limit must be seconds, at least 0, or None"),
    ({"incumbents": [[0, 1]]}, r"incumbents must have shape \(r, 4\)"),
    ({"incumbents": [0, 1, 0, 1]}, "incumbents must have shape"),
    ({"incumbents": [[0, 1, 2, 0]]}, "incumbents must hold zeros and ones only"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=lambda each: str(each)[:30])
def test_argument_out_of_range_is_named(change, message):
    """An argument out of its range is refused by its name."""
    arguments = {"score": lambda pattern: 0.0, "n": 4, **change}
    with pytest.raises(ValueError, match=message):
        cross_entropy_minimize(**arguments)


def test_documented_example_is_true():
    """The example in the documentation has the output shown."""
    results = doctest.testmod(cross_entropy)
    assert results.attempted >= 5
    assert results.failed == 0


def test_meeting_the_lower_bound_ends(rng):
    """A score that meets the lower bound ends the search at that iteration."""
    weights = rng.integers(1, 20, 12).astype(float)
    goal = weights[:5].sum()

    def score(chosen):
        return 1.0 + abs(weights[chosen].sum() - goal)

    found = cross_entropy_minimize(score, 12, lower_bound=1.0, n_samples=30)
    plain = cross_entropy_minimize(score, 12, n_samples=30)
    assert found.value == plain.value == 1.0
    assert found.reason == "the best score meets the lower bound"
    first = next(record["iteration"] for record in plain.history if record["best"] == 1.0)
    assert found.iterations == first
    below = cross_entropy_minimize(score, 12, lower_bound=0.9, n_samples=30)
    assert (below.history[-1]["best"], below.iterations) == (1.0, plain.iterations)
    with pytest.raises(ValueError, match="lower_bound"):
        cross_entropy_minimize(score, 12, lower_bound=np.inf)
