"""The stochastic solver of the Convex Polytope Machine: Algorithms 1 and 2, taken literally."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cpm import clusters

from formulations import cpm
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from formulations.polytope import perplexity as effective_faces
from polyopt.base.progress import points_to
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.sgd import (
    AVERAGE,
    CpmSgd,
    assign,
    inverse_scale,
    losses,
    precision,
    relative_step_sizes,
    solve_cpm_sgd,
)
from polyopt.linalg.rows import as_rows
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds

# -- Algorithm 2 ---------------------------------------------------------------------------


def entropy_of(unadjusted):
    counts = np.unique(list(unadjusted.values()), return_counts=True)[1]
    shares = counts / counts.sum()
    return -float(shares @ np.log(shares)) if len(counts) else 0.0


def literal_assign(unadjusted, i, scores, floor):
    """Algorithm 2 as printed, on a dictionary; the natural face if no face raises the entropy."""
    natural = int(np.argmax(scores))
    with_natural = {**unadjusted, i: natural}
    answer = natural
    if entropy_of(with_natural) < floor - 1e-12:
        before = entropy_of(unadjusted)
        raising = [k for k in range(len(scores)) if entropy_of({**unadjusted, i: k}) > before + 1e-12]
        answer = max(raising, key=lambda k: scores[k]) if raising else natural
    unadjusted[i] = natural
    return answer


@pytest.mark.parametrize("K", [1, 2, 3, 10])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_the_kernel_is_algorithm_2(K, share, rng):
    """The compiled assignment with its entropy is Algorithm 2, from the first call on."""
    n, floor, counts = 60, share * math.log(K), np.arange(62)
    adopted, found, phi = np.full(n, -1), np.zeros(K, dtype=np.int64), counts * np.log(np.maximum(counts, 1))
    tally, unadjusted, adjusted = np.zeros(5), {}, 0
    taste = 2 * rng.normal(size=K)  # some faces win more often, so that the floor matters
    for _ in range(400):
        i, scores = int(rng.integers(n)), rng.normal(size=K) + taste
        natural = int(np.argmax(scores))
        answer = assign(scores, natural, i, floor, adopted, found, phi, tally)
        assert answer == literal_assign(unadjusted, i, scores, floor)
        assert adopted[i] == natural
        adjusted += answer != natural
    assert found.tolist() == [list(unadjusted.values()).count(k) for k in range(K)]
    if share == 0.0 or K == 1:
        assert adjusted == 0
    elif share >= 0.9:
        assert adjusted > 20


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
    """Steps, average and the better of both answers are those of Algorithm 1 taken literally."""
    X, y, _ = clusters(50, 3, 0)
    C, K, rows = np.random.default_rng(1).uniform(0.5, 2.0, 50), 4, as_rows(X)
    machine = CpmSgd(X.shape[1], K, perplexity=perplexity, average=average, dtype=np.float64)
    last_faces = np.full(50, -1)
    arguments = machine.step_arguments(rows, y > 0, 25.0 * C, last_faces, np.full(50, -1))
    W, t, unadjusted, every = machine.iterates[0], 0, {}, []
    for epoch in range(3):
        order = np.random.default_rng(9 + epoch).permutation(50)
        assert machine.take_steps(arguments, rows, order) == 50
        W, t, iterates = literal_epoch(X, y, C, W, order, t, math.log(perplexity), unadjusted)
        every += iterates
        assert machine.U[:, :K].T / (t + 1) == pytest.approx(W, abs=1e-9 * np.abs(W).max())
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
        assert machine.best_iterate(rows, y > 0, C)[1] == pytest.approx(least, rel=1e-9)


def test_scale_of_iterate_follows_from_steps():
    """λη_t = 1/(t+1), and s_t = s_(t−1) (1 − λη_t) from s_0 = 1."""
    t = np.arange(1.0, 50.0)
    relative = relative_step_sizes(t, inverse_scale(t)) / inverse_scale(t - 1.0)
    assert relative == pytest.approx(1.0 / (t + 1.0))
    assert 1.0 / inverse_scale(t) == pytest.approx(np.cumprod(1.0 - relative))


def test_estimate_and_point_of_an_epoch():
    """A viewer receives the last iterate and each positive's face; the estimate is of the losses met."""
    X, y, _ = clusters(80, 3, 0)
    C, seen = np.full(80, 1e-9), []  # so that the faces hardly move in an epoch
    with points_to(lambda record, point: seen.append(dict(point))):
        found = solve_cpm_sgd(X, y, C, 3, max_iter=1)
    (point,) = seen
    value = cpm.objective(X, y, point["W"], C)
    assert point["objective"] == pytest.approx(value, rel=1e-9)
    assert found.history[0]["estimate"] == pytest.approx(value, rel=1e-3)
    assert (point["assignment"][y < 0] == -1).all()
    assert set(point["assignment"][y > 0]) <= {0, 1, 2}


def test_form_of_samples_does_not_matter(rng):
    """Bytes, singles, sparse rows and full columns take the steps of doubles."""
    whole = rng.integers(0, 256, (80, 6)) * (rng.random((80, 6)) < 0.4)
    y, C = np.where(rng.random(80) < 0.5, 1.0, -1.0), rng.uniform(0.1, 1.0, 80)
    plain, *others = (
        solve_cpm_sgd(X, y, C, 3, perplexity=2.0, scale=scale, max_iter=5)
        for X, scale in (
            (whole / 255, 1.0),
            ((whole / 255).astype(np.float32), 1.0),
            (sp.csr_array(whole / 255), 1.0),
            (whole.astype(np.uint8), 1 / 255),
            (np.asfortranarray(whole / 255 + 1e-12), 1.0),  # no zeros: the samples share their columns
        )
    )
    for other in others:
        assert other["W"] == pytest.approx(plain["W"], abs=1e-4 * np.abs(plain["W"]).max())
        assert other.objective == pytest.approx(plain.objective, rel=1e-4)


def test_seed_determines_the_model():
    """The same seed gives the same bits, and another seed another model."""
    X, y, _ = clusters(100, 3, 0)
    one, two, other = (solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=20, seed=s)["W"] for s in (5, 5, 6))
    assert (one == two).all()
    assert np.abs(one - other).max() > 1e-6


# -- against the exact optimum -------------------------------------------------------------


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_one_face_reaches_its_optimum(C):
    """λ = 2/(nC): one face comes to the optimum of the explicit program, and another factor would not."""
    X, y, _ = clusters(60, 1, 0)
    X = X[:, :1] + 0.3
    exact = cpm.face(X, y, C).solve()
    fast = solve_cpm_sgd(X, y, np.full(60, C), 1, max_iter=3000, tol=1e-5)
    assert exact.objective * (1 - 1e-9) <= fast.objective <= exact.objective * (1 + 1e-3)
    assert fast["W"][0] == pytest.approx(exact["w"], abs=0.05 * np.abs(exact["w"]).max())
    for factor in (0.5, 2.0):
        assert cpm.face(X, y, factor * C).solve()["w"] != pytest.approx(exact["w"], abs=1e-3)


@pytest.mark.parametrize("seed", [0, 1])
def test_faces_reach_optimum_of_their_assignment(seed):
    """Several faces come near the optimum of their assignment, which the exact solver confirms."""
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
    problem = PolytopeProblem(X, y, C, 3)
    assert proven * (1 - 5e-3) <= run_rounds(problem, z).objective <= fast.objective
    best = run_from_many_starts([Stage(problem)], n_init=5, seed=seed)
    assert fast.objective <= best.objective * (1 + 5e-3)


def test_cost_is_repetition():
    """A cost twice as high is a sample twice as often."""
    X, y, _ = clusters(60, 2, 0, widen=1.5)
    repeats = np.random.default_rng(0).integers(1, 4, 60)
    rows = np.repeat(np.arange(60), repeats)
    weighted = solve_cpm_sgd(X, y, 0.5 * repeats, 2, max_iter=1000, tol=1e-5)
    repeated = solve_cpm_sgd(X[rows], y[rows], np.full(len(rows), 0.5), 2, max_iter=1000, tol=1e-5)
    assert weighted.objective == pytest.approx(repeated.objective, rel=2e-3)


# -- a run ---------------------------------------------------------------------------------


def test_floor_keeps_more_faces_in_use():
    """A larger floor of the perplexity leaves more faces in use."""
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


def test_records_of_a_run():
    """Each epoch has a record, the objective is measured at some, and the run ends when they agree."""
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


def test_time_limit_ends_within_an_epoch(ticking):
    """A time limit ends the run soon after, with the objective of its point."""
    X, y, _ = clusters(100, 3, 0)
    limited = solve_cpm_sgd(X, y, np.ones(100), 3, max_iter=10**6, tol=1e-12, time_limit=0.2)
    assert limited.status is Status.TIME_LIMIT
    assert 0.2 <= limited.solve_time < 0.3
    assert limited.objective == pytest.approx(cpm.objective(X, y, limited["W"]))


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12, 1e20])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_no_size_of_samples_overflows(size, sign):
    """Samples far from 1 in size leave finite faces with the objective told."""
    X, y, _ = clusters(60, 2, 0)
    X = sign * size * np.abs(X)
    solution = solve_cpm_sgd(X, y, np.ones(60), 2, max_iter=20)
    assert np.isfinite(solution["W"]).all()
    assert solution.objective == pytest.approx(cpm.objective(X, y, solution["W"]), rel=1e-9)


@pytest.mark.parametrize("place", range(3))
def test_single_precision_holds_its_sizes(place):
    """The largest entry and both gains must lie from 1e-12 to 1e12 for single precision."""
    for value, is_single in ((1e12, True), (1.01e12, False), (1e-12, True), (0.99e-12, False)):
        numbers = [1.0, 1.0, 1.0]
        numbers[place] = value
        assert (precision(*numbers) is np.float32) == is_single


# -- the answer ----------------------------------------------------------------------------


def machine_at(last, average, **settings):
    """A machine whose last iterate and average are given faces."""
    machine = CpmSgd(last.shape[1] - 1, len(last), dtype=np.float64, **settings)
    machine.begin_at(last, 100)
    machine.tally[AVERAGE] = 1.0
    machine.A[:, : len(average)] = average.T
    return machine


def test_average_over_exchanged_faces_is_rejected():
    """If two faces have exchanged their samples, the mean of good iterates is bad, and the last is taken."""
    X, y, _ = clusters(60, 2, 0)
    W = solve_cpm_sgd(X, y, np.ones(60), 2, max_iter=100)["W"]
    machine = machine_at(W, 0.5 * (W + W[::-1]))
    answer, objective = machine.best_iterate(as_rows(X), y > 0, np.ones(60))
    assert answer == pytest.approx(W)
    assert objective == pytest.approx(cpm.objective(X, y, W))
    assert cpm.objective(X, y, machine.iterates[1]) > 2 * objective


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize(("floor", "prefers_spread"), [(1.0, False), (1.9, True), (2.0, True)])
def test_answer_keeps_the_floor(floor, prefers_spread, is_last):
    """Without a floor the cheaper answer is taken, with one the answer that is nearest to it."""
    X, y = np.array([[2.0], [-2.0], [0.0]]), np.array([1.0, 1.0, -1.0])
    spread, cheap = np.array([[9.0, -9.0], [-9.0, -9.0]]), np.array([[0.0, -0.5], [0.0, -1.0]])
    pair = (spread, cheap) if is_last else (cheap, spread)
    machine = machine_at(*pair, perplexity=floor)
    answer, objective = machine.best_iterate(as_rows(X), y > 0, np.ones(3))
    assert answer == pytest.approx(spread if prefers_spread else cheap)
    assert objective == pytest.approx(cpm.objective(X, y, answer))
    assert cpm.objective(X, y, cheap) < cpm.objective(X, y, spread)


def test_losses_are_those_of_the_program():
    """Squares and losses are the objective of the printed program, dense and sparse."""
    X, y = two_blobs(n=40, m=4, separation=0.5, seed=2)
    C, W = np.random.default_rng(2).uniform(size=40), np.random.default_rng(3).normal(size=(3, 5))
    wanted = cpm.objective(X, y, W, C)
    for samples in (X, sp.csr_array(X)):
        assert (W**2).sum() + losses(W, as_rows(samples), y > 0, C) == pytest.approx(wanted, rel=1e-12)
    assert losses(W, as_rows(X[:0]), y[:0] > 0, C[:0]) == 0.0
