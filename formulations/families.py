"""Families of rows: the constraints of a hinge-type machine on its outputs, and their multipliers.

A hinge-type machine minimises a quadratic in ``w`` plus the cost of slack in constraints (rows) on its n
outputs ``f_i = w'x_i + b``. A family q of rows has one constraint for every sample i, with multiplier mu_qi,

    side_qi f_i >= kink_q - slack_qi,     slack_qi >= 0 at a cost of cap_qi per unit.

The side is +1 or -1. The kink is where the cost of a row has its kink; the cap is named for the dual, where
it limits mu_qi. A row without slack (a hard row) has an infinite cap; a sample with a cap of 0 has no row in
the family. The SVM has one family, the margins (side y_i, kink 1); the Relative Margin Machine also
has the bounds f_i <= B and -f_i <= B (kink -B). For any Q families the dual is

    max  sum_q kink_q sum_i mu_qi - 1/2 beta'K beta,    beta_i = sum_q side_qi mu_qi
    s.t. sum_i beta_i = 0,    0 <= mu <= cap

with the kernel matrix K. For the quadratic 1/2 |w|^2, K = XX' and w = sum_i beta_i x_i. Certificates, solvers
and plots take the families of a machine, and so also work for a new machine that states its own.

For a given beta_i the multipliers with the largest linear term are known. Changing beta_i by one unit through
family q changes the linear term by side_qi kink_q. Families are therefore used in decreasing order of this
slope, each up to its cap. So the dual is max sum_i phi_i(beta_i) - 1/2 beta'K beta with concave, piecewise
linear phi_i. Each family is a piece of phi_i, of length cap_qi and slope side_qi kink_q, and phi_i is
-infinity beyond the outer pieces.

Read in this order: Family, Families (those of a machine; functions of the multipliers, then of the outputs),
the functions that make them (also for unlabelled samples), Pieces (phi), and SlackCosts and Bound, which
determine the best b.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import at_least
from formulations.language.recovery import as_costs, as_data, as_labels
from formulations.language.types import Matrix, MatrixLike, Vector, is_sparse


@dataclass(frozen=True)
class Family:
    """The rows ``side_i f_i >= kink - slack_i``, one for each sample i."""

    name: str  # name of the rows, such as ``"margin"``
    letter: str  # letter of the multipliers, such as ``"alpha"``
    side: Vector  # (n,): +1 for a lower bound on the output, -1 for an upper bound
    kink: float  # lower bound on ``side * f``
    # (n,): cost of a unit of slack, the largest multiplier; infinite for a hard row, 0 for no row
    cap: Vector
    # name of the rows ``slack >= 0`` and letter of their multipliers; empty without slack
    slack: tuple[str, str] | tuple[()] = ()
    # words for a row with its multiplier at 0, between 0 and its cap, and at its cap
    states: tuple[str, str, str] = ("idle", "in use", "at its cap")
    price: str = ""  # the estimator's parameter to which the caps are proportional, such as ``"C"``
    place: str = ""  # the estimator's parameter to which the kink is proportional, such as ``"B"``
    excess: str = "ξ"  # letter of the slack itself

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def surplus(self, f: Vector) -> Vector:
        """Return the surplus (n,) of outputs f over the kink; a negative one is minus the slack needed."""
        return self.side * f - self.kink

    @cached_property
    def up(self) -> NDArray[np.bool_]:
        """True for lower bounds on the output, shape (n,), or () if `side` is one number, broadcast."""
        is_common = self.side.strides == (0,)  # a stride of 0: one number, broadcast to all samples
        return (self.side[0] if is_common else self.side) > 0.0

    @cached_property
    def common_cap(self) -> float | Vector:
        """The cap of all samples if it is one number, else the caps (n,)."""
        first = float(self.cap[0])
        return first if self.cap.strides == (0,) or bool((self.cap == first).all()) else self.cap

    @property
    def row_mask(self) -> NDArray[np.bool_] | None:
        """Mask (n,) of the samples that have a row; None if all have one."""
        row_mask = np.greater(self.common_cap, 0.0)
        return None if row_mask.all() else np.broadcast_to(row_mask, self.cap.shape)

    @cached_property
    def has_slack(self) -> bool:
        """True if some row has slack."""
        return _has_cost(self.common_cap)

    @cached_property
    def is_soft(self) -> bool:
        """True if every row has slack: every cap is finite."""
        return bool(np.less(self.common_cap, np.inf).all())

    @property
    def unit(self) -> float:
        """The scale of residuals of these rows: the kink's absolute value, at least 1."""
        return max(abs(self.kink), 1.0)


def _has_cost(caps: ArrayLike) -> bool:
    """Return True if some cap is finite and above 0."""
    if isinstance(caps, float):
        return 0.0 < caps < np.inf
    return bool(np.logical_and(np.greater(caps, 0.0), np.less(caps, np.inf)).any())


def margin_family(y: Vector, costs: Vector) -> Family:
    """Return the margins ``y_i f_i >= 1 - xi_i``; a margin of infinite cost has no slack."""
    states = ("beyond the margin", "on the margin", "inside the margin")
    return Family("margin", "alpha", y, 1.0, costs, ("slack", "beta"), states, price="C")


def bound_families(n: int, B: float, cost: ArrayLike = np.inf) -> tuple[Family, ...]:
    """Return the bounds ``f_i <= B`` and ``-f_i <= B`` of all n samples, or no family if B is infinite.

    `cost`, a number or (n,), is the cost of a unit of slack, infinite for hard bounds.
    """
    if np.isinf(at_least("B", B, 0.0, infinite=True)):
        return ()
    caps = np.broadcast_to(np.asarray(cost, dtype=float), (n,))
    soft = _has_cost(cost)
    at_cap = "beyond" if soft else "held at"
    return tuple(
        Family(
            f"bound_{direction}", letter, np.broadcast_to(side, (n,)), -float(B), caps,
            (f"slack_{direction}", slack_letter) if soft else (),
            ("idle", f"held at {sign}B", f"{at_cap} {sign}B"),
            price="bound_cost" if soft else "", place="B", excess=excess,
        )
        for direction, letter, slack_letter, side, sign, excess in (
            ("above", "lam", "rho", -1.0, "+", "τ"), ("below", "lam_star", "rho_star", 1.0, "-", "τ*")
        )
    )  # fmt: skip


class Families:
    """The families of rows of one machine; a sequence of :class:`Family`.

    Parameters
    ----------
    *families : Family
        At least one, all of the same n samples, with distinct names.

    Raises
    ------
    ValueError
        No family, a name twice, or shapes that differ.
    """

    def __init__(self, *families: Family):
        if not families:
            raise ValueError("a machine needs at least one family of rows")
        names = [family.name for family in families]
        if len(set(names)) < len(names):
            raise ValueError(f"each family needs a name of its own, not {names}")
        shapes = {vector.shape for family in families for vector in (family.side, family.cap)}
        if len(shapes) > 1:
            raise ValueError(f"all families must be of the same samples; they have shapes {sorted(shapes)}")
        self._families = families

    def __getstate__(self) -> dict[str, tuple[Family, ...]]:
        return {"_families": self._families}  # all cached properties can be recomputed

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families)

    def __len__(self) -> int:
        return len(self._families)

    def __getitem__(self, name: str) -> Family:
        """Return the family of this name."""
        return next(family for family in self if family.name == name)

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self._families[0].side)

    @cached_property
    def sides(self) -> Vector:
        """The sides, shape (Q, n)."""
        return np.stack([family.side for family in self])

    @cached_property
    def caps(self) -> Vector:
        """The caps, shape (Q, n)."""
        return np.stack([family.cap for family in self])

    @cached_property
    def kinks(self) -> Vector:
        """The kinks, shape (Q,)."""
        return np.array([family.kink for family in self])

    @cached_property
    def largest_cost(self) -> Vector:
        """Each sample's largest cost of a unit of slack (n,), over the families whose every row has slack."""
        finite = [family.cap for family in self if family.is_soft]
        return np.max(finite, axis=0) if finite else np.zeros(self.n)

    @cached_property
    def has_opposite_margins(self) -> bool:
        """True if rows with a positive kink bound outputs from both sides; else the best b is infinite."""
        rows = [(family.up, np.greater(family.common_cap, 0.0)) for family in self if family.kink > 0]
        return all(any((exists & (up == is_up)).any() for up, exists in rows) for is_up in (True, False))

    def part(self, samples: NDArray[np.intp] | slice) -> Families:
        """Return the same families of some samples only."""
        return Families(
            *(replace(family, side=family.side[samples], cap=family.cap[samples]) for family in self)
        )

    def repriced(self, factor: float) -> Families:
        """Return the same families with all costs times a factor."""
        return Families(*(replace(family, cap=factor * family.cap) for family in self))

    # -- multipliers ---------------------------------------------------------------------------

    def named(self, Z: Vector) -> dict[str, Vector]:
        """Return multipliers (Q, n) by the names of their families."""
        return {family.name: row for family, row in zip(self, Z, strict=True)}

    def of_letters(self, vectors: Mapping[str, Vector]) -> dict[str, Vector]:
        """Return multipliers by family from `vectors`, the variables of a dual program by letter."""
        return {family.name: vectors[family.letter] for family in self if family.letter in vectors}

    def stacked(self, multipliers: Mapping[str, Vector]) -> Vector:
        """Return multipliers, given by family, as an array (Q, n); a missing family has zeros."""
        zeros = np.zeros(self.n)
        return np.stack([np.asarray(multipliers.get(family.name, zeros), dtype=float) for family in self])

    def beta(self, Z: Vector) -> Vector:
        """Return beta (n,), the coefficients of w: sides times multipliers (Q, n), summed over families."""
        beta: Vector = (self.sides * Z).sum(axis=0)
        return beta

    def gain(self, Z: Vector) -> float:
        """Return the linear term of the dual objective, sum_q kink_q sum_i mu_qi, at multipliers (Q, n)."""
        sums = Z.sum(axis=1)
        return float(sum(kink * total for kink, total in zip(self.kinks, sums, strict=True) if total))

    @cached_property
    def _table(self) -> tuple[Pieces, Vector]:
        """The pieces of phi, and the families' anchors (Q, n).

        The anchor of a family is the beta at which its multiplier becomes 0: the multiplier is
        ``side * (beta - anchor)``, clipped to [0, cap]. For side +1 the anchor is the left end of the
        family's piece of phi, for side -1 the right end. It is infinite if the multiplier is at its cap for
        every finite beta.
        """
        count = len(self)
        table = np.empty((3 * count + 3, self.n))
        for samples, ups in _sign_patterns(self._families):
            np.copyto(table, _table_of_pattern(self._families, ups), where=samples)
        breakpoints, anchors, slopes = np.split(table, (count + 1, 2 * count + 1))
        # A first or last breakpoint that is infinite for all samples (hard rows) is omitted.
        first = 1 if np.isneginf(breakpoints[0]).all() else 0
        last = count if np.isposinf(breakpoints[-1]).all() else count + 1
        return Pieces(breakpoints[first:last], slopes[first : last + 1]), anchors

    @property
    def pieces(self) -> Pieces:
        """The breakpoints and slopes of phi."""
        return self._table[0]

    def split(self, beta: Vector) -> Vector:
        """Return the multipliers (Q, n) with the largest linear term for the coefficients beta (n,) of w."""
        _, anchors = self._table
        return np.clip(self.sides * (beta - anchors), 0.0, self.caps)

    # -- outputs -------------------------------------------------------------------------------

    @cached_property
    def slack_costs(self) -> SlackCosts:
        """The rows with slack of all families, for :func:`optimal_intercepts`."""
        return slack_costs(self._families)

    @cached_property
    def _soft(self) -> list[tuple[Family, NDArray[np.bool_] | None]]:
        """The families with slack, each with the mask of its rows with slack (None if all have slack)."""
        soft = [family for family in self if family.has_slack]
        return [(family, None if family.is_soft else np.isfinite(family.cap)) for family in soft]

    def cost(self, f: Vector) -> float:
        """Return the cost of the slacks of outputs f (n,); the violation of a hard row costs nothing here."""
        total = 0.0
        for family, soft in self._soft:
            slack = np.maximum(0.0, -family.surplus(f))
            total += float(family.cap @ slack if soft is None else family.cap[soft] @ slack[soft])
        return total

    @cached_property
    def _bounds(self) -> list[Bound]:
        """The hard bounds: rows without slack with a kink of at most 0."""
        bounds = []
        for family in self:
            if family.kink <= 0.0 and not family.is_soft:
                hard = np.isinf(family.common_cap)
                for is_lower in (True, False):
                    rows = hard & (family.up == is_lower)
                    if rows.any():
                        bounds.append(Bound(is_lower, -family.kink, None if rows.all() else rows))
        return bounds

    def shrink(self, f: Vector) -> float:
        """Return the largest factor, at most 1, that scales outputs f (n,) to satisfy every hard bound."""
        return shrink_of(self.reaches(f))

    def reaches(self, f: Vector) -> Reaches:
        """Return, for each hard bound, the largest of the outputs f (n,), or of -f for a lower bound."""
        reaches: Reaches = {}
        for bound in self._bounds:
            key = bound.is_lower, bound.limit
            reaches[key] = max(bound.reach(f), reaches.get(key, -np.inf))
        return reaches

    def best_intercept(self, g: Vector) -> float:
        """Return the optimal intercept for scores g (n,), exact and without tolerances on multipliers.

        It minimises the cost of the slacks of ``g + b`` over all b that satisfy every hard bound. If a whole
        interval is optimal (no free support vector), the midpoint is returned, as LIBSVM does. If no b
        satisfies the hard bounds, the midpoint of their limits is returned.
        """
        return clipped_midpoint(optimal_intercepts(self.slack_costs, g), feasible_intercepts(self.reaches(g)))

    def intercept_interval(
        self, g: Vector, multipliers: Mapping[str, Vector], tol: float = 1e-6
    ) -> tuple[float, float]:
        """Return the interval [low, high] of the optimal b, by complementarity with the multipliers.

        A row with a multiplier above 0 has no surplus, and a row with a multiplier below its cap has no
        slack; each bounds b on one side. `g` (n,) are the scores without intercept. A multiplier counts as 0
        or as at its cap within `tol` times the largest finite cap.
        """
        costs = [float(family.cap.max(initial=0.0, where=np.isfinite(family.cap))) for family in self]
        error = tol * max(costs)
        low, high = -np.inf, np.inf
        for family, mu in zip(self, self.stacked(multipliers), strict=True):
            b_at_kink, up = family.side * family.kink - g, family.side > 0
            positive, below_cap = mu > error, mu < family.cap - error
            low = max(low, float(b_at_kink[np.where(up, below_cap, positive)].max(initial=-np.inf)))
            high = min(high, float(b_at_kink[np.where(up, positive, below_cap)].min(initial=np.inf)))
        return low, high


def hinge_families(
    y: ArrayLike, C: ArrayLike, B: float = np.inf, bound_cost: ArrayLike = np.inf, *, hard: bool = False
) -> Families:
    """Return the families of the SVM and the Sigma-SVM, or for finite B of the Relative Margin Machine.

    `bound_cost` is the cost of slack on the bounds, the program's D. With `hard` C may be infinite.
    """
    y = as_labels(y)
    n = len(y)
    if bound_cost is not np.inf:  # infinity stays one number
        bound_cost = as_costs(bound_cost, n, hard=True, name="D")
    return Families(margin_family(y, as_costs(C, n, hard=hard)), *bound_families(n, B, bound_cost))


# -- bounds at unlabelled samples: n labelled samples, followed by k unlabelled ones, in one matrix ----------


def bounded_families(
    y: ArrayLike, C: ArrayLike, B: float, n_unlabelled: int, *, training: bool = True, D: ArrayLike = np.inf
) -> Families:
    """Return the families of a Relative Margin Machine with bounds at unlabelled samples, without margins.

    Without `training` only the unlabelled samples have bounds. C is the cost of slack of the margins, D that
    of the bounds, one number or (n + k,); both may be infinite.
    """
    y = as_labels(y)
    n, total = len(y), len(y) + n_unlabelled
    costs, caps = as_costs(C, n, hard=True), as_costs(D, total, hard=True, name="D")
    if not training:
        caps[:n] = 0.0
    # A margin with a cap of 0 is no row, whatever its side.
    margins = margin_family(np.append(y, np.ones(n_unlabelled)), np.append(costs, np.zeros(n_unlabelled)))
    return Families(margins, *bound_families(total, B, caps))


def stacked(X: MatrixLike, y: ArrayLike, U: MatrixLike) -> tuple[Matrix, Vector]:
    """Check and stack the samples X (n, m) and U (k, m); return them (n + k, m) and the labels (n,)."""
    X, y = as_data(X, y)
    n_unlabelled = np.shape(U)[0] if np.ndim(U) or is_sparse(U) else 0
    try:
        U, _ = as_data(U, np.ones(n_unlabelled))
    except ValueError as error:
        raise ValueError(f"the further samples: {error}") from error
    if U.shape[1] != X.shape[1]:
        raise ValueError(f"the further samples must have the {X.shape[1]} features of X, not {U.shape[1]}")
    return append(X, U), y


def append(X: Matrix, U: Matrix) -> Matrix:
    """Stack the rows of X and U, as CSR if either is CSR."""
    if is_sparse(X) or is_sparse(U):
        return sp.csr_array(sp.vstack([sp.csr_array(X), sp.csr_array(U)]))
    return np.vstack([X, U])


def extend_multipliers(multipliers: Mapping[str, Vector], n: int, n_total: int) -> dict[str, Vector]:
    """Extend multipliers, by family or letter, with zeros to all `n_total` samples; the first n are labelled.

    Multipliers of margins may be given for the labelled samples only, those of bounds for the unlabelled.
    """
    extended = dict(multipliers)
    for name, vector in multipliers.items():
        if name in ("margin", "alpha") and np.shape(vector) == (n,):
            extended[name] = np.append(vector, np.zeros(n_total - n))
        elif name in ("bound_above", "bound_below", "lam", "lam_star") and np.shape(vector) == (n_total - n,):
            extended[name] = np.append(np.zeros(n), vector)
    return extended


def best_intercept(g: Vector, y: Vector, C: ArrayLike, B: float = np.inf) -> float:
    """Return :meth:`Families.best_intercept` of an SVM, or for finite B of a Relative Margin Machine."""
    costs = np.broadcast_to(np.asarray(C, dtype=float), g.shape)
    return Families(margin_family(y, costs), *bound_families(len(g), B)).best_intercept(g)


Mask = NDArray[np.bool_]


class Pieces(NamedTuple):
    """The piecewise linear phi of each sample, for compiled code.

    Column i of ``ends`` (k, n) has the breakpoints of phi_i in ascending order. Column i of ``slopes``
    (k + 1, n) has its slopes, from below the first breakpoint to above the last; infinite if phi_i is
    -infinity there.
    """

    ends: Vector
    slopes: Vector

    def of(self, samples: NDArray[np.intp]) -> Pieces:
        """Return the pieces of the samples with these indices."""
        return Pieces(self.ends.take(samples, 1), self.slopes.take(samples, 1))


def _sign_patterns(families: Sequence[Family]) -> list[tuple[Mask, tuple[bool, ...]]]:
    """Group the samples by their sides: (mask of a group, a tuple that tells if each family's side is +1)."""
    patterns: list[tuple[Mask, tuple[bool, ...]]] = [(np.array(True), ())]
    for up in (family.up for family in families):
        if up.size == 1:
            patterns = [(samples, (*ups, bool(up))) for samples, ups in patterns]
        else:
            halves = [
                (samples & (up == is_up), (*ups, is_up))
                for samples, ups in patterns
                for is_up in (True, False)
            ]
            patterns = [(samples, ups) for samples, ups in halves if samples.any()]
    return patterns


def _table_of_pattern(families: Sequence[Family], ups: Sequence[bool]) -> Vector:
    """Return a table of Q + 1 breakpoints, Q anchors and Q + 2 slopes (rows) for samples with sides `ups`.

    It has a column for each sample, or one column if every family's caps are one number.
    """
    indices = range(len(families))
    caps = [family.common_cap for family in families]
    slopes = [family.kink if up else -family.kink for family, up in zip(families, ups, strict=True)]
    # In decreasing order of slope; of equal slopes, side -1 first.
    order = sorted(indices, key=[(-slopes[q], ups[q]) for q in indices].__getitem__)
    # At the breakpoint between two consecutive families of this order, all earlier families of side +1 and
    # all later families of side -1 are at their caps, and the others at 0.
    earlier = list(accumulate([caps[q] if ups[q] else 0.0 for q in order], initial=0.0))
    later = list(accumulate([0.0 if ups[q] else caps[q] for q in reversed(order)], initial=0.0))[::-1]
    breakpoints = [up - down for up, down in zip(earlier, later, strict=True)]
    # The multiplier is 0 at the left end of the family's piece for side +1, at the right end for side -1.
    anchors = [breakpoints[order.index(q) + (not ups[q])] for q in indices]
    # Below and above all pieces phi is -infinity, so its slopes are infinite.
    rows = [*breakpoints, *anchors, np.inf, *[slopes[q] for q in order], -np.inf]
    if all(isinstance(cap, float) for cap in caps):
        return np.array(rows)[:, None]
    return np.stack(np.broadcast_arrays(*rows))


Reaches = dict[tuple[bool, float], float]
"""Maps (is_lower, limit) of each hard :class:`Bound` to its largest output: -f if it is lower, else f."""


class SlackCosts(NamedTuple):
    """The rows with a finite cost (:func:`slack_costs`), one family after the other."""

    thresholds: Vector  # side * kink, the output at which a row's slack becomes 0
    costs: Vector  # cost of a unit of each row's slack
    total: float  # sum of the costs
    rising: float  # sum of the costs of the rows of side +1
    any_rise: bool  # True if there are rows of side +1
    n_families: int
    selected: NDArray[np.intp] | None = None  # indices of the rows among those of all families; None for all


def slack_costs(families: Sequence[Family]) -> SlackCosts:
    """Return the rows with slack, and the hard margins, each at a finite cost above that of all soft rows."""
    with_cost = [family for family in families if family.kink > 0.0 or family.has_slack]
    if not with_cost:
        return SlackCosts(np.zeros(0), np.zeros(0), 0.0, 0.0, False, 0)
    family_costs = [family.cap if family.is_soft else _finite_costs(family, families) for family in with_cost]
    ups = [family.up for family in with_cost]
    rising = sum(float(costs[up].sum()) for costs, up in zip(family_costs, ups, strict=True))
    thresholds = np.concatenate([family.side * family.kink for family in with_cost])
    costs, any_rise, selected = np.concatenate(family_costs), any(up.any() for up in ups), None
    if not costs.all() and costs.any():  # rows of cost 0 give no breakpoint; if all costs are 0, all are kept
        selected = np.flatnonzero(costs)
        thresholds, costs = thresholds[selected], costs[selected]
        any_rise = rising > 0.0
    return SlackCosts(thresholds, costs, float(costs.sum()), rising, any_rise, len(with_cost), selected)


def _finite_costs(family: Family, families: Sequence[Family]) -> Vector:
    """Return finite costs: for a hard bound 0, for a hard margin more than all rows with slack together."""
    soft = sum(float(other.cap[np.isfinite(other.cap)].sum()) for other in families)
    hard_cost = 1.0 + len(family.cap) * soft if family.kink > 0.0 else 0.0
    return np.where(np.isfinite(family.cap), family.cap, hard_cost)


def optimal_intercepts(rows: SlackCosts, g: Vector) -> tuple[float, float]:
    """Return the interval of b that minimises the cost of the slacks of ``g + b``.

    This function of b is piecewise linear. Its slope is ``-rows.rising`` below all breakpoints, and rises by
    a row's cost at its breakpoint ``side * kink - g``.
    """
    if not rows.n_families:
        return -np.inf, np.inf
    breaks = breaks_of(rows, g)
    order = breaks.argsort()
    if not rows.any_rise:  # the cost is minimal from -infinity up to the first breakpoint
        return -np.inf, float(breaks[order[0]])
    slope = rows.costs[order].cumsum() - rows.rising  # to the right of each breakpoint
    rounding = 1e-12 * rows.total
    first = int((slope >= -rounding).argmax())
    low = float(breaks[order[first]])
    if slope[first] > rounding:
        return low, low
    return low, float(breaks[order[first + 1]]) if first + 1 < len(breaks) else np.inf


def breaks_of(rows: SlackCosts, g: Vector) -> Vector:
    """Return the breakpoints in b of the cost of the slacks of ``g + b``, in the order of the costs."""
    scores = g if rows.n_families == 1 else np.tile(g, rows.n_families)
    return np.asarray(rows.thresholds - (scores if rows.selected is None else scores[rows.selected]))


class Bound(NamedTuple):
    """Hard rows of one side: f <= limit, or -f <= limit if `is_lower`, with limit >= 0."""

    is_lower: bool
    limit: float
    samples: NDArray[np.bool_] | None  # mask (n,) of the samples with such a row; None for all

    def reach(self, f: Vector) -> float:
        """Return the largest of the outputs f (n,), or of -f for a lower bound; -inf without a sample."""
        outputs = f if self.samples is None else f[self.samples]
        return float((-outputs if self.is_lower else outputs).max(initial=-np.inf))


def shrink_of(reaches: Reaches) -> float:
    """Return the largest factor, at most 1, that scales outputs with these reaches to satisfy every bound."""
    return min((limit / reach for (_, limit), reach in reaches.items() if reach > limit), default=1.0)


def feasible_intercepts(reaches: Reaches) -> tuple[float, float]:
    """Return the interval of b that satisfies every hard bound, for reaches at b = 0; empty if low > high."""
    lows = [reach - limit for (is_lower, limit), reach in reaches.items() if is_lower]
    highs = [limit - reach for (is_lower, limit), reach in reaches.items() if not is_lower]
    return max(lows, default=-np.inf), min(highs, default=np.inf)


def clipped_midpoint(interval: tuple[float, float], bounds: tuple[float, float]) -> float:
    """Return the midpoint of `interval` clipped to `bounds`, or that of `bounds` if these are empty.

    Of an interval that is infinite on one side, the finite end is returned; of one on both sides, 0.
    """
    lower, upper = bounds
    if lower > upper:
        return (lower + upper) / 2
    low, high = (min(max(end, lower), upper) for end in interval)
    if np.isinf(low) or np.isinf(high):
        return high if np.isfinite(high) else low if np.isfinite(low) else 0.0
    return (low + high) / 2
