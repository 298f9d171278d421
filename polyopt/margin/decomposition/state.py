"""The iterate of the decomposition: β and g = Kβ, the error of g, the active samples; and the history.

g differs from Kβ for two reasons. Samples set aside (shrinking) keep the g of the last time that all were
updated, at the β called ``_settled``. And kernel rows in single precision add rounding to g. That error is
measured on some samples in double precision before a solution is returned, and estimated from there for the
others; where it matters, g is recomputed, and single precision then carries only further changes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.certificates.certificate import relative_gap
from polyopt.linalg.kernels import Gram, Samples, chunks, outputs_at, stream, weighted
from polyopt.margin.decomposition.cache import RowCache
from polyopt.margin.decomposition.dual import Dual, gains
from polyopt.margin.decomposition.options import DEFAULTS, Options

_EPS = float(np.finfo(float).eps)


class State:
    """The state of a decomposition, with a cache of `budget` bytes for kernel rows.

    dual: the program, set before a solve.
    beta, g (n,): β, and Kβ.
    cache: kernel rows over the active samples.
    last_set: the last working set, as places among the active samples.
    """

    def __init__(self, gram: Gram, budget: float, options: Options = DEFAULTS):
        self.gram, self.budget, self.options = gram, budget, options
        self.diagonal = np.ascontiguousarray(gram.diagonal())
        self._largest = float(self.diagonal.max())
        self.dual: Dual
        # The program and the point of the last evaluation, with its intercept and values.
        self._evaluation: tuple[Dual, Vector, Vector, float, dict[str, float]] | None = None
        self.beta, self.g, self._settled = np.zeros(gram.n), np.zeros(gram.n), np.zeros(gram.n)
        # Σ |Δβ_j| √K_jj over all changes, now and when g_i was last recomputed: the rounding of g_i grows
        # with √K_ii times the difference.
        self._changes, self._changes_at = 0.0, np.zeros(gram.n)
        self._sizes = np.sqrt(np.maximum(self.diagonal, 0.0))
        self.is_small = gram.n <= options.max_small_samples
        is_cheap = self.is_small and gram.n**2 * gram.width <= options.max_small_work
        self.cache = RowCache(
            gram, budget, np.float32 if not is_cheap and gram.is_single() else np.float64, options
        )
        self.last_set: Samples = np.zeros(0, dtype=np.intp)

    # -- changes of the point ------------------------------------------------------------------

    def move_to(self, beta: Vector, tick: Callable[[], None] | None = None) -> None:
        """Go to β and update g; an exception raised by `tick` leaves the state unchanged."""
        moved = np.flatnonzero(beta != self.beta)
        if int((~self.cache.is_held(moved)).sum()) > self.cache.slots // 2:
            self._recompute(beta, tick)
            return
        self.change(moved, beta[moved])
        self.update_all()

    def change(self, samples: Samples, beta: Vector) -> None:
        """Set β of these samples, and update g of the active samples."""
        change = beta - self.beta[samples]
        active = self.cache.active
        for part in chunks(np.arange(len(samples)), self.cache.slots):
            if not self.cache.is_held(samples[part]).all():
                self.cache.fetch(samples[part])
            self.g[active] += self.cache.combine(samples[part], change[part])
        self.beta[samples] = beta
        with np.errstate(over="ignore"):
            self._changes += float(np.abs(change) @ self._sizes[samples])
        if self.is_whole:
            self._settled[samples] = beta

    def set_point(self, beta: Vector, g: Vector) -> None:
        """Set β, and g of every sample."""
        self.beta, self.g, self._settled = beta, g, beta.copy()
        with np.errstate(over="ignore"):
            self._changes = float(np.abs(beta) @ self._sizes)
        self._changes_at[:] = 0.0

    def set_outputs(self, samples: Samples, g: Vector) -> None:
        """Set g of these samples, computed in double precision."""
        self.g[samples] = g
        self._changes_at[samples] = self._changes

    @property
    def is_whole(self) -> bool:
        """True if all samples are active."""
        return len(self.cache.active) == self.gram.n

    @property
    def is_up_to_date(self) -> bool:
        """True if g is Kβ for every sample, up to rounding."""
        return self.is_whole or np.array_equal(self._settled, self.beta)

    def update_all(self) -> None:
        """Update g of the samples that are set aside."""
        moved = np.flatnonzero(self.beta != self._settled)
        if len(moved):
            aside = np.setdiff1d(np.arange(self.gram.n), self.cache.active, assume_unique=True)
            panel = self.gram.panel(moved, self.cache.dtype)
            self.g[aside] += weighted(panel, aside, self.beta[moved] - self._settled[moved])
            self._settled[moved] = self.beta[moved]

    def _current(self) -> Samples:
        """Samples whose g is that of this β, up to rounding."""
        return np.arange(self.gram.n) if self.is_up_to_date else self.cache.active

    def recompute(self, tick: Callable[[], None] | None = None) -> None:
        """Recompute g of every sample, in the precision of the rows."""
        self._recompute(self.beta, tick)

    def _recompute(self, beta: Vector, tick: Callable[[], None] | None) -> None:
        self.set_point(beta.copy(), stream(self.gram, beta, self.cache.dtype, tick))

    def clear_cache(self, dtype: DTypeLike | None = None) -> None:
        """Empty the cache, over all samples, and perhaps in another precision."""
        old = self.cache
        self.cache = RowCache(self.gram, self.budget, dtype or old.dtype, self.options)
        self.cache.computed, self.cache.hits = old.computed, old.hits
        self.last_set = self.last_set[:0]

    def recover(self) -> None:
        """Make β and g agree after an interrupt, which may have come between their changes.

        If recomputing g would take long, return to the point that was evaluated last.
        """
        self.clear_cache()
        last = self._evaluation
        work = float((self.beta != 0).sum()) * self.gram.n * self.gram.width
        if last is not None and last[0] is self.dual and work > self.options.max_recovery_work:
            self.set_point(last[1].copy(), last[2].copy())
        else:
            self.recompute()

    # -- shrinking -----------------------------------------------------------------------------

    def shrink(self, rise: Vector, fall: Vector) -> bool:
        """Set aside samples that violate with no other, if they are many; return True if any were."""
        violate = (rise >= fall.min()) | (fall <= rise.max())
        if not 0 < violate.sum() <= self.options.max_active_share * len(violate):
            return False
        self._set_active(self.cache.active[violate])
        return True

    def unshrink(self, tol: float) -> bool:
        """Update g everywhere, and activate samples that violate; return False if none does by `tol`."""
        if self.is_whole:
            return False
        self.update_all()
        if self.violation() <= tol:
            return False
        rise, fall = self.gains()
        violate = (rise >= fall.min()) | (fall <= rise.max())
        violate[self.cache.active] = True
        self._set_active(np.flatnonzero(violate))
        return True

    def activate_all(self) -> None:
        """Activate every sample."""
        if not self.is_whole:
            self._set_active(np.arange(self.gram.n))

    def _set_active(self, active: Samples) -> None:
        self.update_all()  # all samples set aside have g of the same β
        self.cache.set_active(active)
        self.last_set = self.last_set[:0]

    # -- values --------------------------------------------------------------------------------

    def gains(self) -> tuple[Vector, Vector]:
        """Return ``φ'(β+) − g`` and ``φ'(β−) − g`` of every sample."""
        return gains(self.g, self.beta, self.dual.phi)[:2]

    def violation(self) -> float:
        """Return m − M over all samples."""
        m, M = self.dual.violation(self.beta, self.g)
        return m - M

    def gap(self) -> float:
        """Relative gap between the primal and the dual objective, from g."""
        values = self.values()
        return relative_gap(values["objective"], values["bound"])

    def values(self) -> dict[str, float]:
        """Primal and dual objective, from g."""
        return self._evaluate()[1]

    def intercept(self) -> float:
        """Best intercept, from g."""
        return self._evaluate()[0]

    def _evaluate(self) -> tuple[float, dict[str, float]]:
        dual, beta, g, last = self.dual, self.beta, self.g, self._evaluation
        if last is None or last[0] is not dual or not all(map(np.array_equal, last[1:3], (beta, g))):
            b = dual.intercept(g)
            last = self._evaluation = dual, beta.copy(), g.copy(), b, dual.values(beta, g, b)
        return last[3:]

    def near_margin(self, band: float) -> Samples:
        """Samples that would move if the intercept moved by `band`."""
        rise, fall = self.gains()
        middle = float(rise.max() + fall.min()) / 2
        return np.flatnonzero((rise > middle - band) | (fall < middle + band))

    # -- precision -----------------------------------------------------------------------------

    @property
    def is_double(self) -> bool:
        """True if kernel rows are in double precision."""
        return self.cache.dtype == np.float64

    def use_double(self, tick: Callable[[], None] | None = None) -> None:
        """Continue in double precision, with g recomputed."""
        if not self.is_double:
            self.update_all()
            self.clear_cache(np.float64)
            self.recompute(tick)

    def rounding(self) -> float:
        """Violation below the rounding of double precision, from the size of the terms of an output."""
        return 4.0 * _EPS * float(np.abs(self.beta).sum()) * self._largest

    def relative_rounding(self) -> float:
        """Relative error of the objective by the rounding of outputs, times the multipliers."""
        error = float(np.abs(self.beta).sum()) * self.rounding() / 4.0
        return error / max(abs(self.values()["objective"]), np.finfo(float).tiny)

    def is_trusted(self, tol: float, gap: float = np.inf) -> bool:
        """Return True if the rounding of g, measured on some samples, does not matter within `tol`.

        An error matters if it is more than a tenth of `tol`, and more than a fifth of the output's distance
        from the margin; and, if the relative gap is limited, if the slacks add up to a tenth of it.
        """
        if self.is_double:
            return True
        error, probe, matters = self._estimated_rounding(tol)
        if matters[self._current()].any():
            return False
        if not np.isfinite(gap):
            return True
        counted = error[probe[self.beta[probe] != 0]]
        costs = float(self.dual.rows.largest_cost[np.flatnonzero(self.beta)].sum())
        slack_error = costs * float(counted.mean()) if len(counted) else 0.0
        return slack_error <= gap / 10 * abs(self.values()["objective"])

    def _estimated_rounding(self, tol: float) -> tuple[Vector, Samples, NDArray[np.bool_]]:
        """Return the error of each g_i, the probe on which it was measured, and a mask of where it matters.

        The probe has the samples nearest to the margin, those with the largest expected error relative to the
        tolerable one, and some of all.
        """
        rise, fall = self.gains()
        middle = float(rise.max() + fall.min()) / 2
        distance = np.minimum(middle - rise, fall - middle)
        tolerable, current = np.maximum(tol / 10, distance / 5), self._current()
        expected = self._sizes * (self._changes - self._changes_at)
        half = min(128, self.gram.n // 32 + 2) // 2
        quarter = -(-half // 2)
        nearest, worst = np.argsort(distance[current])[:half], np.argsort(-(expected / tolerable)[current])
        spread = np.linspace(0, len(current) - 1, quarter).astype(np.intp)
        probe = current[np.unique(np.concatenate([nearest, worst[:quarter], spread]))]
        measured = np.abs(outputs_at(self.gram, probe, self.beta) - self.g[probe])
        counts = (measured > self.rounding()) & (expected[probe] > 0.0)
        error = expected * (measured[counts] / expected[probe[counts]]).max(initial=0.0)
        error[probe] = measured
        return error, probe, ~(error <= tolerable)

    def refresh(self, tol: float, tick: Callable[[], None] | None = None) -> None:
        """Recompute g in double precision where its rounding may matter within `tol`; rows stay single."""
        matters = self._estimated_rounding(tol)[2]
        matters[self.near_margin(self.options.double_band)] = True
        current = self._current()
        self.recompute_at(current[matters[current]], tick)

    def recompute_at(self, samples: Samples, tick: Callable[[], None] | None = None) -> None:
        """Recompute g of these samples in double precision."""
        support = np.flatnonzero(self.beta)
        panel = self.gram.panel(support, np.float64)
        self.set_outputs(samples, weighted(panel, samples, self.beta[support], tick))


class History:
    """The records and limits of a solve.

    iteration: working sets and pivots of the Newton phase so far, at most `limit`.
    progress: called with every record.
    """

    def __init__(
        self, state: State, clock: Clock, limit: float, progress: Callable[[dict[str, float]], None] | None
    ):
        self._state, self._progress = state, progress
        self.clock, self.limit, self.iteration = clock, limit, 0
        self._records: list[dict[str, float]] = []

    def reached_limit(self) -> Status | None:
        """Return the limit that is reached, if any."""
        if self.iteration >= self.limit:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self.clock.is_over else None

    def record(self, violation: float) -> dict[str, float]:
        """Record the state with this violation; the objectives are nan while g is not up to date."""
        state = self._state
        unknown = {"objective": np.nan, "bound": np.nan}
        record = {
            "iteration": float(self.iteration),
            "seconds": self.clock.seconds,
            "violation": violation,
            **(state.values() if state.is_up_to_date else unknown),
            "rows": float(state.cache.computed),
            "hits": float(state.cache.hits),
            "active": float(len(state.cache.active)),
        }
        self._records.append(record)
        if self._progress is not None:
            self._progress(record)
        return record

    def solution(self, status: Status) -> Solution:
        """Return the point, with outputs scaled back to the bounds that they exceed within the tolerance."""
        state, beta, g, dual = self._state, self._state.beta, self._state.g, self._state.dual
        if status is not Status.SOLVED or not self._records:
            self.record(state.violation())
        b = state.intercept()
        shrink = dual.rows.shrink(g + b)
        values = state.values()
        bound, is_close = values["bound"], state.gap() <= state.options.max_inaccurate_gap
        if status is Status.INACCURATE and not is_close:
            status = Status.STALLED
        if not bound <= values["objective"] and not is_close:
            bound = 0.0  # rounding has put it above the objective; 0 is a bound of every such program
        return Solution(
            status=status,
            primal={"coef": shrink * beta, "b": np.array(shrink * b), "f": shrink * (g + b)},
            duals=dual.rows.named(dual.rows.split(beta)),
            objective=values["objective"],
            bound=bound,
            solver="decomposition",
            iterations=self.iteration,
            solve_time=self.clock.seconds,
            history=tuple(self._records),
        )
