"""A path of machines, one for each value of a parameter, and its display as a table."""

from typing import Protocol, TypeVar

from formulations.language.display import Shown, Summary, Table
from formulations.language.solution import Solution
from polyopt.certificates.certificate import Certificate


class Point(Protocol):
    """A machine of a path."""

    @property
    def solution(self) -> Solution:
        """The solution of the machine's program."""

    @property
    def certificate(self) -> Certificate:
        """The certificate of that solution."""


P = TypeVar("P", bound=Point)


class Path(Shown, list[P]):
    """A list of machines that displays as a table.

    name: name of the machines, for the table's title.
    varied: name of the attribute of a machine that changes along the path.
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
    """Return the summary of one machine: its certificate, with the path's parameter in the title."""
    return point.certificate._summary()._replace(title=f"{name} at {varied} = {getattr(point, varied):.6g}")
