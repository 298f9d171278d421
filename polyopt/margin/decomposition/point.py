"""The iterate of the decomposition: β and g = Kβ, and how far g can be relied on.

Two things keep g from being plain Kβ. Samples that were set aside keep the g of the last time that all
were brought up to date, at the β called ``settled``. And with kernel rows in single precision g
gathers rounding. How much, is measured on some samples in double precision before an answer is given, and
reckoned from there for the others; where it matters, g is computed anew, and from then on single precision
carries only further changes.

Shrinking sets the samples aside that violate with no other, and takes them back once they do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import relative_gap
from polyopt.linalg.kernels import chunks, outputs_at, stream, weighted
from polyopt.margin.decomposition.dual import Dual, gains
from polyopt.margin.decomposition.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from formulations.language.types import Vector
    from polyopt.linalg.kernels import Gram

    Samples = NDArray[np.intp]

__all__ = ["PRECISION_BAND", "Point", "Shrinking"]

PRECISION_BAND = 0.05  # distance from where an output would count, within which double precision pays
# Up to so many samples, and so many multiplications, double precision throughout: rows cost next to nothing.
_MAX_SMALL_SAMPLES, _MAX_SMALL_WORK = 2000, 2e9
_RECOVERY_WORK = 1e10  # multiplications of kernel values after an interruption at most, about a second
_EPS = float(np.finfo(float).eps)
_MAX_KEPT_SHARE = 0.8  # of the active samples, for setting the others aside to be worth while


class Point:
    """The state of a decomposition.

    budget: bytes for kernel rows.

    dual: the program; to be set before anything is asked.
    beta, g (n,): β, and Kβ.
    rows: the kernel rows at hand.
    is_small: True if a whole matrix in double precision is soon computed.
    """

    def __init__(self, gram: Gram, budget: float):
        self.gram, self.budget = gram, budget
        self.diagonal = np.ascontiguousarray(gram.diagonal())
        self._largest = float(self.diagonal.max())
        self.dual: Dual
        # Of which program and point, the intercept and the values.
        self._known: tuple[Dual, Vector, Vector, float, dict[str, float]] | None = None
        self.beta, self.g, self._settled = np.zeros(gram.n), np.zeros(gram.n), np.zeros(gram.n)
        # Σ |Δβ_j| √K_jj over all changes so far, and what it was when a sample's g was computed last: the
        # rounding of a g_i grows with √K_ii times the difference.
        self._changes, self._changes_at = 0.0, np.zeros(gram.n)
        self._sizes = np.sqrt(np.maximum(self.diagonal, 0.0))
        self.is_small = gram.n <= _MAX_SMALL_SAMPLES
        single = not (self.is_small and gram.n**2 * gram.width <= _MAX_SMALL_WORK) and gram.is_single()
        self.rows = Rows(gram, budget, np.float32 if single else np.float64)

    # -- moving --------------------------------------------------------------------------------

    def move_to(self, beta: Vector, tick: Callable[[], None] | None = None) -> None:
        """Go to β, and take g along; what `tick` raises keeps the point as it is."""
        moved = np.flatnonzero(beta != self.beta)
        if int((~self.rows.is_held(moved)).sum()) > self.rows.slots // 2:
            self._compute(beta, tick)
            return
        self.change(moved, beta[moved])
        self.bring_up_to_date()

    def change(self, samples: Samples, beta: Vector) -> None:
        """Give these samples this β, and take g along over the active samples."""
        change = beta - self.beta[samples]
        active = self.rows.active
        for part in chunks(np.arange(len(samples)), self.rows.slots):
            if not self.rows.is_held(samples[part]).all():
                self.rows.fetch(samples[part])
            self.g[active] += self.rows.combine(samples[part], change[part])
        self.beta[samples] = beta
        with np.errstate(over="ignore"):
            self._changes += float(np.abs(change) @ self._sizes[samples])
        if self.is_whole:
            self._settled[samples] = beta

    def take(self, beta: Vector, g: Vector) -> None:
        """Go to this β, with a g that is its own for every sample."""
        self.beta, self.g, self._settled = beta, g, beta.copy()
        with np.errstate(over="ignore"):
            self._changes = float(np.abs(beta) @ self._sizes)
        self._changes_at[:] = 0.0

    def put(self, samples: Samples, g: Vector) -> None:
        """Give these samples their g, computed in double precision."""
        self.g[samples] = g
        self._changes_at[samples] = self._changes

    @property
    def is_whole(self) -> bool:
        """True if no sample is set aside."""
        return len(self.rows.active) == self.gram.n

    @property
    def is_up_to_date(self) -> bool:
        """True if g is Kβ for every sample."""
        return self.is_whole or np.array_equal(self._settled, self.beta)

    def bring_up_to_date(self) -> None:
        """Compute g for the samples that are set aside."""
        moved = np.flatnonzero(self.beta != self._settled)
        if len(moved):
            aside = np.setdiff1d(np.arange(self.gram.n), self.rows.active, assume_unique=True)
            panel = self.gram.panel(moved, self.rows.dtype)
            self.g[aside] += weighted(panel, aside, self.beta[moved] - self._settled[moved])
            self._settled[moved] = self.beta[moved]

    def _current(self) -> Samples:
        """The samples whose g is of this β, but for rounding."""
        return np.arange(self.gram.n) if self.is_up_to_date else self.rows.active

    def recompute(self, tick: Callable[[], None] | None = None) -> None:
        """Compute g anew for every sample, in the precision of the rows."""
        self._compute(self.beta, tick)

    def _compute(self, beta: Vector, tick: Callable[[], None] | None) -> None:
        self.take(beta.copy(), stream(self.gram, beta, self.rows.dtype, tick))

    def forget_rows(self, dtype: DTypeLike | None = None) -> None:
        """Start with an empty cache, over all samples."""
        self.bring_up_to_date()
        self._empty(dtype)

    def _empty(self, dtype: DTypeLike | None = None) -> None:
        old = self.rows
        self.rows = Rows(self.gram, self.budget, dtype or old.dtype)
        self.rows.computed, self.rows.hits = old.computed, old.hits

    def recover(self) -> None:
        """Make β and g agree after an interruption, which may have come between them, within a moment.

        Where g would take longer than that, the point that was evaluated last is taken up again.
        """
        self._empty()
        known = self._known
        work = float((self.beta != 0).sum()) * self.gram.n * self.gram.width
        if known is not None and known[0] is self.dual and work > _RECOVERY_WORK:
            self.take(known[1].copy(), known[2].copy())
        else:
            self.recompute()

    # -- looking -------------------------------------------------------------------------------

    def gains(self) -> tuple[Vector, Vector]:
        """``φ'(β+) − g`` and ``φ'(β−) − g`` of every sample."""
        dual = self.dual
        rise, fall, _, _ = gains(self.g, self.beta, dual.phi)
        return rise, fall

    def violation(self) -> float:
        """``m − M`` over all samples."""
        m, M = self.dual.violation(self.beta, self.g)
        return m - M

    def gap(self) -> float:
        """The relative gap between the primal and the dual objective, from g."""
        values = self.values()
        return relative_gap(values["objective"], values["bound"])

    def values(self) -> dict[str, float]:
        """Primal and dual objective, from g."""
        return self._evaluated()[1]

    def intercept(self) -> float:
        """The best intercept, from g."""
        return self._evaluated()[0]

    def _evaluated(self) -> tuple[float, dict[str, float]]:
        dual, beta, g, known = self.dual, self.beta, self.g, self._known
        if known is None or known[0] is not dual or not all(map(np.array_equal, known[1:3], (beta, g))):
            b = dual.intercept(g)
            known = self._known = dual, beta.copy(), g.copy(), b, dual.values(beta, g, b)
        return known[3:]

    def needed(self) -> NDArray[np.bool_]:
        """The samples that violate together with some other."""
        rise, fall = self.gains()
        return (rise >= fall.min()) | (fall <= rise.max())

    def watched(self, near: float) -> Samples:
        """The samples that would move, or might, if the intercept moved by `near`."""
        rise, fall = self.gains()
        middle = float(rise.max() + fall.min()) / 2
        return np.flatnonzero((rise > middle - near) | (fall < middle + near))

    # -- precision -----------------------------------------------------------------------------

    @property
    def is_double(self) -> bool:
        """True if kernel rows are in double precision."""
        return self.rows.dtype == np.float64

    def go_double(self, tick: Callable[[], None] | None = None) -> None:
        """Continue in double precision, with g computed anew."""
        if not self.is_double:
            self.forget_rows(np.float64)
            self.recompute(tick)

    def rounding(self) -> float:
        """The violation that double precision cannot tell from none: outputs sum up terms of this size."""
        return 4.0 * _EPS * float(np.abs(self.beta).sum()) * self._largest

    def doubt(self) -> float:
        """Relative error that rounding of the outputs leaves in the objective, at the multipliers' price."""
        paid = float(np.abs(self.beta).sum()) * self.rounding() / 4.0
        return paid / max(abs(self.values()["objective"]), np.finfo(float).tiny)

    def is_trusted(self, tol: float, gap: float = np.inf) -> bool:
        """Return True if rounding in g, measured on some samples, is too small to matter within `tol`.

        An error matters where it is more than a tenth of `tol`, unless the output lies so far from
        where it would count that it cannot get there; and, where the relative gap is to be within `gap`,
        where the slacks that it adds up to are a tenth of that.
        """
        if self.is_double:
            return True
        likely, probe, matters = self._likely_rounding(tol)
        if matters[self._current()].any():
            return False
        if not np.isfinite(gap):
            return True
        counts = likely[probe[self.beta[probe] != 0]]
        cost = float(self.dual.rows.largest_cost[np.flatnonzero(self.beta)].sum())
        paid = cost * float(counts.mean()) if len(counts) else 0.0
        return paid <= gap / 10 * abs(self.values()["objective"])

    def _likely_rounding(self, tol: float) -> tuple[Vector, Samples, NDArray[np.bool_]]:
        """Return the rounding of each g_i, the probe on which it was measured, and a mask where it matters.

        The probe has the samples nearest to where they would count, those where most is to be feared beside
        what they can bear, and some of all. Rounding that cannot be told from none is left as it is.
        """
        rise, fall = self.gains()
        middle = float(rise.max() + fall.min()) / 2
        far = np.minimum(middle - rise, fall - middle)
        bearable, known = np.maximum(tol / 10, far / 5), self._current()
        changes = self._sizes * (self._changes - self._changes_at)
        half = self.probes // 2
        few = -(-half // 2)
        nearest, dearest = np.argsort(far[known])[:half], np.argsort(-(changes / bearable)[known])[:few]
        spread = np.linspace(0, len(known) - 1, few).astype(np.intp)
        probe = known[np.unique(np.concatenate([nearest, dearest, spread]))]
        error = np.abs(outputs_at(self.gram, probe, self.beta) - self.g[probe])
        is_measured = (error > self.rounding()) & (changes[probe] > 0.0)
        likely = changes * (error[is_measured] / changes[probe[is_measured]]).max(initial=0.0)
        likely[probe] = error
        return likely, probe, ~(likely <= bearable)

    @property
    def probes(self) -> int:
        """Samples on which rounding is measured."""
        return min(128, self.gram.n // 32 + 2)

    def refresh(self, tol: float, tick: Callable[[], None] | None = None) -> None:
        """Compute g in double precision where it may matter within `tol`; rows stay in single precision."""
        _, _, matters = self._likely_rounding(tol)
        matters[self.watched(PRECISION_BAND)] = True
        known = self._current()
        self.compute(known[matters[known]], tick)

    def compute(self, samples: Samples, tick: Callable[[], None] | None = None) -> None:
        """Compute the g of these samples in double precision."""
        support = np.flatnonzero(self.beta)
        panel = self.gram.panel(support, np.float64)
        self.put(samples, weighted(panel, samples, self.beta[support], tick))


class Shrinking:
    """The active samples of a point, and the last working set among them.

    last: the last working set, as places among the active samples.
    """

    def __init__(self, point: Point):
        self._point = point
        self.last: Samples
        self.forget_last()

    def set_aside(self, rise: Vector, fall: Vector) -> bool:
        """Go on without the samples that violate with no other if enough can go; return True if they went."""
        needed = (rise >= fall.min()) | (fall <= rise.max())
        if not 0 < needed.sum() <= _MAX_KEPT_SHARE * len(needed):
            return False
        self.set_active(self._point.rows.active[needed])
        return True

    def take_back(self, tol: float) -> bool:
        """Bring g up to date everywhere, and the samples back that violate; return True if any does."""
        point = self._point
        if point.is_whole:
            return False
        point.bring_up_to_date()
        if point.violation() <= tol:
            return False
        needed = point.needed()
        needed[point.rows.active] = True
        self.set_active(np.flatnonzero(needed))
        return True

    def take_all_back(self) -> None:
        """Go on with every sample."""
        if not self._point.is_whole:
            self.set_active(np.arange(self._point.gram.n))

    def set_active(self, active: Samples) -> None:
        """Go on with these samples."""
        self._point.bring_up_to_date()  # what is set aside must all be of one date
        self._point.rows.set_active(active)
        self.forget_last()

    def forget_last(self) -> None:
        """Let the next working set be all new: the last one's rows are gone, or its places are others'."""
        self.last = np.zeros(0, dtype=np.intp)
