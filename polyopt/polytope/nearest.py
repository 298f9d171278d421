"""Nearest point of a region to a sample, by best-first branch and bound.

A region is a union of cases (:mod:`polyopt.polytope.region`). A point of a case satisfies all rows of the
case, half-spaces w·z + b ≤ 0, and at least one row of each of its choices. The question has the sample
(:mod:`polyopt.polytope.projection`) and further choices, among values of features. A categorical column is a
choice among its categories: one of its indicators is 1. A missing number is a choice between two options: it
stays missing, at its imputed value, or it becomes known, and its indicator becomes 0.

A node of the search has made some choices and left the others open. The projection of the sample on the node
is the nearest point that satisfies the chosen rows and values; its distance is a lower bound for the node. If
the projection satisfies all open choices, it is the optimum of the node. Nodes are explored in the order of
their bounds, so the first optimum reached is that of the region.

The search has its own heap, because this package may not import :mod:`polyopt.optim.best_first`.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import numpy as np

from formulations.language.solution import Solution, Status
from formulations.language.types import Array
from polyopt.polytope.projection import Question, project
from polyopt.polytope.region import Region, Rows

_MIN_VIOLATION = 1e-9  # in spreads; a choice whose best row is violated by no more is satisfied


@dataclass(frozen=True)
class Part:
    """A part of a region, with multipliers that bound its distance from below, or prove it empty."""

    question: Question  #: the question with the bounds of this part
    rows: Rows  #: rows that hold in the part
    multipliers: Array  #: (r,), multipliers of the rows
    is_empty: bool = False  #: True if the multipliers are a ray


@dataclass(frozen=True)
class Nearest:
    """The nearest point of a region."""

    #: ``SOLVED``; ``INFEASIBLE`` if the region has no point that the question allows; or
    #: ``ITERATION_LIMIT``, with a point if one was found.
    status: Status
    point: Array | None  #: (m,), the point; None if no point was found
    distance: float  #: distance of the point, in spreads; inf without a point
    bound: float  #: lower bound on the distance of the region, in spreads
    rows: Rows  #: the rows of the point's case and choices
    solution: Solution | None  #: the projection on these rows, with its multipliers
    question: Question  #: the question with the bounds of the choices among categories
    parts: tuple[Part, ...]  #: the parts into which the region was divided, with the bound of each

    def deciding(self) -> list[tuple[tuple[int, ...], float]]:
        """Return the active rows with their multipliers in spreads, the largest first."""
        if self.solution is None:
            return []
        multipliers = self.solution["face"] * np.linalg.norm(self.rows.W * self.question.spread, axis=1)
        order = [int(k) for k in np.argsort(-multipliers, kind="stable") if multipliers[k] > 0.0]
        return [(self.rows.names[k], float(multipliers[k])) for k in order]

    def deeper(self, depth: float) -> Array | None:
        """Return the nearest point that satisfies the same rows with a slack of `depth` spreads, if any."""
        q = self.question
        shifted = self.rows.b + depth * np.linalg.norm(self.rows.W * q.spread, axis=1)
        return project(q, self.rows.W, shifted).primal.get("z")


@dataclass(frozen=True)
class _Node:
    """A node: the number of its case, and its choices, -1 if a choice is open."""

    case: int
    chosen: tuple[int, ...]  # row of each choice of the case
    options: tuple[int, ...]  # option of each choice of the question


class _Projected(NamedTuple):
    """The projection on the rows of a node, under the bounds of its choices."""

    solution: Solution
    rows: Rows
    question: Question

    @property
    def is_empty(self) -> bool:
        """True if no point satisfies the rows and bounds."""
        return self.solution.status is Status.INFEASIBLE

    @property
    def distance(self) -> float:
        """Distance from the sample, in spreads."""
        return float(np.sqrt(2.0 * self.solution.objective))


def nearest(question: Question, region: Region, *, max_nodes: int = 20_000) -> Nearest:
    """Return the point of the region that is nearest to the sample, by at most `max_nodes` projections."""
    return _Search(question, region).run(max_nodes)


class _Search:
    """The state of the search.

    nodes: number of projections.
    heap: the open nodes, as (bound, number, node, optimum of the node or None); numbers are in the order in
        which the nodes were opened.
    parts: the part of each leaf of the tree, open, solved or empty; together they cover the region.
    """

    def __init__(self, question: Question, region: Region):
        self.question, self.region, self.nodes = question, region, 0
        self.heap: list[tuple[float, int, _Node, _Projected | None]] = []
        self.numbers = count()
        self.parts: dict[_Node, Part] = {}
        nothing = Part(question, Rows.together((), len(question.x)), np.zeros(0))
        for number, case in enumerate(region.cases):
            start = _Node(number, (-1,) * len(case.choices), (-1,) * len(question.choices))
            self.push(0.0, start, nothing)

    def push(self, bound: float, node: _Node, part: Part, optimum: _Projected | None = None) -> None:
        """Open a node, whose bound is proven by the multipliers of `part`."""
        self.parts[node] = part
        heapq.heappush(self.heap, (bound, next(self.numbers), node, optimum))

    def run(self, max_nodes: int) -> Nearest:
        """Explore the nodes in the order of their bounds, until the first of them has an optimum."""
        while self.heap:
            bound, _, node, optimum = heapq.heappop(self.heap)
            if optimum is not None:
                return self.result(Status.SOLVED, bound, optimum)
            if self.nodes >= max_nodes:
                return self.dive(node, bound)
            projected = self.solve(node)
            solution, rows, q = projected
            part = Part(q, rows, solution["face"], projected.is_empty)
            if part.is_empty:
                self.parts[node] = part
                continue
            del self.parts[node]
            distance = projected.distance
            children = list(self.children(node, solution["z"], q))
            if not children:
                self.push(distance, node, part, self.completed(node, projected))
            # A child's bound is the larger of its parent's and the distance to the half-space of its row; the
            # multipliers of its part prove the larger one.
            for row_distance, child, row in children:
                child_part = part if row is None or row_distance <= distance else self.half_space(row)
                self.push(max(distance, row_distance), child, child_part)
        return self.result(Status.INFEASIBLE, np.inf)

    def half_space(self, row: Rows) -> Part:
        """Return the half-space of one row as a part, with the multiplier of the sample's projection on it.

        It is empty if the row is zero: such a row is only used if its distance is inf.
        """
        q = self.question
        size = float(np.sum((row.W[0] * q.spread) ** 2))
        multiplier = float(row.W[0] @ q.x + row.b[0]) / size if size else 1.0
        return Part(q, row, np.array([multiplier]), is_empty=not size)

    def solve(self, node: _Node) -> _Projected:
        """Return the projection on the chosen rows of a node."""
        self.nodes += 1
        case, q = self.region.cases[node.case], self.question
        chosen = [rows.row(k) for rows, k in zip(case.choices, node.chosen, strict=True) if k >= 0]
        rows = Rows.together([case.rows, *chosen], len(q.x))
        low, high = q.low.copy(), q.high.copy()
        for choice, option in zip(q.choices, node.options, strict=True):
            if option >= 0:
                places, values = choice.options[option]
                low[places] = high[places] = values
        q = replace(q, low=low, high=high)
        return _Projected(project(q, rows.W, rows.b), rows, q)

    def completed(self, node: _Node, projected: _Projected) -> _Projected:
        """Return the projection on the chosen rows and, for each open choice, on the row satisfied best.

        The point stays the same up to rounding, but the rows of the result are complete.
        """
        if -1 not in node.chosen:
            return projected
        z, spread = projected.solution["z"], self.question.spread
        chosen = tuple(
            int(np.argmin(_beyond(rows, z, spread))) if k < 0 else k
            for rows, k in zip(self.region.cases[node.case].choices, node.chosen, strict=True)
        )
        complete = self.solve(replace(node, chosen=chosen))
        return projected if complete.is_empty else complete

    def children(self, node: _Node, z: Array, q: Question) -> Iterator[tuple[float, _Node, Rows | None]]:
        """Yield (distance, child, row) for each option of an open choice that the projection z violates.

        A choice among rows comes first: the one that z violates most. `distance` is that of the sample to the
        row's half-space, in spreads. For a choice among values it is 0, and `row` is None. If z satisfies all
        open choices, the node has no children.
        """
        case = self.region.cases[node.case]
        violations = {
            number: float(np.min(_beyond(rows, z, q.spread), initial=np.inf))
            for number, rows in enumerate(case.choices)
            if node.chosen[number] < 0
        }
        worst = max(violations, key=violations.__getitem__, default=-1)
        if worst >= 0 and violations[worst] > _MIN_VIOLATION:
            rows = case.choices[worst]
            for k, distance in enumerate(_beyond(rows, q.x, q.spread)):
                chosen = (*node.chosen[:worst], k, *node.chosen[worst + 1 :])
                yield max(float(distance), 0.0), replace(node, chosen=chosen), rows.row(k)
            return
        for number, choice in enumerate(q.choices):
            if node.options[number] < 0 and not choice.is_made_at(z):
                for option in range(len(choice.options)):
                    options = (*node.options[:number], option, *node.options[number + 1 :])
                    yield 0.0, replace(node, options=options), None
                return

    def dive(self, node: _Node, bound: float) -> Nearest:
        """Return the result at the limit of nodes, with a point found by a dive from `node`, if any.

        The dive goes to the child with the nearest half-space until a node has no children or is empty. The
        part of `node` stays in `parts`, so the parts still cover the region.
        """
        while True:
            projected = self.solve(node)
            if projected.is_empty:
                return self.result(Status.ITERATION_LIMIT, bound)
            children = list(self.children(node, projected.solution["z"], projected.question))
            if not children:
                return self.result(Status.ITERATION_LIMIT, bound, self.completed(node, projected))
            node = min(children, key=lambda child: child[0])[1]

    def result(self, status: Status, bound: float, optimum: _Projected | None = None) -> Nearest:
        """Return the result of a search that ends with this optimum of a node, or without a point."""
        parts = tuple(self.parts.values())
        if optimum is None:
            rows = Rows.together((), len(self.question.x))
            return Nearest(status, None, np.inf, bound, rows, None, self.question, parts)
        solution, rows, question = optimum
        z, distance = solution["z"], optimum.distance
        return Nearest(status, z, distance, bound, rows, solution, question, parts)


def _beyond(rows: Rows, z: Array, spread: Array) -> Array:
    """Return the signed distance (r,) of a point to each row's half-space, in spreads; negative inside.

    For a row of zeros, 0·z + b ≤ 0, it is inf if no point satisfies the row, else -inf.
    """
    size, scores = np.linalg.norm(rows.W * spread, axis=1), rows.W @ z + rows.b
    distances = np.where(scores > 0.0, np.inf, -np.inf)  # of rows of zeros
    return np.asarray(np.divide(scores, size, out=distances, where=size > 0.0))
