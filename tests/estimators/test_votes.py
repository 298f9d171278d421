"""From pairs of classes to one: votes and probabilities, against counting and against their definition."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import minimize

from polyopt.estimators.votes import certain_winners, couple_pairs

PAIRS = {k: list(combinations(range(k), 2)) for k in (2, 3, 4)}


def counted(second, k):
    votes = np.zeros((len(second), k))
    for row, answers in zip(votes, second, strict=True):
        for (i, j), is_second in zip(PAIRS[k], answers, strict=True):
            row[j if is_second else i] += 1
    return votes


@pytest.mark.parametrize("k", [2, 3, 4])
def test_coupled_probabilities_minimise_their_objective(k):
    """Σ_{i≠j} (r_ji p_i − r_ij p_j)² over the probabilities, for pairs that contradict each other."""
    rng = np.random.default_rng(k)
    second = np.vstack([rng.random((6, len(PAIRS[k]))), rng.integers(0, 2, (3, len(PAIRS[k])))])
    found = couple_pairs(second, k)
    assert found.sum(axis=1) == pytest.approx(1.0)
    assert (found > 0).all()
    for answers, p in zip(second, found, strict=True):

        def cost(p, answers=answers):
            return sum(
                (r * p[i] - (1.0 - r) * p[j]) ** 2 for r, (i, j) in zip(answers, PAIRS[k], strict=True)
            )

        least = minimize(
            cost, np.full(k, 1.0 / k), bounds=[(0, 1)] * k, tol=1e-14,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0},
        )  # fmt: skip
        assert cost(p) <= least.fun + 1e-9


@pytest.mark.parametrize("k", [2, 3, 4])
def test_certain_winner_stays_whatever_is_settled(k):
    """Every way in which each pair is sure of one class or of none, against all ways to settle the doubts."""
    pairs = len(PAIRS[k])
    states = np.array(list(product([0, 1, 2], repeat=pairs)))  # first, second, in doubt
    winners, certain = certain_winners(states == 1, states == 0, k)
    for state, winner, sure in zip(states, winners, certain, strict=True):
        doubts = np.flatnonzero(state == 2)
        settled = []
        for answers in product([0, 1], repeat=len(doubts)):
            whole = state.copy()
            whole[doubts] = answers
            settled.append(counted((whole == 1)[None], k)[0])
        least, others = np.array(settled), [c for c in range(k) if c != winner]
        assert winner in np.flatnonzero(least.min(axis=0) == least.min(axis=0).max())
        # Each class at its best against the winner at its worst: sure means ahead of every one of them.
        assert sure == (least[:, winner].min() > max(least[:, c].max() for c in others))
