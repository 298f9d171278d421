"""The search of OC1 for one split: exact line searches, hill climbing, random jumps.

A hyperplane ``a`` sends a sample right where ``V = a'x̃ > 0``, with ``x̃ = (x, 1)``. Moving it along a
direction r to ``a + αr`` sends a sample right where ``V + α r'x̃ > 0``, which changes at one value of
α for each sample, ``−V / r'x̃``. For a single coefficient, ``r = e_m``, the new coefficient changes
sides at ``U = (a_m x_m − V) / x_m``: eq. (1) of Murthy, Kasif & Salzberg, 1994. Sorting these
values and counting the classes on both sides between them finds the best α exactly.

Samples stand in columns here, ``columns`` of shape (m+1, n) with a last row of ones, so that a
coefficient's values are contiguous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Integers = NDArray[np.int64]
    States = NDArray[np.uint64]

__all__ = ["CRITERIA", "SAME", "best_step", "climb", "impurity", "impurity_of_sides", "move"]

CRITERIA = {"gini": 0, "twoing": 1, "entropy": 2}  # numbers, as compiled code knows them
SAME = 1e-12  # impurities closer than this are equal


@njit(cache=True)
def _uniform(state: States) -> float:
    """The next number from [0, 1): the upper bits of a linear congruential generator."""
    state[0] = state[0] * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return float(state[0] >> np.uint64(11)) * 2.0**-53


@njit(cache=True, error_model="numpy")
def impurity(sides: Vector, criterion: int) -> float:
    """Impurity of a split, 0 if it is pure; where one side is empty, that of the node.

    Gini is ``Σ_s p_s (1 − Σ_c p_sc²)``, entropy ``−Σ_s p_s Σ_c p_sc log2 p_sc``, and twoing, which is
    to be large, counts as ``1 − p_l p_r (Σ_c |p_lc − p_rc|)²``.

    `sides` (2, n_classes) has the weight of each class on either side.
    """
    n_classes = sides.shape[1]
    left = right = 0.0
    for c in range(n_classes):
        left += sides[0, c]
        right += sides[1, c]
    total = left + right
    if criterion == 1:
        if min(left, right) <= SAME * total:
            return 1.0
        gap = 0.0
        for c in range(n_classes):
            gap += abs(sides[0, c] / left - sides[1, c] / right)
        return 1.0 - left * right * (gap / total) ** 2
    value = 0.0
    for s in range(2):
        side = right if s else left
        for c in range(n_classes):
            count = sides[s, c]
            if count > SAME * total:
                value += count * (1.0 - count / side if criterion == 0 else -np.log2(count / side))
    return max(value / total, 0.0)


@njit(cache=True)
def impurity_of_sides(V: Vector, codes: Integers, weights: Vector, n_classes: int, criterion: int) -> float:
    """Impurity of the split into ``V > 0`` and the rest.

    `V` (n,) has the values at the hyperplane.
    """
    sides = np.zeros((2, n_classes))
    for j in range(len(V)):
        sides[1 if V[j] > 0.0 else 0, codes[j]] += weights[j]
    return impurity(sides, criterion)


@njit(cache=True)
def best_step(
    V: Vector, r: Vector, codes: Integers, weights: Vector, n_classes: int, criterion: int
) -> tuple[float, float]:
    """The least impurity of the splits ``V + α r > 0`` over all α, and the first α that has it.

    `V` (n,) has the values at the hyperplane, `r` what a unit of α adds to them.
    """
    sides = np.zeros((2, n_classes))
    movers, crossings, count = np.empty(len(V), np.int64), np.empty(len(V)), 0
    for j in range(len(V)):
        if r[j] == 0.0:
            sides[1 if V[j] > 0.0 else 0, codes[j]] += weights[j]
        else:  # at α = −∞
            sides[1 if r[j] < 0.0 else 0, codes[j]] += weights[j]
            movers[count], crossings[count] = j, -V[j] / r[j]
            count += 1
    if count == 0:
        return impurity(sides, criterion), 0.0
    order = np.argsort(crossings[:count])
    first = crossings[order[0]]
    least, best = impurity(sides, criterion), first - (1.0 + abs(first))
    if not np.isfinite(best):
        least, best = np.inf, 0.0
    after = first
    for k in range(count):
        j, crossing = movers[order[k]], after
        gains = 1 if r[j] > 0.0 else 0
        sides[gains, codes[j]] += weights[j]
        sides[1 - gains, codes[j]] -= weights[j]
        if k + 1 == count:
            alpha = crossing + (1.0 + abs(crossing))
        else:
            after = crossings[order[k + 1]]
            if after == crossing:
                continue
            alpha = 0.5 * crossing + 0.5 * after
            if alpha <= crossing:
                alpha = after
        value = impurity(sides, criterion)
        if value < least - SAME and np.isfinite(alpha):
            least, best = value, alpha
    return least, best


@njit(cache=True)
def move(
    V: Vector,
    r: Vector,
    current: float,
    patience: float,
    codes: Integers,
    weights: Vector,
    n_classes: int,
    criterion: int,
    state: States,
) -> tuple[float, float]:
    """Move to the best α if that is better, or as good and the lot falls so; return α and impurity.

    `V` and `state` are changed; `patience` is the probability of a move that changes nothing.
    """
    value, alpha = best_step(V, r, codes, weights, n_classes, criterion)
    if value >= current - SAME and _uniform(state) >= patience:
        return 0.0, current
    moved = np.empty(len(V))
    for j in range(len(V)):
        moved[j] = V[j] + alpha * r[j]
    value = impurity_of_sides(moved, codes, weights, n_classes, criterion)
    if value > current + SAME:  # samples as close to a crossing as rounding is
        return 0.0, current
    for j in range(len(V)):
        V[j] = moved[j]
    return alpha, value


@njit(cache=True)
def _product(a: Vector, columns: Vector, out: Vector) -> Vector:
    """``a @ columns``, into `out`."""
    for j in range(len(out)):
        out[j] = 0.0
    for m in range(len(a)):
        for j in range(len(out)):
            out[j] += a[m] * columns[m, j]
    return out


@njit(cache=True)
def climb(
    columns: Vector,
    codes: Integers,
    weights: Vector,
    n_classes: int,
    criterion: int,
    a: Vector,
    n_jumps: int,
    state: States,
) -> float:
    """Improve a hyperplane until neither its coefficients nor jumps do; return its impurity.

    Step 1 perturbs the coefficients in turn until a round improves nothing. The probability of a move
    that changes nothing is 1 at first and falls by 0.1 with each. Step 2 tries up to `n_jumps` random
    directions; one that improves leads back to step 1.

    `columns` (m+1, n) has the samples in columns, with a last row of ones; the hyperplane `a` and the
    `state` of the random numbers are changed.
    """
    V, r = _product(a, columns, np.empty(columns.shape[1])), np.empty(columns.shape[1])
    current = impurity_of_sides(V, codes, weights, n_classes, criterion)
    patience, direction = 1.0, np.empty(len(a))
    while current > SAME:
        improved = True
        while improved and current > SAME:
            before = current
            for m in range(len(a)):
                earlier = current
                alpha, current = move(
                    V, columns[m], current, patience, codes, weights, n_classes, criterion, state
                )
                a[m] += alpha
                if current < earlier - SAME:
                    patience = 1.0
                elif alpha != 0.0:
                    patience = max(patience - 0.1, 0.0)
            improved = current < before - SAME
        for _ in range(n_jumps):
            for m in range(len(a)):
                direction[m] = 2.0 * _uniform(state) - 1.0
            _product(direction, columns, r)
            earlier = current
            alpha, current = move(V, r, current, 0.0, codes, weights, n_classes, criterion, state)
            for m in range(len(a)):
                a[m] += alpha * direction[m]
            improved = current < earlier - SAME
            if improved:
                break
        if not improved:
            break
    return current
