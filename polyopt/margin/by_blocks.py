"""Linear machines on samples in blocks: solved by the interior point, certified where the blocks are."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.families import Families, bound_families, hinge_families, margin_family
from formulations.language.clock import Clock
from polyopt.margin.certificate_by_blocks import certify_blocks
from polyopt.margin.interior_point.block import Block, Work
from polyopt.margin.interior_point.driver import solve_problem
from polyopt.margin.interior_point.problem import state_problem
from polyopt.margin.interior_point.rows import Rows
from polyopt.scale.blocks import Pair, Selection, select_classes, solver_rows
from polyopt.scale.checkpoint import Checkpoint
from polyopt.scale.executor import Executor
from polyopt.scale.fitting import fit_pairs
from polyopt.scale.sources import Samples


class ReadBlock(Block):
    """A block of the interior point whose samples are read for each call.

    selection: its samples among those that are read.
    C: cost of slack per unit of weight.
    B: bound on the absolute output.
    weights: weights of the samples in mean and covariance; None for ones.
    """

    def __init__(
        self, samples: Samples, selection: Selection, C: float, work: Work, *, B: float = np.inf,
        weights: NDArray[Any] | None = None, intercept: bool = True,
    ):  # fmt: skip
        self._chosen = None if selection.rows.all() else selection.rows
        signs, costs = np.where(selection.is_second, 1, -1).astype(np.int8), C * selection.weights
        costs = costs[:1].copy() if (costs == costs[0]).all() else costs  # few numbers are kept

        def families() -> Families:
            all_costs = np.broadcast_to(costs, signs.shape)
            return Families(margin_family(signs.astype(float), all_costs), *bound_families(len(signs), B))

        super().__init__(Rows(solver_rows(samples, self._chosen)), families, 1, weights, work)
        self.intercept = intercept
        self.detach()

    def attach(self, samples: Samples) -> None:
        """Take the block's samples from those that were read."""
        self.samples.X = solver_rows(samples, self._chosen)

    def detach(self) -> None:
        """Let the samples go."""
        self.samples.X = None


class HingeRecipe(NamedTuple):
    """The program of a linear machine of two classes, with the bound B on the absolute output."""

    pair: Pair
    B: float

    def workspace(self) -> Work:
        """Return work arrays for blocks."""
        return Work()

    def block(self, samples: Samples, workspace: Work) -> ReadBlock | None:
        """Return the block of both classes; None if it has no such samples."""
        selection = select_classes(samples, self.pair)
        if selection is None:
            return None
        weights = None if bool((selection.weights == 1.0).all()) else selection.weights
        return ReadBlock(samples, selection, self.pair.C, workspace, B=self.B, weights=weights)


def fit_linear(machine: Any, *blocks: Any) -> Any:
    """Fit a linear machine to samples in blocks, arguments of :func:`fit_pairs`; return the machine."""
    if machine.kernel != "linear":
        raise ValueError(f"samples in blocks need kernel='linear', not {machine.kernel!r}")
    if machine.solver not in ("auto", "interior-point"):
        raise ValueError(f"samples in blocks need solver='interior-point' or 'auto', not {machine.solver!r}")
    if np.isfinite(getattr(machine, "bound_cost", np.inf)):
        raise ValueError("samples in blocks need hard bounds: leave bound_cost infinite")
    if getattr(machine, "_bounded", None) is not None or not getattr(machine, "_bounds_training", True):
        raise ValueError("samples in blocks are bounded themselves: leave X_bounded and bound_training out")
    fit_pairs(machine, _fit_pair, *blocks)
    if len(machine.classes_) > 2:  # in SVC's layout, whose scores of a pair are positive for its first class
        machine.coef_ = -np.concatenate([part.coef_ for part in machine.estimators_])
        machine.intercept_ = -np.concatenate([part.intercept_ for part in machine.estimators_])
    return machine


def _fit_pair(
    machine: Any, executor: Executor, pair: Pair, clock: Clock, begin_checkpoint: Callable[..., Checkpoint]
) -> None:
    recipe, D = HingeRecipe(pair, float(getattr(machine, "B", np.inf))), machine._variance_share
    crew = executor.crew(recipe)
    save = begin_checkpoint(machine=machine._title, B=repr(recipe.B), D=D)
    problem = state_problem(crew, 1, D)
    crew.log[:] = save.log or crew.log
    save.log = crew.log
    tol = min(machine.tol, 1e-8)
    solution = solve_problem(problem, tol, machine.max_iter, clock, save, save.state)
    w, b = solution["w"], float(solution["b"])
    if problem.is_centred:
        b -= float(problem.shift @ w)
    machine._proof = certify_blocks(
        machine._title,
        lambda *step: crew.ask("prove", *step),
        hinge_families(np.array([1.0, -1.0]), pair.C, recipe.B),
        v=w,
        b=b,
        centre=None if executor.is_sparse else problem.shift,
        D=D,
    )
    crew.close()
    machine.solution_, machine.solver_, machine.gamma_ = solution, "interior-point", 1.0
    machine.n_iter_ = max(solution.iterations, 1)
    machine.coef_, machine.intercept_ = w[None, :], np.array([b])
    machine._centre, machine._b = np.zeros(len(w)), b
