"""The global optimum of the Convex Polytope Machine: the search, its bound, and independent checks."""

import itertools

import numpy as np
import pytest
from helpers.cpm import add_up, brute_force, clusters, face_value
from helpers.cpm_parts import cost_on
from hypothesis import given
from hypothesis import strategies as st

from formulations import cpm
from formulations.cpm import big_m, mixed_integer
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.polytope import objective
from polyopt.base.progress import records_to
from polyopt.certificates import Claim
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.global_search.assignment_tree import moves_for, try_move
from polyopt.cpm.global_search.face import Best, Samples, caps_of, climb, dual_value, hyperplane, total_cost
from polyopt.cpm.global_search.incumbent import find_incumbent
from polyopt.cpm.global_search.search import Options, merge, solve_cpm_global
from polyopt.cpm.solve import Settings, solve_cpm


def assert_proven(solution, X, y, C, best, tol=1e-6):
    assert solution.status is Status.SOLVED
    assert solution.objective == pytest.approx(best, rel=tol)
    assert solution.bound <= best * (1 + 1e-9)
    assert solution.objective - solution.bound <= tol * solution.objective
    assert solution.objective == pytest.approx(cpm.objective(X, y, solution["W"], C), rel=1e-12)


# -- the search against every assignment ---------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_search_finds_the_best_assignment(seed):
    """Point and bound are the least optimum of all assignments, and the point is stationary for its own."""
    K = 2 + seed % 2
    X, y, _ = clusters(16 if K == 2 else 13, 3, seed, widen=1.8)
    C = np.random.default_rng(seed).uniform(0.3, 3.0, len(y))
    best = brute_force(X, y, C, K)
    solution = solve_cpm_global(X, y, C, K, seed=seed)
    assert_proven(solution, X, y, C, best)
    certificate = certify_cpm(
        X, y, C, W=solution["W"], alpha=solution.duals["margin"], assignment=solution["assignment"]
    )
    assert certificate.claim is Claim.STATIONARY
    assert set(solution["assignment"][y < 0]) == {-1}


@given(st.integers(0, 10**6), st.integers(2, 3), st.integers(1, 6), st.integers(0, 5), st.integers(1, 3))
def test_degenerate_data_are_solved(seed, K, positives, negatives, width):
    """Duplicates, contradictions, zero columns and more faces than positives are proven too."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, width, size=(positives + negatives, 2)).astype(float)
    y = np.r_[np.ones(positives), -np.ones(negatives)]
    C = rng.choice([0.0, 0.5, 1.0, 4.0], size=len(y))
    C[0] = 1.0
    assert_proven(solve_cpm_global(X, y, C, K), X, y, C, brute_force(X, y, C, K))


def test_one_face_is_the_convex_program():
    """One face has the optimum of the convex program."""
    X, y, _ = clusters(30, 3, 0, widen=1.8)
    solution = solve_cpm_global(X, y, 1.0, 1)
    assert_proven(solution, X, y, 1.0, cpm.face(X, y, 1.0).solve().objective)


def test_empty_faces_hold_the_negatives():
    """Faces without positives are those of the negatives alone, also if there is no positive at all."""
    X, y = np.array([[1.0], [-1.0], [0.0]]), np.array([1.0, 1.0, -1.0])
    # Two faces hold a positive each; what is left is one that holds the negative alone.
    alone, empty = face_value(X, y, np.array([5.0, 0, 5.0])), face_value(X, y, np.array([0.0, 0, 5.0]))
    assert solve_cpm_global(X, y, 5.0, 4).objective == pytest.approx(2 * alone + 2 * empty)
    inside = solve_cpm_global(X[2:], y[2:], 5.0, 3)
    assert inside.objective == pytest.approx(3 * empty)
    assert inside.status is Status.SOLVED


@pytest.mark.parametrize("seed", range(2))
def test_features_far_from_zero_are_proven(seed):
    """Nodes on which coordinate ascent fails are solved by an interior point."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 2)) + rng.choice([-300.0, 2000.0], 2)
    y, C = np.where(np.arange(8) < 4, 1.0, -1.0), np.full(8, 10.0)
    programs: dict[tuple[int, ...], float] = {}

    def face(own):
        key = tuple(own)
        if key not in programs:
            costs = np.where((y < 0) | np.isin(np.arange(8), own), C, 0.0)
            programs[key] = cpm.face(X, y, costs).solve().objective
        return programs[key]

    best = min(
        sum(face(np.flatnonzero(np.array(z) == k)) for k in range(2))
        for z in itertools.product(range(2), repeat=4)
    )
    found = solve_cpm_global(X, y, C, 2)
    assert found.status is Status.SOLVED
    assert found.bound <= best * (1 + 1e-8)
    assert found.objective == pytest.approx(best, rel=3e-6)


def test_repeated_samples_share_their_multipliers(rng):
    """Equal samples are solved as one, and share its multipliers in proportion to their costs."""
    X, y, _ = clusters(24, 3, 1, widen=1.8)
    rows = np.repeat(np.arange(24), rng.integers(1, 4, 24))
    C = rng.uniform(0.5, 2.0, len(rows))
    found = solve_cpm_global(X[rows], y[rows], C, 2)
    alpha = found.duals["margin"]
    assert cpm.recover(X[rows], y[rows], alpha)["W"] == pytest.approx(found["W"], abs=1e-6)
    assert (alpha <= C[:, None] * (1 + 1e-12)).all()
    merged = solve_cpm_global(X, y, np.bincount(rows, C), 2)
    assert found.objective == pytest.approx(merged.objective, rel=2e-6)


def test_seed_determines_the_search():
    """The same seed makes the same nodes, faces and bound."""
    X, y, _ = clusters(40, 3, 11, widen=1.8)
    one, two = (solve_cpm_global(X, y, 1.0, 3, seed=5) for _ in range(2))
    assert one.iterations == two.iterations
    assert (one["W"] == two["W"]).all()
    assert one.bound == two.bound


# -- the mixed-integer program ---------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_big_m_keeps_the_optimum(seed):
    """M exceeds what the optimum needs, and the optimum is a point of the program with its value."""
    X, y, _ = clusters(30, 3, seed, widen=1.8)
    C = np.random.default_rng(seed).uniform(0.5, 2.0, len(y))
    best = solve_cpm_global(X, y, C, 3)
    needed = 1.0 - cpm.lift(X[y > 0]) @ best["W"].T
    tight, loose = big_m(X, y, 3, C, best.objective), big_m(X, y, 3, C)
    assert (needed <= tight[:, None] + 1e-6).all()
    assert (tight < loose).all()
    # The optimum is a point of the program, of the same value.
    program = mixed_integer(X, y, 3, C, best.objective * (1 + 1e-9))
    z = best["assignment"][y > 0]
    names = {k: name for name, k in enumerate(dict.fromkeys(z.tolist()))}  # by first use
    order = sorted(range(3), key=lambda k: names.get(k, 3))
    W = best["W"][order]
    hinge = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ W.T))
    Z = np.eye(3)[[order.index(k) for k in z]]
    point = {"W": W, "xi": hinge[y < 0], "eta": (hinge[y > 0] * Z).sum(axis=1), "z": Z}
    assert max(program.violations(point).values()) < 1e-6
    assert program.value(point) == pytest.approx(best.objective, rel=1e-9)


def test_big_m_is_its_derivation():
    """M follows from w₀ and V₀ of the negatives alone, with the cost of the cheaper of two simple points."""
    X, y, _ = clusters(14, 2, 0, widen=1.8)
    lifted, lengths = cpm.lift(X), np.linalg.norm(cpm.lift(X), axis=1)[y > 0]
    C = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    for scale in (1.0, 1e-3):
        costs = scale * C
        A = lifted * y[:, None]
        caps = np.where(y < 0, costs, 0.0)
        data = Samples(A, (A * A).sum(axis=1), caps, 0)
        a, w = np.zeros(len(y)), np.zeros(3)
        climb(data, np.zeros(len(y)), caps, a, w, 200_000, np.inf, 1e-15)
        hyperplane(data, a, w)
        least = dual_value(a, w)
        inside, outside = costs[y < 0].sum(), costs[y > 0].sum()
        for K in (1, 3):
            # All faces at 0: a negative pays 1 at each. All at (0, 0, -1): a positive pays 2, once.
            cost = min(K * inside + outside, K * 1.0 + 2 * outside)
            for upper in (None, 0.8 * cost):
                U = cost if upper is None else upper
                near = 1.0 - lifted[y > 0] @ w + lengths * np.sqrt(U - K * least)
                short = 1.0 + lengths * np.sqrt(U - (K - 1) * least)
                found = big_m(X, y, K, costs, upper)
                assert found == pytest.approx(np.minimum(near, short), rel=1e-3)
    # Negatives that cost nothing hold no face: V₀ = 0 at w₀ = 0.
    free = np.where(y > 0, 1.0, 0.0)
    assert big_m(X, y, 2, free, 4.0) == pytest.approx(1.0 + 2.0 * lengths, rel=1e-12)
    assert big_m(X, y, 2, free) == pytest.approx(1.0 + np.sqrt(free.sum()) * lengths, rel=1e-12)
    # No cost below that of every point: nothing is left for rho, and no root of a negative number.
    assert np.isfinite(big_m(X, y, 2, C, 0.0)).all()


def test_constraints_are_hinges_of_assigned_faces():
    """A positive has the hinge of the face with z = 1, and M removes the constraint of the others."""
    rng = np.random.default_rng(3)
    X, y, _ = clusters(12, 2, 1)
    program, M = mixed_integer(X, y, 3, 0.5), big_m(X, y, 3, 0.5)
    n = int((y > 0).sum())
    W, xi, eta = rng.normal(size=(3, 3)), rng.normal(size=(len(y) - n, 3)), rng.normal(size=n)
    Z = np.eye(3)[rng.integers(0, 3, n)]
    s = cpm.lift(X) @ W.T
    found = program.violations({"W": W, "xi": xi, "eta": eta, "z": Z})
    assert found["inside"] == pytest.approx(max((1 - xi + s[y < 0]).max(), 0.0))
    assert found["outside"] == pytest.approx(
        max((1 - eta[:, None] - M[:, None] * (1 - Z) - s[y > 0]).max(), 0.0)
    )
    assert (found["slack"], found["excess"]) == (pytest.approx(-xi.min()), pytest.approx(-eta.min()))
    assert found["choice"] == 0.0
    assert program.violations({"W": W, "xi": xi, "eta": eta, "z": np.ones((n, 3))})["choice"] == 2.0
    paid = 0.5 * (xi.sum() + eta.sum())
    assert program.value({"W": W, "xi": xi, "eta": eta, "z": Z}) == pytest.approx((W**2).sum() + paid)


def test_one_naming_of_faces_is_feasible():
    """Of assignments that differ by the names of faces, the one that opens them in order is feasible."""
    X, y = np.vstack([np.eye(2), -np.eye(2), np.zeros((1, 2))]), np.array([1.0, 1.0, 1.0, 1.0, -1.0])
    program = mixed_integer(X, y, 3)
    symmetry = next(row for row in program.rows if row.name == "symmetry")

    def opened(z):
        return all(face <= max(z[:i], default=-1) + 1 for i, face in enumerate(z))

    kept = []
    for z in itertools.product(range(3), repeat=4):
        program.variables["z"].value = np.eye(3)[list(z)]
        if symmetry.constraint.value():
            kept.append(z)
    # Faces are opened in the order of their numbers.
    assert kept == [z for z in itertools.product(range(3), repeat=4) if opened(z)]
    assert not any(row.name == "symmetry" for row in mixed_integer(X, y, 1).rows)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_one_class_is_refused(label):
    """The mixed-integer program is refused without both classes."""
    with pytest.raises(ValueError, match="y must hold both classes"):
        mixed_integer(np.eye(3), np.full(3, label), 2)


@pytest.mark.parametrize(("seed", "K"), [(0, 2), (1, 3)])
def test_scip_agrees_with_the_search(seed, K):
    """SCIP solves the mixed-integer program to the value of the search, and its limit keeps a valid bound."""
    pytest.importorskip("pyscipopt")
    X, y, _ = clusters(16, 3, seed, widen=1.5)
    C = np.random.default_rng(seed).uniform(0.5, 2.0, len(y))
    solution = mixed_integer(X, y, K, C).solve()
    assert solution.status is Status.SOLVED
    assert solution.duals == {}
    best = solve_cpm_global(X, y, C, K)
    assert solution.objective == pytest.approx(best.objective, rel=1e-5)
    assert solution.bound == pytest.approx(solution.objective, rel=1e-5)
    limited = mixed_integer(X, y, K, C).solve(max_iter=1)
    assert limited.status is Status.ITERATION_LIMIT
    assert limited.bound <= best.objective <= limited.objective * (1 + 1e-6)


# -- the bound -----------------------------------------------------------------------------


def partial(X, y, C, K, assigned):
    """A partial assignment as the kernels see it: data, boxes, multipliers, faces."""
    order = np.r_[np.flatnonzero(y < 0), np.flatnonzero(y > 0)]
    A = (cpm.lift(X) * y[:, None])[order]
    data = Samples(A, (A * A).sum(axis=1), C[order], int((y < 0).sum()))
    n, d = A.shape
    caps, alpha, W = np.zeros((K, n)), np.zeros((K, n)), np.zeros((K, d))
    for k in range(K):
        caps_of(data, assigned, k, caps[k])
        climb(data, np.zeros(n), caps[k], alpha[k], W[k], 50, np.inf, 0.0)
        hyperplane(data, alpha[k], W[k])
    return data, caps, alpha, W


@pytest.mark.parametrize("seed", range(4))
def test_additive_bound_is_below_every_completion(seed):
    """The bound with the moves is below all completions of an assignment, and well above the plain one."""
    rng = np.random.default_rng(seed)
    X, y, _ = clusters(14, 3, seed, widen=1.8)
    C, K = rng.uniform(0.5, 2.0, len(y)), 2
    assigned = np.array([0, 1, -1, -1, -1, -1, -1])
    data, caps, alpha, W = partial(X, y, C, K, assigned)
    n, d = data.A.shape
    free = np.flatnonzero(assigned < 0)
    moves, allowed = moves_for(7, n, d, K), rng.random((7, K)) < 0.8
    allowed[~allowed.any(axis=1)] = True
    for p in free:
        for k in range(K):
            try_move(data, caps[k], alpha[k], W[k], p, k, moves, np.inf)
    base = sum(dual_value(alpha[k], W[k]) for k in range(K))
    order = rng.permutation(free)
    total = add_up(data, caps, alpha, W, moves, allowed, order, K, np.inf)
    alone = order[0]  # within whole boxes: no less than by itself
    assert moves.increase[alone] >= moves.gain[alone][allowed[alone]].min() * (1 - 1e-6)
    on = {(p, k): cost_on(data, alpha[k], W[k], moves, order, p, k)[0] for p in free for k in range(K)}
    positives = np.flatnonzero(y > 0)
    negatives = np.where(y < 0, C, 0.0)

    def value(z):
        costs = [
            negatives + np.where(np.isin(np.arange(len(y)), positives[z == k]), C, 0.0) for k in range(K)
        ]
        return sum(face_value(X, y, c) for c in costs)

    values = []
    for choice in itertools.product(range(K), repeat=len(free)):
        z = assigned.copy()
        z[free] = choice
        if not allowed[free, choice].all():
            continue
        values.append(value(z))
        for p, k in zip(free, choice, strict=True):
            assert base + moves.gain[p, k] <= values[-1] * (1 + 1e-9)
            assert base + total - moves.increase[p] + on[p, k] <= values[-1] * (1 + 1e-9)
    assert base + total <= min(values) * (1 + 1e-9)
    assert total > 0.3 * (min(values) - base)  # and it is not a trivial one


def test_moves_stay_within_the_boxes(rng):
    """Whichever of the joint moves are made, the multipliers stay within their caps."""
    X, y, _ = clusters(40, 3, 2, widen=1.8)
    assigned = np.where(np.arange(20) < 4, np.arange(20) % 2, -1)
    data, caps, alpha, W = partial(X, y, np.ones(40), 2, assigned)
    moves, free = moves_for(20, 40, 3, 2), np.arange(4, 20)
    for p in free:
        for k in range(2):
            try_move(data, caps[k], alpha[k], W[k], p, k, moves, np.inf)
    add_up(data, caps, alpha, W, moves, np.ones((20, 2), dtype=bool), free, 2, np.inf)
    for _ in range(200):
        z = rng.integers(0, 2, 20)
        for k in range(2):
            chosen = free[z[free] == k]
            box = caps[k].copy()
            box[data.inside + chosen] = 1.0
            made = alpha[k] + moves.joint_delta[chosen, k].sum(axis=0)
            assert made.min() >= -1e-12
            assert (made <= box + 1e-12).all()


# -- limits --------------------------------------------------------------------------------


TREE_ALONE = Options(seconds_between_records=-1.0, max_samples_prices=0)
PRICES_FIRST = Options(min_assignments_prices=1, work_before_prices=0)


def interrupted_search(X, y, options):
    """A search that Ctrl-C ends at its fourth record."""
    told = []

    def interrupt(record):
        told.append(record)
        if len(told) == 4:
            raise KeyboardInterrupt

    with records_to(interrupt):
        found = solve_cpm_global(X, y, 1.0, 3, options=options)
    assert found.status is Status.INTERRUPTED
    return found


def test_limits_keep_a_valid_bound():
    """A limit of nodes or seconds, or Ctrl-C, keeps a point and a bound of the whole problem."""
    X, y, _ = clusters(40, 3, 10, widen=1.8)
    whole = solve_cpm_global(X, y, 1.0, 3)
    assert whole.status is Status.SOLVED
    limited = solve_cpm_global(X, y, 1.0, 3, max_nodes=3)
    assert limited.status is Status.ITERATION_LIMIT
    assert limited.iterations == 3
    timed = solve_cpm_global(X, y, 1.0, 3, time_limit=0.0)
    assert timed.status is Status.TIME_LIMIT

    stopped = [interrupted_search(X, y, options) for options in (TREE_ALONE, PRICES_FIRST)]
    for solution in (limited, timed, *stopped):
        assert solution.bound <= whole.objective * (1 + 1e-9)
        assert whole.bound <= solution.objective * (1 + 1e-9)
        assert solution.objective == pytest.approx(cpm.objective(X, y, solution["W"], 1.0))
    assert min(limited.bound, stopped[0].bound) > 0.5 * whole.objective


def test_records_narrow_the_gap():
    """From record to record the bound never falls and the objective never rises."""
    every_node = Options(seconds_between_records=-1.0, max_samples_prices=0)
    X, y, _ = clusters(60, 3, 11, widen=1.8)
    solution = solve_cpm_global(X, y, 1.0, 2, max_nodes=600, options=every_node)
    records = solution.history
    assert len(records) > 600
    for key, sign in (("bound", 1), ("objective", -1), ("nodes", 1)):
        assert (np.diff([sign * r[key] for r in records]) >= -1e-12).all()
    assert all(r["bound"] <= r["objective"] for r in records)


def test_little_memory_makes_the_search_deep():
    """Without memory for open nodes the search goes depth first to the same optimum."""
    X, y, _ = clusters(36, 3, 10, widen=1.8)
    whole = solve_cpm_global(X, y, 1.0, 2)
    small = solve_cpm_global(X, y, 1.0, 2, options=Options(max_open_bytes=0))
    assert small.objective == pytest.approx(whole.objective, rel=2e-6)
    assert small.status is Status.SOLVED
    assert max(r["open"] for r in small.history) <= 2 * 18


def test_oversized_searches_are_refused():
    """Too many samples, faces of another shape and unusable tolerances are refused."""
    X, y, _ = clusters(600, 3, 0)
    with pytest.raises(ValueError, match=r"up to 500 samples, .* not 600: use alternating minimisation"):
        solve_cpm_global(X, y, 1.0, 1)
    with pytest.raises(ValueError, match=r"up to 2,000 samples, or 20,000 with up to 4 .* not 2,400"):
        solve_cpm_global(np.tile(X, (4, 3)), np.tile(y, 4), 1.0, 3)
    X, y = X[::20], y[::20]
    with pytest.raises(ValueError, match="known must be finite, of shape 3 x 3"):
        solve_cpm_global(X, y, 1.0, 3, known=[np.zeros((2, 3))])
    with pytest.raises(ValueError, match="n_faces"):
        solve_cpm_global(X, y, 1.0, 0)
    with pytest.raises(ValueError, match="tol must be between 0 and 1, not 0"):
        solve_cpm_global(X, y, 1.0, 2, tol=0.0)


@pytest.mark.parametrize("seed", range(3))
def test_further_face_costs_an_empty_one(seed):
    """A further face costs at most what an empty one does."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 6)), np.repeat([-1.0, 1.0], 20)
    data, _ = merge(X, y, np.ones(40), rng)
    costs = []
    for K in (2, 3, 4):
        best = Best(np.zeros((K, 7)), np.array([np.inf, np.inf, 0.0]))
        find_incumbent(data, best, 1e-9, 3, Clock(), np.random.default_rng(7))
        assert best.limits[0] == pytest.approx(total_cost(data, best.W)[0])
        costs.append(best.limits[0])
    assert (np.diff(costs) <= 1.0 + 1e-7).all()


def test_first_incumbent_is_of_dual_ascents():
    """In many dimensions the search begins no higher than many starts of dual ascent end."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 90)), np.where(np.arange(60) < 30, 1.0, -1.0)
    data, best = (
        merge(X, y, np.ones(60), np.random.default_rng(1))[0],
        Best(np.zeros((2, 91)), np.array([np.inf, np.inf, 0.0])),
    )
    find_incumbent(data, best, 1e-9, 1, Clock(), np.random.default_rng(7))
    drawn = int(np.random.default_rng(7).integers(2**31))
    signs = np.where(np.arange(60) < data.inside, -1.0, 1.0)
    samples = np.ascontiguousarray((signs[:, None] * data.A)[:, :-1])
    ends = solve_cpm(samples, signs, data.C, Settings(2, "dual", n_init=10), drawn)
    assert best.limits[0] <= ends.objective * (1 + 1e-9)
    assert best.limits[0] == pytest.approx(objective(samples, signs, best.W, data.C), rel=1e-9)
