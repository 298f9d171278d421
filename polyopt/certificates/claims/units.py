"""The parts of an active set: what shares a slack, and sums of linear expressions."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polyopt.check.check import Rows

    Vector = list[Fraction]
    Key = tuple[Any, ...]

__all__ = ["Unit", "combined"]

_ZERO = Fraction(0)


class Unit:
    """One slack: the rows of a sample i that share it, at some faces, who is active, and whether it is paid.

    `near` and `f` (K lists) are multipliers and scores of a point close to the optimum; `close` is that of
    :func:`polyopt.certificates.claims.vertex.optimal_vertex`.
    """

    def __init__(
        self, row: Rows, i: int, faces: list[int], near: list[Vector], f: list[Vector], close: float
    ):
        self.row, self.i, self.faces, self.cap, self.side = row, i, faces, row.cap[i], row.side[i]
        self.m = {k: near[k][i] for k in faces}
        t = {k: self.above(f, k) for k in faces}
        top, ends = max(t.values()), Fraction(close) * (self.cap or max(map(max, near)) or 1)
        self.holds = {k for k in faces if self.m[k] > ends}
        self.pays = self.cap is not None and self.cap - sum(self.m.values()) <= ends and top > Fraction(close)
        if self.pays and not self.holds:
            self.holds = {max(faces, key=t.__getitem__)}
        self.xi = top if self.pays else _ZERO

    def above(self, f: list[Vector], k: int) -> Fraction:
        """How far the row at a face is from holding, with no slack."""
        less = sum((f[other][self.i] for other in self.row.less[self.i]), _ZERO)
        return self.row.kink - self.side * (f[k][self.i] - less)

    @property
    def is_full(self) -> bool:
        """Whether its one multiplier is its cap."""
        return self.pays and len(self.holds) == 1

    def wrong(self, f: list[Vector]) -> list[Callable[[], None]]:
        """What is on the wrong side at some scores, each as what changes its state."""
        found: list[Callable[[], None]] = []
        least = min(self.holds, key=self.m.__getitem__, default=None)
        if least is not None and self.m[least] < 0 and (len(self.holds) > 1 or not self.pays):
            found.append(lambda: self.holds.discard(least))
        top = max(self.faces, key=lambda k: self.above(f, k))
        if top not in self.holds and self.above(f, top) > self.xi:
            found.append(lambda: self.holds.add(top))
        if self.pays and self.xi < 0:
            found.append(lambda: setattr(self, "pays", False))
        if not self.pays and self.cap is not None and sum(self.m.values()) > self.cap:
            found.append(lambda: setattr(self, "pays", True))
        return found


def combined(parts: Iterable[tuple[Fraction, dict[Key, Fraction]]]) -> dict[Key, Fraction]:
    """Add up multiples of linear expressions: factors, and coefficients by unknown."""
    found: dict[Key, Fraction] = {}
    for factor, own in parts:
        for key, value in own.items():
            found[key] = found.get(key, _ZERO) + factor * value
    return found
