"""A branch-and-bound tree that proves a lower bound for the Convex Polytope Machine, as a file.

A *claim* is a file that a small program, the checker :mod:`polyopt.check`, verifies in exact arithmetic;
:class:`Evidence` is a function that makes its content. The claim of a global search is a tree over
assignments of the positives to faces; it is built after the search, whose own bounds are too complex for it.
At a node some positives are assigned to faces and the losses of the others are replaced by 0, so the faces
are separate programs. Multipliers alpha (K, n) of the K faces bound their costs from below by weak duality;
the sum over the faces is the node's bound, the least bound of all leaves is the tree's. The tree need only
show that no assignment costs less than a *goal*, which is at most the known bound on the optimum.

Strong branching chooses the positive to branch on: that with the largest product, over its faces, of the
increases of the bound (Achterberg, Koch & Martin, Branching rules revisited, 2005). Multipliers are rounded
to a grid before they are evaluated, so that they have few digits and are exactly feasible.
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
from formulations.polytope import Loss, Margin, lift
from polyopt.certificates.claims.statement import Evidence, Statement, numeral, without_form
from polyopt.cpm.certificate import state_choice
from polyopt.cpm.global_search.assignment_tree import MAX_SAMPLES, moves_for, try_move
from polyopt.cpm.global_search.face import Samples, caps_of, climb, hyperplane, proven_sum
from polyopt.optim.best_first import BestFirst, OpenNode

if TYPE_CHECKING:
    Assignment = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Parameters of a tree."""

    max_depth: int = 200  # largest depth; some readers of JSON refuse more
    max_nodes: int = 20_000  # largest number of nodes that branch; 20,000 take about 20 MB in the file
    # Largest number of nodes that branch, for a bound by prices: its tree has a few dozen nodes or millions
    max_nodes_after_prices: int = 1_000
    bits: int = 30  # multipliers are multiples of 2^-bits times the power of 2 above their caps, or the caps
    candidates: int = 20  # number of positives tried by strong branching
    sweeps: int = 200  # largest number of coordinate sweeps over the multipliers of a node's face
    min_increase: float = 1e-4  # increase by a sweep at which they end, relative to the node's gap / K
    polish_sweeps: int = 20_000  # largest number of sweeps at a node that would be closed otherwise
    polish_min_increase: float = 1e-9  # increase by such a sweep at which they end, relative to gap / K


OPTIONS = Options()
_NO_PRICES = (
    "this bound has no claim to be saved: it is one at prices of the positives (duals['price'] of the "
    "solution), for which the cost of one face at these prices is bounded over boxes of its coefficients. "
    "The checker knows trees over assignments, and one that proves as much would be too large"
)
_NO_TREE = (
    "this bound has no claim to be saved: it is one by the spread of the faces, for more samples than a tree "
    "over assignments can handle, and the checker knows such trees alone"
)


def evidence_of(
    X: MatrixLike, y: Vector, C: Vector, solution: Solution, tol: float, *, loss: Loss, margin: Margin
) -> tuple[Evidence, ...]:
    """Return the evidence for the bound of a search's `solution`: it builds the tree when it is saved.

    The tree's goal is the smaller of that bound and (1 − tol/2) times the objective. With another loss than
    "sum" or another margin than "total" there is no evidence, as a mixed-integer solver states the bound. If
    there are more than `MAX_SAMPLES` samples, or no small tree proves a bound by prices, saving raises
    ValueError with the reason.
    """
    if (loss, margin) != ("sum", "total"):
        return ()
    goal = min(float(solution.bound or 0.0), float(solution.objective) * (1.0 - 0.5 * tol))
    at_prices = "price" in solution.duals
    if len(y) > MAX_SAMPLES:
        return without_form(_NO_PRICES if at_prices else _NO_TREE)
    make = partial(_make_statement, dense(X), y, C, solution["W"], goal, at_prices)
    return (Evidence(cache(make)),)


def _make_statement(X: Vector, y: Vector, C: Vector, W: Vector, goal: float, at_prices: bool) -> Statement:
    """Build the tree, and state its bound; raise ValueError if it does not prove a bound by prices."""
    max_nodes = OPTIONS.max_nodes_after_prices if at_prices else OPTIONS.max_nodes
    tree, proven = prove_by_leaves(X, y, C, len(W), goal, max_nodes)
    if at_prices and proven < goal:
        raise ValueError(_NO_PRICES)
    return state_choice(X, y, W, C, tree, proven)


def prove_by_leaves(
    X: Vector, y: Vector, C: Vector, n_faces: int, goal: float, max_nodes: int = OPTIONS.max_nodes
) -> tuple[dict[str, Any], float]:
    """Return a tree in the file's format, and the least bound of its leaves.

    That bound is below `goal` if the goal is above the optimum, or if `max_nodes` nodes do not suffice.
    """
    tree = ClaimTree(X, y, C, n_faces, goal)
    tree.run(Clock(), max_nodes)
    return tree.root, tree.proven


class OpenLeaf(NamedTuple):
    """An open leaf of the tree."""

    entry: dict[str, Any]  # the node in the file's format; multipliers and children are written into it
    face: "Assignment"  # (npos,) face of each positive, -1 if it has none
    alpha: Vector  # (K, n) multipliers
    parent_alpha: Vector  # (K, n) multipliers of the parent; the file has the differences only
    is_polished: bool = False  # True if the multipliers were optimised to high precision


class ClaimTree(BestFirst[OpenLeaf]):
    """Best-first search that builds the tree, `root`, in the format of polyopt/check/FORMAT.md."""

    def __init__(self, X: Vector, y: Vector, C: Vector, n_faces: int, goal: float):
        super().__init__(0.0, node_bytes=16 * n_faces * len(y))  # two arrays of multipliers
        self.order = np.argsort(y, kind="stable")  # original indices (n,) of the samples, negatives first
        A = np.ascontiguousarray(lift(X)[self.order] * y[self.order, None])
        self.data = Samples(A, (A * A).sum(axis=1), C[self.order].astype(float), int((y < 0).sum()))
        self.n_faces, self.goal = n_faces, goal
        self.moves = moves_for(self.data.npos, len(A), A.shape[1], n_faces)
        # Spacing of the grid of each sample's multipliers, a power of 2.
        self.grid = 2.0 ** (np.frexp(np.where(self.data.C > 0.0, self.data.C, 1.0))[1] - OPTIONS.bits)
        self.root: dict[str, Any] = {"rows": {}}
        zeros = np.zeros((n_faces, len(A)))
        root = OpenLeaf(self.root, np.full(self.data.npos, -1), zeros.copy(), zeros)
        self.push([(self._improve(root, range(n_faces)), root)])

    @property
    def objective(self) -> float:
        """The bound at which nodes are closed: the goal, or if that is missed the least of closed leaves."""
        return min(self.goal, self._closed)

    @property
    def proven(self) -> float:
        """The least bound of all leaves, open and closed."""
        return min([self._closed, *(node.bound for node in (*self.heap, *self.stack))])

    def expand(self, node: OpenNode[OpenLeaf]) -> list[tuple[float, OpenLeaf]]:
        """Branch on a positive: one child per face. A node that cannot branch is polished, then closed."""
        leaf = node.state
        can_branch = (leaf.face >= 0).sum() < OPTIONS.max_depth
        branching = self._choose(node.bound, leaf) if can_branch else None
        if branching is None:
            self.nodes -= 1  # BestFirst.step has counted the node, but only nodes that branch count
            if leaf.is_polished:
                self.close(node.bound)
                return []
            polished = leaf._replace(is_polished=True)
            return [(self._improve(polished, range(self.n_faces)), polished)]
        # Write the positive and its children into the file's node; a child starts with the trial move.
        p, changes = branching
        entries: list[dict[str, Any]] = [{} for _ in changes]
        leaf.entry["sample"], leaf.entry["ways"] = int(self.order[self.data.inside + p]), entries
        children = []
        for k, entry in enumerate(entries):
            child = OpenLeaf(entry, leaf.face.copy(), leaf.alpha.copy(), leaf.alpha)
            child.face[p] = k
            child.alpha[k] += changes[k]
            children.append((self._improve(child, [k]), child))
        return children

    def _improve(self, leaf: OpenLeaf, faces: Iterable[int]) -> float:
        """Improve the multipliers of `faces` in place, write them into the leaf's entry; return the bound."""
        data, alpha, zero = self.data, leaf.alpha, np.zeros(len(self.data.C))
        sweeps, min_increase = OPTIONS.sweeps, OPTIONS.min_increase
        if leaf.is_polished:
            sweeps, min_increase = OPTIONS.polish_sweeps, OPTIONS.polish_min_increase
        gap = max(self.goal - self._bound_of(alpha), 1e-6 * self.goal) / self.n_faces
        for k in faces:
            caps, w = np.zeros_like(zero), np.zeros(data.A.shape[1])
            caps_of(data, leaf.face, k, caps)
            np.clip(alpha[k], 0.0, caps, out=alpha[k])
            hyperplane(data, alpha[k], w)
            climb(data, zero, caps, alpha[k], w, sweeps, np.inf, min_increase * gap)
            # Round to the grid: the file's multipliers have few digits.
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

    def _choose(self, bound: float, leaf: OpenLeaf) -> tuple[int, Vector] | None:
        """Choose the positive to branch on by strong branching.

        Returns: the positive, and for each face of its children the change of that face's multipliers by the
            trial move, (faces, n). The children's faces are those in use and one unused face, since all
            unused ones are alike. None if no unassigned positive has a loss on all of these faces.
        """
        data, n_choices = self.data, min(self.n_faces, int(leaf.face.max(initial=-1)) + 2)
        W = np.zeros((self.n_faces, data.A.shape[1]))
        for k in range(n_choices):
            hyperplane(data, leaf.alpha[k], W[k])
        hinge = np.maximum(0.0, 1.0 - data.points @ W[:n_choices].T).min(axis=1, initial=np.inf)
        cost = np.where(leaf.face < 0, data.C[data.inside :] * hinge, 0.0)
        candidates = np.argsort(-cost, kind="stable")[: OPTIONS.candidates]
        best, best_score, gap = None, -1.0, self.goal - bound
        for p in candidates[cost[candidates] > 0.0].tolist():
            score = 1.0
            for k in range(n_choices):
                caps = np.zeros(len(data.C))
                caps_of(data, leaf.face, k, caps)
                # The trial move also writes the change of alpha[k] to moves.delta[p, k].
                increase, _ = try_move(data, caps, leaf.alpha[k], W[k], p, k, self.moves, gap)
                score *= min(max(increase / gap, 1e-6), 1.0)
            if score > best_score:
                best, best_score = p, score
        return None if best is None else (best, self.moves.delta[best, :n_choices])
