"""The slides' cells and claims, how settings are chosen, and what is proven of few support vectors."""

from itertools import product

import numpy as np
import pytest

from benchmarks import l0_reason, l0_tables
from benchmarks.helpers.slides import CLAIMED, DATA, METHODS, PRINTED, mean_ratio
from formulations.l0_data import as_l0_data
from polyopt.sparse.pattern_lp import PatternLP


def test_printed_cells_give_printed_claims():
    """The slides' cells average to the savings that the slides claim."""
    assert len(PRINTED) == 45
    for kernel, claimed in CLAIMED.items():
        shares = {(name, method): PRINTED[kernel, name, method].share for name in DATA for method in METHODS}
        assert abs(mean_ratio(shares) - claimed) < 1.0, kernel


def test_settings_are_chosen_by_rule():
    """Settings have the least error, or the least size within one standard error of it."""
    # Standard error of the first: 0.02 / sqrt(3), which the third is within and the fourth is not.
    errors = np.array([[0.08, 0.10, 0.12], [0.10, 0.10, 0.10], [0.11, 0.11, 0.11], [0.12, 0.12, 0.12]])
    sizes = np.array([[9.0] * 3, [10.0] * 3, [5.0] * 3, [1.0] * 3])
    assert l0_tables.chosen_place(errors, sizes, "error") == 0
    assert l0_tables.chosen_place(errors, sizes, "sparsity") == 2
    sizes[1] = 8.0
    assert l0_tables.chosen_place(errors, sizes, "error") == 1
    assert l0_tables.chosen_place(errors, sizes, "sparsity") == 1  # whose folds do not differ


@pytest.mark.parametrize("C", [1.0, 10.0])
def test_cardinality_bounds_hold_for_all_patterns(C):
    """No pattern with at most k support vectors scores less, or has as little loss with fewer."""
    rng, n = np.random.default_rng(0), 6
    K = np.exp(-((rng.normal(size=(n, 1)) - rng.normal(size=n)) ** 2))
    data = as_l0_data(K, np.where(rng.random(n) < 0.5, 1.0, -1.0), C)
    lp = PatternLP(data)
    losses = {sigma: lp.solve(np.array(sigma, dtype=float)).value for sigma in product((0, 1), repeat=n)}
    for k in range(n + 1):
        within = {sigma: loss for sigma, loss in losses.items() if sum(sigma) <= k}
        least = min(sum(sigma) + C * loss for sigma, loss in within.items())
        assert l0_reason.with_at_most(data, k) <= least + 1e-7
        loss = min(within.values())
        fewest = min(sum(sigma) for sigma, value in losses.items() if value <= loss + 1e-9)
        assert l0_reason.fewest_of_any(data, loss) <= fewest
    assert l0_reason.with_at_most(data, 0) == pytest.approx(C * losses[(0,) * n], rel=1e-6)
