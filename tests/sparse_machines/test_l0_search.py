"""The search for the L0 machine's pattern: never under the optimum, the same on any workers, never killed."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from helpers.l0 import degenerate, failed, late, problem, scipy_value

from formulations import l0, one_norm
from formulations.families import best_intercept
from formulations.l0_data import as_l0_data
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Claim
from polyopt.datasets import load
from polyopt.optim.cross_entropy import with_ties
from polyopt.sparse.certificate import certify_l0, certify_one_norm, cut_of, score_bound
from polyopt.sparse.cross_entropy import PatternScorer, Work, descend_by_flips, round_relaxation, solve_l0
from polyopt.sparse.one_norm import solve_one_norm, solve_relaxation
from polyopt.sparse.pattern_lp import CutPool, PatternLP
from polyopt.sparse.settings import CrossEntropySettings

COURSE = ("restart", "iteration", "best", "elite_threshold", "mean_p", "entropy")
P = 7  # centres of a problem of which all patterns are tried
DEGENERATE = ["duplicates", "lonely", "zero kernel", "weightless"]


def small(kind, seed):
    """A problem of P centres, all of whose patterns can be tried."""
    rng = np.random.default_rng(seed)
    if kind == "square":  # asymmetric, indefinite
        return as_l0_data(rng.normal(size=(P, P)), rng.permutation(np.resize([1.0, -1.0], P)), 2.0)
    K, y = rng.normal(size=(12, P)), np.resize([1.0, -1.0, 1.0], 12)
    if kind == "ties":
        K = K.round()
        K[:, 1], K[:, 2] = K[:, 0], 0.0
        return as_l0_data(K, y, 2.0, centres=rng.choice([-1.0, 1.0], P))
    return as_l0_data(K, y, 2.0, rng.uniform(0.2, 3.0, 12), rng.choice([-1.0, 1.0], P))


def searched(data, *, time_limit=None, seed=0, n_jobs=None, **settings):
    how = CrossEntropySettings(**settings)
    return solve_l0(data, how, time_limit=time_limit, seed=seed, n_jobs=n_jobs)


@cache
def all_losses(kind, seed, C):
    """L(σ) of every pattern σ, as a dictionary."""
    model = PatternLP(replace(small(kind, seed), C=C))
    return {sigma: model.solve(sigma).value for sigma in product((False, True), repeat=P)}


def all_scores(kind, seed, C):
    return {sigma: sum(sigma) + C * loss for sigma, loss in all_losses(kind, seed, C).items()}


def certified(data, solution):
    return certify_l0(
        data.K,
        data.y,
        data.C,
        alpha=solution["alpha"],
        b=float(solution["b"]),
        weights=data.weights,
        centres=data.centres,
        u=solution["margin"],
        v=solution["relaxation"],
    )


def is_sound(data, solution):
    """Whether the point is what the solution says of it, and the bound is one."""
    alpha, b = solution["alpha"], float(solution["b"])
    certificate = certified(data, solution)
    assert certificate.claim in (Claim.OPTIMAL, Claim.SUBOPTIMAL_BY)
    assert solution.objective == pytest.approx(data.score(alpha, b), rel=1e-12)
    assert solution.objective == pytest.approx(certificate.primal_value, rel=1e-12)
    assert (solution["sigma"] == (alpha > 0)).all()
    assert solution.bound <= solution.objective * (1 + 1e-9)
    assert solution.bound == pytest.approx(certificate.dual_value, rel=1e-9, abs=1e-12)
    return True


def course(solution):
    return [tuple(record[column] for column in COURSE) for record in solution.history]


# -- against all patterns ------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["square", "rectangular", "ties"])
@pytest.mark.parametrize("C", [0.3, 10.0])
def test_search_finds_the_least_score(kind, C):
    """The score is the least of all patterns, the bound below it, and rounding no better than the search."""
    data = replace(small(kind, 0), C=C)
    optimum = min(all_scores(kind, 0, C).values())
    solution, search = searched(data, n_init=3, n_samples=30)
    assert solution.objective == pytest.approx(optimum, rel=1e-7)
    assert solution.bound <= optimum * (1 + 1e-9)
    assert search.relaxed == pytest.approx(solution.bound, rel=1e-12)
    assert min(search.scores) == pytest.approx(solution.objective, rel=1e-9)
    assert is_sound(data, solution)
    rounded = round_relaxation(data)
    assert rounded.objective >= optimum * (1 - 1e-9)
    assert is_sound(data, rounded)
    assert solution.objective <= min(rounded.objective, data.C * 2 * least_class(data)) * (1 + 1e-9)


def least_class(data):
    return min(data.weights[data.y > 0].sum(), data.weights[data.y < 0].sum())


# -- workers change nothing ----------------------------------------------------------------


def of_ionosphere(seed, n=40):
    data = load("ionosphere")
    rows = np.random.default_rng(seed).permutation(len(data.y))[:n]
    X, y = data.X[rows], np.where(data.y[rows] > 0, 1.0, -1.0)
    K = X @ X.T if seed % 2 else np.exp(-0.05 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    return K, y, 1.0, None, None


def of_a_name(name, seed):
    """K, y, C, weights, centres: random, with ties, or real."""
    if name == "ionosphere":
        return of_ionosphere(seed)
    return degenerate(name) if name in DEGENERATE else problem(name, seed, n=30)


def assert_same(first, second):
    (one, of_one), (two, of_two) = first, second
    assert course(one) == course(two)
    for name in ("sigma", "alpha", "b", "xi", "margin"):
        assert np.array_equal(one[name], two[name]), name
    assert (one.objective, one.bound, one.status) == (two.objective, two.bound, two.status)
    assert of_one.scores == of_two.scores
    assert (of_one.moves, of_one.is_local_optimum) == (of_two.moves, of_two.is_local_optimum)
    for run, other in zip(of_one.runs, of_two.runs, strict=True):
        assert np.array_equal(run.p, other.p)
        assert np.array_equal(run.pattern, other.pattern)
        assert (run.value, run.iterations, run.reason) == (other.value, other.iterations, other.reason)


@pytest.mark.parametrize(
    ("name", "seed"), [("indefinite", 3), ("duplicates", 0), ("ionosphere", 2)],
)  # fmt: skip
def test_workers_change_nothing(name, seed):
    """One worker and two have the same course, point, bound and counts."""
    K, y, C, weights, centres = of_a_name(name, seed)
    data = as_l0_data(K, y, 3.0 * C, weights, centres)
    settings = {"n_init": 2, "n_samples": 30, "max_iter": 6, "seed": seed}
    one, two = searched(data, n_jobs=1, **settings), searched(data, n_jobs=2, **settings)
    assert_same(one, two)
    assert one[1].work == two[1].work


@pytest.mark.parametrize("flips", [True, False])
def test_flips_only_help(flips):
    """Flips lower the score of the cross-entropy method, and tell of a local optimum."""
    K, y, _, weights, _ = problem("indefinite", 2, n=30)
    data = as_l0_data(K, y, 3.0, weights)
    solution, search = searched(data, flips=flips, n_samples=30)
    assert is_sound(data, solution)
    assert search.is_local_optimum is flips
    assert search.scores[0] <= search.runs[0].value * (1 + 1e-9)


# -- what is ruled out is over the ceiling -------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf", "indefinite", "rectangular", "duplicates"])
@pytest.mark.parametrize("C", [0.3, 10.0])
def test_ruled_out_patterns_exceed_the_ceiling(kernel, C):
    """Patterns without a value are above the ceiling, and the values of the others are scipy's."""
    K, y, _, weights, centres = degenerate(kernel) if kernel in DEGENERATE else problem(kernel, n=30)
    data = as_l0_data(K, y, C, weights, centres)
    scorer = PatternScorer(data, n_jobs=None, clock=Clock())
    p, ruled_out, threshold = K.shape[1], 0, np.inf
    for batch in range(2):
        drawn = np.unique(late(p, 15, seed=batch).astype(bool), axis=0)
        truth = np.array([s.sum() + C * scipy_value(K, y, C, data.weights, centres, s) for s in drawn])
        values = np.full(len(drawn), np.inf)
        supports = {}
        for row, value, *support in scorer(drawn, threshold, 4):
            values[row], supports[row] = value, support
        known = np.isfinite(values)
        assert not np.isnan(values).any()
        assert values[known] == pytest.approx(truth[known], rel=1e-7, abs=1e-7)
        ceiling = min(threshold, with_ties(np.sort(truth)[3]))
        assert (truth[~known] > ceiling * (1 - 1e-9)).all()
        ruled_out += (~known).sum()
        for row in np.flatnonzero(known):
            support, score = supports[row]
            assert not (support & ~drawn[row]).any()
            assert score <= values[row] * (1 + 1e-9)
            loss = scipy_value(K, y, C, data.weights, centres, support)
            assert score == pytest.approx(support.sum() + C * loss, rel=1e-7, abs=1e-7)
        threshold = np.sort(truth)[3]
    assert ruled_out > 0
    work = scorer.work
    assert work.screened + work.cut_off >= ruled_out


# -- flips ---------------------------------------------------------------------------------


def neighbours(at):
    """One centre off, one on, or one for another."""
    for i in range(len(at)):
        other = at.copy()
        other[i] ^= True
        yield tuple(other.tolist())
    for i, j in product(np.flatnonzero(at), np.flatnonzero(~at)):
        other = at.copy()
        other[[i, j]] ^= True
        yield tuple(other.tolist())


@pytest.mark.parametrize("kind", ["square", "rectangular", "ties"])
@pytest.mark.parametrize("C", [0.3, 10.0])
def test_flips_end_at_local_optimum(kind, C):
    """Flips never raise the score, and end where no change of one centre or exchange of two lowers it."""
    data, scores, moves = replace(small(kind, 0), C=C), all_scores(kind, 0, C), 0
    for start in (np.zeros(P, bool), np.ones(P, bool), np.random.default_rng(0).random(P) < 0.5):
        end = descend_by_flips(data, CutPool(data), start, clock=Clock(), work=Work())
        assert end.is_local_optimum
        assert not end.interrupted
        assert end.score == pytest.approx(scores[tuple(end.pattern.tolist())], rel=1e-9)
        assert end.score <= scores[tuple(start.tolist())] * (1 + 1e-9)
        assert min(scores[other] for other in neighbours(end.pattern)) >= end.score * (1 - 1e-8)
        moves += end.moves
    assert moves > 0 or C < 1


def of_thirty():
    K, y, _, weights, _ = problem("indefinite", 4, n=30)
    return as_l0_data(K, y, 3.0, weights)


def test_flips_without_time_prove_nothing():
    """Flips without time are no local optimum, with at most the constant classifier's score."""
    data = of_thirty()
    start = np.zeros(30, dtype=bool)
    end = descend_by_flips(data, CutPool(data), start, clock=Clock(1e-9), work=Work())
    assert not end.is_local_optimum
    assert end.score <= data.C * 2 * least_class(data) * (1 + 1e-9)


class Stopping(Clock):
    """A clock at one of whose checks the user interrupts."""

    def __init__(self, check):
        super().__init__()
        self.left_checks = check

    @property
    def is_over(self):
        self.left_checks -= 1
        if self.left_checks == 0:
            raise KeyboardInterrupt
        return False


def test_interrupted_flips_keep_their_best():
    """The later Ctrl-C comes, the more flips are made and the lower is the score."""
    data, start = of_thirty(), np.zeros(30, dtype=bool)
    reached = []
    for check in (1, 3, 6, 12):
        end = descend_by_flips(data, CutPool(data), start, clock=Stopping(check), work=Work())
        assert end.interrupted
        assert not end.is_local_optimum
        reached.append((end.moves, end.score))
    assert [score for _, score in reached] == sorted((score for _, score in reached), reverse=True)
    assert reached[-1][0] > reached[0][0]
    assert reached[-1][1] < data.C * 2 * least_class(data)


# -- what goes wrong -----------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_failures_end_no_search(troubled, share):
    """A search in which HiGHS fails or is stopped counts that, and ends with a sound point."""
    data = of_thirty()
    sound = searched(data)[0]
    rng = np.random.default_rng(0)

    def sometimes(solution, how):  # in the search alone: its answer is solved without a limit
        if how.get("time_limit") is None or rng.random() >= share:
            return solution
        return failed(solution, (Status.FAILED, Status.TIME_LIMIT)[int(rng.integers(2))])

    troubled(sometimes)
    solution, search = searched(data, n_samples=50, time_limit=1e3)
    assert min(search.work.failed, search.work.timed_out) > 0
    assert not search.is_local_optimum
    assert is_sound(data, solution)
    assert sound.objective * (1 - 1e-9) <= solution.objective
    assert solution.objective <= data.C * 2 * least_class(data) * (1 + 1e-9)
    assert share > 0.5 or solution.objective <= 1.1 * sound.objective


@pytest.mark.parametrize("solve", [lambda data: searched(data, time_limit=1e-3)[0],
                                   lambda data: round_relaxation(data, time_limit=1e-6)],
                         ids=["cross-entropy", "rounding"])  # fmt: skip
def test_time_limit_keeps_the_best(solve):
    """A time limit leaves a point that is no worse than the constant classifier, and a bound."""
    K, y, _, _, _ = of_ionosphere(0, n=100)
    data = as_l0_data(K, y, 10.0)
    solution = solve(data)
    assert solution.status is Status.TIME_LIMIT
    assert solution.objective == pytest.approx(data.score(solution["alpha"], float(solution["b"])))
    assert solution.objective <= data.C * 2 * least_class(data) * (1 + 1e-9)
    assert solution.bound <= solution.objective


# -- the one-norm machines -----------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf", "indefinite", "rectangular"])
@pytest.mark.parametrize("C", [0.1, 1.0, 20.0])
def test_relaxation_is_the_printed_program(kernel, C):
    """Value, bound and multipliers of the relaxation are those of the printed program."""
    K, y, _, weights, centres = problem(kernel, n=30)
    data = as_l0_data(K, y, C, weights, centres)
    found = solve_relaxation(data)
    stated = l0.relaxation(K, y, C, weights, centres).solve()
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(stated.objective, rel=1e-7)
    assert found.bound == pytest.approx(stated.objective, rel=1e-7)
    assert found.bound <= found.objective * (1 + 1e-12)
    assert found["cap"] == pytest.approx(np.maximum(data.rates(found["margin"]) - 1 / C, 0.0))
    one = solve_one_norm(K, y, C * data.weights, np.full(K.shape[1], C), price=1 / C, centres=centres)
    assert (one["alpha"] == found["alpha"]).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf", "indefinite"])
@pytest.mark.parametrize("C", [0.1, 1.0, 20.0])
def test_one_norm_is_the_printed_program(kernel, C):
    """The machine has the value of the printed program, and a certificate that a changed point has not."""
    K, y, _, weights, _ = problem(kernel, n=30)
    costs = C * weights
    found = solve_one_norm(K, y, costs, costs)
    assert found.objective == pytest.approx(one_norm.primal(K, y, costs).solve().objective, rel=1e-7)
    certificate = certify_one_norm(K, y, costs, alpha=found["alpha"], b=float(found["b"]), u=found["margin"])
    assert certificate.claim is Claim.OPTIMAL
    assert found["cap"] == pytest.approx(np.maximum(y * (K.T @ (y * found["margin"])) - 1, 0.0))
    broken_point = certify_one_norm(K, y, costs, alpha=found["alpha"] + 0.01 * costs, u=found["margin"])
    assert broken_point.claim is not Claim.OPTIMAL


def test_useless_multipliers_prove_zero():
    """Multipliers whose dual value is negative prove 0."""
    K, y = np.full((4, 4), 1e3) + 1e3 * np.eye(4), np.array([1.0, 1.0, -1.0, -1.0])
    found = certify_one_norm(K, y, 1.0, alpha=np.zeros(4), u=np.ones(4))
    assert found.dual_value == 0.0 < found.primal_value


@pytest.mark.parametrize("C", [1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("kernel", ["linear", "indefinite"])
def test_strong_duality_at_any_cost(kernel, C):
    """Over fifteen orders of C the multipliers prove the objective up to rounding."""
    K, y, _, weights, centres = problem(kernel, n=30)
    data = as_l0_data(K, y, C, weights, centres)
    found = solve_relaxation(data)
    assert found.status is Status.SOLVED
    # A score is whole numbers and losses times C: what is under 1e-6 is rounding.
    # The bound itself is lower by its own rounding, which grows with C² times the kernel.
    constant, slopes = cut_of(data, found["margin"] / C)
    computed = C * constant.mid - np.maximum(C * slopes.mid - 1.0, 0.0).sum()
    assert computed == pytest.approx(found.objective, rel=1e-6, abs=1e-6)
    assert found.objective * (1 - 1e-4) - 1e-6 <= score_bound(data, found["margin"] / C) <= computed
    if centres is None:
        costs = C * weights
        one = solve_one_norm(K, y, costs, costs)
        certificate = certify_one_norm(K, y, costs, alpha=one["alpha"], b=float(one["b"]), u=one["margin"])
        # Nothing but rounding keeps it from a proof, and that only where C is large.
        assert certificate.gap - certificate.rounding <= 1e-6 * certificate.primal_value
        assert certificate.claim is Claim.OPTIMAL or (C >= 1e6 and certificate.rounding > 0)


def test_zero_kernel_leaves_the_intercept():
    """A kernel of zeros leaves the best intercept alone, and its score is proven."""
    y = np.where(np.arange(10) < 3, 1.0, -1.0)
    data = as_l0_data(np.zeros((10, 10)), y, 2.0)
    relaxed = solve_relaxation(data)
    assert not relaxed["alpha"].any()
    assert relaxed.objective == pytest.approx(2.0 * 2 * 3)
    solution, search = searched(data)
    assert solution.status is Status.SOLVED
    assert solution.objective == pytest.approx(12.0)
    assert float(solution["b"]) == best_intercept(np.zeros(10), y, np.ones(10))
    assert not solution["sigma"].any()
    assert search.relaxed == pytest.approx(12.0)


def test_one_norm_limit_leaves_a_point():
    """A time limit leaves the one-norm machine a feasible point with its certified objective."""
    X, y = two_blobs(n=200, m=3, seed=0)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    found = solve_one_norm(K, y, np.ones(200), np.ones(200), time_limit=1e-9)
    assert found.status is Status.TIME_LIMIT
    assert ((found["alpha"] >= 0) & (found["alpha"] <= 1)).all()
    certificate = certify_one_norm(K, y, 1.0, alpha=found["alpha"], b=float(found["b"]), u=found["margin"])
    assert certificate.primal_value == pytest.approx(found.objective)
    assert certificate.claim is Claim.SUBOPTIMAL_BY


# -- what the search tells -----------------------------------------------------------------


def test_meeting_the_bound_ends_the_search():
    """A score that meets the bound is optimal, and ends the restarts."""
    X = np.array([-3.0, -2.0, 2.0, 3.0])
    data = as_l0_data(np.zeros((4, 4)), np.sign(X), 1.0)
    solution, search = searched(data, n_init=5)
    assert solution.status is Status.SOLVED
    assert len(search.runs) == 1
    assert certified(data, solution).claim is Claim.OPTIMAL
