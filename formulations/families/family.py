"""One family of rows, and those that the papers' machines have."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from formulations.language.arguments import at_least

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Vector

__all__ = ["Family", "bound_families", "margin_family"]


@dataclass(frozen=True)
class Family:
    """The rows of one name: ``side_i f_i >= kink - slack_i``.

    Attributes
    ----------
    name : str
        Of its rows, such as ``"margin"``.
    letter : str
        Of its multipliers, such as ``"alpha"``.
    side : ndarray of shape (n,)
        +1 where the row holds the output up, -1 where it holds it down.
    kink : float
        The value of ``side * f`` at which the row begins to hold.
    cap : ndarray of shape (n,)
        What a unit of slack costs, the largest multiplier; infinite for a row without slack. Where it is 0
        the sample has no such row.
    slack : tuple of str
        Name and letter of the rows ``slack >= 0``; empty where the rows have no slack.
    states : tuple of str
        What a row is called whose multiplier is 0, between its ends, and at its cap.
    price, place : str
        The machine's parameters that the caps and the kink are proportional to; empty where none is.
    excess : str
        Letter of the slack.
    """

    name: str
    letter: str
    side: Vector
    kink: float
    cap: Vector
    slack: tuple[str, str] | tuple[()] = ()
    states: tuple[str, str, str] = ("idle", "in use", "at its cap")
    price: str = ""
    place: str = ""
    excess: str = "ξ"

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def room(self, f: Vector) -> Vector:
        """By how much outputs f (n,) are beyond the kink; negative where slack is needed."""
        return self.side * f - self.kink

    @cached_property
    def up(self) -> NDArray[np.bool_]:
        """Where the rows hold outputs up, shape (n,), or shape () where that is the same for all samples."""
        same = self.side.strides == (0,)
        return (self.side[0] if same else self.side) > 0.0

    @cached_property
    def common_cap(self) -> float | Vector:
        """The cap of all samples where it is one number, else those of each."""
        first = float(self.cap[0])
        return first if self.cap.strides == (0,) or bool((self.cap == first).all()) else self.cap

    @property
    def is_there(self) -> NDArray[np.bool_] | None:
        """Which samples have such a row, shape (n,); None where all have."""
        there = np.greater(self.common_cap, 0.0)
        return None if there.all() else np.broadcast_to(there, self.cap.shape)

    @cached_property
    def _finite(self) -> tuple[bool, bool]:
        caps = self.common_cap
        finite = caps < np.inf
        return _has_price(caps), finite if isinstance(finite, bool) else bool(finite.all())

    @property
    def has_slack(self) -> bool:
        """Whether some row may be short at a price."""
        return self._finite[0]

    @property
    def is_soft(self) -> bool:
        """Whether every row may be short at a price."""
        return self._finite[1]

    @property
    def unit(self) -> float:
        """The size of an output at this row, at least 1: what its residuals are relative to."""
        return max(abs(self.kink), 1.0)


def _has_price(caps: ArrayLike) -> bool:
    """Whether some cap is finite and above 0."""
    if isinstance(caps, float):
        return 0.0 < caps < np.inf
    return bool(np.logical_and(np.greater(caps, 0.0), np.less(caps, np.inf)).any())


def margin_family(y: Vector, costs: Vector) -> Family:
    """The margins ``y_i f_i >= 1 - xi_i``.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels -1 and +1.
    costs : ndarray of shape (n,)
        Cost of slack, at least 0; infinite for a margin without slack.
    """
    states = ("beyond the margin", "on the margin", "inside the margin")
    return Family("margin", "alpha", y, 1.0, costs, ("slack", "beta"), states, price="C")


def bound_families(n: int, B: float, cost: ArrayLike = np.inf) -> tuple[Family, ...]:
    """The bounds ``f_i <= B`` and ``-f_i <= B``, the same for all samples.

    Parameters
    ----------
    n : int
        Samples.
    B : float
        Bound on the outputs, at least 0; where it is infinite there are no such rows.
    cost : float or array_like of shape (n,)
        What a unit beyond B costs; infinite for bounds that must hold.
    """
    if np.isinf(at_least("B", B, 0.0, infinite=True)):
        return ()
    caps, soft = np.broadcast_to(np.asarray(cost, dtype=float), (n,)), _has_price(cost)
    beyond = "beyond" if soft else "held at"
    return tuple(
        Family(
            f"bound_{where}", letter, np.broadcast_to(side, (n,)), -float(B), caps,
            (f"slack_{where}", price) if soft else (),
            ("idle", f"held at {sign}B", f"{beyond} {sign}B"),
            price="bound_cost" if soft else "", place="B", excess=excess,
        )
        for where, letter, price, side, sign, excess in (
            ("above", "lam", "rho", -1.0, "+", "τ"), ("below", "lam_star", "rho_star", 1.0, "-", "τ*")
        )
    )  # fmt: skip
