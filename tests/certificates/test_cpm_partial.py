"""The bound of every completion of an assignment, by the theorem's sums written out sample by sample."""

import numpy as np
import pytest

from polyopt.certificates.cpm_partial import _EQUAL, _added, bound_of_completions
from polyopt.certificates.cpm_point import CpmPoint, bound_of
from polyopt.certificates.geometry import LinearGeometry


def drawn(seed, n=9, K=3):
    """A point with two thirds of its positives assigned, multipliers of it, and the others."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) < 5, 1.0, -1.0)
    X, C = rng.normal(size=(n, 2)) + 0.5 * y[:, None], rng.uniform(0.3, 2.0, n)
    Z = np.ones((n, K))
    Z[y > 0] = np.eye(K)[rng.integers(0, K, 5)]
    free = np.array([1, 3])
    Z[free] = 0.0
    alpha = 0.2 * C[:, None] * Z * rng.uniform(size=(n, K))
    lifted = np.column_stack([X, np.ones(n)])
    return (
        CpmPoint(LinearGeometry(lifted), y, C, Z, np.zeros((K, 3)), alpha, implied=False),
        lifted,
        alpha,
        free,
    )


def added(point, lifted, pulled, theta, free):
    """Σ min_k of the theorem, each β the least that is worth the same at every face."""
    total, before = 0.0, []
    for i in free:
        square, worth = [], []
        for k, share in enumerate(theta):
            charge = sum(beta[k] * max(0.0, lifted[r] @ lifted[i]) for r, beta in before)
            worth.append(1.0 - (0.5 * pulled[k] @ lifted[i] + 0.5 * charge) / share)
            square.append(lifted[i] @ lifted[i] / share)
        most = [min(max(0.0, 2.0 * w / s), point.C[i]) for w, s in zip(worth, square, strict=True)]
        best = [b * w - 0.25 * b * b * s for b, w, s in zip(most, worth, square, strict=True)]
        if min(best) <= 0.0:
            continue
        beta = [
            min(2.0 * min(best) / (w + np.sqrt(max(0.0, w * w - s * min(best)))), b)
            for b, w, s in zip(most, worth, square, strict=True)
        ]
        before.append((i, beta))
        total += min(b * w - 0.25 * b * b * s for b, w, s in zip(beta, worth, square, strict=True))
    return total


@pytest.mark.parametrize("margin", ["total", "worst"])
def test_the_bound_is_the_theorem_s_at_the_best_of_the_shares_tried(margin):
    for seed in range(12):
        point, lifted, alpha, free = drawn(seed)
        pulled = (alpha * point.y[:, None]).T @ lifted
        lengths = np.linalg.norm(pulled, axis=1)
        best = float(bound_of(point, alpha, "sum", margin).lower)
        for part in _EQUAL if margin == "worst" else [0.0]:
            theta = (1.0 - part) * lengths / lengths.sum() + part / 3 if margin == "worst" else np.ones(3)
            base = alpha.sum() - 0.25 * (lengths**2 / theta).sum()
            best = max(best, base + added(point, lifted, pulled, theta, free))
        found = bound_of_completions(point, alpha, "sum", margin, free)
        assert found == pytest.approx(best, rel=1e-7)  # a root of nearly nothing has half the digits


def test_a_face_without_multipliers_has_no_share_and_takes_none():
    point, lifted, alpha, free = drawn(3)
    alpha[:, 1] = 0.0
    pulled = (alpha * point.y[:, None]).T @ lifted
    lengths = np.linalg.norm(pulled, axis=1)
    best = float(bound_of(point, alpha, "sum", "worst").lower)
    for part in _EQUAL:
        theta = (1.0 - part) * lengths / lengths.sum() + part / 3
        with np.errstate(invalid="ignore"):
            base = alpha.sum() - 0.25 * np.nansum(lengths**2 / theta)
        more = added(point, lifted, pulled, theta, free) if part else 0.0  # there it would cost nothing
        best = max(best, base + more)
    assert bound_of_completions(point, alpha, "sum", "worst", free) == pytest.approx(best, rel=1e-9)


def test_without_samples_to_come_it_is_the_bound_of_the_assignment():
    point, _, alpha, _ = drawn(1)
    for margin in ("total", "worst"):
        none = np.zeros(0, dtype=np.int64)
        assert bound_of_completions(point, alpha, "sum", margin, none) == float(
            bound_of(point, alpha, "sum", margin).lower
        )


def test_what_is_added_is_less_than_its_sum_by_rounding_alone():
    slopes, overlaps = np.array([[0.5, 0.8], [0.9, 0.7]]), np.array([[2.0, 1.0], [1.0, 3.0]])
    # First sample: β ≤ 0.3; worth 0.3·0.5 − ¼·0.09·2 at face 0, and the same at face 1 for less.
    first = 0.3 * 0.5 - 0.25 * 0.09 * 2.0
    cheaper = 2.0 * first / (0.8 + np.sqrt(0.64 - 2.0 * first))
    worth = np.array([0.9 - 0.5 * 0.3, 0.7 - 0.5 * cheaper])
    second = min(0.4 * worth - 0.25 * 0.16 * 3.0)
    found = _added(slopes, overlaps, np.ones(2), np.array([0.3, 0.4]))
    assert found == pytest.approx(first + second, rel=1e-12)
    assert found < first + second
    assert _added(-slopes, overlaps, np.ones(2), np.array([0.3, 0.4])) == 0.0
