"""The dual program in n variables, the cache of kernel rows, the iterate, and the history.

The dual (:class:`Dual`)
------------------------
The Relative Margin Machine bounds its outputs f_i below by the margin, y_i f_i ≥ 1 − ξ_i, and by |f_i| ≤ B.
These are three families of constraints, with multipliers α, λ and λ*. In its dual (8), the kernel matrix K
multiplies only β = α∘y − λ + λ*:

    max  Σ α_i − B Σ (λ_i + λ*_i) − ½ β'Kβ    s.t.  Σ β_i = 0,  0 ≤ α ≤ C,  λ, λ* ≥ 0.

For fixed β, the multipliers are chosen per sample: α_i takes as much of β_i as its bounds allow, and λ_i or
λ*_i the remainder. So the dual is max Σ φ_i(β_i) − ½ β'Kβ s.t. Σ β_i = 0, where φ_i is concave and piecewise
linear. Its breakpoints are 0 and y_i C_i; if B ≥ 1 its slope is B below both, y_i between them, and −B above
both. Each linear piece belongs to a family, so a working set of samples has all three families at once. For
the SVM B is infinite: β_i stays between the breakpoints. If B < 1, every α_i is C_i.

The same holds for any families of constraints; :mod:`formulations.families` computes breakpoints and slopes.

g = Kβ are the scores, and f = g + b the outputs. β is optimal if no β_i can increase and another one decrease
such that the dual rises:

    m = max_i  φ'_i(β_i +) − g_i   ≤   M = min_i  φ'_i(β_i −) − g_i.

m − M is the violation, and every b within [m, M] is an optimal intercept.

Kernel rows (:class:`RowCache`)
-------------------------------
A row is a row of K over the active samples. Rows are computed in blocks by BLAS, and the least recently used
ones are replaced. Shrinking sets samples aside that are in no violating pair, of a β_i to increase and one to
decrease such that the dual rises; the other samples are active. The cache is one buffer, divided into slots
of the length of a row. If samples are set aside, rows become shorter and more of them fit; the cache is then
empty, and so it is if samples return.

The iterate (:class:`State`)
----------------------------
g may differ from Kβ for two reasons. Samples set aside have the g of the last update of all samples, at the β
called ``_beta_of_scores``. And kernel rows in single precision add rounding to g. Before a solution is
returned, this error is measured on a few samples in double precision and estimated for the others. If it
matters, g is recomputed in double precision, and only later changes of g are in single precision.

References
----------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (8) and section 3.2.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from formulations.families import Families, Pieces
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.base.progress import tell
from polyopt.base.threads import run_blocks
from polyopt.certificates.certificate import relative_gap
from polyopt.linalg.kernels import Gram, Panel, Samples, chunks, gram_matvec
from polyopt.native.library import kernel

_STRIP = 4096  # columns of a weighted sum of rows that one thread computes

# Compute rise_i = φ'(β_i +) − g_i, fall_i = φ'(β_i −) − g_i, and extremes = (m, M). ("!": is written to.)
_derivatives = kernel(
    "gains",
    "g: f8 (n); beta: f8 (n); ends: f8 (k, n); slopes: f8 (l, n); rise!: f8 (n); fall!: f8 (n); "
    "extremes!: f8 (e)",
)

# total += Σ_k weights_k table[slots_k, start : start + w].
combine_rows = kernel(
    "combine_rows", "table: T (s, n); slots: i8 (r); weights: T (r); start: i8; total!: T (w)", T="f8 f4",
)  # fmt: skip


# K = table[slots, positions], symmetric from its upper triangle.
_gather_square = kernel(
    "gather_square", "table: T (s, n); slots: i8 (q); positions: i8 (q); K!: f8 (q, q)", T="f8 f4"
)


@dataclass(frozen=True)
class Options:
    """Sizes, tolerances and limits of the decomposition solver.

    A violation is m − M, in units of the outputs. Work is counted in multiplications by BLAS and not timed,
    so that the result does not depend on the clock. A subproblem is the dual over a working set of samples,
    with all other β_i fixed. A pair step changes two β_i by opposite amounts, as in SMO. The Newton phase is
    an active-set method over all samples near the margin: it factorises K_FF for the set F of free samples,
    whose β_i are not at breakpoints, and its pivots change F. A refresh recomputes inaccurate scores.

    Half and twice the number were tried for each field on 20 RBF machines (five data sets of 208 to 2,500
    samples, C 1 and 100, B 2 and infinite, tol 1e-4). The mean work changed by a third with min_working_set,
    by 4 to 10 % with max_working_set, subproblem_violation_ratio, first_newton_violation
    and work_per_read, and by less than 4 % with every other field. The start from clusters was in none of
    the 20 runs.
    """

    # Working sets.
    max_working_set: int = 512  # largest size of a working set
    min_working_set: int = 256  # least size; between these two, the size is n/8
    subproblem_violation_ratio: float = 0.1  # violation left in a subproblem, relative to that of all samples
    max_pair_steps_per_sample: int = 8  # pair steps of a subproblem before an active-set method takes over
    max_pivots: int = 1_000  # pivots of the active-set method in a subproblem
    sets_per_record: int = 10  # working sets between two records, and between two attempts to shrink

    # Precision of kernel rows and scores.
    max_small_samples: int = 2_000  # largest n of small machines, with rows in double precision at the start
    max_small_work: float = 2e9  # largest work of the complete kernel matrix for the same
    min_single_violation: float = 1e-5  # least violation that rows in single precision can reach
    single_violation_ratio: float = 0.8  # violation required in single precision, relative to the tolerance
    double_band: float = 0.05  # distance from the margin within which a refresh recomputes scores in double
    max_refreshes: int = 3  # refreshes before kernel rows are in double precision, too

    # Cache and shrinking.
    min_rows: int = 16  # kernel rows for which the cache has space, even beyond its budget
    max_fresh_rows: int = 2_048  # rows, per 16 features, that fill new memory before old ones are replaced
    max_active_share: float = 0.8  # largest share of the active samples that may remain after shrinking
    max_recovery_work: float = 1e10  # largest work of recomputing scores after an interrupt: about a second

    # The Newton phase.
    first_newton_violation: float = 0.1  # violation at which the phase is considered first
    newton_violation_ratio: float = 3.0  # fall of the violation after which the phase is considered again
    newton_band_ratio: float = 2.0  # largest distance of its samples from the margin, over the violation
    max_newton_cost_ratio: float = 0.5  # largest work of all phases, relative to that of the working sets
    work_per_read: float = 16.0  # multiplications in the time of reading a number from memory
    bytes_per_entry: float = 32.0  # memory per entry: matrix, factor, and two copies while factorising
    set_work: float = 5e7  # fixed work of a working set, besides kernel rows and steps
    set_work_per_sample: float = 1e4  # work of a working set per sample of the fit
    pair_step_work: float = 30.0  # work of a pair step per sample of the working set
    max_cached_factor: int = 400  # rows of the largest Cholesky factor that stays in the cache
    uncached_read_cost: float = 3.0  # time of reading a number of a larger factor, relative to a smaller one
    block_columns: int = (
        512  # columns factorised between two checks of the clock; also spare ones of the factor
    )
    work_per_check: float = 1e8  # work of pivots between two checks of the clock
    first_ridge: float = 1e-11  # multiple of the identity added to K_FF, relative to the mean diagonal
    ridge_factor: float = 100.0  # growth of the ridge if K_FF is singular
    max_ridge: float = 1e-2  # ridge above which K_FF counts as not factorised

    # Termination.
    max_idle_sets: int = 10  # working sets in which the violation does not fall below 0.9 of the least so far
    max_flat_records: int = 200  # records in which the dual value does not rise by 1e-14, relative
    max_inaccurate_gap: float = 1e-3  # relative gap above which a run that rounding ended is STALLED

    # The start from clusters, for many samples under an RBF kernel.
    min_cluster_start_samples: int = 15_000  # least n for which clusters are tried
    cluster_samples: int = 4_000  # samples of a cluster; more if there would be more than max_clusters
    max_clusters: int = 16  # largest number of clusters
    kmeans_samples: int = 4_000  # samples from which k-means finds the centres
    cluster_tol: float = 0.1  # tolerance of a cluster's program
    min_bounded_share: float = 0.15  # least share of the first cluster's multipliers at a bound other than 0
    min_bounded_per_free: float = 1.5  # least ratio of these multipliers to free ones
    energy_rows: int = 512  # kernel rows from which β'Kβ of the joined clusters is estimated
    min_best_multiple: float = 0.75  # least optimal multiple of the joined β for which it is used


DEFAULTS = Options()


class Dual:
    """The dual max Σ φ_i(β_i) − ½ β'Kβ with Σ β_i = 0, without the kernel.

    families: the families of constraints; those without slack are bounds that outputs of 0 satisfy. Its
        `split` returns the multipliers (q, n) of β, and `beta` is the inverse map; `gain` is their linear
        term of the dual; `shrink` returns the factor ≤ 1 that scales outputs to within the bounds.
    phi: the functions φ_i, with their breakpoints ``phi.ends`` (k, n) and the slopes between them.
    """

    def __init__(self, families: Families):
        if any(family.kink > 0.0 and not family.is_soft for family in families):
            raise ValueError("this solver needs finite costs; an explicit program takes hard margins")
        self.families, self.phi = families, families.pieces

    def join(self, multipliers: Mapping[str, Vector]) -> Vector:
        """Return a feasible β from multipliers by family: clipped to the caps, and with Σ β_i = 0."""
        Z = self.families.stacked(multipliers)
        return balanced(self.families.beta(np.clip(Z, 0.0, self.families.caps)))

    def is_free(self, beta: Vector) -> NDArray[np.bool_]:
        """Return the mask of the β_i that are not at a breakpoint."""
        is_free: NDArray[np.bool_] = (beta != self.phi.ends).all(axis=0)
        return is_free

    @property
    def breaks_at_zero(self) -> bool:
        """True if 0 is a breakpoint of every φ_i; not so for B < 1, where every α_i is C_i."""
        return bool((self.phi.ends == 0.0).any(axis=0).all())

    def initial_beta(self) -> Vector:
        """Return β with every β_i at its breakpoint nearest to 0, then balanced: Σ β_i = 0.

        Thus there are hardly any free variables at first, on which most of the time is spent.
        """
        ends = self.phi.ends
        return balanced(ends[np.abs(ends).argmin(axis=0), np.arange(ends.shape[1])])

    def extremes(self, beta: Vector, g: Vector) -> tuple[float, float]:
        """Return m and M; β is optimal within tol if m − M ≤ tol."""
        return derivatives(g, beta, self.phi)[2:]

    def gain(self, beta: Vector) -> float:
        """Return Σ φ_i(β_i), the dual objective without its quadratic term."""
        return self.families.gain(self.families.split(beta))

    def values(self, beta: Vector, g: Vector, b: float | None = None) -> dict[str, float]:
        """Return both objectives at β and b (by default the best).

        For the primal objective, w and b are multiplied by the factor ≤ 1 that makes the outputs satisfy the
        bounds without slack.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow shows in the value
            energy = float(beta @ g)
        f = g + (self.families.best_intercept(g) if b is None else b)
        factor = self.families.shrink(f)
        return {
            "objective": 0.5 * factor**2 * energy + self.families.cost(factor * f),
            "bound": self.gain(beta) - 0.5 * energy,
        }


def recapped(multipliers: Mapping[str, Vector], old: Families, new: Families) -> dict[str, Vector]:
    """Return multipliers (n,) by family for the caps of `new`: those at their old cap move to the new one."""
    before = {family.name: family.cap for family in old}
    return {
        family.name: np.where(mu >= before[family.name], family.cap, np.minimum(mu, family.cap))
        for family in new
        if family.name in before and (mu := multipliers.get(family.name)) is not None
    }


def balanced(beta: Vector) -> Vector:
    """Return β with Σ β_i = 0: its positive or its negative entries are scaled down."""
    plus, minus = float(beta[beta > 0].sum()), float(-beta[beta < 0].sum())
    if abs(plus - minus) <= 1e-13 * (plus + minus):
        return beta  # scaling by rounding errors would move variables off their breakpoints
    smaller = min(plus, minus)
    beta = np.where(beta > 0, beta * (smaller / plus if plus else 0.0), beta)
    return np.where(beta < 0, beta * (smaller / minus if minus else 0.0), beta)


def derivatives(g: Vector, beta: Vector, phi: Pieces) -> tuple[Vector, Vector, float, float]:
    """Return the one-sided derivatives of the dual, φ'(β+) − g and φ'(β−) − g (n,), and m and M.

    If some g is not finite, m and M are nan.
    """
    rise, fall, extremes = np.empty(len(g)), np.empty(len(g)), np.empty(2)
    _derivatives(g, beta, *phi, rise, fall, extremes)
    m, M = extremes.tolist()
    return rise, fall, m, M


class RowCache:
    """A cache of rows of a Gram matrix, over the columns of the active samples, in `budget` bytes.

    The Gram matrix has ``gram.panel(columns, dtype)``, whose ``rows(samples)`` are K[samples, columns], and
    ``gram.entry_cost``, the number of multiplications per entry.

    active: the active samples, ascending.
    table (capacity, active): the rows, each in a slot.
    capacity: number of slots.
    computed: number of rows computed so far.
    hits: number of rows that were cached when they were needed.
    """

    def __init__(self, gram: Gram, budget: float, dtype: DTypeLike, options: Options = DEFAULTS):
        self._gram, self.dtype = gram, np.dtype(dtype)
        size = min(int(budget) // self.dtype.itemsize, gram.n * gram.n)
        self._buffer = np.empty(max(size, options.min_rows * gram.n), self.dtype)
        self.computed = self.hits = 0
        # New memory takes longer than computing cheap rows: `_usable` slots are filled before rows are
        # replaced. This number is doubled once half as many rows had to be computed again.
        self._usable, self._recomputed = options.max_fresh_rows * max(1, gram.entry_cost // 16), 0
        self._was_cached = np.zeros(gram.n, dtype=bool)
        self._time = 0  # number of calls of `fetch`
        self.set_active(np.arange(gram.n))

    def set_active(self, active: Samples) -> None:
        """Set the active samples, and divide the buffer into slots of their number, which are empty.

        Computing rows again takes no longer than moving them and filling in the columns of other samples.
        """
        self.active = active
        self.capacity = len(self._buffer) // len(active)
        self.table = self._buffer[: self.capacity * len(active)].reshape(self.capacity, len(active))
        self._owner = np.full(self.capacity, -1, dtype=np.intp)  # the sample of a slot, or -1
        self._slot = np.full(self._gram.n, -1, dtype=np.intp)  # the slot of a sample, or -1
        self._last_use = np.zeros(self.capacity, dtype=np.int64)  # the `_time` of a slot's last use
        columns = None if len(active) == self._gram.n else active
        self._panel: Panel | None = None  # free the old panel first
        self._panel = self._gram.panel(columns, self.dtype)

    def fetch(self, samples: Samples) -> Samples:
        """Return the slots of these samples (at most `capacity`), after computing missing rows."""
        self._time += 1
        slot = self._slot[samples]
        self._last_use[slot[slot >= 0]] = self._time
        missing = samples[slot < 0]
        self.hits += len(samples) - len(missing)
        if len(missing):
            slots = self._assign_slots(missing)
            assert self._panel is not None
            if slots[-1] - slots[0] == len(slots) - 1:  # consecutive slots: without a copy
                self._panel.rows(missing, out=self.table[slots[0] : slots[-1] + 1])
            else:
                self.table[slots] = self._panel.rows(missing)
            self.computed += len(missing)
        return self._slot[samples]

    def _assign_slots(self, missing: Samples) -> Samples:
        """Assign slots to these samples, empty ones or the least recently used, and return the slots."""
        self._recomputed += int(self._was_cached[missing].sum())
        if self._recomputed > self._usable // 2:
            self._usable, self._recomputed = 2 * self._usable, 0
        self._was_cached[missing] = True
        owner, last_use = self._owner[: self._usable], self._last_use[: self._usable]
        n_needed_now = int((last_use[owner >= 0] == self._time).sum())
        if len(owner) - n_needed_now < len(missing):  # the rows of one call must fit
            owner, last_use = self._owner, self._last_use
        slots = np.flatnonzero(owner < 0)[: len(missing)]
        if len(slots) < len(missing):
            # Empty slots, which are all in `slots`, sort last, with the present time.
            oldest = np.argsort(np.where(owner < 0, self._time, last_use), kind="stable")
            evicted = oldest[: len(missing) - len(slots)]
            self._slot[self._owner[evicted]] = -1
            slots = np.concatenate([slots, evicted])
        slots = np.sort(slots)
        self._owner[slots] = missing
        self._slot[missing] = slots
        self._last_use[slots] = self._time
        return slots

    def is_cached(self, samples: Samples) -> NDArray[np.bool_]:
        """Return the mask of these samples whose rows are cached."""
        return self._slot[samples] >= 0

    @property
    def bytes(self) -> int:
        """Memory used by rows."""
        return int((self._owner >= 0).sum()) * len(self.active) * self.dtype.itemsize

    @property
    def is_full(self) -> bool:
        """True if no slot is empty."""
        return not (self._owner < 0).any()

    def combine(self, samples: Samples, weights: Vector) -> NDArray[Any]:
        """Return ``sum_k weights_k K[samples_k, active]`` for cached rows."""
        table, slots, weights = self.table, self._slot[samples], weights.astype(self.dtype)
        total = np.zeros(table.shape[1], dtype=self.dtype)
        if len(total) <= _STRIP:  # `run_blocks` would take longer than the sum
            combine_rows(table, slots, weights, 0, total)
            return total
        run_blocks(
            lambda start: combine_rows(table, slots, weights, start, total[start : start + _STRIP]),
            range(0, len(total), _STRIP),
            cost=float(len(samples)) * len(total),
        )
        return total


def gather_square(table: NDArray[Any], slots: Samples, positions: Samples) -> Vector:
    """Return ``table[slots, positions]`` in double precision, symmetric from its upper triangle."""
    K = np.empty((len(slots), len(positions)))
    _gather_square(table, slots, positions, K)
    return K


class State:
    """The iterate β with g = Kβ, and a cache of `budget` bytes for kernel rows.

    dual: the program, set before a solve.
    beta, g (n,): β, and Kβ, except as the module's docstring says.
    cache: kernel rows over the active samples.
    last_set: the last working set, as positions among the active samples.

    These methods change the point, by products in the precision of the cached rows unless another is named:

    change        β of some samples, and g of the active ones
    update_aside  g of the samples set aside
    move_to       β, and g of all samples by the two methods above, or recomputed if few rows are cached
    recompute     g of all samples, from β
    set_point     β and g of all samples to given values
    set_scores    g of some samples to given values in double precision; recompute_at computes these
    refresh       g in double precision where its rounding matters; use_double: everywhere, from then on
    """

    def __init__(self, gram: Gram, budget: float, options: Options = DEFAULTS):
        self.gram, self.budget, self.options = gram, budget, options
        self.diagonal = np.ascontiguousarray(gram.diagonal())
        self._largest = float(self.diagonal.max())
        self.dual: Dual
        # Of the present point, once they are needed: derivatives, best intercept, and both objectives.
        self._derivatives: tuple[Vector, Vector, float, float] | None = None
        self._evaluation: tuple[float, dict[str, float]] | None = None
        self._evaluated: tuple[Dual, Vector, Vector] | None = None  # program, β and g of the last objectives
        self.beta, self.g, self._beta_of_scores = np.zeros(gram.n), np.zeros(gram.n), np.zeros(gram.n)
        # Σ |Δβ_j| √K_jj over all changes of β, and its value when g_i was last recomputed: the rounding error
        # of g_i grows in proportion to √K_ii times the difference.
        self._rounding_sum, self._rounding_at = 0.0, np.zeros(gram.n)
        self._norms = np.sqrt(np.maximum(self.diagonal, 0.0))
        self.is_small = gram.n <= options.max_small_samples
        is_cheap = self.is_small and gram.n**2 * gram.entry_cost <= options.max_small_work
        # `is_single`: the data allow single precision.
        dtype = np.float32 if not is_cheap and gram.is_single() else np.float64
        self.cache = RowCache(gram, budget, dtype, options)
        self.last_set: Samples = np.zeros(0, dtype=np.intp)

    def set_program(self, families: Families) -> None:
        """Set the program that is solved next."""
        self.dual = Dual(families)
        self._forget_values()

    def _forget_values(self) -> None:
        """Forget the values of the point, which is about to change."""
        self._derivatives = self._evaluation = None

    # -- changes of the point ------------------------------------------------------------------

    def move_to(self, beta: Vector, tick: Callable[[], None] | None = None) -> None:
        """Set β and update g of all samples; `tick` is called during long products, and may raise."""
        moved = np.flatnonzero(beta != self.beta)
        if not len(moved):
            return
        if int((~self.cache.is_cached(moved)).sum()) > self.cache.capacity // 2:  # too many rows to fetch
            self.recompute(tick, beta)
            return
        self.change(moved, beta[moved])
        self.update_aside()

    def change(self, samples: Samples, beta: Vector) -> None:
        """Set β of these samples, and update g of the active samples; those set aside keep their old g."""
        self._forget_values()
        change = beta - self.beta[samples]
        active = slice(None) if self.all_active else self.cache.active
        for part in chunks(np.arange(len(samples)), self.cache.capacity):
            if not self.cache.is_cached(samples[part]).all():
                self.cache.fetch(samples[part])
            self.g[active] += self.cache.combine(samples[part], change[part])
        self.beta[samples] = beta
        with np.errstate(over="ignore"):
            self._rounding_sum += float(np.abs(change) @ self._norms[samples])
        if self.all_active:
            self._beta_of_scores[samples] = beta

    def set_point(self, beta: Vector, g: Vector) -> None:
        """Set β, and g of every sample."""
        self._forget_values()
        self.beta, self.g, self._beta_of_scores = beta, g, beta.copy()
        with np.errstate(over="ignore"):
            self._rounding_sum = float(np.abs(beta) @ self._norms)
        self._rounding_at[:] = 0.0

    def set_scores(self, samples: Samples, g: Vector) -> None:
        """Set g of these samples to values computed in double precision."""
        self._forget_values()
        self.g[samples] = g
        self._rounding_at[samples] = self._rounding_sum

    @property
    def all_active(self) -> bool:
        """True if all samples are active."""
        return len(self.cache.active) == self.gram.n

    @property
    def is_up_to_date(self) -> bool:
        """True if g is Kβ for every sample, up to rounding."""
        return self.all_active or np.array_equal(self._beta_of_scores, self.beta)

    def update_aside(self) -> None:
        """Update g of the samples that are set aside to the present β."""
        moved = np.flatnonzero(self.beta != self._beta_of_scores)
        if len(moved):
            self._forget_values()
            aside = np.setdiff1d(np.arange(self.gram.n), self.cache.active, assume_unique=True)
            change = self.beta - self._beta_of_scores
            self.g[aside] += gram_matvec(self.gram, change, aside, dtype=self.cache.dtype)
            self._beta_of_scores[moved] = self.beta[moved]

    def _up_to_date_samples(self) -> Samples:
        """Return the samples with g_i = (Kβ)_i up to rounding: not those set aside, after a change of β."""
        return np.arange(self.gram.n) if self.is_up_to_date else self.cache.active

    def recompute(self, tick: Callable[[], None] | None = None, beta: Vector | None = None) -> None:
        """Compute g = Kβ for every sample, after a change of β if it is given."""
        beta = self.beta if beta is None else beta
        self.set_point(beta.copy(), gram_matvec(self.gram, beta, dtype=self.cache.dtype, tick=tick))

    def clear_cache(self, dtype: DTypeLike | None = None) -> None:
        """Replace the cache by an empty one over all samples, in this precision if given."""
        old = self.cache
        self.cache = RowCache(self.gram, self.budget, dtype or old.dtype, self.options)
        self.cache.computed, self.cache.hits = old.computed, old.hits
        self.last_set = self.last_set[:0]

    def recover(self) -> None:
        """Restore g = Kβ after an interrupt, which may have come between a change of β and that of g.

        If recomputing g would take long, the iterate becomes the point of the last evaluation.
        """
        self.clear_cache()
        work = float((self.beta != 0).sum()) * self.gram.n * self.gram.entry_cost
        if self._evaluated is not None and work > self.options.max_recovery_work:
            dual, beta, g = self._evaluated
            if dual is self.dual:  # not of an earlier solve
                self.set_point(beta.copy(), g.copy())
                return
        self.recompute()

    # -- shrinking -----------------------------------------------------------------------------

    def shrink(self, rise: Vector, fall: Vector) -> bool:
        """Set aside the samples that are in no violating pair; return False if these are too few to pay.

        rise, fall: the derivatives φ'(β+) − g and φ'(β−) − g of the active samples.
        """
        violate = (rise >= fall.min()) | (fall <= rise.max())
        if not 0 < violate.sum() <= self.options.max_active_share * len(violate):
            return False
        self._set_active(self.cache.active[violate])
        return True

    def unshrink(self, tol: float) -> bool:
        """Update g of all samples; if the violation exceeds `tol`, activate the violating ones.

        Return True if any were activated.
        """
        if self.all_active:
            return False
        self.update_aside()
        if self.violation() <= tol:
            return False
        rise, fall, *_ = self.derivatives()
        violate = (rise >= fall.min()) | (fall <= rise.max())
        violate[self.cache.active] = True
        self._set_active(np.flatnonzero(violate))
        return True

    def activate_all(self) -> None:
        """Activate every sample."""
        if not self.all_active:
            self._set_active(np.arange(self.gram.n))

    def _set_active(self, active: Samples) -> None:
        self.update_aside()  # so that all samples set aside have g of the same β
        self.cache.set_active(active)
        self.last_set = self.last_set[:0]

    # -- values --------------------------------------------------------------------------------

    def derivatives(self) -> tuple[Vector, Vector, float, float]:
        """Return φ'(β+) − g and φ'(β−) − g of every sample, and m and M."""
        if self._derivatives is None:
            self._derivatives = derivatives(self.g, self.beta, self.dual.phi)
        return self._derivatives

    def violation(self) -> float:
        """Return m − M over all samples."""
        *_, m, M = self.derivatives()
        return m - M

    def gap(self) -> float:
        """Return the relative duality gap, computed from g."""
        values = self.values()
        return relative_gap(values["objective"], values["bound"])

    def values(self) -> dict[str, float]:
        """Return the primal and the dual objective, computed from g."""
        return self._evaluate()[1]

    def intercept(self) -> float:
        """Return the best intercept, computed from g."""
        return self._evaluate()[0]

    def _evaluate(self) -> tuple[float, dict[str, float]]:
        """Return the best intercept and both objectives."""
        if self._evaluation is None:
            b = self.dual.families.best_intercept(self.g)
            self._evaluation = b, self.dual.values(self.beta, self.g, b)
            self._evaluated = self.dual, self.beta.copy(), self.g.copy()
        return self._evaluation

    def near_margin(self, band: float) -> Samples:
        """Return the samples whose β_i can rise or fall with a gain if b = (m + M)/2 changes by `band`."""
        rise, fall, m, M = self.derivatives()
        middle = (m + M) / 2
        return np.flatnonzero((rise > middle - band) | (fall < middle + band))

    # -- precision -----------------------------------------------------------------------------

    @property
    def is_double(self) -> bool:
        """True if kernel rows are in double precision."""
        return self.cache.dtype == np.float64

    def use_double(self, tick: Callable[[], None] | None = None) -> None:
        """Continue with kernel rows in double precision, and recompute g."""
        if not self.is_double:
            self.update_aside()
            self.clear_cache(np.float64)
            self.recompute(tick)

    def rounding(self) -> float:
        """Estimate the rounding error of a violation in double precision: 4 ε Σ |β_i| max K_ii."""
        return 4.0 * float(np.finfo(float).eps * np.abs(self.beta).sum()) * self._largest

    def relative_rounding(self) -> float:
        """Estimate the relative error of the objective due to rounding: Σ |β_i| times that of a score."""
        error = float(np.abs(self.beta).sum()) * self.rounding() / 4.0
        return error / max(abs(self.values()["objective"]), np.finfo(float).tiny)

    def is_accurate(self, tol: float, gap: float = np.inf) -> bool:
        """Return True if the rounding of g, measured on a few samples, is tolerable.

        The error of a score is intolerable if it exceeds both a tenth of `tol` and a fifth of the sample's
        distance from the margin. The resulting relative error of the slack cost must also be within a tenth
        of `gap`, the largest relative gap, if that is finite.
        """
        if self.is_double:
            return True
        error, probe, is_intolerable = self._estimate_rounding(tol)
        if is_intolerable[self._up_to_date_samples()].any():
            return False
        if not np.isfinite(gap):
            return True
        support_errors = error[probe[self.beta[probe] != 0]]
        costs = float(self.dual.families.largest_cost[np.flatnonzero(self.beta)].sum())
        slack_error = costs * float(support_errors.mean()) if len(support_errors) else 0.0
        return slack_error <= gap / 10 * abs(self.values()["objective"])

    def _estimate_rounding(self, tol: float) -> tuple[Vector, Samples, NDArray[np.bool_]]:
        """Estimate the error of each g_i.

        Return the errors (n,), the samples on which they were measured (the probe), and the mask of the
        intolerable errors, as in :meth:`is_accurate`. The probe has the samples nearest to the margin, those
        with the largest expected error relative to the tolerable one, and evenly spaced ones. For the other
        samples, the expected errors are scaled up to the largest ratio on the probe.
        """
        rise, fall, m, M = self.derivatives()
        middle = (m + M) / 2  # the intercept
        distance = np.minimum(middle - rise, fall - middle)  # from the margin
        tolerable, current = np.maximum(tol / 10, distance / 5), self._up_to_date_samples()
        expected = self._norms * (self._rounding_sum - self._rounding_at)
        half = min(128, self.gram.n // 32 + 2) // 2  # half of the probe
        quarter = -(-half // 2)
        nearest, worst = np.argsort(distance[current])[:half], np.argsort(-(expected / tolerable)[current])
        evenly = np.linspace(0, len(current) - 1, quarter).astype(np.intp)
        probe = current[np.unique(np.concatenate([nearest, worst[:quarter], evenly]))]
        errors = np.abs(gram_matvec(self.gram, self.beta, probe) - self.g[probe])
        is_valid = (errors > self.rounding()) & (expected[probe] > 0.0)  # not only double-precision rounding
        error = expected * (errors[is_valid] / expected[probe[is_valid]]).max(initial=0.0)
        error[probe] = errors
        return error, probe, ~(error <= tolerable)

    def refresh(self, tol: float, tick: Callable[[], None] | None = None) -> None:
        """Recompute g in double precision for samples near the margin, or with an intolerable error."""
        is_needed = self._estimate_rounding(tol)[2]
        is_needed[self.near_margin(self.options.double_band)] = True
        current = self._up_to_date_samples()
        self.recompute_at(current[is_needed[current]], tick)

    def recompute_at(self, samples: Samples, tick: Callable[[], None] | None = None) -> None:
        """Recompute g of these samples in double precision."""
        self.set_scores(samples, gram_matvec(self.gram, self.beta, samples, tick=tick))


class History:
    """The records and limits of a solve.

    iteration: number of working sets and of pivots of the Newton phase so far, at most `limit`.
    """

    def __init__(self, state: State, clock: Clock, limit: float):
        self._state = state
        self.clock, self.limit, self.iteration = clock, limit, 0
        self._records: list[dict[str, float]] = []

    def reached_limit(self) -> Status | None:
        """Return the status of the limit that is reached, or None."""
        if self.iteration >= self.limit:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self.clock.is_over else None

    def record(self, violation: float) -> dict[str, float]:
        """Add a record of the state with this violation; the objectives are nan if g is not up to date."""
        state = self._state
        unknown = {"objective": np.nan, "bound": np.nan}
        record = {
            "iteration": float(self.iteration), "seconds": self.clock.seconds, "violation": violation,
            **(state.values() if state.is_up_to_date else unknown),
            "rows": float(state.cache.computed), "hits": float(state.cache.hits),
            "active": float(len(state.cache.active)),
        }  # fmt: skip
        self._records.append(record)
        tell(record)
        return record

    def solution(self, status: Status) -> Solution:
        """Return the solution, with w and b scaled as in :meth:`Dual.values`."""
        state, beta, g, dual = self._state, self._state.beta, self._state.g, self._state.dual
        try:
            self.record(state.violation())
        except KeyboardInterrupt:
            status = interrupted()
        b = state.intercept()
        factor = dual.families.shrink(g + b)
        values = state.values()
        bound, is_close = values["bound"], state.gap() <= state.options.max_inaccurate_gap
        if status is Status.INACCURATE and not is_close:
            status = Status.STALLED
        if not bound <= values["objective"] and not is_close:
            bound = 0.0  # `bound` is nan or above the objective, by rounding; 0 is always a bound
        return Solution(
            status=status,
            primal={"coef": factor * beta, "b": np.array(factor * b), "f": factor * (g + b)},
            duals=dual.families.named(dual.families.split(beta)),
            objective=values["objective"], bound=bound, solver="decomposition",
            iterations=self.iteration, solve_time=self.clock.seconds, history=tuple(self._records),
        )  # fmt: skip
