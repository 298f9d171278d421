"""Figures of the samples of two classes in all blocks, their losses, and the identity of a fit."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyopt.cpm.sgd import losses
from polyopt.large.blocks import Recipe, Report, two_classes
from polyopt.large.executor import Executor
from polyopt.large.sources import Samples
from polyopt.linalg.rows import as_rows
from polyopt.margin.interior_point.crew import total

Vector = NDArray[np.float64]


class Summary(NamedTuple):
    """Figures of the samples of two classes.

    m: number of features.
    counts (blocks, 2): samples of the first and of the second class in each block.
    min_cost, max_cost, total_cost: least, largest and total cost of slack of a sample.
    max_entry: largest absolute entry of X.
    """

    m: int
    counts: NDArray[np.int64]
    min_cost: float
    max_cost: float
    total_cost: float
    max_entry: float

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())


def summarize(reports: Sequence[Report], recipe: Recipe) -> Summary:
    """Return the figures of all blocks from their inspection."""
    counts, costs = np.zeros((len(reports), 2), dtype=np.int64), []
    for number, report in enumerate(reports):
        for side, (label, factor) in enumerate(zip(recipe.classes, recipe.factors, strict=True)):
            if (of_label := np.asarray(report.labels == label)).any():
                counts[number, side] = report.counts[of_label][0]
                costs.append(recipe.C * (factor * report.weights[of_label][0]))
    total_cost, least, most = np.array(costs).T
    max_entry = max(report.max_entry for report in reports)
    return Summary(
        reports[0].m, counts, float(least.min()), float(most.max()), float(total_cost.sum()), max_entry
    )


def compute_losses(
    executor: Executor, recipe: Recipe, summary: Summary, scale: float, candidates: Sequence[Vector],
    is_over: Callable[[], bool] | None = None,
) -> Vector | None:  # fmt: skip
    """Return the loss of all samples for each of several W (K, m+1); None if time is over."""
    arguments = [(recipe, scale, candidates) if any(counts) else None for counts in summary.counts]
    per_block = executor.each(_block_losses, arguments, is_over)
    return None if per_block is None else np.asarray(total(per_block))


def _block_losses(
    _: None, samples: Samples, number: int, recipe: Recipe, scale: float, candidates: Sequence[Vector]
) -> Vector:
    X, outside, weights = two_classes(samples, recipe)
    rows, costs = as_rows(X), recipe.C * weights
    return np.array([losses(W, rows, outside, costs, scale) for W in candidates])


def _probe(size: int) -> Vector:
    """Return the weights (1, size) of a fixed face, at which a loss is a digest of samples and labels."""
    index = np.arange(size, dtype=np.float64)
    return np.asarray(((7919.0 * index + 13.0) % 101.0 - 50.0)[None] / 50.0)


def checkpoint_identity(
    executor: Executor, recipe: Recipe, machine: str, *, scale: float = 1.0, **settings: Any
) -> dict[str, Any]:
    """Return the identity of a fit in a checkpoint; its digest is a loss of the samples and labels."""
    summary = summarize(executor.inspect(), recipe)
    digest = compute_losses(executor, recipe, summary, scale, [_probe(summary.m + 1)])
    assert digest is not None
    return {
        "machine": machine, "samples": summary.n, "features": summary.m, "blocks": executor.count,
        "C": recipe.C, "factors": repr(recipe.factors), **settings, "scale": scale,
        "digest": sha256(summary.counts.tobytes() + digest.tobytes()).hexdigest()[:16],
    }  # fmt: skip
