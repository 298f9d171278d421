"""Dual averaging for the Convex Polytope Machine, by its sums written out; and the loop around epochs."""

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.cpm import penalised_sgd as priced_sgd
from polyopt.cpm.sgd import Epochs

K, M = 3, 4
PENALTY = FacePenalty.of(M, l1=0.2, signs={1: 1})


def drawn(form=np.array):
    X, y = two_blobs(n=23, m=M, seed=4)
    C = np.random.default_rng(0).uniform(0.2, 1.5, 23)
    held = np.where(y > 0, np.arange(23) % K, -1)
    return X, y, C, held, priced_sgd._DualAveragingEpochs(form(X), y, C, K, PENALTY, held, 0)


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
@pytest.mark.parametrize("is_held", [True, False])
def test_the_means_weigh_gradients_by_their_turn_and_iterates_by_its_square(form, is_held):
    X, y, C, held, run = drawn(form)
    rng = np.random.default_rng(1)
    gradients, iterates = [], []
    for _ in range(12):
        rows, gradient = np.sort(rng.permutation(23)[:5]), np.zeros((K, M + 1))
        W = 0.5 * PENALTY.shrunk(run.V)
        for i in rows:
            x = np.append(X[i], 1.0)
            scores = W @ x
            faces = range(K) if y[i] < 0 else [held[i] if is_held else int(np.argmax(scores))]
            for k in faces:
                if y[i] * scores[k] < 1.0:
                    gradient[k] += C[i] * y[i] * x
        gradients.append(23 / 5 * gradient)
        run._step(rows, is_held)
        turns = np.arange(1.0, len(gradients) + 1.0)
        assert run.V == pytest.approx(np.tensordot(turns / turns.sum(), gradients, axes=1))
        iterates.append(run.V.copy())
        assert run.mean_V == pytest.approx(np.tensordot(turns**2 / (turns**2).sum(), iterates, axes=1))


def test_the_better_of_iterate_and_mean_is_kept_if_it_is_the_best_so_far():
    *_, run = drawn()
    run.epoch(Clock(None))
    value = run._objective
    both = [0.5 * PENALTY.shrunk(V) for V in (run.V, run.mean_V)]
    run.measure()
    assert run.min_objective == run.measured[-1] == min(value(W)[0] for W in both)
    assert value(run.result)[0] == run.min_objective
    assert run.history[-1]["objective"] == run.min_objective
    best = run.result
    run.V = run.mean_V = np.full_like(run.V, 99.0)
    run.measure()
    assert run.result is best
    assert run.measured[1] > run.min_objective == run.measured[0]


class Told(Epochs):
    """Epochs that measure what they are told to; an epoch may end the time, or be interrupted."""

    def __init__(self, values, ends=None):
        self.values, self.ends = iter(values), ends
        self.result, self.min_objective, self.measured, self.history, self.at = (
            np.zeros((1, 2)),
            np.inf,
            [],
            [],
            [],
        )

    def epoch(self, clock):
        self.history.append({"epoch": len(self.history) + 1.0, "seconds": 0.0})
        if len(self.history) == 7 and self.ends == "interruption":
            raise KeyboardInterrupt

    def measure(self):
        self.measured.append(next(self.values))
        self.min_objective = min(self.min_objective, self.measured[-1])
        self.at.append(len(self.history))


class Over:
    """A clock whose time is over once its run has seven epochs."""

    left, seconds = None, 0.0

    def __init__(self, run):
        self.run = run

    @property
    def is_over(self):
        return self.run.ends == "time" and len(self.run.history) >= 7


@pytest.mark.parametrize(("values", "ends", "at", "status"), [
    ([9.0, 8.0, 7.0, 6.0, 5.0, 4.0], None, [5, 7, 10, 15, 20], Status.ITERATION_LIMIT),
    ([9.0, 4.01, 4.0, 4.02, 1.0], None, [5, 7, 10, 15], Status.CONVERGED),
    ([4.0, 4.0, 4.05, 4.0, 4.0, 4.0], None, [5, 7, 10, 15, 20], Status.ITERATION_LIMIT),
    ([9.0, 8.0, 7.0], "time", [5, 7], Status.TIME_LIMIT),
    ([9.0, 8.0, 7.0], "interruption", [5, 7], Status.INTERRUPTED),
])  # fmt: skip
def test_epochs_are_measured_ever_more_rarely_until_three_agree(values, ends, at, status):
    run = Told(values, ends)
    assert run.run(Over(run), 20, 0.01) is status
    assert run.at == at
    solution = run.solution(status, 3.5, "a method", Over(run))
    assert (solution.status, solution.objective, solution.solver) == (status, 3.5, "a method")
    assert solution.iterations == len(run.history) == len(solution.history)
    assert solution["W"] is run.result
