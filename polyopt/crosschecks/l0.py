"""The L0 support vector machine and the one-norm machine: patterns, cuts, programs, the search."""

import numpy as np
from numpy.typing import NDArray

from formulations import l0, one_norm
from formulations.l0_data import as_l0_data
from polyopt.crosschecks.registry import L0, Pairs, Registry, Vector
from polyopt.crosschecks.samples import blobs, generator, rbf
from polyopt.optim.cross_entropy import cross_entropy_minimize
from polyopt.sparse.pattern_lp import PatternLP

CHECKS = Registry("l0")

_N_SAMPLES = 20  # samples; the integer program is then solved to 1e-9 within a second


def _sample(seed: int) -> tuple[Vector, Vector, float, Vector]:
    """Return a kernel that is neither symmetric nor semidefinite, labels, C, and a pattern of centres."""
    X, y, _ = blobs(seed)
    C = (2.0, 1.0, 5.0)[seed % 3]
    rng = generator(seed)
    K = rbf(X) + 0.1 * rng.normal(size=(len(y), len(y)))
    return K, y, C, (rng.random(len(y)) < 0.3).astype(float)


def _patterns(seed: int, count: int, p: int) -> Vector:
    rng = generator(seed + 1000)
    return np.array([(rng.random(p) < rng.random()).astype(float) for _ in range(count)])


@CHECKS.add(L0)
def _pattern(seed: int) -> Pairs:
    """Compare the linear programs of patterns.

    T37a | = 1e-7 | the dual is derived | L0-SVM: value of a pattern's linear program = value of its dual
    T37b | = 1e-7 | the program of a pattern | L0-SVM: the program kept in HiGHS = the explicit one, pattern
        after pattern
    T38 | = 1e-7 | derived | L0-SVM: L(0) = 2 min(n₊, n₋)
    T39 | ≤ 1e-6 | derived from the dual | L0-SVM: 1'u − C Σ σ'_j [y_j(K'Yu)_j]_+ ≤ L(σ') for every σ',
        whatever pattern u is from
    T40 | = 1e-6 | derived | L0-SVM: replacing σ by the support of its α keeps L
    T41 | ≤ 1e-7 | derived | L0-SVM: L never rises as the pattern grows
    """
    K, y, C, sigma = _sample(seed)
    n, explicit, lp = len(y), l0.pattern(K, y, sigma, C), PatternLP(as_l0_data(K, y, C))
    yield l0.pattern_dual(K, y, sigma, C).solve().objective, explicit.solve().objective

    some = _patterns(seed, 5, n)
    by_program = [explicit.set(sigma=pattern).solve().objective for pattern in some]
    yield [lp.solve(pattern).value for pattern in some], by_program

    fewer = l0.pattern(K[:-5, :-5], y[:-5], np.zeros(n - 5), C).solve().objective  # unequal classes
    yield fewer, 2.0 * min((y[:-5] > 0).sum(), (y[:-5] < 0).sum())

    solution = lp.solve(sigma)
    constant, slopes = solution.cut
    others = _patterns(seed, 15, n)
    yield [constant - slopes @ pattern for pattern in others], [lp.solve(p).value for p in others]
    yield lp.solve(lp.data.support(solution.alpha)).value, solution.value

    order = generator(seed).permutation(n)
    nested = [np.isin(np.arange(n), order[:count]) for count in range(0, n + 1, 5)]
    values = [lp.solve(pattern).value for pattern in nested]
    yield values[1:], values[:-1]


@CHECKS.add(L0)
def _optimum(seed: int) -> Pairs:
    """Compare the optimum over all patterns with its relaxation and with single patterns.

    The one-norm machine of the slides has 1'α instead of the relaxation's 1'α/C.

    T42a | ≤ 1e-6 | derived | L0-SVM: min 1'α/C + C 1'ξ, a linear program, ≤ the optimum over all patterns
    T42b | ≤ 1e-6 | the integer program | L0-SVM: the optimum of the integer program ≤ S(σ) = 1'σ + C L(σ) for
        any σ
    """
    K, y, C, _ = _sample(seed)
    K, y = K[:_N_SAMPLES, :_N_SAMPLES], y[:_N_SAMPLES]
    best = l0.mixed_integer(K, y, C).solve(mip_rel_gap=1e-9).objective
    yield l0.relaxation(K, y, C).solve().objective, best
    lp = PatternLP(as_l0_data(K, y, C))
    patterns = [np.zeros(len(y)), np.ones(len(y)), *_patterns(seed, 15, len(y))]
    yield best, [lp.data.pattern_score(pattern, lp.solve(pattern).value) for pattern in patterns]


@CHECKS.add(L0)
def _slides(seed: int) -> Pairs:
    """Compare two sentences of the slides with what holds.

    Their “1 − ρ percentile” of a minimisation keeps nine tenths; the ρ-quantile concentrates.

    N12 | > 0.1 | the elite | Cross-entropy: with nine tenths of the patterns as elite the search stays
        diffuse (entropy, nats)
    N11 | < 1e-3 | the one-norm | One-norm SVM: ‖α‖₁ may be below ‖α‖₀, so it is no upper bound on it, as the
        slides say it is
    """
    target = generator(seed).random(20) < 0.5

    def score(pattern: NDArray[np.bool_]) -> float:
        return float((pattern != target).sum())

    def entropy(rho: float) -> float:
        solution = cross_entropy_minimize(score, 20, rho=rho, max_iter=20, patience=20, random_state=seed)
        return solution.history[-1]["entropy"]

    yield entropy(0.9), entropy(0.1)
    X, y, _ = blobs(seed)
    alpha = one_norm.primal(rbf(X), y, 1.0).solve()["alpha"]
    yield alpha.sum(), (alpha > 1e-9).sum()
