"""A branch-and-bound tree over assignments that a small checker can verify, for the file of a claim.

The bounds of :mod:`polyopt.cpm.global_search.search` are too complex for a checker. This tree uses the
simplest one: at a node some positives are assigned to faces, the losses of the others are bounded by 0, and
multipliers of the faces prove the sum of the faces' dual values. As the optimum is known, only assignments
that cost less must be excluded. A node branches on a positive by strong branching (the product of the
increases of the bound over its faces: Achterberg, Koch & Martin, Branching rules revisited, 2005): 3,337
leaves for 426 samples of wdbc instead of 30,000.

Multipliers are rounded to a grid before they are evaluated, so they have few digits and are feasible exactly.
The bounds include rounding errors (:func:`polyopt.cpm.global_search.face.dual_error`); the checker evaluates
them again, exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.solution import Solution
from formulations.language.types import MatrixLike, Vector, dense
from formulations.polytope import Loss, lift
from polyopt.certificates.claims.statement import Evidence, Statement, numeral, without_form
from polyopt.cpm.certificate import Margin, state_choice
from polyopt.cpm.global_search.assignment_tree import MAX_SAMPLES, moves_for, try_move
from polyopt.cpm.global_search.face import Samples, caps_of, climb, hyperplane, proven_sum
from polyopt.optim.best_first import BestFirst, OpenNode

if TYPE_CHECKING:
    Assignment = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Parameters of a tree.

    max_depth: maximal depth, which every reader of JSON accepts.
    max_nodes: nodes that branch; 20,000 take about 20 MB in the file.
    max_nodes_after_prices: the same if prices proved the bound; a tree then needs a few dozen or millions.
    bits: bits of a multiplier, relative to its upper bound.
    candidates: positives tried by strong branching.
    """

    max_depth: int = 200
    max_nodes: int = 20_000
    max_nodes_after_prices: int = 1_000
    bits: int = 30
    candidates: int = 20


DEFAULT = Options()
_NO_PRICES = (
    "this bound has no claim to be saved: it is one at prices of the positives (duals['price'] of the "
    "solution), for which the cost of one face at these prices is bounded over boxes of its coefficients. "
    "The checker knows trees over assignments, and one that proves as much would be too large"
)
_NO_SPREAD = (
    "this bound has no claim to be saved: it is one by the spread of the faces, for more samples than a tree "
    "over assignments can handle, and the checker knows such trees alone"
)


def evidence_of(
    X: MatrixLike, y: Vector, C: Vector, solution: Solution, tol: float, *, loss: Loss, margin: Margin,
    options: Options = DEFAULT,
) -> tuple[Evidence, ...]:  # fmt: skip
    """Return the evidence for the bound of the `solution` of a search, as a tree.

    The tree proves the smaller of that bound and the objective less half of `tol`, relative. The result is
    empty if the faces are coupled, as the bound is then a solver's. For more than 500 samples, and if no
    small tree proves a bound by prices, the evidence says why it has no file.
    """
    if (loss, margin) != ("sum", "total"):
        return ()
    goal = min(float(solution.bound or 0.0), float(solution.objective) * (1.0 - 0.5 * tol))
    at_prices = "price" in solution.duals
    if len(y) > MAX_SAMPLES:
        return without_form(_NO_PRICES if at_prices else _NO_SPREAD)
    return (Evidence(cache(partial(_state, dense(X), y, C, solution["W"], goal, at_prices, options))),)


def _state(
    X: Vector, y: Vector, C: Vector, W: Vector, goal: float, at_prices: bool, options: Options
) -> Statement:
    """Build the tree, and state its bound; raise ValueError if it does not prove a bound by prices."""
    max_nodes = options.max_nodes_after_prices if at_prices else options.max_nodes
    tree, proven = prove_by_leaves(X, y, C, len(W), goal, max_nodes, options)
    if at_prices and proven < goal:
        raise ValueError(_NO_PRICES)
    return state_choice(X, y, W, C, tree, proven)


def prove_by_leaves(
    X: Vector, y: Vector, C: Vector, n_faces: int, goal: float, max_nodes: int = DEFAULT.max_nodes,
    options: Options = DEFAULT,
) -> tuple[dict[str, Any], float]:  # fmt: skip
    """Return a tree in the file's format, and the bound of its leaves.

    The bound is below `goal` if the goal is above the optimum, or `max_nodes` nodes do not suffice.
    """
    tree = ClaimTree(X, y, C, n_faces, goal, options)
    tree.run(Clock(), max_nodes)
    return tree.root, tree.proven


class Leaf(NamedTuple):
    """An open node."""

    entry: dict[str, Any]  # its part of the file
    face: "Assignment"  # (npos,) face of each positive, -1 if it has none
    alpha: Vector  # (K, n) multipliers
    parent_alpha: Vector  # (K, n)
    is_fine: bool = False  # True if the multipliers were optimised to full precision


class ClaimTree(BestFirst[Leaf]):
    """The search for the tree; positives are numbered from 0, as in the kernels."""

    def __init__(self, X: Vector, y: Vector, C: Vector, n_faces: int, goal: float, options: Options):
        super().__init__(0.0, 16 * n_faces * len(y))
        self.order = np.argsort(y, kind="stable")
        A = np.ascontiguousarray(lift(X)[self.order] * y[self.order, None])
        self.data = Samples(A, (A * A).sum(axis=1), C[self.order].astype(float), int((y < 0).sum()))
        self.n_faces, self.goal, self.claim_options = n_faces, goal, options
        self.moves = moves_for(self.data.npos, len(A), A.shape[1], n_faces)
        self.grid = 2.0 ** (np.frexp(np.where(self.data.C > 0.0, self.data.C, 1.0))[1] - options.bits)
        self.root: dict[str, Any] = {"rows": {}}
        zeros = np.zeros((n_faces, len(A)))
        root = Leaf(self.root, np.full(self.data.npos, -1), zeros.copy(), zeros)
        self.push([(self._improve(root, range(n_faces), 200, 1e-4), root)])

    @property
    def objective(self) -> float:
        """The goal, or the least bound of a leaf that cannot branch: larger bounds are not needed."""
        return min(self.goal, self._closed)

    @property
    def proven(self) -> float:
        """The least bound of all leaves."""
        return min([self._closed, *(node.bound for node in (*self.heap, *self.stack))])

    def expand(self, node: OpenNode[Leaf]) -> list[tuple[float, Leaf]]:
        """Branch: one child per face of a positive. A node that cannot branch is improved, then closed."""
        leaf = node.state
        branching = None
        if (leaf.face >= 0).sum() < self.claim_options.max_depth:
            branching = self._choose(node.bound, leaf)
        if branching is None:
            self.nodes -= 1  # only nodes that branch count
            if leaf.is_fine:
                self.close(node.bound)
                return []
            return [(self._improve(leaf, range(self.n_faces), 20_000, 1e-9), leaf._replace(is_fine=True))]
        p, used = branching
        entries: list[dict[str, Any]] = [{} for _ in range(used)]
        leaf.entry["sample"], leaf.entry["ways"] = int(self.order[self.data.inside + p]), entries
        children = []
        for k, entry in enumerate(entries):
            child = Leaf(entry, leaf.face.copy(), leaf.alpha.copy(), leaf.alpha)
            child.face[p] = k
            child.alpha[k] += self.moves.delta[p, k]
            children.append((self._improve(child, [k], 200, 1e-4), child))
        return children

    def _improve(self, leaf: Leaf, faces: Iterable[int], sweeps: int, min_increase: float) -> float:
        """Improve the multipliers of `faces`, in place; return the bound.

        The sweeps of a face end once one increases the bound by less than `min_increase` times the face's
        part of the gap to the goal.
        """
        data, alpha, zero = self.data, leaf.alpha, np.zeros(len(self.data.C))
        gap = max(self.goal - self._bound_of(alpha), 1e-6 * self.goal) / self.n_faces
        for k in faces:
            caps, w = np.zeros_like(zero), np.zeros(data.A.shape[1])
            caps_of(data, leaf.face, k, caps)
            np.clip(alpha[k], 0.0, caps, out=alpha[k])
            hyperplane(data, alpha[k], w)
            climb(data, zero, caps, alpha[k], w, sweeps, np.inf, min_increase * gap)
            alpha[k] = np.minimum(np.round(alpha[k] / self.grid) * self.grid, caps)
        bound = self._bound_of(alpha)
        if bound < 0.0:  # by rounding; zero multipliers prove 0
            alpha[:], bound = 0.0, 0.0
        changes = [self._changes(a, b) for a, b in zip(alpha, leaf.parent_alpha, strict=True)]
        leaf.entry["rows"] = {"margin": changes}
        return bound

    def _bound_of(self, alpha: Vector) -> float:
        value, error = proven_sum(self.data, alpha)
        return value - error if np.isfinite(value - error) else -np.inf

    def _changes(self, alpha: Vector, parent_alpha: Vector) -> dict[str, Any]:
        """Return the multipliers of a face that differ from the parent's, in the file's format."""
        changed = np.flatnonzero(alpha != parent_alpha)
        changed = changed[np.argsort(self.order[changed])]
        return {"at": self.order[changed].tolist(), "is": [numeral(v) for v in alpha[changed].tolist()]}

    def _choose(self, bound: float, leaf: Leaf) -> tuple[int, int] | None:
        """Return the positive to branch on, and the number of its faces; None if no branching helps."""
        data, used = self.data, min(self.n_faces, int(leaf.face.max(initial=-1)) + 2)
        W = np.zeros((self.n_faces, data.A.shape[1]))
        for k in range(used):
            hyperplane(data, leaf.alpha[k], W[k])
        hinge = np.maximum(0.0, 1.0 - data.points @ W[:used].T).min(axis=1, initial=np.inf)
        cost = np.where(leaf.face < 0, data.C[data.inside :] * hinge, 0.0)
        candidates = np.argsort(-cost, kind="stable")[: self.claim_options.candidates]
        best, best_score, gap = None, -1.0, self.goal - bound
        for p in candidates[cost[candidates] > 0.0].tolist():
            score = 1.0
            for k in range(used):
                caps = np.zeros(len(data.C))
                caps_of(data, leaf.face, k, caps)
                increase, _ = try_move(data, caps, leaf.alpha[k], W[k], p, k, self.moves, gap)
                score *= min(max(increase / gap, 1e-6), 1.0)
            if score > best_score:
                best, best_score = (p, used), score
        return best
