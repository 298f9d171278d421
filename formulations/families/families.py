"""The families of one machine: multipliers by name, and what follows from them and from the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from formulations.families.family import Family, bound_families, margin_family
from formulations.families.intercept import (
    Bound,
    Priced,
    Reaches,
    allowed,
    bounds_of,
    cheapest,
    optimal_interval,
    priced,
    reaches_of,
    shrink_of,
    within,
)
from formulations.families.pieces import Layout, Pieces, lay_out
from formulations.language.recovery import as_costs, as_labels

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Vector

__all__ = ["Families", "best_intercept", "bounded_families", "hinge_families"]


class Families:
    """The families of rows of one machine.

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
        return {"_families": self._families}  # the rest can be computed anew

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families)

    def __len__(self) -> int:
        return len(self._families)

    def __getitem__(self, name: str) -> Family:
        """The family of this name."""
        return next(family for family in self if family.name == name)

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self._families[0].side)

    @cached_property
    def sides(self) -> Vector:
        """The sides, shape (q, n)."""
        return np.stack([family.side for family in self])

    @cached_property
    def caps(self) -> Vector:
        """The caps, shape (q, n)."""
        return np.stack([family.cap for family in self])

    @cached_property
    def kinks(self) -> Vector:
        """The kinks, shape (q,)."""
        return np.array([family.kink for family in self])

    @cached_property
    def largest_cost(self) -> Vector:
        """The largest finite cost of a unit of slack of each sample, shape (n,)."""
        finite = [family.cap for family in self if family.is_soft]
        return np.max(finite, axis=0) if finite else np.zeros(self.n)

    @cached_property
    def pulls_both_ways(self) -> bool:
        """Whether rows pull some output up and some down; else one intercept serves them all."""
        pulling = [(family.up, np.greater(family.common_cap, 0.0)) for family in self if family.kink > 0]
        return all(any((pulls & (up == way)).any() for up, pulls in pulling) for way in (True, False))

    def part(self, samples: NDArray[np.intp]) -> Families:
        """The same families of some samples only."""
        return Families(
            *(replace(family, side=family.side[samples], cap=family.cap[samples]) for family in self)
        )

    def repriced(self, factor: float) -> Families:
        """The same families with all costs times a factor."""
        return Families(*(replace(family, cap=factor * family.cap) for family in self))

    # -- multipliers ---------------------------------------------------------------------------

    def named(self, Z: Vector) -> dict[str, Vector]:
        """Multipliers (q, n) by the names of their families."""
        return {family.name: row for family, row in zip(self, Z, strict=True)}

    def of_letters(self, vectors: Mapping[str, Vector]) -> dict[str, Vector]:
        """Multipliers by the names of their families, from those by letter, as an explicit dual has them."""
        return {family.name: vectors[family.letter] for family in self if family.letter in vectors}

    def stacked(self, multipliers: Mapping[str, Vector]) -> Vector:
        """Multipliers by name as an array (q, n): zeros where a family has none; other names do not count."""
        zeros = np.zeros(self.n)
        return np.stack([np.asarray(multipliers.get(family.name, zeros), dtype=float) for family in self])

    def beta(self, Z: Vector) -> Vector:
        """Coefficients of w (n,): sides times multipliers (q, n), summed over the families."""
        beta: Vector = (self.sides * Z).sum(axis=0)
        return beta

    def gain(self, Z: Vector) -> float:
        """The linear part of the dual objective at multipliers (q, n)."""
        sums = Z.sum(axis=1)
        return float(sum(kink * total for kink, total in zip(self.kinks, sums, strict=True) if total))

    @cached_property
    def _layout(self) -> Layout:
        return lay_out(self._families, self.n)

    @property
    def pieces(self) -> Pieces:
        """The kinks and slopes of phi."""
        return self._layout.pieces

    def split(self, beta: Vector) -> Vector:
        """The multipliers (q, n) that earn the most for these coefficients of w (n,)."""
        return np.clip(self.sides * (beta - self._layout.anchors), 0.0, self.caps)

    # -- outputs -------------------------------------------------------------------------------

    @cached_property
    def priced(self) -> Priced:
        """The rows with slack of all families, for the search for an intercept."""
        return priced(self._families)

    @cached_property
    def _soft(self) -> list[tuple[Family, NDArray[np.bool_] | None]]:
        """The families with slack, and which of their rows have it (None for all)."""
        some = [family for family in self if family.has_slack]
        return [(family, None if family.is_soft else np.isfinite(family.cap)) for family in some]

    def cost(self, f: Vector) -> float:
        """What the slacks that outputs f (n,) need cost; rows without slack do not count."""
        total = 0.0
        for family, soft in self._soft:
            slack = np.maximum(0.0, -family.room(f))
            total += float(family.cap @ slack if soft is None else family.cap[soft] @ slack[soft])
        return total

    @cached_property
    def _bounds(self) -> list[Bound]:
        return bounds_of(self._families)

    def shrink(self, f: Vector) -> float:
        """The factor, at most 1, that brings outputs f (n,) within every bound without slack."""
        return shrink_of(self.reaches(f))

    def reaches(self, f: Vector) -> Reaches:
        """How far outputs f (n,) go towards each bound without slack."""
        return reaches_of(self._bounds, f)

    def best_intercept(self, g: Vector) -> float:
        """The intercept that is optimal for given scores: exact, and free of tolerances on multipliers.

        Minimises the cost of the slacks of ``g + b`` over the b that keep every bound without slack. Where a
        whole interval is optimal (no free support vector), the midpoint is taken, as LIBSVM does. Where no b
        keeps the bounds, the middle of what they ask for is taken.

        Parameters
        ----------
        g : ndarray of shape (n,)
            Scores without intercept.
        """
        return within(cheapest(self.priced, g), allowed(self.reaches(g)))

    def intercept_interval(
        self, g: Vector, multipliers: Mapping[str, Vector], tol: float = 1e-6
    ) -> tuple[float, float]:
        """The interval [lo, hi] of every optimal b, read off the multipliers by the optimality conditions.

        Parameters
        ----------
        g : ndarray of shape (n,)
            Scores without intercept.
        multipliers : mapping of str to ndarray of shape (n,)
            By the names of the families; zeros where there are none.
        tol : float
            A multiplier within `tol` times the largest cost of an end counts as at it.
        """
        return optimal_interval(self._families, g, self.stacked(multipliers), tol)


def hinge_families(y: ArrayLike, C: ArrayLike, B: float = np.inf, *, hard: bool = False) -> Families:
    """The families of the SVM and the Sigma-SVM, or for finite B of the Relative Margin Machine.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels -1 and +1.
    C : float or array_like of shape (n,)
        Cost of slack.
    B : float
        As in :func:`bound_families`.
    hard : bool
        Whether costs may be infinite, for margins without slack.

    Raises
    ------
    ValueError
        Labels, costs or a bound of another kind.
    """
    y = as_labels(y)
    return Families(margin_family(y, as_costs(C, len(y), hard=hard)), *bound_families(len(y), B))


def bounded_families(
    y: Vector, costs: Vector, B: float, further: int, *, price: ArrayLike = np.inf, training: bool = True
) -> Families:
    """The families of a Relative Margin Machine whose bounds hold at further samples, which have no margins.

    Parameters
    ----------
    y, costs : ndarray of shape (n,)
        Labels -1 and +1, and costs of slack.
    B : float
        As in :func:`bound_families`.
    further : int
        How many further samples follow after the n that have labels.
    price : float or array_like of shape (n + further,)
        What a unit beyond B costs; infinite for bounds that must hold.
    training : bool
        Whether the bounds hold at the samples with labels, too.
    """
    n = len(y)
    caps = np.array(np.broadcast_to(np.asarray(price, dtype=float), (n + further,)))
    caps[: 0 if training else n] = 0.0
    # Of which side a margin would be that is none does not matter.
    margins = margin_family(np.append(y, np.ones(further)), np.append(costs, np.zeros(further)))
    return Families(margins, *bound_families(n + further, B, caps))


def best_intercept(g: Vector, y: Vector, C: ArrayLike, B: float = np.inf) -> float:
    """:meth:`Families.best_intercept` of an SVM, or of a Relative Margin Machine.

    Parameters
    ----------
    g : ndarray of shape (n,)
        Scores without intercept.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    C : float or ndarray of shape (n,)
        Costs; infinite for hard margins.
    B : float
        Bound on the outputs.
    """
    costs = np.broadcast_to(np.asarray(C, dtype=float), g.shape)
    return Families(margin_family(y, costs), *bound_families(len(g), B)).best_intercept(g)
