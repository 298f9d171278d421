"""Newton's method once the free variables are all but known: the last digits, in a few steps.

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

Every part of the work is taken off an allowance before it is done. Where that is spent, or a system
cannot be solved, the method ends with what it has: working sets go on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dsysv

from polyopt.kernels import chunks
from polyopt.solvers.decomposition.dual import slopes
from polyopt.solvers.decomposition.newton_work import (
    SpentError,
    block_work,
    curve_work,
    factor_work,
    solve_work,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.kernels import Gram
    from polyopt.solvers.decomposition.dual import Dual
    from polyopt.solvers.decomposition.newton_work import Allowance

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["polish"]

_STEPS = 100  # Newton steps at most
_BLOCK, _COLUMNS = 256, 256  # samples, and columns of a factor, between two looks at the allowance
_RIDGE = 1e-11  # of the mean diagonal, on that of K_FF; raised where K_FF is singular
# How many violators join at once: all of them; where that leads nowhere, fewer; then none, until the free
# variables agree; and then the worst pair, which always leads somewhere.
_JOINING = (np.inf, 64, 0, 2)


def polish(
    gram: Gram, watched: Samples, beta: Vector, g: Vector, dual: Dual, tol: float, allowance: Allowance,
    steps: float, is_exact: bool = True,
) -> int:  # fmt: skip
    """Solve the dual over the watched samples, all others being 0, and change beta and g in place.

    Parameters
    ----------
    gram : Gram
        The matrix.
    watched : ndarray of int, shape (s,)
        The samples.
    beta, g : ndarray of shape (s,)
        Their part of β, and of Kβ.
    dual : Dual
        The program.
    tol : float
        Violation to reach.
    allowance : Allowance
        What it may cost.
    steps : float
        Steps at most.
    is_exact : bool
        Whether g is in double precision; else it is computed anew.

    Returns
    -------
    int
        Steps taken. The violation may be left above `tol`, where it got stuck or the allowance is spent;
        the dual has not fallen.
    """
    run = _Run(gram, watched, beta, g, dual, tol, allowance)
    try:
        if not is_exact:
            run.compute()
        while run.taken < min(steps, _STEPS) and run.goes_on():
            pass
    except SpentError:
        pass
    return run.taken


class _Run:
    """Where Newton's method stands: β and g over the watched samples, and its system."""

    def __init__(
        self, gram: Gram, watched: Samples, beta: Vector, g: Vector, dual: Dual, tol: float,
        allowance: Allowance,
    ):  # fmt: skip
        s = len(watched)
        self._gram, self._watched, self._beta, self._g = gram, watched, beta, g
        self._lo, self._hi, self._y, self._B = dual.lo[watched], dual.hi[watched], dual.y[watched], dual.B
        self._tol, self._allowance = tol, allowance
        self._K, self._has = np.empty((s, s)), np.zeros(s, dtype=bool)  # rows that were wanted so far
        self._system: _System | None = None
        self._stage = self.taken = 0

    def compute(self) -> None:
        """Compute g."""
        support = np.flatnonzero(self._beta)
        self._want(support)
        self._g[:] = self._beta[support] @ self._K[support]

    def _want(self, samples: Samples) -> None:
        """Compute the rows of the matrix for these of the watched samples, where it lacks them."""
        missing = samples[~self._has[samples]]
        for part in chunks(missing, _BLOCK):
            old, new = np.flatnonzero(self._has), np.flatnonzero(~self._has)
            self._allowance.spend(block_work(len(part), len(new), self._gram.width))
            block = self._gram.panel(self._watched[new], np.float64).rows(self._watched[part])
            self._K[np.ix_(part, new)] = block
            self._K[np.ix_(part, old)] = self._K[np.ix_(old, part)].T
            self._has[part] = True

    def goes_on(self) -> bool:
        """Take a step, or go to the next stage; False once there is nothing left to do."""
        beta, g, lo, hi, tol = self._beta, self._g, self._lo, self._hi, self._tol
        up, down = slopes(beta, lo, hi, self._y, self._B)
        rise, fall = up - g, down - g
        between = (beta != lo) & (beta != hi)
        if self._stage >= len(_JOINING) or rise.max() - fall.min() <= tol:
            return False
        joining = _JOINING[self._stage]
        agreed = joining == 0 and np.ptp(rise[between] if between.any() else 0.0) <= tol / 4
        if not agreed:
            free, target, low, high = _pieces(between, beta, rise, fall, up, down, lo, hi, tol, joining)
        if agreed or len(free) < 2 or not self._newton(free, target, low, high):
            self._stage += 1
            return True
        self.taken += 1
        self._stage = self._stage if joining == 0 else 0
        return True

    def _newton(self, free: Samples, target: Vector, low: Vector, high: Vector) -> bool:
        """One step, changing beta and g; False when it led nowhere."""
        self._want(free)
        if self._system is None or not self._system.covers(free):
            self._system = _System(self._K, free, self._allowance)
        now, residual = self._beta[free], target - self._g[free]
        held = np.zeros(len(free), dtype=bool)
        ends = now.copy()
        first: Vector | None = None
        while True:
            d = self._system.solve(residual, free, held, ends - now)
            if d is None:
                self._system = None
                return False
            first = d if first is None else first
            beyond = ~held & ((now + d < low) | (now + d > high))
            if not beyond.any():
                break
            ends[beyond] = np.where(now + d < low, low, high)[beyond]
            held |= beyond
        change, bend = self._curve(free, d)
        if residual @ d <= bend / 2 or abs(d.sum()) > 1e-12 * np.abs(d).sum():
            # That held too much for the dual to rise: go along the first direction, to its first end.
            d, held = first, np.zeros_like(held)
            change, bend = self._curve(free, d)
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
        self._beta[free] = after
        self._g += length * change
        return True

    def _curve(self, free: Samples, d: Vector) -> tuple[Vector, float]:
        """K d over all samples, and d'Kd, for a step d over the free ones."""
        self._allowance.spend(curve_work(len(free), len(self._K)))
        change = d @ self._K[free]
        return change, float(d @ change[free])


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


class _System:
    """The Newton system: a Cholesky factor of K over the samples it was made for, and a border."""

    def __init__(self, K: Vector, base: Samples, allowance: Allowance):
        self._K, self._base, self._allowance = K, base, allowance
        self._shift = max(float(K[base, base].mean()), np.finfo(float).tiny)
        self._ridge = _RIDGE * self._shift
        while not self._factorise():
            self._ridge *= 100.0
        self._column: dict[tuple[str, int], Vector] = {}  # L⁻¹ times each column of the border so far

    def _factorise(self) -> bool:
        """Cholesky's factor of the matrix with its shift and its ridge; whether there is one.

        A block of columns at a time, so that no call takes long.
        """
        n = len(self._base)
        L = self._K[np.ix_(self._base, self._base)].T  # symmetric, and so in LAPACK's order of columns
        L += self._shift
        L[np.diag_indices(n)] += self._ridge
        for start in range(0, n, _COLUMNS):
            end = min(start + _COLUMNS, n)
            self._allowance.spend(factor_work(n) * (end - start) / n)
            L[start:, start:end] -= L[start:, :start] @ L[start:end, :start].T
            corner, failed = dpotrf(L[start:end, start:end], lower=1, clean=1)
            if failed:
                return False
            L[start:end, start:end] = corner
            L[end:, start:end] = dtrsm(1.0, corner, L[end:, start:end], side=1, lower=1, trans_a=1)
        self._L = L
        return True

    def covers(self, free: Samples) -> bool:
        """Whether the border for these samples would be narrow enough."""
        changed = len(np.setxor1d(free, self._base))
        return changed <= max(32, len(self._base) // 10)

    def solve(self, residual: Vector, free: Samples, held: Samples, moves: Vector) -> Vector | None:
        """The step d over `free`: d = moves where `held`, Σ d = 0, and Newton's elsewhere.

        None where the border's system is singular.
        """
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
        border = [*(("join", int(j)) for j in joined), *(("pin", int(j)) for j in pins), ("ones", 0)]
        U = np.column_stack([self._column[key] for key in border])
        S = np.zeros((c + p + 1, c + p + 1))
        S[:c, :c] = K[np.ix_(joined, joined)] + self._shift + self._ridge * np.eye(c)
        S[:c, c : c + p] = joined[:, None] == pins[None, :]
        S[:c, -1] = 1.0
        S[c:, :c] = S[:c, c:].T
        right = np.concatenate([residual[at], pin_moves, [0.0]])
        r0 = np.where(present, residual[order], 0.0)
        y0 = solve_triangular(self._L, r0, lower=True, check_finite=False)
        _, _, z, failed = dsysv(S - U.T @ U, right - U.T @ y0, lower=1)
        if failed or not np.isfinite(z).all():
            return None
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
                columns.append(self._K[j, self._base] + self._shift)
        for j in pins:
            if ("pin", j) not in self._column:
                keys.append(("pin", int(j)))
                columns.append((self._base == j).astype(float))
        if ("ones", 0) not in self._column:
            keys.append(("ones", 0))
            columns.append(np.ones(len(self._base)))
        border = len(joined) + len(pins) + 1
        self._allowance.spend(solve_work(len(self._base), border, len(keys)))
        if not keys:
            return
        solved = solve_triangular(self._L, np.column_stack(columns), lower=True, check_finite=False)
        self._column.update({key: solved[:, place] for place, key in enumerate(keys)})
