"""Rows of programs of faces of two classes: some of the pairs alone, prices of groups, and signs to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.face_penalty import FacePenalty
from formulations.face_rows import by_groups, membership
from formulations.program import Row

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = [
    "chosen",
    "held_row",
    "lengths_row",
    "places_of",
    "priced_groups",
    "signed_row",
    "signs_row",
]


def places_of(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The place of each pair among those chosen, -1 where it is not."""
    return np.where(mask, np.cumsum(mask).reshape(mask.shape) - 1, -1)


def chosen(values: cp.Expression, mask: NDArray[np.bool_]) -> cp.Expression:
    """The values of the pairs chosen, row by row."""
    return cp.vec(values, order="C")[np.flatnonzero(mask.ravel())]


def priced_groups(m: int, group: float, groups: ArrayLike | None) -> tuple[FacePenalty, dict[str, Any]]:
    """The price of groups, and what a program's formulas know of it: nothing where there is none."""
    penalty = FacePenalty.of(m, group=group, groups=groups)
    return penalty, {"τ": penalty.group, "G": membership(penalty)[:, :-1]} if penalty.group else {}


def lengths_row(penalty: FacePenalty, h: cp.Variable, w: cp.Variable) -> Row:
    """H (L,) is no less than the length of each group of weights w (K, m)."""
    return Row(
        "group", cp.SOC(h, by_groups(penalty, w), axis=0), "sqrt(Σₖⱼ Gₗⱼ wₖⱼ²) ≤ hₗ", "g",
        "$τ$; and under it what it holds against the group's weights on all faces, with its sign",
    )  # fmt: skip


def held_row(penalty: FacePenalty, g: cp.Variable) -> Row:
    """What the price holds, g (K, m), is no longer than it in any group."""
    most = penalty.group * np.ones(penalty.n_groups)
    return Row(
        "group", cp.SOC(most, by_groups(penalty, g), axis=0), "sqrt(Σₖⱼ Gₗⱼ gₖⱼ²) ≤ τ", "w",
        "the group's length over all faces; and under it, with the other sign, its weights",
    )  # fmt: skip


def signs_row(ways: Array, w: cp.Variable) -> Row:
    """The weights w (K, m) keep their signs, `ways` (K, m), where these are not 0."""
    return Row(
        "sign", chosen(cp.multiply(ways, w), ways != 0) >= 0, "σₖⱼ wₖⱼ ≥ 0 for σₖⱼ² > 0", "delta",
        "what a weight of the sign that is not allowed would gain", places_of(ways != 0).T,
    )  # fmt: skip


def signed_row(ways: Array, delta: cp.Variable) -> Row:
    """The multipliers delta (K, m) of signs are not negative."""
    return Row(
        "sign", chosen(delta, ways != 0) >= 0, "δₖⱼ ≥ 0 for σₖⱼ² > 0", "signed",
        "the size of the weight, where it has a sign to keep", places_of(ways != 0).T,
    )  # fmt: skip
