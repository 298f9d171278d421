"""The point of a region that is nearest to a sample, by best-first branch and bound.

A node has made some of the region's choices (:mod:`polyopt.polytope.region`). Its bound is the distance to
the chosen rows, by a projection; the first explored node without an open choice is the optimum. Indicator
features of a categorical column, one of which is 1, are a choice as well, among the categories. So is a
missing number: it stays missing, at its imputed value, or becomes known, and its indicator becomes 0.

This search has a loop of its own and not :mod:`polyopt.optim.best_first`, which stands on a higher floor.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import real_array
from formulations.language.solution import Solution, Status
from formulations.language.types import Array
from polyopt.polytope.projection import project
from polyopt.polytope.region import Region, Rows


@dataclass(frozen=True)
class Question:
    """The sample, the units of distance, and the features that may change.

    x (m,): the sample.
    spread (m,): the unit in which each feature's change is measured.
    low, high (m,): bounds on the features.
    held (m,): the features that may not change.
    groups: index arrays of features of which one is 1 and the others are 0.
    gaps: pairs of indices, of a missing number and of its indicator.
    """

    x: Array
    spread: Array
    low: Array
    high: Array
    held: NDArray[np.bool_]
    groups: tuple[NDArray[np.intp], ...] = ()
    gaps: tuple[NDArray[np.intp], ...] = ()

    @classmethod
    def of(
        cls, x: ArrayLike, *, spread: ArrayLike | None = None, low: ArrayLike | None = None,
        high: ArrayLike | None = None, held: ArrayLike | None = None,
        groups: Sequence[ArrayLike] = (), gaps: Sequence[ArrayLike] = (),
    ) -> Self:  # fmt: skip
        """A question with defaults: spreads of 1, no bounds, no fixed features.

        An indicator of a group stays 0 if its upper bound is below 1, unless it is 1 now. Known numbers stay
        known: a pair of `gaps` is kept if its indicator is set.
        """
        point = real_array("x", x)
        m = len(point)
        ends = [
            np.array(np.broadcast_to(value if end is None else np.asarray(end, dtype=float), m))
            for end, value in ((low, -np.inf), (high, np.inf))
        ]
        fixed = np.zeros(m, dtype=bool) if held is None else np.array(held)
        unit = np.ones(m) if spread is None else real_array("spread", spread, (m,))
        own = []
        for places in (np.asarray(group, dtype=np.intp) for group in groups):
            if fixed[places].any():  # a category that may not change
                fixed[places] = True
                continue
            may = (ends[1][places] >= 1.0) | (point[places] == 1.0)
            ends[0][places], ends[1][places] = 0.0, may
            own.append(places)
        missing = []
        for pair in (np.asarray(gap, dtype=np.intp) for gap in gaps):
            if not point[pair[1]]:
                fixed[pair[1]] = True
            elif fixed[pair].any():
                fixed[pair] = True
            else:
                ends[0][pair[1]], ends[1][pair[1]] = 0.0, 1.0
                missing.append(pair)
        return cls(point, unit, ends[0], ends[1], fixed, tuple(own), tuple(missing))


@dataclass(frozen=True)
class Part:
    """A part of a region, with multipliers that bound the distance to it, or prove that it is empty.

    question: the question with the bounds of this part.
    rows, multipliers (r,): rows that hold in the part, and their multipliers.
    is_empty: True if the multipliers are a ray.
    """

    question: Question
    rows: Rows
    multipliers: Array
    is_empty: bool = False


@dataclass(frozen=True)
class Nearest:
    """The nearest point of a region.

    status: ``SOLVED``; ``INFEASIBLE`` if the region has no point that the question allows; or a limit, with
        the best point found.
    point (m,): the point.
    distance, bound: its distance, in spreads, and a lower bound on all distances.
    rows: the rows of its case and of its choices.
    solution: the projection on these rows, with its multipliers.
    question: the question with the bounds of the choices among categories.
    nodes: number of projections.
    parts: the parts into which the region was divided, with the bound of each.
    """

    status: Status
    point: Array | None
    distance: float
    bound: float
    rows: Rows
    solution: Solution | None
    question: Question
    nodes: int
    parts: tuple[Part, ...]

    def deciding(self) -> list[tuple[tuple[int, ...], float]]:
        """The binding rows, the strongest first, and their multipliers in spreads."""
        if self.solution is None:
            return []
        pull = self.solution["face"] * np.linalg.norm(self.rows.W * self.question.spread, axis=1)
        order = [int(k) for k in np.argsort(-pull, kind="stable") if pull[k] > 0.0]
        return [(self.rows.names[k], float(pull[k])) for k in order]

    def deeper(self, depth: float) -> Array | None:
        """The point nearest to x that satisfies the same rows by `depth` spreads more, if there is one."""
        q = self.question
        shifted = self.rows.b + depth * np.linalg.norm(self.rows.W * q.spread, axis=1)
        found = project(q.x, self.rows.W, shifted, spread=q.spread, low=q.low, high=q.high, held=q.held)
        return found.primal.get("z")


@dataclass(frozen=True)
class _Node:
    case: int
    chosen: tuple[int, ...]  # row of each choice, -1 if open
    categories: tuple[int, ...]  # feature of each group that is 1, -1 if open, -2 if all are 0
    gaps: tuple[int, ...]  # 1 if a missing number stays missing, 0 if not, -1 if open


def nearest(question: Question, region: Region, *, max_nodes: int = 20_000) -> Nearest:
    """The point of the region that is nearest to the sample, by at most `max_nodes` projections."""
    return _Search(question, region).run(max_nodes)


class _Search:
    """The open nodes, by their bounds; a node is solved when it is explored."""

    def __init__(self, question: Question, region: Region):
        self.question, self.region, self.nodes = question, region, 0
        self.order, self.open = count(), list[tuple[float, int, _Node]]()
        self.parts: dict[_Node, Part] = {}  # of all nodes without children
        nothing = Part(question, Rows.together((), len(question.x)), np.zeros(0))
        for number, case in enumerate(region.cases):
            open_gaps = (-1,) * len(question.gaps)
            start = _Node(number, (-1,) * len(case.choices), (-1,) * len(question.groups), open_gaps)
            self.push(0.0, start, nothing)

    def push(self, bound: float, node: _Node, part: Part) -> None:
        self.parts[node] = part
        heapq.heappush(self.open, (bound, next(self.order), node))

    def run(self, max_nodes: int) -> Nearest:
        """Explore the nodes by their bounds: each once to be solved, and once as the optimum."""
        solved: dict[int, tuple[Solution, Rows, Question]] = {}
        while self.open:
            bound, place, node = heapq.heappop(self.open)
            if place in solved:
                return self.answer(Status.SOLVED, bound, *solved[place])
            if self.nodes >= max_nodes:
                return self.dive(node, bound)
            found = self.solve(node)
            if found is None:
                continue
            distance = _length(found[0])
            children = list(self.children(node, found[0]["z"], found[2]))
            part = self.parts.pop(node)
            if not children:
                self.parts[node] = part
                place = next(self.order)
                solved[place] = self.completed(node, found)
                heapq.heappush(self.open, (distance, place, node))
            for least, child, row in children:
                own = part if row is None or least <= distance else self.behind(row)
                self.push(max(distance, least), child, own)
        return self.nothing(Status.INFEASIBLE, np.inf)

    def behind(self, row: Rows) -> Part:
        """The half-space of one row, as a part."""
        q = self.question
        size = float(np.sum((row.W[0] * q.spread) ** 2))
        amount = float(row.W[0] @ q.x + row.b[0]) / size if size else 1.0
        return Part(q, row, np.array([amount]), is_empty=not size)

    def nothing(self, status: Status, bound: float) -> Nearest:
        rows, parts = Rows.together((), len(self.question.x)), tuple(self.parts.values())
        return Nearest(status, None, np.inf, bound, rows, None, self.question, self.nodes, parts)

    def solve(self, node: _Node) -> tuple[Solution, Rows, Question] | None:
        """The projection on the chosen rows of a node; None if it is empty."""
        self.nodes += 1
        case, q = self.region.cases[node.case], self.question
        chosen = [rows.row(k) for rows, k in zip(case.choices, node.chosen, strict=True) if k >= 0]
        rows = Rows.together([case.rows, *chosen], len(q.x))
        low, high = q.low.copy(), q.high.copy()
        for places, category in zip(q.groups, node.categories, strict=True):
            if category != -1:
                low[places] = high[places] = (places == category) * 1.0
        for pair, stays in zip(q.gaps, node.gaps, strict=True):
            if stays >= 0:
                low[pair[1]] = high[pair[1]] = stays
            if stays == 1:
                low[pair[0]] = high[pair[0]] = q.x[pair[0]]
        q = replace(q, low=low, high=high)
        found = project(q.x, rows.W, rows.b, spread=q.spread, low=low, high=high, held=q.held)
        is_empty = found.status is Status.INFEASIBLE
        self.parts[node] = Part(q, rows, found["face"], is_empty)
        return None if is_empty else (found, rows, q)

    def completed(
        self, node: _Node, found: tuple[Solution, Rows, Question]
    ) -> tuple[Solution, Rows, Question]:
        """The projection on one more row of each open choice: the one that its point satisfies best."""
        if -1 not in node.chosen:
            return found
        z, spread = found[0]["z"], self.question.spread
        chosen = tuple(
            int(np.argmin(_beyond(rows, z, spread))) if k < 0 else k
            for rows, k in zip(self.region.cases[node.case].choices, node.chosen, strict=True)
        )
        whole = replace(node, chosen=chosen)
        found = self.solve(whole) or found
        del self.parts[whole]  # it is contained in the node's own part
        return found

    def children(self, node: _Node, z: Array, q: Question) -> Iterator[tuple[float, _Node, Rows | None]]:
        """Children that make one more choice, each with a bound, and the row whose distance that is.

        There are none if the point satisfies all open choices.
        """
        case = self.region.cases[node.case]
        # A row violated by less counts as satisfied, as its projection satisfies it up to rounding.
        worst, place = 1e-9, -1
        for number, rows in enumerate(case.choices):
            if node.chosen[number] < 0:
                short = float(np.min(_beyond(rows, z, q.spread), initial=np.inf))
                worst, place = (short, number) if short > worst else (worst, place)
        if place >= 0:
            rows = case.choices[place]
            for k, least in enumerate(_beyond(rows, q.x, q.spread)):
                chosen = (*node.chosen[:place], k, *node.chosen[place + 1 :])
                yield max(float(least), 0.0), replace(node, chosen=chosen), rows.row(k)
            return
        for number, places in enumerate(q.groups):
            if node.categories[number] == -1 and not _is_category(z[places], q.x[places]):
                options = [int(j) for j in places if q.high[j] > 0.0] + ([] if q.x[places].any() else [-2])
                for category in options:
                    own = (*node.categories[:number], category, *node.categories[number + 1 :])
                    yield 0.0, replace(node, categories=own), None
                return
        for number, pair in enumerate(q.gaps):
            if node.gaps[number] == -1 and z[pair[1]] and (z[pair] != q.x[pair]).any():
                for stays in (0, 1):
                    gaps = (*node.gaps[:number], stays, *node.gaps[number + 1 :])
                    yield 0.0, replace(node, gaps=gaps), None
                return

    def dive(self, node: _Node, bound: float) -> Nearest:
        """At the limit: follow the best children of the best node down to a point."""
        parts = self.parts
        while True:
            self.parts = dict(parts)  # the nodes on the way are not leaves
            found = self.solve(node)
            self.parts = parts
            if found is None:
                break
            children = sorted(self.children(node, found[0]["z"], found[2]), key=lambda child: child[0])
            if not children:
                return self.answer(Status.ITERATION_LIMIT, bound, *self.completed(node, found))
            node = children[0][1]
        return self.nothing(Status.ITERATION_LIMIT, bound)

    def answer(
        self, status: Status, bound: float, solution: Solution, rows: Rows, question: Question
    ) -> Nearest:
        status = solution.status if status is Status.SOLVED else status
        z = solution["z"]
        parts = tuple(self.parts.values())
        return Nearest(status, z, _length(solution), bound, rows, solution, question, self.nodes, parts)


def _length(solution: Solution) -> float:
    return float(np.sqrt(2.0 * solution.objective))


def _beyond(rows: Rows, z: Array, spread: Array) -> Array:
    """Distance of a point from each half-space, in spreads; negative inside, infinite if it is empty."""
    size, scores = np.linalg.norm(rows.W * spread, axis=1), rows.W @ z + rows.b
    flat = np.where(scores > 0.0, np.inf, -np.inf)
    return np.where(size > 0.0, scores / np.where(size > 0.0, size, 1.0), flat)


def _is_category(values: Array, before: Array) -> bool:
    """True if indicators are those of one category, or as they were."""
    one = np.sort(values)
    return bool((values == before).all() or (one[-1] == 1.0 and not one[:-1].any()))
