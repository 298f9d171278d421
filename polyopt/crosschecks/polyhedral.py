"""The Polyceptron, PC-SLP and SPLA1: positives inside, h = min_k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations import pc_slp, polyceptron, polyhedral, polytope, spla1
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, clusters, generator
from polyopt.linalg.rows import as_rows
from polyopt.polyhedral.polyceptron_online import OnlinePolyceptron, solve_batch
from polyopt.polyhedral.spla1 import LogisticCells

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.language.program import Program
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("polyhedral")


def _sample(seed: int) -> tuple[Vector, Vector, Vector]:
    """Overlapping clusters, labels that put the middle inside, and three random faces."""
    X, y = clusters(seed, spread=0.8)
    return X, -y, generator(seed).normal(size=(3, 3))


@CHECKS.add("T34", 1e-13)
def mirrored_faces(seed: int) -> Pair:
    """Mirrored faces: min_k W_k·x̃ = −max_k(−W_k·x̃), and the margin errors of both machines agree.

    The exact Polyceptron's margin error of W is the CPM's sum form at −W, with the labels turned around and
    without the norm.

    Source: Manwani & Sastry (2011), eq. (3); Kantchelian et al. (2014), eq. (6).
    """
    X, y, W = _sample(seed)
    mirrored = polytope.lift(X) @ (-W).T
    error = polytope.objective(X, -y, -W) - (W**2).sum()
    return (
        np.append(polyhedral.scores(X, W).min(axis=1), polyhedral.margin_error(X, y, W)),
        np.append(-mirrored.max(axis=1), error),
    )


@CHECKS.add("T35a", 1e-9)
def homogeneous_criterion(seed: int) -> Pair:
    """Polyceptron: E_P(tW) = t E_P(W) for t > 0.

    Source: Manwani & Sastry (2011), eq. (3).
    """
    X, y, W = _sample(seed)
    return polyhedral.criterion(X, y, 2.5 * W), 2.5 * polyhedral.criterion(X, y, W)


@CHECKS.add("T35b", 0.0)
def criterion_of_nothing(seed: int) -> Pair:
    """Polyceptron: E_P(0) = 0, so W = 0 minimises the criterion.

    Source: Manwani & Sastry (2011), eq. (3).
    """
    X, y, W = _sample(seed)
    return polyhedral.criterion(X, y, 0.0 * W), 0.0


@CHECKS.add("X15", 1e-12)
def empty_subproblem(seed: int) -> Pair:
    """Polyceptron: the linear program of a face without a margin has the value 0, whatever the data.

    Source: Manwani & Sastry (2011), eq. (4).
    """
    X, y, _ = blobs(seed)
    return polyceptron.cell(X, y, margin=0.0).solve().objective, 0.0


def _slopes(seed: int) -> tuple[Vector, tuple[Vector, Vector, Vector]]:
    """The gradient of E_P by central differences, and where."""
    X, y, W = _sample(seed)
    h, slopes = 1e-6, np.zeros_like(W)
    for place in np.ndindex(W.shape):
        step = np.zeros_like(W)
        step[place] = h
        slopes[place] = polyhedral.criterion(X, y, W + step) - polyhedral.criterion(X, y, W - step)
    return slopes / (2.0 * h), (X, y, W)


@CHECKS.add("X16", 1e-6)
def gradient_of_the_misclassified(seed: int) -> Pair:
    """Polyceptron: ∂E_P/∂w_k = −Σ y_i x̃_i over the misclassified samples of its cell (by differences).

    Source: Manwani & Sastry (2011), eq. (3).
    """
    slopes, (X, y, W) = _slopes(seed)
    return polyhedral.criterion_gradient(X, y, W), slopes


@CHECKS.add("N08", 0.1, ">")
def printed_update(seed: int) -> Pair:
    """Polyceptron: the printed update, over all samples of a cell, is no gradient of E_P.

    What is compared with 0 is the relative distance.

    Source: Manwani & Sastry (2011), Algorithm 1.
    """
    slopes, (X, y, W) = _slopes(seed)
    own = polyhedral.cells(X, W)[:, None] == np.arange(len(W))
    printed = -polyhedral.pull(X, y[:, None] * own)
    return np.linalg.norm(printed - slopes) / np.linalg.norm(slopes), 0.0


@CHECKS.add("N09", 0.0)
def printed_loop(seed: int) -> Pair:
    """Polyceptron: Algorithm 1 as printed, “while … < γ”, makes no iteration where the corrected one does.

    Source: Manwani & Sastry (2011), Algorithm 1.
    """
    X, y, W = _sample(seed)
    ones = np.ones(len(y))
    updates = [
        solve_batch(X, y, ones, W, threshold=1.0, rule=rule, max_iter=20).history
        for rule in ("printed", "corrected")
    ]
    return [len(updates[0]) - 1, float(len(updates[1]) > 1)], [0.0, 1.0]


def _descent(W: Vector, step: Callable[[Vector], Vector], value: Callable[[Vector], float]) -> Pair:
    """The values after and before each of some steps."""
    values = [value(W)]
    for _ in range(6):
        W = step(W)
        values.append(value(W))
    return values[1:], values[:-1]


def _descent_of(
    program: Program, name: str, choice: Callable[..., Vector], error: Callable[..., float], X: Vector,
    y: Vector, W: Vector,
) -> Pair:  # fmt: skip
    """The same of a program of three faces, in which `name` is the choice that fits the cells."""

    def step(W: Vector) -> Vector:
        return program.set(**{name: choice(y, 3, polyhedral.cells(X, W))}).solve()["W"]

    return _descent(W, step, lambda W: error(X, y, W))


@CHECKS.add("X17", 1e-8, "≤")
def exact_polyceptron_descends(seed: int) -> Pair:
    """Polyceptron, exact, every positive in every program: no step raises the margin error.

    Source: Manwani & Sastry (2011), eq. (3), (4), amended.
    """
    X, y, W = _sample(seed)
    program = polyceptron.fixed_assignment(X, y, 3, polyhedral.cells(X, W))
    return _descent_of(program, "Z", polyceptron.answers, polyhedral.margin_error, X, y, W)


@CHECKS.add("X18", 1e-12)
def online_step(seed: int) -> Pair:
    """Polyceptron, online: a step lowers the sample's own −y w·x̃ by exactly η‖x̃‖².

    Source: Manwani & Sastry (2011), Algorithm 2.
    """
    X, y, W = _sample(seed)
    lifted, face = polytope.lift(X), polyhedral.cells(X, W)
    wrong = int(np.flatnonzero(y * polyhedral.scores(X, W).min(axis=1) < 0)[0])
    machine = OnlinePolyceptron(W)
    machine.show(as_rows(X[[wrong]]), y[[wrong]], np.ones(1))
    x, k = lifted[wrong], face[wrong]
    return -y[wrong] * (machine.faces[k] - W[k]) @ x, -x @ x


@CHECKS.add("T36a", 1e-8, "≤")
def successive_programs_descend(seed: int) -> Pair:
    """PC-SLP: no linear program raises the separation error z.

    Source: Astorino & Gaudioso (2002), reconstructed.
    """
    X, y, W = _sample(seed)
    program = pc_slp.step(X, y, 3, polyhedral.cells(X, W))
    return _descent_of(program, "P", pc_slp.choice, polyhedral.separation_error, X, y, W)


@CHECKS.add("T36b", 1e-12)
def error_of_nothing(seed: int) -> Pair:
    """PC-SLP: z(0) = z(all inside) = z(all outside) = 2.

    Source: Astorino & Gaudioso (2002), reconstructed.
    """
    X, y, _ = _sample(seed)
    trivial = [np.tile([0.0, 0.0, b], (3, 1)) for b in (0.0, 1.0, -1.0)]
    return [polyhedral.separation_error(X, y, W) for W in trivial], 2.0


@CHECKS.add("X19", 1e-7)
def duality_of_a_step(seed: int) -> Pair:
    """PC-SLP: value of a step's linear program = value of its dual = z at the faces it stays at.

    Source: Astorino & Gaudioso (2002), reconstructed; the dual is derived.
    """
    X, y, W = _sample(seed)
    for _ in range(20):
        program = pc_slp.step(X, y, 3, polyhedral.cells(X, W))
        found = program.solve()
        if found.objective >= polyhedral.separation_error(X, y, W) * (1.0 - 1e-9):
            break
        W = found["W"]
    dual = pc_slp.step_dual(X, y, 3, polyhedral.cells(X, W)).solve()
    return [found.objective, dual.objective], polyhedral.separation_error(X, y, W)


@CHECKS.add("X20", 1e-7)
def duality_of_a_cell(seed: int) -> Pair:
    """SPLA1: value of a cell's logistic regression = value of its dual with entropies.

    Source: Manwani & Sastry (2010), reconstructed; the dual is derived.
    """
    X, y, _ = blobs(seed)
    arguments = (X, y, 1.0, 1.0)
    return spla1.cell_dual(*arguments).solve().objective, spla1.cell(*arguments).solve().objective


def _alternation(seed: int, positives: Any) -> tuple[Vector, Vector]:
    """Values of SPLA1 after and before each step, from several starts."""
    X, y, _ = _sample(seed)
    problem = LogisticCells(X, y, np.ones(len(y)), 3, ridge=1e-2, positives=positives)
    pairs = [
        _descent(W, lambda W: problem.step(W, None)["W"], problem.value)
        for W in generator(seed).normal(size=(5, 3, 3))
    ]
    after, before = np.array(pairs, dtype=float).transpose(1, 0, 2).reshape(2, -1)
    return after, before


@CHECKS.add("X21", 1e-9, "≤")
def all_positives_descend(seed: int) -> Pair:
    """SPLA1 with every positive in the program of every face: no step raises the loss.

    Source: Manwani & Sastry (2010), reconstructed and amended.
    """
    return _alternation(seed, "all")


@CHECKS.add("N10", 1e-3, ">")
def own_cells_do_not_descend(seed: int) -> Pair:
    """SPLA1 with each positive in the program of its cell alone: some step raises the loss.

    What is compared with 0 is the largest relative rise.

    Source: Manwani & Sastry (2010), reconstructed.
    """
    after, before = _alternation(seed, "cell")
    return ((after - before) / before).max(), 0.0
