"""The stochastic solver of the Convex Polytope Machine: Algorithms 1 and 2, taken literally."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cpm import clusters

from formulations import cpm
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from formulations.polytope import perplexity as effective_faces
from polyopt.base.progress import points_to
from polyopt.cpm import sgd as cpm_sgd
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.sgd import CpmSgd, assign, inverse_scale, losses, relative_step_sizes, solve_cpm_sgd
from polyopt.linalg.rows import as_rows
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds

# -- Algorithm 2 ---------------------------------------------------------------------------


def entropy_of(unadjusted):
    counts = np.unique(list(unadjusted.values()), return_counts=True)[1]
    shares = counts / counts.sum()
    return -float(shares @ np.log(shares)) if len(counts) else 0.0


def literal_assign(unadjusted, i, scores, floor):
    """Algorithm 2 as printed, on a dictionary; the natural face where no face raises the entropy."""
    natural = int(np.argmax(scores))
    with_natural = {**unadjusted, i: natural}
    answer = natural
    if entropy_of(with_natural) < floor - 1e-12:
        before = entropy_of(unadjusted)
        raising = [k for k in range(len(scores)) if entropy_of({**unadjusted, i: k}) > before + 1e-12]
        answer = max(raising, key=lambda k: scores[k]) if raising else natural
    unadjusted[i] = natural
    return answer


class Memory:
    """The arrays that the kernel keeps in place of the dictionary."""

    def __init__(self, n, K):
        counts = np.arange(n + 2)
        self.unadjusted, self.counts = np.full(n, -1), np.zeros(K, dtype=np.int64)
        self.phi, self.tally = counts * np.log(np.maximum(counts, 1)), np.zeros(5)

    def assign(self, i, scores, floor):
        natural = int(np.argmax(scores))
        return assign(scores, natural, i, floor, self.unadjusted, self.counts, self.phi, self.tally)


@pytest.mark.parametrize("K", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_the_kernel_is_algorithm_2(K, share, rng):
    n, floor = 60, share * math.log(K)
    memory, unadjusted = Memory(n, K), {}
    taste = 2 * rng.normal(size=K)  # some faces win more often, so that the floor is felt
    adjusted = 0
    for _ in range(400):
        i, scores = int(rng.integers(n)), rng.normal(size=K) + taste
        answer = memory.assign(i, scores, floor)
        assert answer == literal_assign(unadjusted, i, scores, floor)
        adjusted += answer != np.argmax(scores)
        assert memory.unadjusted[i] == np.argmax(scores)
    assert memory.counts.tolist() == [list(unadjusted.values()).count(k) for k in range(K)]
    if share == 0.0 or K == 1:
        assert adjusted == 0
    elif share >= 0.9:
        assert adjusted > 20


def test_the_first_call_finds_no_face_that_raises_the_entropy():
    assert Memory(9, 3).assign(4, np.array([0.0, 2.0, 1.0]), math.log(3)) == 1


# -- Algorithm 1 ---------------------------------------------------------------------------


def literal_epoch(X, y, C, W, order, t, floor, unadjusted):
    """Steps of Algorithm 1 with the step 1/(λ(t+1)); the iterates after each of them."""
    lifted, lam, n = cpm.lift(X), 2 / C.sum(), len(y)
    iterates = []
    for i in order:
        t += 1
        eta = 1 / (lam * (t + 1))
        scores, weight = W @ lifted[i], n * C[i] / C.sum()
        if y[i] < 0:
            W = W - eta * weight * np.outer(scores > -1, lifted[i])
        elif scores.max() < 1:
            face = literal_assign(unadjusted, i, scores, floor) if floor > 0 else scores.argmax()
            W = W + eta * weight * np.outer(np.arange(len(W)) == face, lifted[i])
        W = (1 - eta * lam) * W
        iterates.append((t + 1, W))
    return W, t, iterates


@pytest.mark.parametrize("perplexity", [1.0, 2.2])
@pytest.mark.parametrize("average", [False, True])
def test_the_solver_is_algorithm_1(perplexity, average):
    X, y, _ = clusters(50, 3, 0)
    C, K, epochs = np.random.default_rng(1).uniform(0.5, 2.0, 50), 4, 3
    orders = [np.random.default_rng(9 + e).permutation(50) for e in range(epochs)]
    machine = CpmSgd(X.shape[1], K, perplexity=perplexity, average=average, dtype=np.float64)
    run = cpm_sgd._SgdEpochs(machine, as_rows(X), y, C)
    W, t, unadjusted, every = machine.iterates[0], 0, {}, []
    waiting = iter(orders)
    machine.rng = type("Fixed", (), {"permutation": lambda self, n: next(waiting)})()
    for order in orders:
        run.epoch(cpm_sgd.Clock())
        run.measure()
        W, t, iterates = literal_epoch(X, y, C, W, order, t, math.log(perplexity), unadjusted)
        every += iterates
        last = machine.U[:, :K].T / (t + 1)
        assert last == pytest.approx(W, abs=1e-9 * np.abs(W).max())
        answers = [W]
        if average:
            chosen = every[machine.spacing - 1 :: machine.spacing]
            weights = [(after - 1.0) ** 4 for after, _ in chosen]
            answers.append(np.average([iterate for _, iterate in chosen], axis=0, weights=weights))
        for ours, theirs in zip(machine.iterates, answers, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-9 * np.abs(W).max())
        # Of two answers the one that keeps the floor, or comes nearer to it; then the lower one.
        at = [cpm.natural_assignment(X, y, answer)[y > 0] for answer in answers]
        spread = [min(effective_faces(faces, C[y > 0]), perplexity) for faces in at]
        kept = [answer for answer, own in zip(answers, spread, strict=True) if own == max(spread)]
        least = min(cpm.objective(X, y, answer, C) for answer in kept)
        assert run.history[-1]["objective"] == pytest.approx(least, rel=1e-9)
    assert len(run.history) == epochs


def test_the_estimate_is_the_objective_at_the_steps():
    """The losses as they were met: with faces that hardly move, those of the faces."""
    X, y, _ = clusters(80, 3, 0)
    C = np.full(80, 1e-9)
    machine = CpmSgd(X.shape[1], 3, dtype=np.float64)
    run = cpm_sgd._SgdEpochs(machine, as_rows(X), y, C)
    run.epoch(cpm_sgd.Clock())
    W = machine.U[:, :3].T / 81
    assert run.history[0]["estimate"] == pytest.approx(cpm.objective(X, y, W, C), rel=1e-3)


def test_who_watches_sees_the_last_iterate_and_where_each_positive_was_met():
    X, y, _ = clusters(80, 3, 0)
    machine, seen = CpmSgd(X.shape[1], 3, dtype=np.float64), []
    run = cpm_sgd._SgdEpochs(machine, as_rows(X), y, np.full(80, 0.1))
    with points_to(lambda record, point: seen.append(dict(point))):
        run.epoch(cpm_sgd.Clock())
    (point,) = seen
    assert np.array_equal(point["W"], machine.iterates[0])
    assert point["objective"] == pytest.approx(cpm.objective(X, y, point["W"], np.full(80, 0.1)), rel=1e-9)
    assert (point["assignment"][y < 0] == -1).all()
    assert point["assignment"][y > 0].tolist() == run.last_faces[y > 0].tolist()
    assert set(point["assignment"][y > 0]) <= {0, 1, 2}


def test_every_form_of_the_samples_takes_the_same_steps(rng):
    whole = rng.integers(0, 256, (80, 6)) * (rng.random((80, 6)) < 0.4)
    y, C = np.where(rng.random(80) < 0.5, 1.0, -1.0), rng.uniform(0.1, 1.0, 80)
    forms = {
        "float64": (whole / 255, 1.0),
        "float32": ((whole / 255).astype(np.float32), 1.0),
        "CSR": (sp.csr_array(whole / 255), 1.0),
        "bytes": (whole.astype(np.uint8), 1 / 255),
        "full": (np.asfortranarray(whole / 255 + 1e-12), 1.0),  # no zeros: the samples share their columns
    }
    ends = {
        name: solve_cpm_sgd(X, y, C, 3, perplexity=2.0, scale=scale, max_iter=5)
        for name, (X, scale) in forms.items()
        if name in forms  # each type of number has loops of its own
    }
    for end in ends.values():
        assert end["W"] == pytest.approx(ends["float64"]["W"], abs=1e-4 * np.abs(end["W"]).max())
        assert end.objective == pytest.approx(ends["float64"].objective, rel=1e-4)


def test_the_same_seed_gives_the_same_model():
    X, y, _ = clusters(100, 3, 0)
    one, two, other = (solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=20, seed=s)["W"] for s in (5, 5, 6))
    assert (one == two).all()
    assert np.abs(one - other).max() > 1e-6


# -- against the exact optimum -------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_one_face_is_learnt_to_the_exact_optimum(seed, C):
    """λ = 2/(nC) and nothing else: another factor would show at once."""
    X, y, _ = clusters(60, 1, seed)
    X = X[:, :1] + 0.3
    exact = cpm.face(X, y, C).solve()
    fast = solve_cpm_sgd(X, y, np.full(60, C), 1, max_iter=3000, tol=1e-5)
    assert exact.objective * (1 - 1e-9) <= fast.objective <= exact.objective * (1 + 1e-3)
    assert fast["W"][0] == pytest.approx(exact["w"], abs=0.05 * np.abs(exact["w"]).max())
    for factor in (0.5, 2.0):
        assert cpm.face(X, y, factor * C).solve()["w"] != pytest.approx(exact["w"], abs=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_several_faces_are_learnt_to_the_exact_optimum_of_their_assignment(seed):
    X, y, _ = clusters(90, 3, seed, widen=1.5)
    C = np.random.default_rng(seed).uniform(0.5, 1.5, 90)
    fast = solve_cpm_sgd(X, y, C, 3, max_iter=600, tol=1e-4, seed=seed)
    assert fast.objective == pytest.approx(cpm.objective(X, y, fast["W"], C), rel=1e-12)
    z = cpm.natural_assignment(X, y, fast["W"])
    proven = cpm.fixed_assignment_dual(X, y, 3, z, C).solve().objective
    assert proven * (1 - 1e-9) <= fast.objective <= proven * (1 + 5e-3)
    certificate = certify_cpm(X, y, C, W=fast["W"])
    assert certificate.dual_value <= proven * (1 + 1e-9)
    assert certificate.relative_gap < 1e-2
    # The exact solver from the same assignment, and from many others.
    problem = PolytopeProblem(X, y, C, 3)
    assert proven * (1 - 5e-3) <= run_rounds(problem, z).objective <= fast.objective
    best = run_from_many_starts([Stage(problem)], n_init=10, seed=seed)
    assert fast.objective <= best.objective * (1 + 5e-3)


def test_a_cost_twice_as_high_is_a_sample_twice_as_often():
    X, y, _ = clusters(60, 2, 0, widen=1.5)
    repeats = np.random.default_rng(0).integers(1, 4, 60)
    rows = np.repeat(np.arange(60), repeats)
    weighted = solve_cpm_sgd(X, y, 0.5 * repeats, 2, max_iter=1000, tol=1e-5)
    repeated = solve_cpm_sgd(X[rows], y[rows], np.full(len(rows), 0.5), 2, max_iter=1000, tol=1e-5)
    assert weighted.objective == pytest.approx(repeated.objective, rel=2e-3)


# -- a run ---------------------------------------------------------------------------------


def test_the_floor_keeps_more_faces_in_use():
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(0, 2 * np.pi, 300), np.repeat([1.0, 2.0], 150) + 0.2 * rng.normal(size=300)
    X, y = (radius * [np.cos(angle), np.sin(angle)]).T, np.repeat([-1.0, 1.0], 150)
    ends = [
        solve_cpm_sgd(X, y, np.ones(300), 10, perplexity=10**share, max_iter=60).history[-1]
        for share in (0.0, 0.8, 0.95)
    ]
    assert ends[0]["occupied"] < ends[1]["occupied"] < ends[2]["occupied"]
    assert 1.2 * ends[0]["perplexity"] < ends[1]["perplexity"] < ends[2]["perplexity"] / 1.2
    assert ends[2]["perplexity"] > 8


def test_the_history_and_the_best_answer():
    X, y, _ = clusters(100, 3, 0)
    solution = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=12, tol=1e-9)
    history = solution.history
    assert solution.status is Status.ITERATION_LIMIT
    assert [record["epoch"] for record in history] == list(range(1, 13))
    names = {"epoch", "seconds", "estimate", "objective", "perplexity", "reassigned", "occupied"}
    assert set(history[0]) == names
    measured = {r["epoch"]: r["objective"] for r in history if not math.isnan(r["objective"])}
    assert list(measured) == [5, 7, 10, 12]
    assert solution.objective == min(measured.values())
    assert history[0]["reassigned"] >= 50  # every positive found its first face
    assert history[-1]["reassigned"] < 10
    shares = np.bincount(cpm.natural_assignment(X, y, solution["W"])[y > 0]) / 50
    used = shares[shares > 0]
    assert history[-1]["perplexity"] == pytest.approx(np.exp(-used @ np.log(used)), rel=0.1)
    loose = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=500, tol=1e-2)
    assert loose.status is Status.CONVERGED
    assert 10 <= loose.iterations < 500


def test_the_scale_of_the_iterate_follows_from_the_steps():
    """λη_t = 1/(t+1), and s_t = s_(t−1) (1 − λη_t) from s_0 = 1."""
    t = np.arange(1.0, 50.0)
    relative = relative_step_sizes(t, inverse_scale(t)) / inverse_scale(t - 1.0)
    assert relative == pytest.approx(1.0 / (t + 1.0))
    assert 1.0 / inverse_scale(t) == pytest.approx(np.cumprod(1.0 - relative))


def test_a_time_limit_keeps_a_point(ticking):
    X, y, _ = clusters(100, 3, 0)
    limited = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=10**6, tol=1e-12, time_limit=0.2)
    assert limited.status is Status.TIME_LIMIT
    assert 0.2 <= limited.solve_time < 0.3
    assert limited.objective == pytest.approx(cpm.objective(X, y, limited["W"]))


@pytest.mark.parametrize("epochs", [0, 3])
def test_an_interruption_keeps_the_epochs_before_it(epochs, monkeypatch):
    X, y, _ = clusters(100, 3, 0)
    calls, take_steps = [], CpmSgd.take_steps

    def interrupted(*arguments):
        if len(calls) == epochs:
            raise KeyboardInterrupt
        calls.append(1)
        return take_steps(*arguments)

    monkeypatch.setattr(CpmSgd, "take_steps", interrupted)
    stopped = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=50)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.objective == pytest.approx(cpm.objective(X, y, stopped["W"]))
    monkeypatch.undo()
    if epochs:
        whole = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=epochs)
        assert (stopped["W"] == whole["W"]).all()


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e20])
def test_no_size_of_the_data_overflows(size):
    X, y, _ = clusters(60, 2, 0)
    solution = solve_cpm_sgd(size * X, y, np.ones(60), 2, max_iter=20)
    assert np.isfinite(solution["W"]).all()
    assert solution.objective == pytest.approx(cpm.objective(size * X, y, solution["W"]), rel=1e-9)


def test_an_average_over_an_exchange_of_roles_is_not_the_answer():
    """Two faces that have swapped their samples: each iterate is good, their mean is not."""
    X, y, _ = clusters(60, 2, 0)
    W = solve_cpm_sgd(X, y, np.ones(60), 2, max_iter=100)["W"]
    machine = CpmSgd(X.shape[1], 2, dtype=np.float64)
    machine.steps[0], machine.tally[cpm_sgd.AVERAGE] = 100, 1.0
    machine.U[:, :2], machine.A[:, :2] = 101.0 * W.T, 0.5 * (W + W[::-1]).T
    answer, objective = machine.best_iterate(as_rows(X), y > 0, np.ones(60))
    assert answer == pytest.approx(W)
    assert objective == pytest.approx(cpm.objective(X, y, W))
    assert cpm.objective(X, y, machine.iterates[1]) > 2 * objective


# -- the answer ----------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [0.0, np.log(3.0)])
def test_of_two_answers_the_one_that_keeps_the_floor_or_else_the_less_dear_is_taken(floor):
    """Above the floor perplexity is no merit; below it the nearer is the better, at equals the cheaper."""
    for perplexities, objectives, better in (
        ((3.5, 3.0), (2.0, 1.0), 1),
        ((3.0, 3.5), (1.0, 2.0), 0),
        ((2.9, 3.1), (1.0, 2.0), 1 if floor else 0),
        ((2.5, 2.9), (1.0, 2.0), 1 if floor else 0),
        ((2.5, 2.5), (2.0, 1.0), 1),
    ):
        machine = SimpleNamespace(
            iterates=[0, 1],
            floor=floor,
            _objective=lambda W, *_, values=objectives: values[W],
            _perplexity=lambda W, *_, values=perplexities: values[W],
        )
        assert cpm_sgd.CpmSgd.best_iterate(machine, None, None, None) == (better, objectives[better])


def test_single_precision_is_for_sizes_that_it_can_hold():
    """The largest entry in units of the scale, the largest gain and the least: from 1e-12 to 1e12."""
    rows, gains = as_rows(np.array([[0.5, -2.0], [1.0, 0.25]])), np.array([1.0, 2.0])
    for scale, more, fits in (
        (0.5e12, 1.0, True), (-0.5e12, 1.0, True), (0.51e12, 1.0, False), (-0.51e12, 1.0, False),
        (0.5e-12, 1.0, True), (0.49e-12, 1.0, False), (1.0, 0.5e12, True), (1.0, 0.51e12, False),
        (1.0, 1e-12, True), (1.0, 0.99e-12, False),
    ):  # fmt: skip
        assert (cpm_sgd._choose_precision(rows, scale, more * gains) is np.float32) == fits
    zeros = as_rows(sp.csr_array((2, 2)))
    assert cpm_sgd._choose_precision(zeros, 1e300, gains) is np.float32


def test_the_losses_are_those_of_the_program():
    X, y = two_blobs(n=40, m=4, separation=0.5, seed=2)
    C, W = np.random.default_rng(2).uniform(size=40), np.random.default_rng(3).normal(size=(3, 5))
    wanted = cpm.objective(X, y, W, C)
    for samples in (X, sp.csr_array(X)):
        assert (W**2).sum() + losses(W, as_rows(samples), y > 0, C) == pytest.approx(wanted, rel=1e-12)
    assert losses(W, as_rows(X[:0]), y[:0] > 0, C[:0]) == 0.0
