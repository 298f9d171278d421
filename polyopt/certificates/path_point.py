"""The machines along a path, and how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from formulations.language.display import Shown, Summary, Table

if TYPE_CHECKING:
    from formulations.language.solution import Solution
    from polyopt.certificates.certificate import Certificate

__all__ = ["Path", "Point", "point_summary"]


class Point(Protocol):
    """What a path is made of."""

    @property
    def solution(self) -> Solution:
        """Its solution."""

    @property
    def certificate(self) -> Certificate:
        """What is proven of it."""


P = TypeVar("P", bound=Point)


class Path(Shown, list[P]):
    """A list of points, one after the other, that shows itself as a table.

    name: what the path is, in a few words.
    varied: the attribute of a point that changes along it.
    """

    def __init__(self, name: str, varied: str):
        super().__init__()
        self.name, self.varied = name, varied

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.varied), None, iter(self)

    def _summary(self) -> Summary:
        rows = tuple(
            (
                f"{getattr(point, self.varied):.6g}", f"{point.certificate.primal_value:.8g}",
                f"{point.certificate.dual_value:.8g}", f"{point.certificate.relative_gap:.1e}",
                str(point.solution.iterations), point.certificate.claim.name.lower().replace("_", " "),
            )
            for point in self
        )  # fmt: skip
        columns = (self.varied, "value", "dual bound", "gap", "steps", "claim")
        return Summary(
            f"{self.name}: {len(self)} machines", (), (Table("the machines", columns, rows, True),)
        )


def point_summary(name: str, varied: str, point: Point) -> Summary:
    """One machine of a path.

    point: the machine.
    """
    return point.certificate._summary()._replace(title=f"{name} at {varied} = {getattr(point, varied):.6g}")
