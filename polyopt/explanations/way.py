"""The nearest point on the other side, and the nearest beyond it that the model itself puts there.

The first is exact: the projection on what decides. Whether a point *on* a face is inside is a matter of
rounding, so the second goes a little deeper, by as little as makes ``predict`` give the other label; both
distances are told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.language.solution import Status
from polyopt.polytope.nearest import Nearest, Question, nearest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Array
    from polyopt.explanations.subject import Column, Subject

__all__ = ["Change", "Way", "way_out"]

_MIN_DEPTH, _DEPTH_FACTOR, _MAX_DEPTH = 1e-15, 8.0, 2.0  # beyond the boundary, as tried, in spreads


@dataclass(frozen=True)
class Change:
    """What one column has, and what it has at the nearest point.

    column: its name.
    before, after: A number, or a text.
    amount: the change in spreads, without its sign; of texts, of both indicators together.
    alone: what would change the label if nothing else moved; None where nothing would.
    """

    column: str
    before: float | str
    after: float | str
    amount: float
    alone: float | str | None = None


@dataclass(frozen=True)
class Way:
    """The way to the other side.

    found: the nearest point on the boundary, with its bound and its status.
    changes: the columns that change, the largest change first.
    crossing (m,): A point that the model puts on the other side; None where none was found near the boundary.
    crossing_distance: its distance from the sample, in spreads; inf where there is none.
    is_enough: whether the changes that are shown would by themselves change the label; None where all are
        shown, or no point was found.
    """

    found: Nearest
    changes: tuple[Change, ...]
    crossing: Array | None
    crossing_distance: float
    is_enough: bool | None = None

    @property
    def distance(self) -> float:
        """How far the boundary is, in spreads; inf where no point of the other side can be reached."""
        return self.found.distance

    @property
    def is_nearest(self) -> bool:
        """Whether no other point is nearer."""
        return self.found.status is Status.SOLVED


def way_out(
    subject: Subject, x: Array, held: NDArray[np.bool_], bounds: tuple[ArrayLike, ArrayLike] | None, top: int
) -> Way:
    """The way from a sample to the other side.

    subject: the model.
    x (m,): the sample.
    held (m,): the features that may not move.
    bounds (m,): the least and the largest value of each feature.
    top: columns that are shown, of which it is worked out what they could do alone.
    """
    low, high = (None, None) if bounds is None else bounds
    groups = [column.places for column in subject.columns if column.texts is not None]
    gaps = [(column.places[0], column.gap) for column in subject.columns if column.gap is not None]
    question = Question.of(
        x, spread=subject.spread, low=low, high=high, held=held, groups=groups, gaps=gaps
    )  # fmt: skip
    region = subject.other_side(bool(subject.are_second(subject.scores(x[None]))[0]))
    found = nearest(question, region)
    if found.point is None:
        return Way(found, (), None, np.inf)
    z = found.point
    moved = [(_amount(column, x, z, subject.spread), column) for column in subject.columns]
    moved = sorted((each for each in moved if each[0] > 0.0), key=lambda each: -each[0])
    changes = [
        Change(
            column.name, column.value(x), column.value(z), amount,
            _alone(question, region, column) if place < top else None,
        )
        for place, (amount, column) in enumerate(moved)
    ]  # fmt: skip
    label = subject.predict(x[None])[0]
    point = _crossing(subject, found, label)
    if point is None:
        return Way(found, tuple(changes), None, np.inf)
    part = x.copy()
    for _, column in moved[:top]:
        part[list(column.places)] = point[list(column.places)]
    enough = None if len(moved) <= top else bool(subject.predict(part[None])[0] != label)
    far = float(np.linalg.norm((point - x) / subject.spread))
    return Way(found, tuple(changes), point, far, enough)


def _amount(column: Column, x: Array, z: Array, spread: Array) -> float:
    places = list(column.places)
    return float(np.linalg.norm((z[places] - x[places]) / spread[places]))


def _alone(question: Question, region: Any, column: Column) -> float | str | None:
    """What a column would have to be if it alone changed."""
    held = np.ones(len(question.x), dtype=bool)
    held[list(column.places)] = question.held[list(column.places)]
    own = Question.of(
        question.x, spread=question.spread, low=question.low, high=question.high, held=held,
        groups=[places for places in question.groups if not held[places].any()],
        gaps=[pair for pair in question.gaps if not held[pair].any()],
    )  # fmt: skip
    found = nearest(own, region)
    return None if found.point is None else column.value(found.point)


def _crossing(subject: Subject, found: Nearest, label: Any) -> Array | None:
    """The nearest point behind the boundary, as deep as it takes for the model to say the other label."""

    def is_across(point: Array | None) -> bool:
        return point is not None and bool(subject.predict(point[None])[0] != label)

    if is_across(found.point):
        return found.point
    depth, last = _MIN_DEPTH, 0.0
    while depth <= _MAX_DEPTH and not is_across(found.deeper(depth)):
        last, depth = depth, _DEPTH_FACTOR * depth
    if depth > _MAX_DEPTH:
        return None
    for _ in range(30 if depth > 1e-6 else 0):  # of rounding it is no matter
        middle = 0.5 * (last + depth)
        last, depth = (last, middle) if is_across(found.deeper(middle)) else (middle, depth)
    return found.deeper(depth)
