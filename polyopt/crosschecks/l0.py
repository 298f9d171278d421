"""The L0 support vector machine and the one-norm machine: patterns, cuts, programs, the search."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from formulations import l0, one_norm
from formulations.l0_data import as_l0_data
from formulations.language.solution import Solution
from polyopt.crosschecks.registry import L0, Pair, Registry, Vector
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


@CHECKS.add("T37a", f"{L0}; the dual is derived", 1e-7)
def duality_of_a_pattern(seed: int) -> Pair:
    """L0-SVM: value of a pattern's linear program = value of its dual."""
    K, y, C, sigma = _sample(seed)
    dual = l0.pattern_dual(K, y, sigma, C).solve()
    return dual.objective, l0.pattern(K, y, sigma, C).solve().objective


@CHECKS.add("T37b", f"{L0}", 1e-7)
def persistent_program(seed: int) -> Pair:
    """L0-SVM: the program kept in HiGHS = the explicit one, pattern after pattern."""
    K, y, C, sigma = _sample(seed)
    explicit, lp = l0.pattern(K, y, sigma, C), PatternLP(as_l0_data(K, y, C))
    patterns = _patterns(seed, 5, len(y))
    return (
        [lp.solve(pattern).value for pattern in patterns],
        [explicit.set(sigma=pattern).solve().objective for pattern in patterns],
    )


@CHECKS.add("T38", f"{L0}; derived", 1e-7)
def loss_without_centres(seed: int) -> Pair:
    """L0-SVM: L(0) = 2 min(n₊, n₋)."""
    K, y, C, _ = _sample(seed)
    K, y = K[:-5, :-5], y[:-5]  # unequal classes
    value = l0.pattern(K, y, np.zeros(len(y)), C).solve().objective
    return value, 2.0 * min((y > 0).sum(), (y < 0).sum())


@CHECKS.add("T39", f"{L0}; derived from the dual", 1e-6, "≤")
def cut_of_one_pattern(seed: int) -> Pair:
    """L0-SVM: 1'u − C Σ σ'_j [y_j(K'Yu)_j]_+ ≤ L(σ') for every σ', whatever pattern u is from."""
    K, y, C, sigma = _sample(seed)
    lp = PatternLP(as_l0_data(K, y, C))
    constant, slopes = lp.solve(sigma).cut
    patterns = _patterns(seed, 15, len(y))
    return [constant - slopes @ pattern for pattern in patterns], [lp.solve(p).value for p in patterns]


@CHECKS.add("T40", f"{L0}; derived", 1e-6)
def pruned_pattern(seed: int) -> Pair:
    """L0-SVM: replacing σ by the support of its α keeps L."""
    K, y, C, sigma = _sample(seed)
    lp = PatternLP(as_l0_data(K, y, C))
    solution = lp.solve(sigma)
    return lp.solve(lp.data.support(solution.alpha)).value, solution.value


@CHECKS.add("T41", f"{L0}; derived", 1e-7, "≤")
def more_centres_lose_less(seed: int) -> Pair:
    """L0-SVM: L never rises as the pattern grows."""
    K, y, C, _ = _sample(seed)
    lp, order = PatternLP(as_l0_data(K, y, C)), generator(seed).permutation(len(y))
    patterns = [np.isin(np.arange(len(y)), order[:count]) for count in range(0, len(y) + 1, 5)]
    values = [lp.solve(pattern).value for pattern in patterns]
    return values[1:], values[:-1]


@cache
def _exact(seed: int) -> Solution:
    K, y, C, _ = _small(seed)
    return l0.mixed_integer(K, y, C).solve(mip_rel_gap=1e-9)


def _small(seed: int) -> tuple[Vector, Vector, float, Vector]:
    K, y, C, sigma = _sample(seed)
    return K[:_N_SAMPLES, :_N_SAMPLES], y[:_N_SAMPLES], C, sigma[:_N_SAMPLES]


@CHECKS.add("T42a", f"{L0}; derived", 1e-6, "≤")
def relaxed_program(seed: int) -> Pair:
    """L0-SVM: min 1'α/C + C 1'ξ, a linear program, ≤ the optimum over all patterns.

    This is the relaxation; the one-norm machine of the slides has 1'α instead of 1'α/C.
    """
    K, y, C, _ = _small(seed)
    return l0.relaxation(K, y, C).solve().objective, _exact(seed).objective


@CHECKS.add("T42b", f"{L0}", 1e-6, "≤")
def optimum_over_all_patterns(seed: int) -> Pair:
    """L0-SVM: the optimum of the integer program ≤ S(σ) = 1'σ + C L(σ) for any σ."""
    K, y, C, _ = _small(seed)
    lp = PatternLP(as_l0_data(K, y, C))
    patterns = [np.zeros(len(y)), np.ones(len(y)), *_patterns(seed, 15, len(y))]
    scores = [lp.data.pattern_score(pattern, lp.solve(pattern).value) for pattern in patterns]
    return _exact(seed).objective, scores


@CHECKS.add("N12", f"{L0}", 0.1, ">")
def elite_of_nine_tenths(seed: int) -> Pair:
    """Cross-entropy: with nine tenths of the patterns as elite the search stays diffuse (entropy, nats).

    The slides' “1 − ρ percentile” of a minimisation keeps these; the ρ-quantile concentrates.
    """
    best = generator(seed).random(20) < 0.5

    def score(pattern: NDArray[np.bool_]) -> float:
        return float((pattern != best).sum())

    def entropy(rho: float) -> float:
        solution = cross_entropy_minimize(score, 20, rho=rho, max_iter=20, patience=20, random_state=seed)
        return solution.history[-1]["entropy"]

    return entropy(0.9), entropy(0.1)


@CHECKS.add("N11", f"{L0}", 1e-3, "<")
def no_bound_on_the_norm(seed: int) -> Pair:
    """One-norm SVM: ‖α‖₁ may be below ‖α‖₀, so it is no upper bound on it, as the slides say it is."""
    X, y, _ = blobs(seed)
    alpha = one_norm.primal(rbf(X), y, 1.0).solve()["alpha"]
    return alpha.sum(), (alpha > 1e-9).sum()
