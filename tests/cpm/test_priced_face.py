"""The face that gains at prices: what it is made for, and that it is the best for these."""

import numpy as np
import pytest
from scipy.optimize import minimize

from polyopt.cpm.global_search.face import Samples
from polyopt.cpm.global_search.prices import priced_face


@pytest.mark.parametrize("seed", range(3))
def test_priced_face_is_best_for_gainers(seed):
    """The face is the best for the negatives and the positives that gain by it, as Nelder and Mead find."""
    rng = np.random.default_rng(seed)
    side = np.where(np.arange(14) < 6, -1.0, 1.0)
    A = np.column_stack([rng.normal(size=(14, 2)) + 0.8 * side[:, None], np.ones(14)]) * side[:, None]
    data = Samples(A, (A**2).sum(axis=1), rng.uniform(0.3, 1.5, 14), 6)
    prices, begun = rng.uniform(0.1, 0.8, 8), rng.random(8) < 0.5
    w = priced_face(data, prices, begun.copy())
    gains = data.C[6:] * np.maximum(0.0, 1.0 - A[6:] @ w) < prices
    kept = np.append(np.ones(6, dtype=bool), gains)

    def cost(w):
        return w @ w + data.C[kept] @ np.maximum(0.0, 1.0 - A[kept] @ w)

    best = min((minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
                for start in (w, w + 0.1)), key=lambda found: found.fun)  # fmt: skip
    assert cost(w) <= best.fun + 1e-3 * data.C.sum()
