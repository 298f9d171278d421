"""Newton's method once the free variables are all but known: from a violation of 1e-2 to one of 1e-8.

Between its kinks φ is linear, so with the variables at kinks held there the dual is a quadratic under
one equality, and one linear system gives its optimum over the free variables F:

    [K_FF  1] [d]   [t − g_F]
    [1'    0] [ν] = [   0   ]        t the slopes of φ there.

Where d would carry a variable past the end of its piece, the variable is held at that end and the
system solved again, until the step is feasible; if the dual does not rise by it, the first d is taken
instead, up to the first end. Variables at kinks that violate join F. K_FF is factored once (Cholesky);
variables that are held, and variables that join, border the system, and it is factored anew only when
the border has become wide. As Σ d = 0, the same constant may be added to all of K: that spares a kernel
of low rank a singular factor.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, LinAlgWarning, solve, solve_triangular
from scipy.linalg.lapack import dpotrf

from polyopt.solvers.decomposition.dual import slopes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.solvers.clock import Clock
    from polyopt.solvers.decomposition.dual import Dual

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["polish"]

_STEPS = 100  # Newton steps at most
_RIDGE = 1e-11  # of the mean diagonal, on that of K_FF; raised where K_FF is singular
# How many violators join at once: all of them; where that leads nowhere, fewer; then none, until the free
# variables agree; and then the worst pair, which always leads somewhere.
_JOINING = (np.inf, 64, 0, 2)


def polish(
    K: Vector, beta: Vector, g: Vector, dual: Dual, watched: Samples, tol: float, clock: Clock, steps: float
) -> int:
    """Solve the dual over the watched samples, changing beta and g in place.

    Parameters
    ----------
    K : ndarray of shape (s, s)
        Gram matrix of the watched samples.
    beta, g : ndarray of shape (s,)
        Their part of β, and of Kβ.
    dual : Dual
        The program.
    watched : ndarray of int
        The samples.
    tol : float
        Violation to reach.
    clock : Clock
        Checked before each step.
    steps : float
        Steps at most.

    Returns
    -------
    int
        Steps taken. The violation may be left above `tol`, where it got stuck; the dual has not fallen.
    """
    lo, hi, y, B = dual.lo[watched], dual.hi[watched], dual.y[watched], dual.B
    system: _System | None = None
    stage = taken = 0
    while taken < min(steps, _STEPS) and stage < len(_JOINING):
        up, down = slopes(beta, lo, hi, y, B)
        rise, fall = up - g, down - g
        between = (beta != lo) & (beta != hi)
        if rise.max() - fall.min() <= tol or clock.is_over:
            break
        if _JOINING[stage] == 0 and np.ptp(rise[between] if between.any() else 0.0) <= tol / 4:
            stage += 1
            continue
        free, target, low, high = _pieces(between, beta, rise, fall, up, down, lo, hi, tol, _JOINING[stage])
        if len(free) < 2:
            stage += 1
            continue
        if system is None or not system.covers(free):
            system = _System(K, free)
        if not _newton(system, K, beta, g, free, target, low, high):
            stage += 1
            continue
        taken += 1
        stage = stage if _JOINING[stage] == 0 else 0
    return taken


def _pieces(
    between: NDArray[np.bool_], beta: Vector, rise: Vector, fall: Vector, up: Vector, down: Vector,
    lo: Vector, hi: Vector, tol: float, joining: float,
) -> tuple[Samples, Vector, Vector, Vector]:  # fmt: skip
    """The free samples, the slope of φ on the piece of each, and where that piece ends.

    Free are those between kinks, and of those at a kink up to `joining` that violate.
    """
    # The intercept: what the free variables agree on, and where there are none, half-way from m to M.
    b0 = float(rise[between].mean()) if between.any() else float(rise.max() + fall.min()) / 2
    gain = np.where(between, 0.0, np.maximum(rise - b0, b0 - fall))
    worst = np.flatnonzero(gain > tol / 4)
    if len(worst) > joining:
        half = int(joining) // 2
        upward = worst[np.argsort(-rise[worst], kind="stable")[:half]]
        downward = worst[np.argsort(fall[worst], kind="stable")[:half]]
        worst = np.union1d(upward, downward)
    free = np.union1d(np.flatnonzero(between), worst)
    rising = between[free] | (rise[free] - b0 >= b0 - fall[free])
    target = np.where(rising, up[free], down[free])
    b, lo, hi = beta[free], lo[free], hi[free]
    low = np.where(
        (b > hi) | ((b == hi) & rising), hi, np.where((b > lo) | ((b == lo) & rising), lo, -np.inf)
    )
    high = np.where(
        (b < lo) | ((b == lo) & ~rising), lo, np.where((b < hi) | ((b == hi) & ~rising), hi, np.inf)
    )
    return free, target, low, high


def _newton(
    system: _System, K: Vector, beta: Vector, g: Vector, free: Samples, target: Vector, low: Vector,
    high: Vector,
) -> bool:  # fmt: skip
    """One step, changing beta and g; False when it led nowhere."""
    now, residual = beta[free], target - g[free]
    held = np.zeros(len(free), dtype=bool)
    ends = now.copy()
    first: Vector | None = None
    while True:
        d = system.solve(residual, free, held, ends - now)
        first = d if first is None else first
        beyond = ~held & ((now + d < low) | (now + d > high))
        if not beyond.any():
            break
        ends[beyond] = np.where(now + d < low, low, high)[beyond]
        held |= beyond
    change, bend = _curve(K, free, d)
    if residual @ d <= bend / 2 or abs(d.sum()) > 1e-12 * np.abs(d).sum():
        # That held too much for the dual to rise: go along the first direction, to its first end.
        d, held = first, np.zeros_like(held)
        change, bend = _curve(K, free, d)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(d > 0, (high - now) / d, np.where(d < 0, (low - now) / d, np.inf))
        length = min(1.0, float(room.min()))
        held = room <= length
        ends = np.where(d > 0, high, low)
        if not (length > 0.0 and residual @ d > length * bend / 2):
            return False
    else:
        length = 1.0
    after = np.clip(now + length * d, low, high)
    after[held] = ends[held]
    beta[free] = after
    g += length * change
    return True


def _curve(K: Vector, free: Samples, d: Vector) -> tuple[Vector, float]:
    """K d over all samples, and d'Kd, for a step d over the free ones."""
    step = np.zeros(len(K))
    step[free] = d
    change = K @ step
    return change, float(d @ change[free])


class _System:
    """The Newton system: a Cholesky factor of K over the samples it was made for, and a border."""

    def __init__(self, K: Vector, base: Samples):
        self._K, self._base = K, base
        diagonal = K.diagonal()[base]
        self._shift = max(float(diagonal.mean()), np.finfo(float).tiny)
        self._ridge = _RIDGE * self._shift
        while True:
            # Symmetric, so its transpose is itself in the column order that LAPACK factors in place.
            block = K[np.ix_(base, base)].T
            block += self._shift
            block[np.diag_indices(len(base))] += self._ridge
            self._L, failed = dpotrf(block, lower=1, clean=0, overwrite_a=1)
            if not failed:
                break
            self._ridge *= 100.0
        self._column: dict[tuple[str, int], Vector] = {}  # L⁻¹ times each column of the border so far

    def covers(self, free: Samples) -> bool:
        """Whether the border for these samples would be narrow enough."""
        changed = len(np.setxor1d(free, self._base))
        return changed <= max(32, len(self._base) // 10)

    def solve(self, residual: Vector, free: Samples, held: Samples, moves: Vector) -> Vector:
        """The step d over `free`: d = moves where `held`, Σ d = 0, and Newton's elsewhere."""
        base, K = self._base, self._K
        order = np.searchsorted(free, base).clip(max=len(free) - 1)
        present = free[order] == base
        joined = np.setdiff1d(free, base)
        at = np.searchsorted(free, joined)
        # The border: samples that joined, samples that are absent or held, and the equality.
        absent = base[~present]
        fixed = free[held]
        pins = np.concatenate([absent, fixed])
        pin_moves = np.concatenate([np.zeros(len(absent)), moves[held]])
        self._extend(joined, pins)
        c, p = len(joined), len(pins)
        U = np.column_stack(
            [*(self._column["join", j] for j in joined), *(self._column["pin", j] for j in pins), self._ones]
        )
        S = np.zeros((c + p + 1, c + p + 1))
        S[:c, :c] = K[np.ix_(joined, joined)] + self._shift + self._ridge * np.eye(c)
        S[:c, c : c + p] = joined[:, None] == pins[None, :]
        S[:c, -1] = 1.0
        S[c:, :c] = S[:c, c:].T
        right = np.concatenate([residual[at], pin_moves, [0.0]])
        r0 = np.where(present, residual[order], 0.0)
        y0 = solve_triangular(self._L, r0, lower=True, check_finite=False)
        z = _solve_small(S - U.T @ U, right - U.T @ y0)
        d0 = solve_triangular(self._L, y0 - U @ z, lower=True, trans=1, check_finite=False)
        d = np.zeros(len(free))
        d[order[present]] = d0[present]
        d[at] = z[:c]
        d[held] = moves[held]
        if not held.all():  # rounding, where K_FF is all but singular
            d[~held] -= d.sum() / (~held).sum()
        return d

    def _extend(self, joined: Samples, pins: Samples) -> None:
        """Compute the columns of the border that are new, all by one triangular solve."""
        keys, columns = [], []
        for j in joined:
            if ("join", j) not in self._column:
                keys.append(("join", int(j)))
                columns.append(self._K[self._base, j] + self._shift)
        for j in pins:
            if ("pin", j) not in self._column:
                keys.append(("pin", int(j)))
                columns.append((self._base == j).astype(float))
        if not hasattr(self, "_ones"):
            keys.append(("ones", 0))
            columns.append(np.ones(len(self._base)))
        if not keys:
            return
        solved = solve_triangular(self._L, np.column_stack(columns), lower=True, check_finite=False)
        for place, key in enumerate(keys):
            if key[0] == "ones":
                self._ones = solved[:, place]
            else:
                self._column[key] = solved[:, place]


def _solve_small(S: Vector, right: Vector) -> Vector:
    """Solve the border's system; by least squares where it is singular."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            return solve(S, right, assume_a="sym", check_finite=False)
    except (LinAlgError, LinAlgWarning):
        return np.asarray(np.linalg.lstsq(S, right, rcond=1e-15)[0], dtype=float)
