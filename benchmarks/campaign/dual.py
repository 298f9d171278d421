"""The checker's own solver: an interior point for the duals of hinge programs, in double and then in 80 bits.

    min ½ ‖F'β‖² + Σ p a    over 0 ≤ a ≤ U,   β = Σ_r s_r a_r,   Σ β = 0 where there is an intercept.

F (n, q) is a factor of the Gram matrix, such as the samples themselves. The rows r are α (s = y, p = −1,
U = C) and for bounded outputs λ and λ* (s = −1 and +1, p = B, U = ∞). A sample's rows share its row of F, so
that each step factors one matrix of q + 1 rows. It proposes β, no more: what a proposal is worth is evaluated
by whoever asks for it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from benchmarks.campaign.extended import LD, cholesky, solve_triangular

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["propose"]

_STAGES = ((np.float64, 60, 1e-9), (LD, 25, 1e-16))  # precision, steps, relative gap to end at
_PATIENCE = 4  # steps without progress


def propose(
    F: Array, y: Array, costs: Array, B: float = np.inf, *, intercept: bool = True
) -> tuple[Array, Any]:
    """Coefficients β (n,) near the optimum, in 80 bits, and an intercept.

    `F` (n, q) is a factor of the Gram matrix in 80-bit floats; all costs are positive; `intercept` says
    whether b is free.
    """
    costs = np.asarray(costs, dtype=LD)
    unit = costs.max()
    F, U = F * np.sqrt(unit), (costs / unit)[None, :]
    s, p = np.asarray(y, dtype=LD)[None, :], -np.ones((1, len(y)), LD)
    if np.isfinite(B):
        ones = np.ones(len(y), LD)
        s, p = np.stack([s[0], -ones, ones]), np.stack([p[0], B * ones, B * ones])
        U = np.concatenate([U, np.full((2, len(y)), np.inf, LD)])
    soft = np.isfinite(U)
    a = np.minimum(U, 1) / 2
    with np.errstate(all="ignore"):
        slope = max(LD(1), abs(s * (F @ (F.T @ (s * a).sum(axis=0))) + p).max())
        state = _State(a, slope + 0 * a, slope * soft, np.where(soft, U - a, 1), LD(0))
        for dtype, steps, goal in _STAGES:
            state = _iterate(
                F.astype(dtype), s.astype(dtype), p.astype(dtype), soft, state, intercept, steps, goal
            )
    a = np.clip(np.nan_to_num(state.a), 0, U) * unit
    return (s * a).sum(axis=0), state.b


@dataclass
class _State:
    """a, multipliers z of a ≥ 0 and t of a ≤ U, the room U − a (1 where U is infinite), and b."""

    a: Array
    z: Array
    t: Array
    room: Array
    b: Any

    def parts(self, dtype: Any) -> tuple[Array, ...]:
        return tuple(np.asarray(part, dtype=dtype) for part in (self.a, self.z, self.t, self.room, self.b))


def _iterate(
    F: Array, s: Array, p: Array, soft: Array, state: _State, intercept: bool, steps: int, goal: float
) -> _State:
    """Predictor and corrector steps until the precision of F's type is used up."""
    lifted = np.column_stack([F, np.ones(len(F), F.dtype)]) if intercept else F
    ridge = np.ones(lifted.shape[1], F.dtype)
    ridge[F.shape[1] :] = 0
    count = state.a.size + soft.sum()
    best, least, since = state, np.inf, 0
    for _ in range(steps):
        a, z, t, room, b = state.parts(F.dtype)
        beta = (s * a).sum(axis=0)
        rest = -(s * (F @ (F.T @ beta) + b) + p - z + t)
        mu = ((z * a).sum() + (t * room * soft).sum()) / count
        off = abs(beta.sum()) / max(abs(beta).sum(), 1e-300) if intercept else 0
        merit = max(mu * count / max(abs((p * a).sum()), 1e-300), abs(rest).max(), off)
        if merit < least:
            least, best, since = merit, state, 0
        since += 1
        if merit <= goal or since > _PATIENCE:
            break
        D = z / a + np.where(soft, t / room, 0)
        S = (1 / D).sum(axis=0)
        solve = _solver((lifted * S[:, None]).T @ lifted + np.diag(ridge))
        if solve is None:
            break

        parts = _Parts(a, z, t, room, soft, s, D, rest, beta, lifted, solve, intercept)
        da, dz, dt, _ = first = parts.direction(-z * a, -t * room * soft)
        step = parts.longest(first)
        after = ((z + step * dz) * (a + step * da)).sum() + (
            (t + step * dt) * (room - step * da) * soft
        ).sum()
        target = np.clip((after / count / mu) ** 3, 1e-6, 1) * mu
        second = parts.direction(target - z * a - da * dz, (target - t * room + da * dt) * soft)
        step = 0.99 * parts.longest(second)
        da, dz, dt, db = second
        new = _State(
            a + step * da, z + step * dz, t + step * dt, np.where(soft, room - step * da, 1), b + step * db
        )
        sound = all(np.isfinite(part).all() for part in new.parts(F.dtype))
        if not sound or (new.a <= 0).any() or (new.z <= 0).any() or (new.room <= 0).any() or step < 1e-7:
            break
        state = new
    return best


def _solver(M: Array) -> Any:
    """What solves with M; in 80 bits where the factorisation in double fails; None where M is not finite."""
    if not np.isfinite(M).all():
        return None
    if M.dtype != LD:
        with contextlib.suppress(np.linalg.LinAlgError):
            factor = cho_factor(M, check_finite=False)
            return lambda r: cho_solve(factor, r, check_finite=False)
    L = cholesky(M)
    return lambda r: solve_triangular(L, r).astype(M.dtype)


@dataclass
class _Parts:
    """What a step is made of; `solve` solves for the change of w and b."""

    a: Array
    z: Array
    t: Array
    room: Array
    soft: Array
    s: Array
    D: Array
    rest: Array
    beta: Array
    lifted: Array
    solve: Any
    intercept: bool

    def direction(self, low: Array, up: Array) -> tuple[Array, ...]:
        """Newton's step, for what the products z a and t (U − a) lack."""
        r = self.rest + low / self.a - np.where(self.soft, up / self.room, 0)
        short = self.lifted.T @ (self.s * r / self.D).sum(axis=0)
        if self.intercept:
            short[-1] += self.beta.sum()
        u = self.solve(short)
        da = (r - self.s * (self.lifted @ u)) / self.D
        dz, dt = (low - self.z * da) / self.a, np.where(self.soft, (up + self.t * da) / self.room, 0)
        return da, dz, dt, u[-1] if self.intercept else u[-1] * 0

    def longest(self, step: tuple[Array, ...]) -> Any:
        """The longest step, up to 1, that keeps all of them positive."""
        da, dz, dt, _ = step
        ratios = [np.where(da < 0, -self.a / da, 1), np.where(dz < 0, -self.z / dz, 1)]
        ratios += [
            np.where(self.soft & (da > 0), self.room / da, 1),
            np.where(self.soft & (dt < 0), -self.t / dt, 1),
        ]
        return min(1, *(part.min() for part in ratios))
