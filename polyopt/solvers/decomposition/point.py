"""Where the decomposition stands: β, g = Kβ, and how far g can be relied on.

Two things keep g from being plain Kβ. Samples that were set aside keep the g of the last time that all
were brought up to date, at the β called ``settled``. And with kernel rows in single precision g
gathers rounding: it is measured on some samples in double precision before an answer is given, and
where it matters, g is computed anew; from then on single precision carries only further changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import relative_gap
from polyopt.kernels import chunks, stream, strips
from polyopt.solvers.decomposition.dual import Dual, slopes
from polyopt.solvers.decomposition.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from polyopt.kernels import Gram

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["Point"]

NEAR = 0.05  # outputs so near to where they would count are worth double precision
_DOUBLE = 2000  # up to so many samples, double precision throughout: the rows cost next to nothing
_PROBE = 128  # samples on which rounding is measured


class Point:
    """The state of a decomposition.

    Parameters
    ----------
    gram : Gram
        The matrix.
    y : ndarray of shape (n,)
        Labels.
    budget : float
        Bytes for kernel rows.

    Attributes
    ----------
    dual : Dual
        The program; to be set before anything is asked.
    beta, g : ndarray of shape (n,)
        β, and Kβ.
    rows : Rows
        The kernel rows at hand.
    """

    def __init__(self, gram: Gram, y: Vector, budget: float):
        self.gram, self.budget = gram, budget
        self.diagonal = np.ascontiguousarray(gram.diagonal())
        self.dual = Dual(y, np.zeros(gram.n))
        self._values: tuple[Dual, Vector, Vector, dict[str, float]] | None = (
            None  # of which program and point
        )
        self.beta, self.g, self._settled = np.zeros(gram.n), np.zeros(gram.n), np.zeros(gram.n)
        single = gram.n > _DOUBLE and gram.is_single()
        self.rows = Rows(gram, budget, np.float32 if single else np.float64)

    # -- moving --------------------------------------------------------------------------------

    def move_to(self, beta: Vector) -> None:
        """Go to β, and take g along."""
        moved = np.flatnonzero(beta != self.beta)
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
        if self.is_whole:
            self._settled[samples] = beta

    @property
    def is_whole(self) -> bool:
        """Whether no sample is set aside."""
        return len(self.rows.active) == self.gram.n

    @property
    def is_up_to_date(self) -> bool:
        """Whether g is Kβ for every sample."""
        return self.is_whole or np.array_equal(self._settled, self.beta)

    def bring_up_to_date(self) -> None:
        """Compute g for the samples that are set aside."""
        moved = np.flatnonzero(self.beta != self._settled)
        if len(moved):
            aside = np.setdiff1d(np.arange(self.gram.n), self.rows.active, assume_unique=True)
            panel = self.gram.panel(moved, self.rows.dtype)
            weights = (self.beta[moved] - self._settled[moved]).astype(self.rows.dtype)
            for part in strips(aside, len(moved)):
                self.g[part] += panel.rows(part) @ weights
            self._settled[moved] = self.beta[moved]

    def recompute(self) -> None:
        """Compute g anew for every sample, in the precision of the rows."""
        self.g = stream(self.gram, self.beta, self.rows.dtype)
        self._settled = self.beta.copy()

    def forget_rows(self, dtype: DTypeLike | None = None) -> None:
        """Start with an empty cache, over all samples."""
        self.bring_up_to_date()
        old = self.rows
        self.rows = Rows(self.gram, self.budget, dtype or old.dtype)
        self.rows.computed, self.rows.hits, self.rows.evicted = old.computed, old.hits, old.evicted

    # -- looking -------------------------------------------------------------------------------

    def gains(self) -> tuple[Vector, Vector]:
        """``φ'(β+) − g`` and ``φ'(β−) − g`` of every sample."""
        dual = self.dual
        up, down = slopes(self.beta, dual.lo, dual.hi, dual.y, dual.B)
        return up - self.g, down - self.g

    def violation(self) -> float:
        """``m − M`` over all samples."""
        rise, fall = self.gains()
        return float(rise.max() - fall.min())

    def gap(self) -> float:
        """The relative gap between the primal and the dual objective, from g."""
        values = self.values()
        return relative_gap(values["objective"], values["bound"])

    def values(self) -> dict[str, float]:
        """Primal and dual objective, from g."""
        here, known = (self.dual, self.beta, self.g), self._values
        if known is None or known[0] is not self.dual or not all(map(np.array_equal, known[1:3], here[1:])):
            known = self._values = (self.dual, self.beta.copy(), self.g.copy(), self.dual.values(*here[1:]))
        return known[3]

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
        """Whether kernel rows are in double precision."""
        return self.rows.dtype == np.float64

    def go_double(self) -> None:
        """Continue in double precision, with g computed anew."""
        if not self.is_double:
            self.forget_rows(np.float64)
            self.recompute()

    def rounding(self) -> float:
        """The violation that double precision cannot tell from none: outputs sum up terms of this size."""
        return 4.0 * float(np.finfo(float).eps * np.abs(self.beta).sum() * self.diagonal.max())

    def doubt(self) -> float:
        """What rounding of the outputs leaves open of the optimum, relatively, at the multipliers' price."""
        paid = float(np.abs(self.beta).sum()) * self.rounding() / 4.0
        return paid / max(abs(self.values()["objective"]), np.finfo(float).tiny)

    def is_trusted(self, tol: float, gap: float = np.inf) -> bool:
        """Whether rounding in g is too small to matter within `tol`, measured on some samples.

        An error matters where it is more than a tenth of `tol`, unless the output lies so far from
        where it would count that it cannot get there; and, where the relative gap is to be within `gap`,
        where the slacks that it adds up to are a tenth of that.
        """
        if self.is_double:
            return True
        rise, fall = self.gains()
        middle = float(rise.max() + fall.min()) / 2
        far = np.minimum(middle - rise, fall - middle)
        worst = np.argsort(far)[: _PROBE // 2]
        spread = np.linspace(0, self.gram.n - 1, _PROBE // 2).astype(np.intp)
        probe, support = np.union1d(worst, spread), np.flatnonzero(self.beta)
        exact = self.gram.panel(probe, np.float64).rows(support).T @ self.beta[support]
        error = np.abs(exact - self.g[probe])
        if not (error <= np.maximum(tol / 10, far[probe] / 5)).all():
            return False
        if not np.isfinite(gap):
            return True
        dual, counts = self.dual, self.beta[probe] != 0
        paid = float(dual.C[support].sum()) * float(error[counts].mean()) if counts.any() else 0.0
        return paid <= gap / 10 * abs(self.values()["objective"])

    def refresh(self, samples: Samples | None = None) -> None:
        """Compute g in double precision where it may matter; rows stay in single precision."""
        near = self.watched(NEAR) if samples is None else samples
        support = np.flatnonzero(self.beta)
        panel = self.gram.panel(support, np.float64)
        for part in strips(near, len(support)):
            self.g[part] = panel.rows(part) @ self.beta[support]
