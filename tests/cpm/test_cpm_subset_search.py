"""Faces of few features: branch and bound against every choice, limits, and rounds that never get worse."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import cpm, cpm_sparse
from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from formulations.polytope import natural_assignment
from polyopt.base.progress import records_to
from polyopt.certificates import Claim
from polyopt.cpm.certificate_restricted import bound_of_tree, certify_cpm_subset
from polyopt.cpm.few_feature_face import SubsetFace
from polyopt.cpm.few_feature_tree import SubsetSearch, swap_features
from polyopt.cpm.few_features import SubsetProblem, search_subset, solve_cpm_subset
from polyopt.cpm.solve import Settings, solve_cpm
from polyopt.optim.rounds import run_rounds


def best_of_all(face):
    """What the best of every choice of features costs."""
    return min(
        face.fit(chosen).objective
        for size in range(face.s + 1)
        for chosen in combinations(range(face.m), size)
    )


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=50, m=7, seed=2)
    return X, y, np.full(len(y), 0.8)


@pytest.mark.parametrize(("s", "C"), [(1, 1.0), (2, 0.05), (3, 1.0), (7, 1.0)])
def test_search_finds_the_best_features(data, s, C):
    """The search has the best of all choices of features, and its tree proves it."""
    X, y, c = data
    face = SubsetFace(X, y, C * c, s)
    search, status = search_subset(face)
    assert status is Status.SOLVED
    assert search.best.objective == pytest.approx(best_of_all(face), rel=1e-8)
    assert len(search.best.features) <= s
    assert search.best.objective * (1 - 1e-6) <= search.bound <= search.best.objective
    proven = bound_of_tree(cpm.lift(X), y, C * c, s, search.tree, search.best.alpha)
    assert proven == pytest.approx(search.best.objective, rel=1e-6)
    assert proven <= search.best.objective


@pytest.mark.parametrize("s", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", [0, 1])
def test_search_with_signs_is_optimal(seed, s):
    """With signs the search has the least explicit program of all choices, and its certificate is optimal."""
    rng = np.random.default_rng(seed)
    X, y = two_blobs(n=40, m=7, seed=seed)
    X, c = X @ (np.eye(7) + 0.4 * rng.normal(size=(7, 7))), rng.uniform(0.2, 2.0, 40)
    signs, z = rng.integers(-1, 2, 7), np.where(y > 0, 0, -1)
    search, status = search_subset(SubsetFace(X, y, c, s, signs))
    least = min(
        cpm_sparse.fixed_assignment(X[:, chosen], y, 1, z, c, penalty=FacePenalty.of(s, signs=signs[chosen]))
        .solve()
        .objective
        for chosen in map(list, combinations(range(7), s))
    )
    assert status is Status.SOLVED
    assert (signs * search.best.w[:-1] >= 0.0).all()
    assert search.best.objective == pytest.approx(least, rel=1e-8)
    assert search.best.objective * (1 - 1e-6) <= search.bound <= least * (1 + 1e-8)
    alpha = np.zeros((40, 1))
    alpha[search.face.rows, 0] = search.best.alpha
    known = {"W": search.best.w[None], "max_features": s, "alpha": alpha}
    known["penalty"] = FacePenalty.of(7, signs=signs)
    assert certify_cpm_subset(X, y, c, trees=[search.tree.table()], **known).claim is Claim.OPTIMAL
    root = certify_cpm_subset(X, y, c, **known)
    assert root.dual_value <= least * (1 + 1e-8)
    wrong = np.where(signs != 0, -signs, 1.0) * np.ones((1, 7))
    told = certify_cpm_subset(X, y, c, **known | {"W": np.column_stack([wrong, [0.0]]), "max_features": 7})
    assert any(r.row == "sign" and r.relative == 1.0 for r in told.residuals) == signs.any()
    with pytest.raises(ValueError, match="no l1 or group penalty"):
        certify_cpm_subset(X, y, c, **known | {"penalty": FacePenalty.of(7, l1=1.0)})


def test_alternation_with_few_features_keeps_the_signs():
    """Alternation with few features keeps the signs, with a proof of its assignment."""
    X, y = two_blobs(n=60, m=6, seed=3)
    signs = np.array([1, 1, -1, 0, 0, -1])
    penalty = FacePenalty.of(6, signs=signs)
    for solver in ("exact", "dual"):
        chosen = Settings(2, solver, max_features=2, penalty=penalty, n_init=2)
        found = solve_cpm(X, y, np.full(60, 0.5), chosen, 0)
        assert (signs * found["W"][:, :-1] >= 0.0).all()
        proof = certify_cpm_subset(
            X, y, 0.5, W=found["W"], max_features=2, alpha=found.duals["margin"], penalty=penalty,
            assignment=found["assignment"], trees=[found.duals["tree_0"], found.duals["tree_1"]],
        )  # fmt: skip
        assert proof.primal_value == pytest.approx(found.objective, rel=1e-9)
        assert proof.relative_gap < (1e-5 if solver == "exact" else 2e-3)
    priced = Settings(2, "exact", max_features=2, penalty=FacePenalty.of(6, l1=1.0))
    with pytest.raises(ValueError, match="no l1 or group penalty"):
        solve_cpm(X, y, np.full(60, 0.5), priced, 0)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from([0.01, 1.0, 50.0]))
def test_degenerate_data_have_a_bound(seed, s, C):
    """With equal features the bound is below the best choice, which the search finds."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(9, 4)).astype(float)
    X[:, 3] = X[:, 0]  # two choices of one cost
    y = np.where(np.arange(9) < 4, 1.0, -1.0)
    c = np.full(9, C)
    face = SubsetFace(X, y, c, s)
    search, _ = search_subset(face, max_nodes=100)
    least = best_of_all(face)
    assert search.bound <= least * (1 + 1e-12)
    assert search.best.objective == pytest.approx(least, rel=1e-6)
    assert bound_of_tree(cpm.lift(X), y, c, s, search.tree, None) <= least * (1 + 1e-12)


def test_stopped_search_has_a_tree(data):
    """A search at its limit has the best face so far, and a tree that proves its bound."""
    X, y, c = data
    face = SubsetFace(X, y, c, 3)
    whole, _ = search_subset(face)
    search, status = search_subset(face, max_nodes=2)
    assert status is Status.ITERATION_LIMIT
    assert 0 < search.bound < whole.bound
    proven = bound_of_tree(cpm.lift(X), y, c, 3, search.tree, search.best.alpha)
    assert search.bound * (1 - 1e-9) <= proven <= whole.best.objective
    over, status = search_subset(face, time_limit=0.0)
    assert status is Status.TIME_LIMIT
    assert over.best.objective >= whole.best.objective * (1 - 1e-9)
    assert over.bound <= whole.best.objective


def test_swaps_improve_a_poor_start():
    """Swaps of features find the three useful ones from a start without any."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 30))
    y = np.sign(X[:, [3, 11, 20]].sum(axis=1) + 0.2 * rng.normal(size=120))
    face = SubsetFace(X, y, np.ones(120), 3)
    search = SubsetSearch(face, 1e-6, Clock(None))
    search.offer([0, 1, 2])
    swap_features(search)
    assert list(search.best.features) == [3, 11, 20]


# -- all faces -----------------------------------------------------------------------------------


def clover(n=120, seed=0):
    """Negatives in the middle of three groups of positives, in two of six features."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    angle = 2 * np.pi * (np.arange(n) // 2 % 3) / 3
    X = rng.normal(size=(n, 6))
    X[:, :2] = 0.5 * X[:, :2] + 2.5 * np.where(y > 0, [np.cos(angle), np.sin(angle)], 0.0).T
    return X, y, np.full(n, 0.5)


def test_rounds_end_proven():
    """No round raises the objective, and each face is the best choice for its samples."""
    X, y, C = clover()
    found = solve_cpm_subset(X, y, C, 3, 2, n_init=3, seed=0)
    assert found.status is Status.CONVERGED
    assert found.bound == pytest.approx(found.objective, rel=1e-6)
    for start in {record["start"] for record in found.history}:
        objectives = [record["objective"] for record in found.history if record["start"] == start]
        assert (np.diff(objectives) <= 1e-6 * np.abs(objectives[:-1])).all()
    W, z = found["W"], found["assignment"]
    assert ((W[:, :-1] != 0).sum(axis=1) <= 2).all()
    assert found.objective == pytest.approx(cpm.objective(X, y, W, C), rel=1e-9)
    assert (natural_assignment(X, y, W) == z)[y > 0].all()
    # Each face is the best of its samples: of all choices, by the explicit program.
    mask = cpm.assignment_matrix(y, 3, z)[:, 0] * C
    least = min(cpm.face(X[:, list(two)], y, mask).solve().objective for two in combinations(range(6), 2))
    hinge = np.maximum(0, 1 - y * (cpm.lift(X) @ W[0]))
    assert W[0] @ W[0] + mask @ hinge == pytest.approx(least, rel=1e-6)


def test_round_begins_with_last_features():
    """A round costs no more than the features of the last round do."""
    X, y, C = clover(60, seed=1)
    problem = SubsetProblem(X, y, C, 2, 1)
    W = np.zeros((2, 7))
    W[:, 5] = 1.0  # a poor feature, but better than nothing
    z = np.where(y > 0, np.arange(60) // 2 % 2, -1)
    problem.begin_from(W)
    found = problem.solve(z)
    least = [SubsetFace(X, y, C * mask, 1).fit([5]).objective for mask in cpm.assignment_matrix(y, 2, z).T]
    assert found.objective <= sum(least) * (1 + 1e-9)
    assert run_rounds(problem, z, max_iter=5).objective <= found.objective * (1 + 1e-9)


def test_limits_of_rounds_keep_a_bound():
    """A limit of nodes or of time keeps a point with its bound."""
    X, y, C = clover(60)
    cut = solve_cpm_subset(X, y, C, 2, 2, n_init=2, max_nodes=1)
    assert cut.status is Status.ITERATION_LIMIT
    assert 0 < cut.bound < cut.objective
    over = solve_cpm_subset(X, y, C, 2, 2, n_init=2, time_limit=0.0)
    assert over.status is Status.TIME_LIMIT
    assert over["W"].shape == (2, 7)


def test_interrupted_proof_keeps_the_alternation():
    """Ctrl-C in the first round with branch and bound keeps the best of the alternation."""
    X, y, C = clover(60)
    whole = solve_cpm_subset(X, y, C, 2, 2, n_init=2)
    first, told = sum(len(run.history) for run in whole.runs), []

    def interrupt(record):
        told.append(record)
        if len(told) == first + 1:
            raise KeyboardInterrupt

    with records_to(interrupt):
        found = solve_cpm_subset(X, y, C, 2, 2, n_init=2)
    assert found.status is Status.INTERRUPTED
    assert found.objective >= whole.objective * (1 - 1e-9)
    assert found.objective == pytest.approx(min(run.objective for run in found.runs), rel=1e-9)
