"""The program of a pattern by the steps of the tree, and by HiGHS where these fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.families import best_intercept
from formulations.l0_data import as_patterns
from formulations.language.solution import Status
from polyopt.sparse.certificate import cut_of
from polyopt.sparse.pattern_lp import OPTIONS, PatternLP, PatternSolution
from polyopt.sparse.tree import basis as bases
from polyopt.sparse.tree import branch
from polyopt.sparse.tree import open_nodes as nodes
from polyopt.sparse.tree.node import OFF, ON, given_of, problem_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.l0_data import L0Data

__all__ = ["QuickPattern"]


class QuickPattern:
    """The programs of patterns by steps of our own, and where these fail by HiGHS."""

    def __init__(self, data: L0Data):
        n, p = data.K.shape
        self.data, self.problem = data, problem_of(data)
        self.given, self.desk = given_of(self.problem), nodes.desk_of(n, p)

    def begin(self) -> bool:
        """Put the constant classifier's basis on the desk; whether there is one."""
        self.given.cap[:] = self.given.full
        return bases.begin(self.given, nodes.state_of(self.desk, nodes.BASE))

    def prepare(self, sigma: ArrayLike, *, time_limit: float | None = None) -> PatternSolution:
        """The program of a pattern; as :meth:`polyopt.sparse.pattern_lp.PatternLP.prepare` of one pattern."""
        data, at = self.data, nodes.state_of(self.desk, nodes.BASE)
        pattern = as_patterns(sigma, len(data.centres))
        fixed = np.where(pattern > 0.0, ON, OFF).astype(np.int8)
        best = nodes.memory_of(len(fixed), np.inf, 0.0, 0)
        none = nodes.nodes_of(len(data.y), len(fixed), 1, 0)
        if self.begin() and branch.plant(self.problem, self.given, none, best, self.desk, fixed):
            # The multipliers of that basis at the true costs, which those of the steps are a little off.
            g = self.given
            true = bases.Given(
                g.A, g.columns, g.y, self.problem.caps, g.g, g.cap, g.full, 1.0 / g.full,
                np.zeros_like(g.paid), g.near,
            )  # fmt: skip
            u = at.u.copy()
            u = at.u if bases.load(true, at) else u
            alpha = data.C * best.a
            b = best_intercept(data.outputs(alpha, 0.0), data.y, data.weights)
            u = np.minimum(u / data.C, data.weights)
            constant, slopes = cut_of(data, u)
            proves, value = constant - slopes.dot(pattern), data.loss(alpha, b)
            if value - max(float(proves.mid), 0.0) <= OPTIONS.max_unproven_share * float(data.weights.sum()):
                return PatternSolution(
                    Status.SOLVED, value, max(float(proves.lower), 0.0), alpha, b, u,
                    (float(constant.lower), slopes.upper), int(best.counts[nodes.STEPS]),
                    warm=False, restarted=False,
                )  # fmt: skip
        return PatternLP(data).prepare(sigma, time_limit=time_limit)
