"""The Convex Polytope Machine on samples in blocks: certified for its assignment of samples outside to faces.

A pilot on a sample that fits into memory gives the faces, and passes of Algorithm 1 (stochastic steps)
through the blocks move them (``sgd_by_blocks``). From there the method alternates
(``alternating_by_blocks``): each sample outside is assigned to the face with its highest score, and the
convex program of each face for that assignment is solved, until no sample outside has a smaller hinge at
another face. The faces of a round are solved one after the other by the interior point, whose iteration costs
n m², or all together by dual coordinate ascent (``face_ascent_by_blocks``), which steps on one multiplier
after another without a matrix.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from formulations.language.clock import Clock
from polyopt.cpm.alternating_by_blocks import Rounds
from polyopt.cpm.face_ascent_by_blocks import FaceAscents
from polyopt.cpm.sgd_by_blocks import Passes, summarize
from polyopt.estimators.faces import check_sizes
from polyopt.scale.blocks import Pair
from polyopt.scale.checkpoint import Checkpoint
from polyopt.scale.executor import Executor
from polyopt.scale.fitting import fit_pairs

_MAX_EXACT_FEATURES = 256  # above, solver="auto" is "dual"; a matrix of a block has m² numbers


def fit_polytope(
    machine: Any, X: Any, y: Any, sample_weight: Any, executor: Any, checkpoint: Any, resume: Any
) -> Any:
    """Fit a machine to samples in blocks, arguments of :func:`fit_pairs`; return the machine."""
    sgd = machine.sgd
    unsupported = {
        f"loss={machine.loss!r}": machine.loss != "sum", "penalty": machine.penalty is not None,
        f"inside_label={machine.inside_label!r}": machine._is_double_sided,
        "perplexity": sgd is not None and sgd.perplexity > 1, "average": sgd is not None and not sgd.average,
        f"n_init={machine.n_init!r}": machine.n_init != "auto",
        f"solver={machine.solver!r}": machine.solver not in ("auto", "exact", "dual"),
    }  # fmt: skip
    for name in (name for name, is_set in unsupported.items() if is_set):
        raise ValueError(
            f"samples in blocks have the plain machine alone, by solver='exact' or 'dual': leave {name} out"
        )
    if machine.solver == "exact" and sgd is not None and sgd.feature_scale != 1.0:
        raise ValueError("feature_scale is for solver='dual': of samples in blocks 'exact' takes X as it is")
    if machine._incumbent is not None and resume is not None:
        raise ValueError("begin_from starts a fit, and resume continues one that has begun: give one")
    fit_pairs(machine, _fit_pair, X, y, sample_weight, executor, checkpoint, resume)
    return machine


def _fit_pair(
    machine: Any, executor: Executor, pair: Pair, clock: Clock, begin_checkpoint: Callable[..., Checkpoint]
) -> None:
    machine._side = machine._chosen_side()
    if machine._side < 0:  # the first class of a pair is inside
        pair = Pair(pair.classes[::-1], pair.factors[::-1], pair.C)
    summary, K, scale = summarize(executor.inspect(), pair), machine.n_faces, machine._feature_scale()
    check_sizes(summary.max_entry, summary.total_cost)
    seed, start = machine._seed(), vars(machine).pop("_incumbent", None)
    if start is not None and start.shape != (K, summary.m + 1):
        raise ValueError(f"faces must be of shape {(K, summary.m + 1)}, not {start.shape}")
    solver, ascents = machine.solver, None
    if solver == "auto":
        solver = "dual" if scale != 1.0 or summary.m > _MAX_EXACT_FEATURES else "exact"
    if solver == "dual":
        ascents = FaceAscents(executor, pair, K, summary.m, scale=scale, largest=summary.max_entry, seed=seed)
    save = begin_checkpoint(
        machine="the Convex Polytope Machine", inside=str(pair.classes[0]), faces=K, scale=scale,
        solver=solver,
    )  # fmt: skip
    rounds = Rounds(
        executor, pair, clock, save, ascents, tol=1e-8 if ascents is None else 0.1 * machine.tol,
        max_rounds=machine.max_iter, min_decrease=0.1 * machine.tol,
    )  # fmt: skip
    if save.state is not None and "assigning" in save.state:
        assigning = rounds.restore()
    elif start is not None:
        assigning = start
    elif K == 1:  # which has one assignment
        assigning = np.zeros((1, summary.m + 1))
    else:
        half = Clock(None if clock.left is None else 0.5 * clock.left)
        assigning = Passes(executor, pair, summary, K, save, scale, seed).solve(half)["W"]
    solution, machine._proof = rounds.run(assigning)
    machine.solver_, machine.n_iter_ = solver, max(solution.iterations, 1)
    machine._set_solution(solution)
